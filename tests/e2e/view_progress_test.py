# SPDX-License-Identifier: Apache-2.0
"""Sessions are shown while they are indexed; an aggregator that is killed meanwhile leaves nothing torn; files that are damaged or hostile."""
import collections
import contextlib
import json
import shutil
import signal
import threading
import time
import urllib.error
import urllib.request

from lib import schema, traces, xspace
from lib.browser import Browser
from lib.cluster import Cluster, SkipTest, main, wait_until
from lib.view import BUCKETS, View

COPIES = 150  # of a job's planes in each file: a tenth of a second of indexing
WORK_S, REST_S = 0.005, 0.05


def import_session(c, hosts, copies):
    """A session whose hosts have the planes of a job so many times."""
    folder = c.dir / f"in-{hosts}-{copies}/plugins/profile/2025_11_01"
    folder.mkdir(parents=True)
    for i in range(hosts):
        (folder / f"host-{i}.xplane.pb").write_bytes(traces.job(seed=i) * copies)
    c.tutti("import", str(folder.parents[2]), check=0)
    return c.get("/api/v1/sessions")["sessions"][0]["session"]


@contextlib.contextmanager
def slowed(c):
    """The aggregator, whichever runs, rests ten times as long as it works: what it does can be looked at on any machine."""
    over = threading.Event()

    def go():
        while not over.is_set():
            p = c.processes["aggregator"]
            with contextlib.suppress(OSError):
                clock = ~p.pid << 3 | 2  # of its CPU time
                end = time.clock_gettime(clock) + WORK_S
                while time.clock_gettime(clock) < end and not over.wait(0.001):
                    pass
                if p.poll() is None:
                    p.send_signal(signal.SIGSTOP)
                over.wait(REST_S)
                p.send_signal(signal.SIGCONT)
            over.wait(0.001)
    thread = threading.Thread(target=go, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(10)


def stored(c, session, host):
    return next(c.logdir.glob(f"**/{session}/{host}.xplane.pb"))


def ask(c, session, build=""):
    """(status, document) of what a viewer asks while it waits."""
    path = f"{c.url}/api/v1/sessions/{session}/view" + (f"?build={build}" if build else "")
    with urllib.request.urlopen(path, timeout=60) as answer:
        doc = json.loads(answer.read())
        schema.check(doc, "view")
        return answer.status, doc


def next_part(c, session, build=""):
    """Asks until there is a catalogue with further tracks."""
    while True:
        status, doc = ask(c, session, build)
        if doc.get("hosts") and any(f["planes"] for h in doc["hosts"] for f in h["files"]):
            assert (status == 200) == (doc["state"] == "ready") and doc["build"] != build, doc["build"]
            return doc


def tracks(doc):
    return {(f["file"], p["first_track"] + i): (h["host"], p["name"], t) for h in doc["hosts"] for f in h["files"]
            for p in f["planes"] for i, t in enumerate(p["tracks"])}


def lines_of(c, session, host):
    return collections.Counter((p, line) for p, line, *_ in traces.events(stored(c, session, host)))


def check_part(c, session, doc, want):
    """What is there is there whole: tracks of the file that is indexed, in the catalogue, in a tile, and in a search."""
    v, known = View(c, session, doc), tracks(doc)
    for (file, track), (host, plane, t) in known.items():
        assert file or t["events"] == want[plane, t["name"]], (plane, t)
    group, shift = max(track for file, track in known if not file) // 16, 36  # a tile has 70 s
    for track, entries in v.tile(0, group, shift, 0).items():
        _, _, t = known[0, track]
        assert sum(e[4] for e in entries) == t["events"] and BUCKETS << shift > int(t["last_ps"]), (track, t)
    assert v.ask("search", text="train")["matches"] == sum(t["events"] for _, _, t in known.values() if t["name"] == "Steps")


def see_part(c, session, want):
    """A catalogue that is not complete, checked; of one that was replaced meanwhile, the next one is."""
    doc = {"build": ""}
    while True:
        doc = next_part(c, session, doc["build"])
        assert doc["state"] == "building" and 0 < doc["done_bytes"] < doc["bytes"], (doc["state"], doc["done_bytes"])
        assert {f["state"] for h in doc["hosts"] for f in h["files"]} <= {"ready", "building", "waiting"}
        try:
            check_part(c, session, doc, want)
            return doc
        except urllib.error.HTTPError as e:
            assert e.code == 409, e


def test_progress():
    with Cluster() as c:
        c.aggregator()
        session = import_session(c, 3, COPIES)
        wants = [lines_of(c, session, f"host-{i}") for i in range(3)]
        with slowed(c):
            first = see_part(c, session, wants[0])
            second = next_part(c, session, first["build"])
            known = tracks(first)
            assert {k: t for k, t in tracks(second).items() if k in known} == known  # what is there stays as it is
            later = second
            while later["state"] == "building" and later["hosts"][0]["files"][0]["state"] == "building":
                later = next_part(c, session, later["build"])
            part = c.dir / "agg-spool/views" / session
            c.kill("aggregator")
        assert later["state"] == "building" and len(list(part.glob("*.part"))) == 1, list(part.iterdir())
        left = {p.name: p.stat().st_ino for p in part.glob("*.tvx")}
        c.aggregator()
        v = View(c, session)
        assert v.doc["done_bytes"] == v.doc["bytes"] and "-" not in v.doc["build"]
        assert not list(part.glob("*.part")) and "state=rebuild" not in c.log("aggregator")
        assert left.items() <= {p.name: p.stat().st_ino for p in part.glob("*.tvx")}.items()  # what was done is not done again
        assert {k: t for k, t in tracks(v.doc).items() if k in known} == known
        for i in range(3):
            got = collections.Counter()
            for h, plane, t in tracks(v.doc).values():
                got.update({(plane, t["name"]): t["events"]} if h == f"host-{i}" else {})
            assert got == wants[i], (got - wants[i], wants[i] - got)
        print(f"     {len(known)} tracks first, then {len(tracks(second))}, of {len(tracks(v.doc))}; kept over the end: {len(left)} of 3 files")


def refused(v, path):
    try:
        v.fetch(path)
    except urllib.error.HTTPError as e:
        return e.code, json.loads(e.read())["error"]
    return None


def test_damage():
    """A file that is cut off or malformed has its reason, and the others are shown; a block that is wrong is made anew."""
    with Cluster() as c:
        c.aggregator()
        session = import_session(c, 3, 2)
        cut = stored(c, session, "host-0")
        cut.write_bytes(cut.read_bytes()[:-1000])
        stored(c, session, "host-1").write_bytes(b"\n\x85\x01" + b"\xff" * 300)
        v = View(c, session)
        files = [f for h in v.doc["hosts"] for f in h["files"]]
        assert [f["state"] for f in files] == ["failed", "failed", "ready"], files
        assert all("host-" in f["error"] and "at byte" in f["error"] for f in files[:2]), files
        assert v.ask("search", text="train")["matches"] == 40 and refused(v, f"/event?build={v.doc['build']}&file=0&track=0&event=0")[0] == 404
        index = c.dir / "agg-spool/views" / session / "host-2.xplane.pb.tvx"
        damaged = bytearray(index.read_bytes())
        damaged[:4096] = bytes(4096)
        with index.open("r+b") as f:
            f.write(damaged)
        tile = f"/tile?build={v.doc['build']}&file=2&group=0&shift=36&index=0&rows=0"
        code, text = refused(v, tile)
        assert code == 409 and "damaged" in text and not index.exists(), (code, text)
        again = View(c, session)
        assert again.doc["build"] == v.doc["build"] and again.tile(2, 0, 36, 0)
        for name in ("host-2", "host-1"):
            stored(c, session, name).write_bytes(b"")
        c.kill("aggregator")
        c.aggregator()
        View(c, session)  # an empty file is an XSpace without planes
        for name in ("host-0", "host-1", "host-2"):
            stored(c, session, name).write_bytes(b"\n\x05x")
        c.kill("aggregator")
        c.aggregator()
        code, doc = wait_until("the reason", lambda: (a := c.call("GET", f"/api/v1/sessions/{session}/view"))[0] != 202 and a)
        assert code == 422 and doc["reason"] == "unreadable", (code, doc)  # it is not the server's failure
        assert "host-0.xplane.pb" in doc["error"] and "at byte" in doc["error"], doc


HOSTILE = ("<img src=x onerror='window.hacked=1'>", "\u202egnp.exe\u2066", "a\x00b\x07c", "x" * (1 << 20), "' OR 1=1 --", "")


def hostile():
    space = xspace.message_class("tensorflow/xplane.proto", "tensorflow.profiler.XSpace")()
    for name in HOSTILE:
        plane = traces.Plane(space.planes.add(id=len(space.planes) + 1, name=name))
        line = plane.line(name)
        for i, event in enumerate(HOSTILE):
            plane.event(line, event, i * 2_000_000, 1_000_000, **{name[:1000] or "none": i})
    return space.SerializeToString()


def test_hostile():
    """Names of planes, lines, events and stats are texts and nothing else: bounded, clean, and drawn as they are."""
    with Cluster() as c:
        c.aggregator()
        (c.dir / "host-0.xplane.pb").write_bytes(hostile())
        c.tutti("import", str(c.dir / "host-0.xplane.pb"), check=0)
        session = c.get("/api/v1/sessions")["sessions"][0]["session"]
        v = View(c, session)
        mine = [(f, n) for _, f, _, n, t in v.tracks if t["events"] == len(HOSTILE)]
        assert len(mine) == len(HOSTILE), [(p, t["name"][:20]) for _, _, p, _, t in v.tracks]
        answers = [v.fetch("")[1]]
        for f, n in mine:
            for event in range(len(HOSTILE)):
                answers.append(v.fetch(f"/event?build={v.doc['build']}&file={f}&track={n}&event={event}")[1])
                v.ask("event", file=f, track=n, event=event)
            names = [e[2] for e in v.tile(f, n // 16, 20, 0)[n]]
            assert len(names) == len(HOSTILE) and all(len(x) <= 160 for x in names), names
        for text in answers:
            assert len(text) < 100_000 and not any(ch in text.decode() for ch in "\u202e\u2066\x07"), len(text)
        assert v.ask("search", text="onerror")["matches"] == len(mine)
        for path in (f"/search?build={v.doc['build']}&text=%00", f"/search?build={v.doc['build']}&text={'a' * 2000}", "/tile?build=%ff%fe&file=0",
                     f"/tile?build={v.doc['build']}&file=-1&group=0&shift=20&index=0", f"/event?build={v.doc['build']}&file=0&track=99999999999&event=0"):
            assert refused(v, path)[0] in (400, 409, 414), path
        if shutil.which("chromedriver") and shutil.which("chromium"):
            b = Browser(c, size="1280,900")
            b.open(f"{c.url}/#/s/{session}")
            wait_until("the tiles", lambda: (s := b.run("return window.tutti.state()")) and s["complete"] and s["idle"])
            b.press("\ue014")  # the right arrow
            wait_until("the panel", lambda: b.run("return window.tutti.state().selected.length") == 1)
            assert b.run("return [window.hacked ?? 0, document.querySelectorAll('img').length]") == [0, 0]
            b.close()


def test_page():
    """The page draws what is there, goes on without moving the window, and says how far it is. What it offers stays, and what was dismissed stays away."""
    if not shutil.which("chromedriver") or not shutil.which("chromium"):
        raise SkipTest("chromium and chromedriver are not installed")
    with Cluster() as c:
        c.aggregator("--perfetto-url=http://127.0.0.1:1/")
        session = import_session(c, 2, 3 * COPIES)
        b = Browser(c, size="1280,900")
        with slowed(c):
            b.open(f"{c.url}/#/s/{session}?perfetto=1")
            first = wait_until("the first tracks", lambda: b.run("return window.tutti.state()"))
            assert not first["complete"] and 0 < first["events"], first["events"]
            b.press("t", *"python3")
            wait_until("the notices", lambda: "Not calibrated" in b.text("#v-notices") and "opens the window in Perfetto" in b.text("#v-notices"))
            b.run("[...document.querySelectorAll('#v-notices p')].find(p => p.textContent.includes('Not calibrated')).querySelector('button').click()")
            assert not b.run("return window.tutti.state().complete")
            seen = {first["events"]}
            while not (s := b.run("return window.tutti.state()"))["complete"]:
                seen.add(s["events"])
        last = wait_until("the tiles", lambda: (s := b.run("return window.tutti.state()"))["idle"] and not s["coarse"] and s)
        assert "Not calibrated" not in b.text("#v-notices") and "opens the window in Perfetto" in b.text("#v-notices"), b.text("#v-notices")
        total = sum(t["events"] for *_, t in tracks(View(c, session).doc).values())
        assert last["events"] == total > first["events"] and not last["failure"], (last["events"], total)
        assert all(r["label"] == "python3" for r in last["rows"] if r["kind"] == "track"), "the filter is gone"
        print(f"     {sorted(seen)} of {total} events on the way")
        b.close()


def test_restart():
    """An aggregator that begins anew in the middle, without what it had: the page says so, and no track that it shows goes away."""
    if not shutil.which("chromedriver") or not shutil.which("chromium"):
        raise SkipTest("chromium and chromedriver are not installed")
    with Cluster() as c:
        c.aggregator()
        session = import_session(c, 2, 3 * COPIES)
        b = Browser(c, size="1280,900")
        with slowed(c):
            b.open(f"{c.url}/#/s/{session}")
            first = wait_until("the first tracks", lambda: b.run("return window.tutti.state()"))
            seen = wait_until("further ones", lambda: (s := b.run("return window.tutti.state()"))["events"] > first["events"] and s)
            assert not seen["complete"], "it was too fast"
            c.kill("aggregator")
            wait_until("what is wrong", lambda: "The aggregator does not answer; trying again" in b.text("#v-note"))
            shutil.rmtree(c.dir / "agg-spool/views")
            c.aggregator()
            counts = [seen["events"]]
            while not (s := b.run("return window.tutti.state()"))["complete"]:
                counts.append(s["events"])
        assert counts == sorted(counts) and s["events"] >= counts[-1], counts
        wait_until("the tiles", lambda: (s := b.run("return window.tutti.state()"))["idle"] and not s["coarse"] and not s["failure"])
        b.close()


main(test_progress, test_damage, test_hostile, test_page, test_restart)
