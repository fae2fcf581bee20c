# SPDX-License-Identifier: Apache-2.0
"""What the aggregator answers a viewer, held against the stored files event by event."""
import collections
import re
import shutil
import urllib.error
import urllib.request

from lib import traces
from lib.browser import Browser
from lib.cluster import Cluster, SkipTest, main, wait_until
from lib.view import BUCKETS, View


def capture(c, hosts=2, **job):
    """A session of hosts with a training job each; the last one's devices are late by 20 ms."""
    c.aggregator()
    files = [c.dir / f"job-{i}.pb" for i in range(hosts)]
    for i, file in enumerate(files):
        file.write_bytes(traces.job(seed=i, late_ps=20_000_000_000 if i == hosts - 1 else 0, **job))
    for i, flag in enumerate(c.profilers_of(*files, mode="good")):
        c.agent(f"host-{i}", flag)
    c.wait_hosts(hosts)
    doc = c.tutti("capture", "--duration", "1s", "--tracer", "profiler", "--tracer", "metrics", "--json")[1]
    assert doc["failed"] == 0, doc["hosts"]
    return doc["session"]


def stored(c, session, host):
    return traces.events(c.logdir / "plugins/profile" / session / f"{host}.xplane.pb")


def check_tracks(c, v, session):
    """Every event of every file is in the catalogue, under its plane and line."""
    for host in {t[0] for t in v.tracks}:
        want = collections.Counter((plane, line) for plane, line, *_ in stored(c, session, host))
        got = collections.Counter({(plane, t["name"]): t["events"] for h, _, plane, _, t in v.tracks
                                   if h == host and t["events"] and not t.get("counter")})
        assert got == want, (host, got - want, want - got)


def check_tiles(c, v, session):
    """Full zoom has every event, exactly; every coarser tile has all of them in its counts."""
    for host, file, plane, track, t in v.tracks:
        if t.get("counter") or not t["events"]:
            continue
        want = sorted((name, start, length) for p, line, name, start, length in stored(c, session, host)
                      if p == plane and line == t["name"])
        for shift in (30, 34, 38):
            first, last = int(t["first_ps"]) // (BUCKETS << shift), (int(t["last_ps"]) + 1) // (BUCKETS << shift)
            if last - first > 60:
                continue
            tiles = [v.tile(file, track // 16, shift, i)[track] for i in range(first, last + 1)]
            starts_here = sum(e[4] for i, tile in zip(range(first, last + 1), tiles) for e in tile if e[0] >= i * (BUCKETS << shift))
            assert starts_here == len(want), (host, plane, t["name"], shift, starts_here, len(want))
            row_bins = collections.Counter((e[5], e[0] >> shift) for tile in tiles for e in tile)
            assert max(row_bins.values()) <= 4, row_bins.most_common(3)  # two, and those of a tile's edge twice
        middle = (min(w[1] for w in want) + max(w[1] + w[2] for w in want)) // 2
        shift = 20
        index = middle // (BUCKETS << shift)
        low, high = index * (BUCKETS << shift), (index + 1) * (BUCKETS << shift)
        got = [e for e in v.tile(file, track // 16, shift, index)[track] if e[4] == 1]
        for name, start, length in want:  # what is longer than a bucket is there as itself, to 1/256 of a bucket
            if start < high and start + length > low and length >> shift:
                assert [e for e in got if e[2] == name and (start < low or 0 <= start - e[0] < 1 << 12)], (name, start, length)


def check_events(c, v, session):
    """Details are exact to the picosecond, with all stats, and a flow has both ends."""
    for host, file, plane, track, t in v.tracks:
        if t["name"] != "Stream #7 (Compute)":
            continue
        want = sorted((start, length, name) for p, line, name, start, length in stored(c, session, host)
                      if p == plane and line == t["name"])
        for event in (len(want) // 2, len(want) - 1):  # the first ones may have been launched before the window
            doc = v.ask("event", file=file, track=track, event=event)
            assert (int(doc["start_ps"]), int(doc["duration_ps"]), doc["name"]) == want[event], (doc, want[event])
            assert {"flow", "correlation_id"} <= {a[0] for a in doc["args"]}, doc["args"]
            mine = {(e["file"], e["direction"]) for e in doc["flow"] if e["file"] == file}
            assert mine == {(file, 1), (file, 2)}, doc["flow"]
            assert doc["of_name"]["count"] == sum(w[2] == doc["name"] for w in want)


def check_search(c, v, session):
    """The whole session is searched: totals, and every match by next and by previous."""
    hosts = {t[0] for t in v.tracks}
    want = sorted(start for host in hosts for _, _, name, start, _ in stored(c, session, host) if "all-reduce" in name)
    doc = v.ask("search", text="ALL-red")
    assert doc["matches"] == len(want) and doc["names"][0]["name"] == "all-reduce.1", doc
    assert v.ask("search", text="ALL-red", case=1)["matches"] == 0
    assert v.ask("search", text="no such thing")["matches"] == 0
    for backward in (0, 1):
        at = {"start_ps": (1 << 59) if backward else -(1 << 59), "file": 0, "track": 0, "event": 0}
        found = []
        while True:
            doc = v.ask("next", text="all-reduce", backward=backward, **at)
            if not doc["found"]:
                break
            found.append(int(doc["start_ps"]))
            at = {k: doc[k] for k in ("start_ps", "file", "track", "event")}
        assert found == sorted(want, reverse=bool(backward)), (len(found), len(want))


def check_selection(c, v, session):
    """Counts, totals and self times of a box equal a script's."""
    tracks = [(h, f, p, n, t) for h, f, p, n, t in v.tracks if t["name"] == "python3"]
    low, high = 100_000_000_000, 400_000_000_000
    doc = v.ask("selection", from_ps=low, to_ps=high, tracks=",".join(f"{f}.{n}" for _, f, _, n, _ in tracks))
    want = collections.defaultdict(list)
    for host, _, plane, _, t in tracks:
        for p, line, name, start, length in stored(c, session, host):
            if (p, line) == (plane, t["name"]) and start < high and start + max(length, 1) > low:
                want[name].append(length)
    got = {n["name"]: n for n in doc["names"]}
    assert set(got) == set(want)
    for name, lengths in want.items():
        g = got[name]
        assert (g["count"], int(g["total_ps"]), int(g["min_ps"]), int(g["max_ps"])) == \
            (len(lengths), sum(lengths), min(lengths), max(lengths)), (name, g)
    assert doc["count"] == sum(map(len, want.values())) and int(doc["self_ps"]) <= int(doc["total_ps"])


def check_patterns(c, v, session):
    """Regular expressions count what Python's do; those without a bound are refused."""
    names = [name for host in {t[0] for t in v.tracks} for _, _, name, _, _ in stored(c, session, host)]
    for pattern in ("^fusion\\.[0-3]$", "f[1-2]_", "reduce|cudaLaunch", "^all-reduce.1$"):
        doc = v.ask("search", text=pattern, pattern=1, case=1)
        assert doc["matches"] == sum(re.search(pattern, name) is not None for name in names) > 0, (pattern, doc["matches"])
    assert v.ask("search", text="ALL-R.*1$", pattern=1)["matches"] == v.ask("search", text="all-reduce.1")["matches"]
    for pattern in ("(a", "(a)\\1", "((a{60}){60})", "a" * 201):
        words = urllib.request.quote(pattern)
        assert refused(v, f"/search?build={v.doc['build']}&pattern=1&text={words}") == 400, pattern


def tree(lines, low, high):
    """{path: [total, own, count]} of events, each called by the latest one that it lies in, as far as they lie in the window."""
    out = collections.defaultdict(lambda: [0, 0, 0])
    for events in lines:
        calls = []
        for start, negative, name in sorted((start, -length, name) for name, start, length in events):
            end = start - negative
            if start >= high or max(end, start + 1) <= low:
                continue
            calls = [c for c in calls if c[0] > start]
            caller = next((path for last, path in reversed(calls) if last >= end), ())
            part = max(0, min(end, high) - max(start, low))
            for at, by in ((caller + (name,), (part, part, 1)), *([(caller, (0, -part, 0))] if caller else [])):
                out[at] = [a + b for a, b in zip(out[at], by)]
            calls.append((end, caller + (name,)))
    return out


def check_flame(c, v, session):
    """A flame graph's boxes and its top functions equal a script's, in the window and by host."""
    tracks = [(h, f, n) for h, f, _, n, t in v.tracks if t["name"] == "python3"]
    low, high = 100_000_000_000, 400_000_000_000
    by_host = {h: [(name, start, length) for _, line, name, start, length in stored(c, session, h) if line == "python3"] for h, _, _ in tracks}
    want = tree(by_host.values(), low, high)
    ask = {"from_ps": low, "to_ps": high, "tracks": ",".join(f"{f}.{n}" for _, f, n in tracks)}
    doc = v.ask("flame", **ask)
    got, paths = {}, []
    for parent, name, total, own, number in doc["nodes"]:
        paths.append((paths[parent] if parent >= 0 else ()) + (doc["names"][name],))
        got[paths[-1]] = (total, own, number)
    assert not set(got) - set(want) and len(got) + doc["left_out"] == len(want), (len(got), doc["left_out"], len(want))
    assert len(got) >= sum(w[0] > doc["total_ns"] for w in want.values()) > 100  # what takes a thousandth of the time
    for path, (total, own, number) in ((path, want[path]) for path in got):
        assert got[path][2] == number and abs(got[path][0] - total // 1000) <= 1 and abs(got[path][1] - own // 1000) <= 1, (path, got[path], want[path])
    top = {t["name"]: t for t in doc["top"]}
    for name in {path[-1] for path in want}:
        assert abs(top[name]["self_ns"] - sum(w[1] for path, w in want.items() if path[-1] == name) // 1000) <= 1, name
        assert abs(top[name]["total_ns"] - sum(w[0] for path, w in want.items() if path[-1] == name and name not in path[:-1]) // 1000) <= 1, name
    doc = v.ask("flame", group="host", **ask)
    assert sorted(doc["names"][n[1]] for n in doc["nodes"] if n[0] < 0) == sorted(by_host)
    assert refused(v, f"/flame?build={v.doc['build']}&from_ps=0&to_ps=9&tracks=0.0&group=x") == 400


def check_durations(c, v, session):
    """All events of a name: exact sums and extremes, quantiles within 1 %, every event in a bin, and the longest first."""
    host, file, _, track, t = next(t for t in v.tracks if t[4]["name"] == "Stream #7 (Compute)")
    name = v.ask("event", file=file, track=track, event=t["events"] // 2)["name"]
    lengths = {h: sorted(length for _, _, n, _, length in stored(c, session, h) if n == name) for h in {t[0] for t in v.tracks}}
    every = sorted(sum(lengths.values(), []))
    doc = v.ask("durations", file=file, track=track, event=t["events"] // 2, from_ps=-(1 << 59), to_ps=1 << 59)
    assert doc["name"] == name and doc["count"] == len(every) and int(doc["total_ps"]) == sum(every), doc
    assert (int(doc["min_ps"]), int(doc["max_ps"])) == (every[0], every[-1])
    for share, key in ((.5, "p50_ps"), (.9, "p90_ps"), (.99, "p99_ps")):
        assert abs(int(doc[key]) / every[min(int(share * len(every)), len(every) - 1)] - 1) < .01, (key, doc[key])
    for low, high, number in doc["bins"]:
        assert number == sum(low <= length < high for length in every), (low, high, number)
    assert sum(b[2] for b in doc["bins"]) == len(every)
    assert {h["host"]: (h["count"], int(h["total_ps"]), int(h["max_ps"])) for h in doc["hosts"]} == {h: (len(x), sum(x), x[-1]) for h, x in lengths.items()}
    assert [int(x["duration_ps"]) for x in doc["longest"]] == every[:-9:-1]
    for h in doc["hosts"]:
        starts = sorted(start for _, _, n, start, _ in stored(c, session, h["host"]) if n == name)
        assert int(h["first"]["start_ps"]) == starts[0] and h["starts_ps"] == starts[:256], h
    first = doc["longest"][0]
    assert int(v.ask("event", file=first["file"], track=first["track"], event=first["event"])["duration_ps"]) == every[-1]


def refused(v, path):
    try:
        v.fetch(path)
    except urllib.error.HTTPError as e:
        return e.code
    return None


def check_refusals(v):
    build = f"build={v.doc['build']}"
    assert refused(v, "/tile?build=0&file=0&group=0&shift=20&index=0&rows=0") == 409
    assert refused(v, f"/tile?{build}&file=99&group=0&shift=20&index=0&rows=0") == 404
    assert refused(v, f"/tile?{build}&file=0&group=0&shift=99&index=0&rows=0") == 400
    assert refused(v, f"/tile?{build}&file=0&group=0&shift=20&index={1 << 59}&rows=0") == 400
    assert refused(v, f"/event?{build}&file=0&track=0&event=99999999") == 404
    assert refused(v, f"/selection?{build}&from_ps=0&to_ps=9&tracks=0.1,0.1") == 400
    assert refused(v, f"/search?{build}&text=") == 400


def test_answers():
    with Cluster() as c:
        session = capture(c)
        v = View(c, session)
        assert len(v.doc["hosts"]) == 2 and all(h["clock_bound_ns"] for h in v.doc["hosts"])
        check_tracks(c, v, session)
        check_tiles(c, v, session)
        check_events(c, v, session)
        check_search(c, v, session)
        check_selection(c, v, session)
        check_patterns(c, v, session)
        check_flame(c, v, session)
        check_durations(c, v, session)
        check_refusals(v)
        kept = c.dir / "agg-spool/views" / session
        index = kept / "host-0.xplane.pb.tvx"
        assert index.exists(), list(c.dir.glob("**/*.tvx"))
        damaged = bytearray(index.read_bytes())
        damaged[-200] ^= 1
        c.processes["aggregator"].terminate()
        c.processes["aggregator"].wait()
        index.write_bytes(damaged)
        c.aggregator()
        c.wait_hosts(2)
        again = View(c, session)
        assert again.doc["build"] == v.doc["build"] and "state=rebuild" in c.log("aggregator")
        check_tracks(c, again, session)
        c.tutti("delete", session, check=0)
        wait_until("the indexes' removal", lambda: not kept.exists())
        assert refused(again, "") == 404
        print(f"     {sum(t[4]['events'] for t in v.tracks)} events on {len(v.tracks)} tracks")


# ---- the page ----

class Page:
    """The timeline in a real browser, driven by real keys and a real mouse."""

    def __init__(self, c, b):
        self.c, self.b = c, b

    def state(self):
        return self.b.run("return window.tutti.state()")

    def idle(self):
        s = self.state()
        return s if s and s["idle"] and not s["coarse"] else None

    def ready(self):
        return wait_until("the tiles", self.idle)

    def until(self, what, condition, act=None):
        """Acts, if need be again and again, until the state is as it should be."""
        def there():
            if act:
                act()
            s = self.idle()
            return s if s and condition(s) else None
        return wait_until(what, there)

    def row(self, label, host):
        return next(r for r in self.state()["rows"] if r["kind"] == "track" and r["label"] == label and r["host"] == host)

    def box(self):
        return self.b.run("const r = document.getElementById('v-canvas').getBoundingClientRect(); return [r.left, r.top, r.width, r.height]")

    def events_of(self, row):
        """[(x, y, hit)] of the events that the pointer meets on a row, from left to right."""
        left, top, width, _ = self.box()
        y = row["y"] + 8
        hits, seen = [], set()
        for x, hit in self.b.run(f"const out = []; for (let x = 250; x < {width - 4}; x += 3) {{ const h = window.tutti.hitAt(x, {y});"
                                 " if (h && h.count === 1) out.push([x, h]); } return out"):
            if hit["event"] not in seen:
                seen.add(hit["event"])
                hits.append((left + x, top + y, hit))
        return hits


def check_moves(p):
    """Checks 4, 5 and 6: W, A, S, D without a click first; the tools."""
    whole = p.ready()
    size = lambda s: s["t1"] - s["t0"]
    assert whole["events"] and whole["onScreen"] and whole["received"] < 2_000_000, whole["received"]
    near = p.until("a zoom by W", lambda s: size(s) < size(whole) / 4, lambda: p.b.press("w", hold_ms=400))
    right = p.until("a move by D", lambda s: s["t0"] > near["t0"], lambda: p.b.press("d", hold_ms=200))
    p.until("a move by A", lambda s: s["t0"] < right["t0"], lambda: p.b.press("a", hold_ms=200))
    p.until("a zoom by S", lambda s: size(s) > size(near), lambda: p.b.press("s", hold_ms=400))
    for keys, tool in (("1!", "select"), ("2@", "pan"), ("3#", "zoom"), ("4$", "time")):  # check 6
        for key in keys:
            p.b.press("1" if tool != "select" else "2")
            p.b.press(key)
            assert p.state()["tool"] == tool, (key, p.state()["tool"])
    p.b.press("1", "0")
    p.until("the whole session", lambda s: abs(size(s) - size(whole)) < 1000)


def check_find(p, want):
    """Check 10: all of the session is searched, and Enter goes to the next match."""
    before = p.state()
    p.b.press("/")
    p.b.press(*"all-reduce")
    wait_until("the matches", lambda: p.b.text("#v-hits") == f"{len(want)} matches")
    s = p.ready()
    assert (s["t0"], s["t1"]) == (before["t0"], before["t1"]) and s["find"] == "all-reduce", s
    starts = []
    for _ in range(3):
        p.b.press("Enter")
        s = p.until("a match", lambda s: s["selected"] and s["selected"][0]["startPs"] not in starts)
        assert s["selected"][0]["name"] == "all-reduce.1", s["selected"]
        starts.append(s["selected"][0]["startPs"])
    assert starts == want[:3], (starts, want[:3])
    assert "all-reduce.1" in p.b.text("#v-panel") and "flow" in p.b.text("#v-panel"), p.b.text("#v-panel")
    assert len(s["flows"]) >= 1, s["flows"]
    p.b.run("const f = document.getElementById('v-find'); f.value = ''; f.dispatchEvent(new Event('input')); f.blur()")
    p.b.press("Esc")
    p.until("no selection", lambda s: not s["selected"])


def check_select(p, v, session):
    """Checks 7, 8 and 9: details are exact; Ctrl+click adds; a box adds up; f frames, m marks, Back returns."""
    row = p.row("Stream #7 (Compute)", "host-0")
    want = sorted((start, length, name) for plane, line, name, start, length in stored(p.c, session, "host-0") if line == row["label"])
    middle = want[len(want) // 2][0]
    p.b.run(f"location.hash = location.hash.split('?')[0] + '?t={middle - 3_000_000_000}_{middle + 3_000_000_000}'")
    p.until("the window", lambda s: abs(s["t0"] - (middle - 3_000_000_000)) < 10 and s["onScreen"])
    hits = p.events_of(p.row("Stream #7 (Compute)", "host-0"))
    assert len(hits) >= 3, hits
    x, y, hit = hits[0]
    p.b.drag(x, y, x, y)
    s = p.until("the selection", lambda s: len(s["selected"]) == 1)
    e = s["selected"][0]
    assert (e["startPs"], e["durationPs"], e["name"]) == want[e["event"]], (e, want[e["event"]])
    assert f"{e['name']}" in p.b.text("#v-panel") and "correlation_id" in p.b.text("#v-panel")
    x, y, hit = hits[2]
    p.b.drag(x, y, x, y, held="Ctrl")
    s = p.until("two selected", lambda s: len(s["selected"]) == 2)
    assert "2 events selected" in p.b.text("#v-panel") and "on one clock" in p.b.text("#v-panel"), p.b.text("#v-panel")
    low = min(e["startPs"] for e in s["selected"])
    high = max(e["startPs"] + e["durationPs"] for e in s["selected"])
    p.b.press("m")
    s = p.until("the mark", lambda s: len(s["marks"]) == 1)
    assert (s["marks"][0]["fromPs"], s["marks"][0]["toPs"]) == (low, high), (s["marks"], low, high)
    p.b.press("f")
    near = p.until("the frame", lambda s: s["t0"] < low and s["t1"] > high and s["t1"] - s["t0"] < 1.4 * (high - low))
    link = wait_until("the address", lambda: (h := p.b.run("return location.href")) and f"t={round(near['t0'])}_" in h and h)
    p.b.run("history.back()")
    p.until("the way back", lambda s: s["t1"] - s["t0"] > 1.5 * (near["t1"] - near["t0"]))
    return link, near


def check_box(p, v, session):
    """A box over tracks is what the aggregator adds up, and says how much."""
    p.b.press("Esc", "0")
    p.until("the whole session", lambda s: not s["selected"] and s["t1"] - s["t0"] > 9e11)
    row = p.row("python3", "host-0")
    left, top, width, _ = p.box()
    p.b.drag(left + 300, top + row["y"] + 4, left + width / 2, top + row["y"] + 20)
    wait_until("the sums", lambda: "in the box" in p.b.text("#v-panel"))
    shown = int(p.b.text("#v-panel h2").split()[0].replace(",", ""))
    s = p.state()
    at = lambda x: s["t0"] + (x - s["gutter"]) / (width - s["gutter"]) * (s["t1"] - s["t0"])
    asked = v.ask("selection", from_ps=round(at(300)), to_ps=round(at(width / 2)), tracks=f"{row['file']}.{row['track']}")
    assert shown > 0 and abs(shown - asked["count"]) <= 0.02 * asked["count"], (shown, asked["count"])


def clear_text(p, name):
    p.b.run(f"const f = document.getElementById('{name}'); f.value = ''; f.dispatchEvent(new Event('input')); f.blur()")
    p.b.press("Esc")


def delay(starts, of):
    """By the median, in the pairing with the least difference: as docs/viewer.md says."""
    median = lambda list: sorted(list)[(len(list) - 1) // 2]
    pairings = [[s - of[i + shift] for i, s in enumerate(starts) if 0 <= i + shift < len(of)] for shift in range(-8, 9)]
    return min((median(p) for p in pairings if 2 * len(p) >= min(len(starts), len(of))), key=abs)


def check_late(p, session):
    """Three keys lead to the host that is late, at its first collective."""
    p.b.press("Esc", "0")
    p.until("no selection", lambda s: not s["selected"])
    p.b.press("l")
    wait_until("the hosts", lambda: "All of this name" in p.b.text("#v-panel"))
    starts = {h: sorted(start for _, _, name, start, _ in stored(p.c, session, h) if name == "all-reduce.1") for h in ("host-0", "host-1")}
    late = "host-1" if delay(starts["host-1"], starts["host-0"]) > 0 else "host-0"
    assert p.b.text("#v-late tbody button") == late, (p.b.text("#v-late"), starts)
    p.b.press("Enter")
    s = p.until("its event", lambda s: s["selected"])
    assert s["selected"][0]["startPs"] == starts[late][0], (s["selected"], starts[late][0])
    p.b.press("f")
    p.until("the frame", lambda s: s["t1"] - s["t0"] < 2e9 and s["t0"] < starts[late][0] < s["t1"])
    return s["selected"][0]


def check_names(p, e):
    """The histogram of a name; pinned and filtered tracks, which the address restores."""
    p.b.press("h")
    wait_until("the histogram", lambda: "median" in p.b.text("#v-panel") and p.b.run("return document.querySelectorAll('.histogram span').length > 0"))
    p.b.press("p")
    key = f"{e['file']}.{e['track']}"
    s = p.until("the pin", lambda s: s["pinned"] == [key])
    assert (s["rows"][0]["file"], s["rows"][0]["track"]) == (e["file"], e["track"]) and sum(r["track"] == e["track"] and r["file"] == e["file"] for r in s["rows"]) == 1
    p.b.press("t")
    p.b.press(*"python")
    s = p.until("the filter", lambda s: {r["label"] for r in s["rows"][1:] if r["kind"] == "track"} == {"python3"})
    wait_until("the address", lambda: "only=python" in (h := p.b.run("return location.href")) and f"pin={key}" in h)
    clear_text(p, "v-only")
    p.until("all tracks", lambda s: len({r["label"] for r in s["rows"]}) > 5)


def check_search_flags(p, v):
    """A pattern, and capitals, by their buttons; what is no pattern is said."""
    p.b.press("Esc", "/")
    p.b.press(*"^FUSION.[0-3]$")
    wait_until("no match", lambda: p.b.text("#v-hits") == "no match")
    p.b.run("document.getElementById('v-pattern').click()")
    want = v.ask("search", text="^fusion.[0-3]$", pattern=1)["matches"]
    wait_until("the matches", lambda: p.b.text("#v-hits") == f"{want:,} matches")
    p.b.run("document.getElementById('v-case').click()")
    wait_until("no match", lambda: p.b.text("#v-hits") == "no match")
    p.b.press("/")
    p.b.press("(")
    wait_until("the refusal", lambda: "malformed" in p.b.text("#v-note"))
    p.b.run("for (const k of ['pattern', 'case']) document.getElementById('v-' + k).click()")
    clear_text(p, "v-find")


def check_theme(p):
    """Light or dark by choice, kept over a reload."""
    for theme in ("Light", "Dark"):
        p.b.run("document.querySelector('#v-tools .theme').click()")
        assert p.b.text("#v-tools .theme") == theme and p.b.run("return document.documentElement.dataset.theme") == theme.lower()
    assert p.b.run("return localStorage.getItem('theme')") == "dark"
    p.b.run("document.querySelector('#v-tools .theme').click()")


def check_flame_page(p, v):
    """The flame graph's boxes and its top functions are what the aggregator says; a click zooms."""
    p.b.press("Esc", "0", "g")
    wait_until("the flame graph", lambda: p.b.run("return document.querySelectorAll('.flame .box').length > 20"))
    tracks = ",".join(f"{f}.{n}" for _, f, plane, n, t in v.tracks if plane == "/host:CPU" and t["name"] == "python3")
    s = p.state()
    want = v.ask("flame", from_ps=round(s["t0"]), to_ps=round(s["t1"]), tracks=tracks)
    assert p.b.text(".top tbody .name") == want["top"][0]["name"], (p.b.text(".top tbody"), want["top"][:2])
    whole = p.b.run("return document.querySelectorAll('.flame .box')[1].title")
    p.b.run("document.querySelectorAll('.flame .box')[1].click()")
    assert p.b.run("return document.activeElement.title") == whole and p.b.run("return document.activeElement.style.width") == "100%"


def test_page():
    if not shutil.which("chromedriver") or not shutil.which("chromium"):
        raise SkipTest("chromium and chromedriver are not installed")
    with Cluster() as c:
        session = capture(c)
        v = View(c, session)
        b = Browser(c, size="1280,900")
        b.open(c.url)
        wait_until("the session", lambda: session in b.text("#sessions"))
        b.run("document.querySelector('#sessions button.open').click()")
        p = Page(c, b)
        wait_until("the timeline", lambda: b.run("return window.tutti.state() !== null"))
        check_moves(p)
        check_find(p, sorted(start for host in ("host-0", "host-1") for _, _, name, start, _ in stored(c, session, host) if name == "all-reduce.1"))
        link, near = check_select(p, v, session)
        check_box(p, v, session)
        check_names(p, check_late(p, session))
        check_search_flags(p, v)
        check_theme(p)
        check_flame_page(p, v)
        b.open("about:blank")
        b.open(link)  # check 15: the link restores what was seen
        wait_until("the timeline again", lambda: b.run("return window.tutti.state() !== null"))
        s = p.until("its selection", lambda s: len(s["selected"]) == 2)
        assert abs(s["t0"] - near["t0"]) < 2 and abs(s["t1"] - near["t1"]) < 2 and len(s["marks"]) == 1, s
        b.open(f"{c.url}/#/s/2020_01_01_00_00_00_aaaaaa")
        wait_until("what is wrong", lambda: "2020_01_01_00_00_00_aaaaaa" in b.text("#v-notices"))
        b.close()


main(test_answers, test_page)
