# SPDX-License-Identifier: Apache-2.0
"""More of what a user feels, under real keys and a real mouse: the checks 11, 12, 14, 16, 19 and 20 of docs/viewer.md, two sessions
compared, and names that mean harm. tests/viewer.sh has the same for a gigabyte and 64 large hosts."""
import collections
import contextlib
import json
import pathlib
import subprocess

from lib import traces, xspace
from lib.browser import Browser
from lib.cluster import Cluster, free_port, main, wait_until
from lib.view import View
from lib.viewer import Page, capture, need_browser, stored

SERVERS = pathlib.Path(__file__).resolve().parents[1] / "servers.sh"
HOSTILE = ["<img src=x onerror='window.harmed=1'>", "\u202eknil\u202c", "'\"`&lt;script>window.harmed=1</script>", "x" * 1_000_000, "a\x00b\x1b[31m"]


def check_11(p, v, session):
    """A fold says how many events it stands for and how busy they are; zooming in shows exactly as many."""
    p.whole()
    row = p.row("python3", "host-0")
    lane, (x, y, fold) = next((lane, h) for lane in range(6, 0, -1) for h in p.hits(row, lane) if h[2]["count"] > 3)
    p.b.hover(x, y)
    wait_until("what it says", lambda: f"× {fold['count']}" in p.b.text("#v-tip") and "% busy" in p.b.text("#v-tip"))
    low, high = fold["startPs"], fold["startPs"] + fold["lengthPs"]
    p.b.drag(x, y, x, y)
    p.until("its time", lambda s: s["t0"] <= low and high <= s["t1"] and s["t1"] - s["t0"] < 2 * (high - low) + 1e6)
    found, shift = {}, 20  # the same lane in the finest tiles of this time
    for index in range(int(low) // (1024 << shift), int(high) // (1024 << shift) + 1):
        found.update({e[3]: e for e in v.tile(row["file"], row["track"] // 16, shift, index)[row["track"]] if e[5] == lane})
    near = [e for e in found.values() if low - 1e6 <= e[0] < high]
    want = sorted((start, name) for _, line, name, start, _ in stored(p.c, session, "host-0") if line == "python3")
    assert sum(e[4] for e in near) == fold["count"], (fold, near)
    assert all(any(abs(start - e[0]) < 1e6 and name == e[2] for start, name in want) for e in near), near
    shown = {h[2]["event"] for h in p.hits(p.row("python3", "host-0"), lane) if low - 1e6 <= h[2]["startPs"] < high}
    print(f"     check 11: a fold of {fold['count']} events, {len(shown)} of them under the pointer after one click")


def check_12(p, v):
    """Arrows of all flows in the window, at most so many; also into a closed section; jump links at both ends."""
    row = p.row("Stream #7 (Compute)", "host-0")
    v_event = v.ask("event", file=row["file"], track=row["track"], event=120)
    at = int(v_event["start_ps"])
    p.window(at - 4_000_000_000, at + 2_000_000_000)
    p.b.press("v")
    s = p.until("the arrows", lambda s: s["links"] and s["arrows"] == s["links"])
    x, y, _ = next(h for h in p.events_of(p.row("Stream #7 (Compute)", "host-0")) if h[2]["event"] == 120)
    p.b.drag(x, y, x, y)
    p.until("the selection", lambda s: s["selected"] and s["selected"][0]["event"] == 120)
    p.b.run("[...document.querySelectorAll('#v-panel button.link')].find(b => b.textContent.startsWith('from ')).click()")
    s = p.until("the launch", lambda s: s["selected"] and s["selected"][0]["name"] == "cudaLaunchKernel")
    assert s["selected"][0]["startPs"] < at, s["selected"]
    p.b.press("Esc")
    device = p.row("/device:GPU:0", "host-0", "plane")
    left, top, *_ = p.box()
    p.b.drag(left + 60, top + device["y"] + 8, left + 60, top + device["y"] + 8)
    p.until("arrows into the closed section", lambda s: s["arrows"] == s["links"] > 0 and not any(r["label"].startswith("Stream") and r["host"] == "host-0" for r in s["rows"]))
    p.b.press("0")
    p.until("no more than can be read", lambda s: 0 < s["links"] <= 120 and s["t0"] <= 0)
    wait_until("how many there are", lambda: "arrows are drawn: zoom in for all" in p.b.text("#v-note"))
    p.b.press("v")
    p.until("none", lambda s: not s["arrows"])
    p.b.run("location.hash = location.hash.split('?')[0] + '?t=0_1000000000000'")


def samples(c, session, host, name):
    """[(ps since T0, value)] of a counter."""
    path = next(c.logdir.glob(f"**/{session}/{host}.xplane.pb"))
    out = []
    for plane in xspace.load(path).planes:
        for line in (ln for ln in plane.lines if ln.name == "_counters_"):
            for ev in line.events:
                if plane.event_metadata[ev.metadata_id].name == name:
                    stat = ev.stats[0]
                    out.append((line.timestamp_ns * 1000 + ev.offset_ps, getattr(stat, stat.WhichOneof("value"))))
    return sorted(out)


def check_14(p, session):
    """A counter at the pointer: exact in a narrow window, least and largest where it is folded."""
    p.whole()
    p.b.press("t")
    p.b.press(*"cpu user")
    s = p.until("the counter", lambda s: any(r["label"].startswith("cpu user") for r in s["rows"]))
    row = next(r for r in s["rows"] if r["label"].startswith("cpu user"))
    want = samples(p.c, session, row["host"], row["label"])
    left, top, *_ = p.box()
    y = row["y"] + 20
    at = want[len(want) // 2]
    p.window(at[0] - 2_000_000_000, at[0] + 2_000_000_000)
    s = p.state()
    y = next(r for r in s["rows"] if r["key"] == row["key"])["y"] + 20
    got = p.b.run(f"return window.tutti.sampleAt({p.at(s, at[0]) + 3}, {y})")
    assert got["count"] == 1 and abs(got["last"] - at[1]) <= 1e-6 * max(1, abs(at[1])) and abs(got["atPs"] - at[0]) < 1e7, (got, at)
    p.b.hover(left + p.at(s, at[0]) + 3, top + y)
    wait_until("its value", lambda: row["label"] in p.b.text("#v-tip") and "since" in p.b.text("#v-tip"))
    p.clear("v-only")


def check_16(p):
    """The aggregator goes away and comes back: the picture stays, a notice says so, and it recovers by itself."""
    c = p.c
    p.whole()
    c.processes["aggregator"].terminate()
    c.processes["aggregator"].wait(20)
    p.b.press("w", hold_ms=900)
    p.b.press("d", hold_ms=300)
    wait_until("the notice", lambda: "connection lost" in p.b.text("#v-note") and "reconnecting" in p.b.text("#link"))
    s = p.state()
    assert s["onScreen"] and not s["missing"], (s["onScreen"], s["missing"])
    c.aggregator()
    s = p.until("the recovery", lambda s: not s["failure"] and s["onScreen"])
    wait_until("the stream", lambda: "live" in p.b.text("#link"))


def check_19(p, v):
    """Keys alone reach the picture, its rows and events, and what is selected is said; dark follows the system; 200 % works."""
    p.whole()
    p.b.run("document.activeElement.blur(); window.scrollTo(0, 0)")
    for _ in range(40):
        p.b.press("Tab")
        if p.b.run("return document.activeElement.id") == "v-canvas":
            break
    assert p.b.run("return document.activeElement.id") == "v-canvas"
    row = p.row("Stream #7 (Compute)", "host-0")
    p.until("the row", lambda s: s["row"] == row["key"], lambda: p.b.press("j"))
    assert "track Stream #7 (Compute) of host-0, " in p.b.text("#v-live"), p.b.text("#v-live")
    p.b.press("Right")
    first = p.until("an event", lambda s: s["selected"])["selected"][0]
    assert (first["file"], first["track"]) == (row["file"], row["track"]), (first, row)
    for key, by in (("Right", 1), ("Right", 2), ("Left", 1)):
        p.b.press(key)
        p.until("the next event", lambda s: s["selected"] and s["selected"][0]["event"] == first["event"] + by)
    said = p.b.text("#v-live")
    e = p.state()["selected"][0]
    assert e["name"] in said and "track Stream #7 (Compute) of host-0" in said and "µs" in said, said
    python = p.row("python3", "host-0")
    p.b.press("k")
    p.until("the row", lambda s: s["row"] == python["key"], lambda: p.b.press("k"))
    p.b.press("Right", "f")
    outer = p.until("a call", lambda s: s["selected"] and s["selected"][0]["track"] == python["track"] and s["t1"] - s["t0"] < 1e12)["selected"][0]
    if outer["row"] == 0 and outer["durationPs"] > 1e9:
        p.b.press("Down")
        p.until("the call inside", lambda s: s["selected"][0]["row"] == 1)
        p.b.press("Up")
        p.until("the call around", lambda s: s["selected"][0]["event"] == outer["event"])
    for theme in ("dark", "light"):
        p.b.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        wait_until("the theme", lambda: p.b.run("return document.documentElement.dataset.theme") == theme)
    for width, height in ((640, 450), (320, 256)):  # 200 % and 400 % of 1280
        p.b.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2, mobile=False)
        assert p.b.run("return document.documentElement.scrollWidth <= innerWidth"), width
        p.until("events", lambda s: s["onScreen"])
    p.b.cdp("Emulation.clearDeviceMetricsOverride")
    p.b.press("Esc")


def axe():
    """axe-core's script, or None where it is not installed."""
    done = subprocess.run([SERVERS, "command", "axe"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False, timeout=60)
    return pathlib.Path(done.stdout.strip()).read_text() if done.returncode == 0 else None


def check_axe(p, session, other):
    """No serious finding on any page, in no theme, and in the dialogs."""
    script = axe()
    assert script, "axe-core is not there: tests/servers.sh install"
    open_capture = lambda: (p.b.press("c"), wait_until("the dialog", lambda: "Hosts" in p.b.text("#capture")))
    pages = [("#/", "sessions", lambda: wait_until("the list", lambda: session in p.b.text("#sessions"))), ("#/hosts", "cluster", lambda: wait_until("the hosts", lambda: "host-0" in p.b.text("#hosts"))),
             (f"#/compare?a={session}&b={other}", "compare", lambda: wait_until("the sums", lambda: "copy as CSV" in p.b.text("#compare"))),
             (f"#/s/{session}", "timeline", lambda: (p.ready(), p.b.press("x"), wait_until("the sums", lambda: "in the box" in p.b.text("#v-panel")))),
             (f"#/s/{session}", "late host", lambda: (p.ready(), p.b.press("l"), wait_until("the hosts", lambda: p.b.text("#v-late")))),
             (f"#/s/{session}", "flame", lambda: (p.ready(), p.b.press("g"), wait_until("the boxes", lambda: p.b.text(".flame .box")))),
             ("#/hosts", "capture dialog", open_capture), ("#/", "keys", lambda: (p.b.press("?"), wait_until("the keys", lambda: "Everywhere" in p.b.text("#keys"))))]
    for theme in ("light", "dark"):
        p.b.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        for address, name, prepare in pages:
            p.b.open("about:blank")
            p.b.open(f"{p.c.url}/{address}")
            if address.startswith("#/s/"):
                wait_until("the timeline", lambda: p.b.run("return window.tutti?.state() != null"))
            prepare()
            p.b.cdp("Runtime.evaluate", expression=script + "; true")
            found = p.b.run("return axe.run(document, {resultTypes: ['violations']}).then(r => r.passes.length < 10 ? ['serious', 'nothing was looked at', []] : r.violations.map(v => [v.impact, v.id, v.nodes.slice(0, 3).map(n => n.html.slice(0, 150) + ' ' + n.any.map(a => a.message).join(' '))]))")
            bad = [f for f in found if f[0] in ("serious", "critical")]
            assert not bad, (theme, name, json.dumps(bad, indent=1))


def check_compare(p, c, a, b):
    """Two sessions name by name, against the files; the filter, the order and a range are in the address."""
    def sums(session, low=-1 << 62, high=1 << 62):
        out = collections.defaultdict(lambda: [0, 0])
        for host in ("host-0", "host-1"):
            for _, _, name, start, length in stored(c, session, host):
                if start < high and start + max(length, 1) > low:
                    out[name] = [out[name][0] + 1, out[name][1] + length]
        return out

    def check(low_a, high_a):
        want_a, want_b = sums(a, low_a, high_a), sums(b)
        p.b.run("document.querySelector('#p-result button').click()")
        lines = p.b.run("return window.copied").splitlines()[1:]
        got = {line.split('"')[1]: [int(x) for x in line.split('",')[1].split(",")] for line in lines}
        assert got == {n: [want_a[n][0], want_b[n][0], want_a[n][1], want_b[n][1]] for n in set(want_a) | set(want_b)}, got
        first = p.b.text("#p-result tbody .name")
        change = lambda n: abs(want_b[n][1] - want_a[n][1])
        assert change(first) == max(map(change, got)), first
    spy = "window.copied = ''; document.execCommand = () => { window.copied = document.activeElement.value; return true; }"
    p.b.open("about:blank")
    p.b.open(c.url)
    wait_until("both sessions", lambda: p.b.run("return document.querySelectorAll('#sessions input').length") == 2)
    for i in (1, 0):
        p.b.run(f"document.querySelectorAll('#sessions input')[{i}].click()")
    p.b.run("document.getElementById('s-compare').click()")
    wait_until("the sums", lambda: "copy as CSV" in p.b.text("#compare"))
    p.b.run(spy)
    check(-1 << 62, 1 << 62)
    p.b.open("about:blank")
    p.b.open(f"{c.url}/#/compare?a={a}&at=100000000000_400000000000&b={b}&q=all-&sort=name")
    wait_until("the sums", lambda: "copy as CSV" in p.b.text("#compare"))
    assert p.b.run("return [...document.querySelectorAll('#p-result tbody .name')].map(n => n.textContent)") == ["all-reduce.1"]
    p.b.run(spy + "; const f = document.getElementById('p-find'); f.value = ''; f.dispatchEvent(new Event('input'));"
            "[...document.querySelectorAll('#p-result th button')].find(b => b.textContent === 'Difference of totals').click()")
    check(100_000_000_000, 400_000_000_000)


def check_flame_diff(p, v, w, session, other):
    """The difference of two flame graphs: each box has both sides' time as the aggregator has it, and how much its share changed."""
    def shares(view, low, high):
        tracks = ",".join(f"{f}.{n}" for _, f, plane, n, t in view.tracks if plane == "/host:CPU" and t["name"] == "python3")
        doc = view.ask("flame", from_ps=low, to_ps=high, tracks=tracks)
        paths, out = [], collections.Counter()
        for parent, name, total, _, _ in doc["nodes"]:
            paths.append((paths[parent] if parent >= 0 else ()) + (doc["names"][name],))
            out[paths[-1]] += total
        return {path: total / doc["total_ns"] for path, total in out.items()}
    a, b = shares(v, 100_000_000_000, 400_000_000_000), shares(w, -(1 << 59), 1 << 59)
    want = sorted(f"{path[-1]} {100 * (b.get(path, 0) - a.get(path, 0)):.1f}" for path in a.keys() | b.keys() if (a.get(path, 0) + b.get(path, 0)) / 2 >= 0.001)
    p.b.open("about:blank")
    p.b.open(f"{p.c.url}/#/compare?a={session}&at=100000000000_400000000000&b={other}&flame=1")
    wait_until("the boxes", lambda: p.b.run("return document.querySelectorAll('.flame .box').length > 20"))
    titles = p.b.run("return [...document.querySelectorAll('.flame .box')].slice(1).map(b => b.title)")
    number = lambda title: float(title.rsplit("; ", 1)[1].removesuffix(" %").replace("−", "-"))
    got = sorted(f"{t.split(':')[0]} {number(t):.1f}" for t in titles)
    close = lambda x, y: x.split()[0] == y.split()[0] and abs(float(x.split()[1]) - float(y.split()[1])) < 0.15
    assert len(got) == len(want) and all(map(close, got, want)), (got, want)
    assert all("A " in t and "; B " in t for t in titles), titles[:3]
    p.b.run("document.querySelectorAll('.flame .box')[1].click()")
    assert p.b.run("return document.activeElement.title") == titles[0] and p.b.run("return document.activeElement.style.width") == "100%"
    p.b.run("document.getElementById('p-flame').click()")
    assert not p.b.text(".flame .box") and "flame=1" not in p.b.run("return location.hash")


def test_checks():
    need_browser()
    with Cluster() as c:
        session = capture(c)
        b = Browser(c, size="1280,900")
        p = Page(c, b)
        v = View(c, session)
        p.show(session)
        check_11(p, v, session)
        check_12(p, v)
        check_14(p, session)
        check_19(p, v)
        p.show(session)
        check_16(p)
        b.close()


@contextlib.contextmanager
def two_sessions():
    """(the page, a session, another one)"""
    need_browser()
    with Cluster() as c:
        session = capture(c)
        other = c.tutti("capture", "--duration", "1s", "--tracer", "profiler", "--json")[1]["session"]
        b = Browser(c, size="1280,900")
        yield Page(c, b), session, other
        b.close()


def test_two_sessions():
    with two_sessions() as (p, session, other):
        p.show(session)
        check_compare(p, p.c, session, other)
        check_flame_diff(p, View(p.c, session), View(p.c, other), session, other)


def test_axe():
    with two_sessions() as (p, session, other):
        check_axe(p, session, other)


def test_what_is_missing():
    """Check 20: a host without a file and one that gave less are stated on the screen; names from outside do nothing."""
    need_browser()
    with Cluster() as c:
        c.aggregator()
        space = xspace.message_class("tensorflow/xplane.proto", "tensorflow.profiler.XSpace")()
        plane = traces.Plane(space.planes.add(id=1, name=HOSTILE[0]))
        line = plane.line(HOSTILE[2])
        for i, name in enumerate(HOSTILE):
            plane.event(line, name, (i + 3) * 100_000_000_000, 90_000_000_000)  # a profiler begins before the window
        (flag,) = c.profilers(space.SerializeToString())
        c.agent("host-0", flag, tracers="profiler,metrics")
        c.agent("host-1", f"--profiler=127.0.0.1:{free_port()}", tracers="profiler,metrics")
        c.agent("host-2")
        c.wait_hosts(3)
        c.kill("host-2")
        wait_until("the loss", lambda: c.hosts()["host-2"]["state"] == "lost", 60)
        session = c.tutti("capture", "--duration", "1500ms", "--tracer", "profiler", "--json")[1]["session"]
        b = Browser(c, size="1280,900")
        p = Page(c, b)
        p.show(session)
        assert "of 3 hosts gave nothing" in b.text("#v-notices") and "host-2 (" in b.text("#v-notices"), b.text("#v-notices")
        row = next(r for r in p.state()["rows"] if r["kind"] == "track" and r["host"] == "host-0" and r["label"].startswith("'"))
        assert {"host-1", "host-2"} <= {r["host"] for r in p.state()["rows"]}
        p.b.press("x")
        wait_until("the sums", lambda: "in the box" in b.text("#v-panel") and HOSTILE[0] in b.text("#v-panel"))
        seen = 0
        for x, y, hit in p.events_of(row):
            p.b.drag(x, y, x, y)
            p.until("the details", lambda s: s["selected"] and s["selected"][0]["event"] == hit["event"])
            seen += 1
        assert seen == len(HOSTILE) and not b.run("return window.harmed ?? 0") and not b.run("return document.querySelectorAll('main img, main script').length")
        b.close()


main(test_checks, test_two_sessions, test_axe, test_what_is_missing)
