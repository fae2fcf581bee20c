# SPDX-License-Identifier: Apache-2.0
"""What the aggregator answers a viewer, held against the stored files event by event."""
import collections
import re
import urllib.error
import urllib.request

from lib import traces, xspace
from lib.cluster import Cluster, main, wait_until
from lib.view import BUCKETS, View
from lib.viewer import capture, stored


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


def check_spread(c, v, session):
    """Where the matches are: each part of the time has as many as a script counts."""
    want = [start for host in {t[0] for t in v.tracks} for _, _, name, start, _ in stored(c, session, host) if "f3_" in name]
    low, high, bins = min(want) + 1000, max(want), 97
    got = v.ask("spread", text="f3_", from_ps=low, to_ps=high, bins=bins)["bins"]
    assert got == [sum((start - low) * bins // (high - low) == i for start in want if low <= start < high) for i in range(bins)], got
    build = f"build={v.doc['build']}&text=x&from_ps=0&"
    assert [refused(v, f"/spread?{build}{rest}") for rest in ("to_ps=0&bins=9", "to_ps=9&bins=0", "to_ps=9&bins=4097")] == [400] * 3


def check_links(c, v, session):
    """The arrows of a window: every flow that has an end in it, from the launch to the kernel."""
    low, high = 300_000_000_000, 340_000_000_000
    tracks = [(h, f, p, n, t) for h, f, p, n, t in v.tracks if not t.get("counter")]
    flows = collections.defaultdict(list)
    for host in {t[0] for t in v.tracks}:
        for plane in xspace.load(c.logdir / "plugins/profile" / session / f"{host}.xplane.pb").planes:
            ids = [k for k, m in plane.stat_metadata.items() if m.name == "flow"]
            for line in plane.lines:
                for ev in line.events:
                    for stat in (s for s in ev.stats if s.metadata_id in ids):
                        flows[stat.uint64_value >> 2].append(line.timestamp_ns * 1000 + ev.offset_ps)
    want = {k: sorted(ends) for k, ends in flows.items() if any(low <= at < high for at in ends)}
    ask = {"from_ps": low, "to_ps": high, "tracks": ",".join(f"{f}.{n}" for _, f, _, n, _ in tracks)}
    doc = v.ask("links", limit=1000, **ask)
    assert doc["flows"] == len(want) > 10, (doc["flows"], len(want))
    pairs = sorted((a, b) for ends in want.values() for a, b in zip(ends, ends[1:]))
    assert sorted((int(link[4]), int(link[9])) for link in doc["links"]) == pairs, (doc["links"][:2], pairs[:2])
    few = v.ask("links", limit=7, **ask)
    assert few["flows"] == len(want) and len(few["links"]) == 7, few
    assert v.ask("links", limit=1000, **{**ask, "tracks": "all"}) == doc


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


def test_long_sums():
    """Sums that 64 bits do not hold are exact."""
    hour, each = 3599 * 10**12, 2600
    with Cluster() as c:
        c.aggregator()
        space = xspace.message_class("tensorflow/xplane.proto", "tensorflow.profiler.XSpace")()
        plane = traces.Plane(space.planes.add(id=1, name="/host:CPU"))
        for _ in range(3):
            line = plane.line("thread")
            plane.event(line, "outer", 0, hour)  # without time of its own
            for _ in range(each):
                plane.event(line, "wait", 0, hour)
        (c.dir / "a.xplane.pb").write_bytes(space.SerializeToString())
        session = c.tutti("import", c.dir / "a.xplane.pb", "--json", check=0)[1]["sessions"][0]["session"]
        v, whole = View(c, session), {"from_ps": -1, "to_ps": hour + 1}
        assert int(v.ask("event", file=0, track=0, event=7)["of_name"]["total_ps"]) == each * hour > 1 << 63
        for doc in (v.ask("search", text="wait"), v.ask("selection", tracks="0.0,0.1,0.2", **whole), v.ask("durations", file=0, track=1, event=1, **whole)):
            doc = doc["names"][0] if "names" in doc else doc
            assert int(doc["total_ps"]) == 3 * each * hour > 1 << 64, doc
        for group in ("none", "host", "track"):
            doc = v.ask("flame", tracks="all", group=group, **whole)
            assert doc["total_ns"] == 3 * hour // 1000, doc["total_ns"]
            assert [(t["name"], t["self_ns"], t["total_ns"]) for t in doc["top"]] == [("wait", doc["total_ns"], doc["total_ns"]), ("outer", 0, doc["total_ns"])], doc["top"]


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
        check_spread(c, v, session)
        check_links(c, v, session)
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
        c.processes["aggregator"].wait(20)
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


main(test_answers, test_long_sums)
