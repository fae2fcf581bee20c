# SPDX-License-Identifier: Apache-2.0
"""kineto_convert against Python's own JSON, decimal by decimal: on recordings of real PyTorch 2.3 to 2.15 and on a made-up
trace of a GPU. Every event is there once, on the right line, at the right nanosecond, with every arg."""
import collections
import decimal
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/e2e"))
from lib import xspace  # noqa: E402

DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}
GPU = """{"schemaVersion": 1, "traceEvents": [
 {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":10,"tid":11,"ts":5000.001,"dur":3.5,"args":{"correlation":77}},
 {"ph":"s","id":77,"pid":10,"tid":11,"ts":5000.001,"cat":"ac2g","name":"ac2g"},
 {"name":"k<1>","ts":5010,"dur":2,"ph":"X","tid":7,"pid":0,"args":{"grid":[8, 1, 1],"block":[128, 2, 1],"registers per thread":32,
   "shared memory":48,"est. achieved occupancy %":31.5,"correlation":77,"stream":7,"queued":null},"cat":"kernel"},
 {"ph":"f","id":77,"pid":0,"tid":7,"ts":5010,"cat":"ac2g","name":"ac2g","bp":"e"},
 {"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD","pid":1,"tid":20,"ts":5011,"dur":1,"args":{"bytes":4096,"quoted \\"key\\"":true}},
 {"ph":"X","cat":"gpu_user_annotation","name":"step \\u00e9\\ud83d\\ude00","pid":0,"tid":7,"ts":5009,"dur":9,"args":{}},
 {"ph":"X","cat":"user_annotation","name":"ProfilerStep#12","pid":10,"tid":11,"ts":4999,"dur":30},
 {"ph":"X","cat":"Trace","name":"PyTorch Profiler (0)","pid":"Spans","tid":"PyTorch Profiler","ts":1,"dur":9},
 {"ph":"M","name":"thread_name","pid":10,"tid":11,"ts":0,"args":{"name":"main é"}}
],"baseTimeNanoseconds":1790857026000000000,"traceName":"x"}"""


def nanoseconds(microseconds):
    return int(decimal.Decimal(microseconds) * 1000)


def arg(value):
    if isinstance(value, (list, dict)):
        return None  # compared as text only by its presence
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, decimal.Decimal):
        return float(value)
    return value


def clean(key):
    return "correlation_id" if key == "correlation" else "".join(c if " " <= c < "\x7f" and c not in '"\\' else "_" for c in key)


def expected(document):
    base = int(document.get("baseTimeNanoseconds", 0))
    for e in document["traceEvents"]:
        if e["ph"] != "X" or not isinstance(e["pid"], int) or not isinstance(e["tid"], int) or e["cat"] == "Trace":
            continue
        plane = f"/device:GPU:{e['pid']}" if e["cat"] in DEVICE | {"gpu_user_annotation"} else "/host:CPU"
        line = e["tid"] + (1 << 20 if e["cat"] == "gpu_user_annotation" else 0)
        name = "ProfilerStep" if e["name"].startswith("ProfilerStep#") else e["name"]
        args = {clean(k): arg(v) for k, v in e.get("args", {}).items() if v is not None}
        yield (plane, line, name, base + nanoseconds(e["ts"]), nanoseconds(e["dur"])), args


def actual(space, start_ns):
    for plane in space.planes:
        for line in plane.lines:
            before = -1
            for event in line.events:
                assert event.offset_ps >= before and event.offset_ps % 1000 == 0, "sorted, whole nanoseconds"
                before = event.offset_ps
                stats = {}
                for stat in event.stats:
                    kind = stat.WhichOneof("value")
                    value = getattr(stat, kind)
                    if kind == "ref_value":
                        value = plane.stat_metadata[value].name
                    stats[plane.stat_metadata[stat.metadata_id].name] = value
                key = (plane.name, line.id, plane.event_metadata[event.metadata_id].name,
                       start_ns + event.offset_ps // 1000, event.duration_ps // 1000)
                yield key, stats


def check(program, path):
    text = path.read_text()
    document = json.loads(text, parse_float=decimal.Decimal)
    with tempfile.NamedTemporaryFile() as out:
        done = subprocess.run([program, path, out.name], check=True, capture_output=True, text=True, timeout=60)
        space = xspace.load(out.name)
    events, left_out, unfinished, start_ns, end_ns, _, _ = done.stdout.split()
    want, have = list(expected(document)), list(actual(space, int(start_ns)))
    assert int(events) == len(want) == len(have), (events, len(want), len(have))
    assert collections.Counter(k for k, _ in want) == collections.Counter(k for k, _ in have)
    assert int(unfinished) == sum(a.get("finished") == 0 for _, a in want)
    assert int(left_out) == sum(e["ph"] == "X" for e in document["traceEvents"]) - len(want)
    if want:
        assert int(start_ns) == min(k[3] for k, _ in want) and int(end_ns) == max(k[3] + k[4] for k, _ in want)
    wanted, got = collections.Counter(), collections.Counter()
    for key, args in want:
        wanted.update((key, n, v) for n, v in args.items() if v is not None)
    for key, stats in have:
        got.update((key, n, v) for n, v in stats.items())
    assert not wanted - got, list((wanted - got).items())[:3]
    flows = collections.Counter(s["flow"] >> 2 for _, s in have if "flow" in s)
    arrows = {(e["cat"], e["id"]) for e in document["traceEvents"] if e["ph"] == "s"}
    print(f"{path.name}: {len(want)} events, {len(arrows)} arrows, {sum(n == 2 for n in flows.values())} with both ends")
    return dict((k[2], (k, s)) for k, s in have), sum(n == 2 for n in flows.values()), len(arrows)


def main(program):
    recordings = sorted((ROOT / "tests/data/kineto").glob("kineto-*.json"))
    assert len(recordings) >= 7
    for path in recordings:
        by_name, whole, arrows = check(program, path)
        assert whole >= 0.9 * arrows, "arrows have both their ends"
    with tempfile.TemporaryDirectory() as folder:
        gpu = pathlib.Path(folder) / "gpu.json"
        gpu.write_text(GPU)
        by_name, whole, arrows = check(program, gpu)
        assert whole == arrows == 1
        key, stats = by_name["k<1>"]
        assert key[:2] == ("/device:GPU:0", 7)
        assert stats["kernel_details"] == "regs:32 static_shared:48 dynamic_shared:0 grid:8,1,1 block:128,2,1 occ_pct:31.5"
        assert stats["correlation_id"] == by_name["cudaLaunchKernel"][1]["correlation_id"] == 77
        assert by_name["ProfilerStep"][1]["step_num"] == 12
        for cut in range(0, len(GPU), 97):  # an end that is missing is never taken for the end
            gpu.write_text(GPU[:cut])
            done = subprocess.run([program, gpu, "/dev/null"], capture_output=True, text=True, timeout=60)
            assert done.returncode == 1 and "offset" in done.stderr, (cut, done.stderr)


main(sys.argv[1])
