# SPDX-License-Identifier: Apache-2.0
"""Sessions in the formats of other viewers, event for event as the stored files have them."""
import collections
import json
import re

from lib import traces, xspace
from lib.cluster import Cluster, main
from lib.pftrace import Trace
from lib.pprof import Profile

MIDDLE = 200_000_000_000  # ps: well inside of the window
FLOWS = 2  # the two lowest bits of the stat say which end of the flow it is


def odd():
    """What exporters stumble on: overlaps, equal begins, instants, parts of a nanosecond, events in any order, odd names."""
    space = xspace.message_class("tensorflow/xplane.proto", "tensorflow.profiler.XSpace")()
    host = traces.Plane(space.planes.add(id=1, name="/host:CPU"))
    line = host.line('quote " \\ <b>\u202e and more')
    for start, length in ((10_500, 20_700), (10_500, 5_000), (15_400, 300), (15_500, 15_700), (20_000, 90_000), (31_200, 0), (31_200, 1),
                          (0, 200_000), (0, 200_000), (199_999, 1), (150_000, 100_000), (1_000, 1_000), (2_000, 0), (3_000, -5_000)):
        host.event(line, f"e {start} {length}", MIDDLE + start, length, n=start)
    for i in range(40):  # each overlaps the next
        host.event(host.line("async") if i == 0 else host.plane.lines[-1], "wave", MIDDLE + 300_000 + i * 1_000, 5_500)
    device = traces.Plane(space.planes.add(id=2, name="/device:TPU:0"))
    device.event(device.line("XLA Ops"), "%fusion.3 = f32[8] fusion(...)", MIDDLE + 50_000, 7_000)
    device.plane.event_metadata[1].display_name = "fusion.3"
    add_samples(traces.Plane(space.planes.add(id=3, name="/host:CPU samples")))
    return space.SerializeToString()


def add_samples(plane):
    """Stacks as the sampler writes them: recursion, equal names of two files, the same stack again, a thread that did nothing."""
    main_line, other = plane.line("python3/4711"), plane.line("a/b/4712")
    plane.event(plane.line("not sampled"), "main", MIDDLE, 5_000_000)
    calls = ((0, 90, "main"), (0, 60, "f (a.py)"), (10, 40, "f (a.py)"), (20, 10, "[kernel]"), (60, 30, "f (a.py)"), (90, 0, "main"), (100, 50, "main"),
             (100, 50, "f (a.py)"))
    for start, length, name in calls:
        plane.event(main_line, name, MIDDLE + start * 1_000_000 + 1, length * 1_000_000)
        if name.startswith("f"):
            ev = main_line.events[-1]
            ev.stats.add(metadata_id=plane.id(plane.plane.stat_metadata, "file"), str_value="/one/a.py" if start < 60 else "/two/a.py")
            ev.stats.add(metadata_id=plane.id(plane.plane.stat_metadata, "first_line"), uint64_value=start // 60)
    plane.event(other, "main", MIDDLE, 40_500_000)


def capture(c):
    c.aggregator()
    files = [c.dir / "job.pb", c.dir / "odd.pb"]
    files[0].write_bytes(traces.job(steps=8))
    files[1].write_bytes(odd())
    for i, flag in enumerate(c.profilers_of(*files, mode="good")):
        c.agent(f"host-{i}", flag, tracers="profiler,metrics")
    c.wait_hosts(2)
    doc = c.tutti("capture", "--duration", "500ms", "--tracer", "profiler", "--tracer", "metrics", "--json")[1]
    assert doc["failed"] == 0, doc["hosts"]
    return doc


def stored(c, doc):
    """({(host, plane, line): [(name, start_ns, end_ns, stats)]}, {(host, plane, counter): [(ns, value)]}) of all files, by protobuf. What turns
    the direction of text is a space in an export."""
    slices, counters = collections.defaultdict(list), collections.defaultdict(list)
    for h in doc["hosts"]:
        for file in h["files"]:
            for p in xspace.load(c.logdir / "plugins/profile" / doc["session"] / file).planes:
                for line in p.lines:
                    for ev in line.events:
                        start = line.timestamp_ns * 1000 + ev.offset_ps
                        found = xspace.stats(p, ev)
                        name = p.event_metadata[ev.metadata_id].display_name or p.event_metadata[ev.metadata_id].name
                        if line.name == "_counters_":
                            counters[h["host"], p.name, name].append((start // 1000, float(next(iter(found.values())))))
                        else:
                            slices[h["host"], p.name, (line.display_name or line.name).replace("\u202e", " ")].append(
                                (name, start // 1000, (start + max(ev.duration_ps, 0)) // 1000, found))
    return slices, counters


def base_name(lane):
    """The line of a track: further ones have their number behind the name."""
    return lane[:lane.rindex(" (")] if lane.endswith(")") and lane.rsplit("(", 1)[1][:-1].isdigit() else lane


def check_nested(slices):
    """On each track slices are nested or follow each other, as Perfetto demands."""
    by_track = collections.defaultdict(list)
    for track, start, end in slices:
        by_track[track].append((start, -end))
    for track, spans in by_track.items():
        stack = []
        for start, end in sorted(spans):
            while stack and stack[-1] <= start:
                stack.pop()
            assert not stack or -end <= stack[-1], (track, start, -end, stack[-1])
            stack.append(-end)


def key(name, start, end, stats):
    return name, start, end, json.dumps({k: v for k, v in sorted(stats.items()) if not isinstance(v, bytes)})


def check_pftrace(c, doc, slices, counters):
    told = c.tutti("export", doc["session"], "--format", "pftrace", "-o", c.dir / "out", "--json", check=0)[1]
    trace = Trace((c.dir / f"out/{doc['session']}.pftrace").read_bytes())
    t0 = doc["t0_ns"]
    got, n_flows = collections.defaultdict(collections.Counter), 0
    for path, name, start, end, args, flows in trace.slices:
        host, plane, lane = path
        n_flows += len(flows)
        got[host.split(" ")[0], plane, base_name(lane)][key(name, start - t0, end - t0, {**args, **({"flow": flows[0]} if flows else {})})] += 1
    want = {k: collections.Counter(key(n, s, e, {**st, **({"flow": st["flow"] >> FLOWS} if "flow" in st else {})}) for n, s, e, st in events)
            for k, events in slices.items()}
    assert got.keys() == want.keys(), (got.keys() ^ want.keys())
    for k, events in want.items():
        assert got[k] == events, (k, list((got[k] - events).items())[:3], list((events - got[k]).items())[:3])
    check_nested((path, start, end) for path, _, start, end, _, _ in trace.slices)
    found = {(path[0].split(" ")[0], path[1], path[2]): [(ns - t0, v) for ns, v in samples] for path, samples in trace.counters.items()}
    assert found == {k: sorted(v, key=lambda x: x[0]) for k, v in counters.items()}, (found.keys() ^ counters.keys())
    assert n_flows == sum("flow" in st for events in slices.values() for *_, st in events) == told["flow_ends"] > 0
    assert told["slices"] == sum(map(len, slices.values())) and told["samples"] == sum(map(len, counters.values())), told
    assert told["tracks"] == len({s[0] for s in trace.slices}) + len(trace.counters) and told["left_out"] == 0, told
    bound = doc["hosts"][0]["clock_bound_ns"]
    name = f"host-0 (clock within {bound / 1000:.1f} us)"
    assert f"{bound} ns" in trace.descriptions[name], trace.descriptions


def check_json(c, doc, slices, counters):
    told = c.tutti("export", doc["session"], "--format", "json", "-o", c.dir / "out", "--json", check=0)[1]
    events = json.loads((c.dir / f"out/{doc['session']}.trace.json").read_text(), parse_float=lambda text: round(float(text) * 1000) / 1000)["traceEvents"]
    names = {(e["name"], e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M"}
    got, spans = collections.defaultdict(collections.Counter), []
    for e in events:
        if e["ph"] != "X":
            continue
        host, plane = names["process_name", e["pid"], 0].split(" ", 1)
        lane = names["thread_name", e["pid"], e["tid"]]
        start, length = round(e["ts"] * 1000), round(e["dur"] * 1000)
        got[host, plane, base_name(lane)][e["name"], start, start + length] += 1
        spans.append(((e["pid"], e["tid"]), start, start + length))
    want = {k: collections.Counter((n, s, e) for n, s, e, _ in found) for k, found in slices.items()}
    # a JSON text has no marks of direction: they were made spaces, or stay as they are
    assert sum(c.total() for c in got.values()) == sum(c.total() for c in want.values()) == told["slices"]
    for k in want:
        assert got[k] == want[k], (k, list((got[k] - want[k]).items())[:3])
    check_nested(spans)
    assert sum(e["ph"] == "C" for e in events) == sum(map(len, counters.values())) == told["samples"]


def own_times(events):
    """[(stack of names, own ns, ns)] of a line whose events do not overlap."""
    out, stack = [], []
    for name, start, end, _ in sorted(events, key=lambda e: (e[1], -e[2])):
        while stack and stack[-1][1] <= start:
            stack.pop()
        at = [(*(stack[-1][0] if stack else ()), name), end, end - start]
        if stack:
            stack[-1][2] -= end - start
        out.append((at, end - start))
        if end > start:
            stack.append(at)
    return [(at[0], at[2], length) for at, length in out]


def check_pprof(c, doc, slices):
    told = c.tutti("export", doc["session"], "--format", "pprof", "-o", c.dir / "out", "--json", check=0)[1]
    profile = Profile((c.dir / f"out/{doc['session']}.pb.gz").read_bytes())
    want, files = collections.Counter(), collections.defaultdict(set)
    for (host, plane, line), events in slices.items():
        if plane == "/host:CPU samples" and line[-1].isdigit():
            for stack, own, _ in own_times(events):
                want[host, line, stack] += own
            for name, _, _, found in events:
                files[name].add((found.get("file", ""), found.get("first_line", 0)))
    want = {k: v for k, v in want.items() if v}
    assert len(want) == 4, want
    assert profile.stacks == want, (profile.stacks, want)
    assert profile.types == [("cpu", "nanoseconds")] and profile.time_ns == doc["t0_ns"] and profile.duration_ns == doc["duration_ns"]
    assert profile.functions == files and ("/two/a.py", 1) in files["f (a.py)"], profile.functions
    assert told["samples"] == 5 and told["left_out"] == 0, told
    assert told["bytes"] == (c.dir / f"out/{doc['session']}.pb.gz").stat().st_size
    c.tutti("export", doc["session"], "--format", "pprof", "-o", c.dir / "part", "--host", "host-1", "--to", "200020us", check=0)
    part = Profile((c.dir / f"part/{doc['session']}.pb.gz").read_bytes())
    cut = 200_020_000
    want = sum(own for (h, p, line), events in slices.items() if p == "/host:CPU samples" and line[-1].isdigit()
               for _, own, _ in own_times([(n, min(s, cut), min(e, cut), st) for n, s, e, st in events if s < cut]))
    assert sum(part.stacks.values()) == want > 0 and part.duration_ns == cut, (sum(part.stacks.values()), want)


def check_summary(c, doc, slices):
    """The page begins with what `tutti show` prints; its tables against the stored files."""
    page = c.tutti("export", doc["session"], "--format", "summary", "-o", c.dir / "out", check=0)[1]
    assert page == (c.dir / f"out/{doc['session']}.summary.txt").read_text()
    head, *tables = page.split("\n\n")
    assert head.strip() == c.tutti("show", doc["session"], check=0)[1].strip()
    steps = [e[2] - e[1] for (h, _, _), events in slices.items() if h == "host-0" for e in events if "step_num" in e[3]]
    assert [row.split() for row in tables[0].splitlines()[2:]] == [
        [str(len(steps)), *(f"{ns / 1e6:.3f}" for ns in (sum(steps) / len(steps), min(steps), max(steps))), "host-0"]], tables[0]
    rows = {}
    for table in tables[1:]:
        title, _, *lines = table.splitlines()
        for line in lines:
            if line.endswith("  other names"):
                continue
            own, _, whole, longest, events, name = re.fullmatch(r" +([\d.]+) +([\d.]+)% +([\d.]+) +([\d.]+) +(\d+)  (.*)", line).groups()
            rows[title.split(": names")[0], name] = float(own), float(whole), float(longest), int(events)
    want = collections.defaultdict(lambda: [0, 0, 0, 0])
    for (_, plane, _), events in slices.items():
        kind = re.sub(r"^(/device:.*):\d+$|^(.*) \[\d+\]$", lambda m: m[1] or m[2], plane)
        for stack, own, length in own_times([e for e in events if "step_num" not in e[3]]):
            w = want[kind, stack[-1]]
            w[:] = w[0] + own, w[1] + length, max(w[2], length), w[3] + 1
    for kind in ("/device:GPU", "/device:TPU", "/host:CPU samples"):
        expected = {k: v for k, v in want.items() if k[0] == kind}
        assert 0 < len(expected) <= 15 and expected.keys() == {k for k in rows if k[0] == kind}, (kind, expected.keys(), rows.keys())
        for k, (own, whole, longest, events) in expected.items():
            assert rows[k] == (float(f"{own / 1e6:.3f}"), float(f"{whole / 1e6:.3f}"), float(f"{longest / 1e6:.3f}"), events), (k, rows[k], want[k])
        own = [rows[k][0] for k in rows if k[0] == kind]
        assert own == sorted(own, reverse=True), own
    told = c.tutti("export", doc["session"], "--format", "summary", "-o", c.dir / "out", "--json", check=0)[1]
    assert told["slices"] == sum(map(len, slices.values())) and told["bytes"] == len(page.encode()), told


def check_merged(c, doc):
    """Every line of every host, byte for byte, under names that say the host."""
    told = c.tutti("export", doc["session"], "--format", "xspace", "--merge", "-o", c.dir / "out", "--json", check=0)[1]
    space = xspace.load(c.dir / f"out/{doc['session']}.xplane.pb")
    got = {p.name: p for p in space.planes}
    assert len(got) == len(space.planes) and {"/host:CPU", "Task Environment"} <= got.keys(), sorted(got)
    texts, n_lines = [], 0
    for h in doc["hosts"]:
        (file,) = h["files"]
        stored_space = xspace.load(c.logdir / "plugins/profile" / doc["session"] / file)
        for p in stored_space.planes:
            name = f"{p.name} [{h['host']}]"
            other = got.pop(name if name in got else p.name)
            assert [x.SerializeToString(deterministic=True) for x in other.lines] == [x.SerializeToString(deterministic=True) for x in p.lines], name
            assert other.event_metadata == p.event_metadata and other.stat_metadata == p.stat_metadata and list(other.stats) == list(p.stats), name
            n_lines += len(p.lines)
        texts += [f"{h['host']}: {text}" for text in stored_space.warnings]
    assert not got, sorted(got)
    assert sorted(space.hostnames) == sorted(h["host"] for h in doc["hosts"]) and list(space.warnings) == texts
    devices = [p.id for p in space.planes if p.name.startswith("/device:")]
    assert len(devices) == len(set(devices)) == 2 and told["tracks"] == n_lines, (devices, told)
    for flags in (("--format", "json", "--merge"), ("--merge", "--from", "1s"), ("--merge", "--refined"), ("--format", "merged")):
        assert "error" in c.tutti("export", doc["session"], *flags, "--json", check=2)[1]


def check_filters(c, doc, slices):
    def export(*flags):
        c.tutti("export", doc["session"], "--format", "pftrace", "-o", c.dir / "part", *flags, check=0)
        return Trace((c.dir / f"part/{doc['session']}.pftrace").read_bytes())

    one = export("--host", "host-0", "--ignore-system", "--from", "100ms", "--to", "150ms")
    want = [e for (h, p, _), events in slices.items() if h == "host-0" and p.startswith("/device:") for e in events
            if e[1] < 150_000_000 and e[2] >= 100_000_000]
    assert sorted(s[1] for s in one.slices) == sorted(e[0] for e in want) and want
    long = export("--track", "*/python3", "--min-duration", "1ms", "--ignore-device")
    want = [e for (_, _, line), events in slices.items() if line == "python3" for e in events if e[2] - e[1] >= 1_000_000]
    assert len(long.slices) == len(want) > 0 and not long.counters
    grouped = export("--primary-group", "instance_id,device", "--secondary-group", "thread_id", "--host", "host-0")
    assert {("host-0, /device:GPU:0", "Stream #7 (Compute)"), ("host-0, host", "python3")} <= {s[0] for s in grouped.slices}, {s[0] for s in grouped.slices}
    for flags in (("--format", "xml"), ("--format", "json", "--primary-group", "host"), ("--from", "1s"),
                  ("--format", "pftrace", "--secondary-group", "color"), ("--format", "pftrace", "--from", "2s", "--to", "1s")):
        assert "error" in c.tutti("export", doc["session"], *flags, "--json", check=2)[1]


def test_traces():
    with Cluster() as c:
        doc = capture(c)
        slices, counters = stored(c, doc)
        assert counters and len(slices) >= 6, slices.keys()
        check_pftrace(c, doc, slices, counters)
        check_json(c, doc, slices, counters)
        check_pprof(c, doc, slices)
        check_summary(c, doc, slices)
        check_merged(c, doc)
        check_filters(c, doc, slices)


if __name__ == "__main__":
    main(test_traces)
