# SPDX-License-Identifier: Apache-2.0
"""Stock XProf, from the Python package index: opens our directory, and captures through one address."""
import sys

from lib import xspace
from lib.cluster import SLOW, Cluster, SkipTest, is_whole, main
from lib.xprof import XProf

try:
    import xprof  # noqa: F401
except ImportError:
    xprof = None

HOSTS = {"host-a": "0", "host-b": "5s", "host-c": "-3s"}


def start(c, **tracers):
    if not xprof:
        raise SkipTest("xprof is not installed")
    c.aggregator()
    for host, offset in HOSTS.items():
        c.agent(host, f"--test-clock-offset={offset}", "--test-clock-drift-ppm=60", **tracers)  # so events are moved one by one
    c.wait_hosts(len(HOSTS))
    c.burst(*HOSTS)


def test_opens_our_directory():
    """With what all tracers record; a busy machine may cut that of the heavy ones."""
    with Cluster() as c:
        start(c, tracers="all")
        _, doc = c.tutti("capture", "--duration", "2s", "--run", "demo", "--json")
        assert all(map(is_whole, doc["hosts"])), doc
        x = XProf(c.start, c.logdir)
        run = f"demo/{doc['session']}"
        assert run in x.get("runs"), x.get("runs")
        hosts = [h["hostname"] for h in x.get("hosts", run=run, tag="trace_viewer@")]
        assert sorted(hosts) == sorted(HOSTS), hosts
        trace = x.get("data", run=run, tag="trace_viewer@", hosts=",".join(HOSTS), resolution=100000)
        names = {e["pid"]: e["args"]["name"] for e in trace["traceEvents"] if e.get("name") == "process_name"}
        starts = {h: {} for h in HOSTS}
        counts = dict.fromkeys(HOSTS, 0)
        for e in trace["traceEvents"]:
            host = next((h for h in HOSTS if names.get(e.get("pid"), "").startswith(h)), None)
            if host and "ts" in e:
                counts[host] += 1
                if e.get("name", "").startswith("burst "):
                    starts[host][e["name"]] = e["ts"]
        assert all(counts.values()), (counts, names)
        common = set.intersection(*(set(s) for s in starts.values()))
        assert common, starts
        spread_us = max(max(s[b] for s in starts.values()) - min(s[b] for s in starts.values()) for b in common)
        bounds_us = sum(sorted(h["clock_bound_ns"] for h in doc["hosts"])[-2:]) / 1000
        assert spread_us < max(1000, bounds_us), (spread_us, bounds_us)
        print(f"     events by host {counts}; {len(common)} bursts, spread {spread_us:.1f} us")
        for tool, host in (("overview_page", "ALL_HOSTS"), ("framework_op_stats", "ALL_HOSTS"), ("framework_op_stats", "host-a")):
            assert x.get("data", run=run, tag=tool, host=host), tool


def test_opens_further_files():
    """What one file may not hold: each further file is a host for XProf, behind the first."""
    if not xprof:
        raise SkipTest("xprof is not installed")
    with Cluster() as c:
        c.aggregator()
        c.agent("host-a", *c.profilers(*[xspace.synthetic(5_000, 500_000_000_000)] * 2), "--file-limit=100K", tracers="profiler,metrics,marks")
        c.wait_hosts(1)
        _, doc = c.tutti("capture", "--duration", "1s", "--json", check=3)
        assert doc["hosts"][0]["reason"] == "profiler-old", doc
        x = XProf(c.start, c.logdir)
        hosts = [h["hostname"] for h in x.get("hosts", run=doc["session"], tag="trace_viewer@")]
        files = [f.removesuffix(".xplane.pb") for f in doc["hosts"][0]["files"]]
        assert hosts == files and files[:2] == ["host-a", "host-a~2"], (hosts, files)
        trace = x.get("data", run=doc["session"], tag="trace_viewer@", hosts=",".join(hosts), resolution=100000)
        names = {e["pid"]: e["args"]["name"] for e in trace["traceEvents"] if e.get("name") == "process_name"}
        counts = dict.fromkeys(hosts, 0)
        for e in trace["traceEvents"]:
            if e.get("name") == "synthetic":
                counts[names[e["pid"]].split()[0]] += 1
        assert counts["host-a~2"] > 1000 and sum(n > 1000 for n in counts.values()) >= 2, (counts, names)
        for tool in ("overview_page", "framework_op_stats"):
            assert x.get("data", run=doc["session"], tag=tool, host="ALL_HOSTS"), tool


def test_captures_through_one_address():
    with Cluster() as c:
        start(c)
        logdir = c.dir / "xprof-logdir"
        x = XProf(c.start, logdir)
        answer = x.get("capture_profile", service_addr=f"127.0.0.1:{c.grpc}", is_tpu_name="false", duration=1000,
                       num_retry=0, worker_list="", host_tracer_level=2, device_tracer_level=1, python_tracer_level=0,
                       delay=0)
        assert "successfully" in answer.get("result", ""), answer
        files = sorted(p.name for p in logdir.rglob("*.xplane.pb"))
        assert len(files) == 3 and all(f.endswith(f"{h}.xplane.pb") for f, h in zip(files, sorted(HOSTS))), files
        for p in logdir.rglob("*.xplane.pb"):
            assert sum(len(line.events) for plane in xspace.load(p).planes for line in plane.lines) > 0
        run = x.get("runs")[0]
        assert len(x.get("hosts", run=run, tag="trace_viewer@")) == 3
        print(f"     {files}")


def test_snapshots_through_one_address():
    """XProf's own client of continuous profiling: two snapshots of all hosts, the second from the end of the first on."""
    with Cluster() as c:
        start(c)
        logdir = c.dir / "snapshots"
        address = f"127.0.0.1:{c.grpc}"
        script = ("import time; from xprof.api import continuous_profiling_snapshot as s; "
                  f"a, d = {address!r}, {str(logdir)!r}; time.sleep(1); s.start_continuous_profiling(a, {{}}); s.get_snapshot(a, d); "
                  "time.sleep(2); s.get_snapshot(a, d); s.stop_continuous_profiling(a)")
        p = c.start("client", [sys.executable, "-c", script])
        assert p.wait(120 * SLOW) == 0, c.log("client")
        runs = sorted(d.name for d in (logdir / "plugins/profile").iterdir())
        assert len(runs) == 2, (runs, c.log("client"))
        spaces = [{h: xspace.load(logdir / "plugins/profile" / r / f"127.0.0.1_{c.grpc}.{h}.xplane.pb") for h in HOSTS} for r in runs]
        docs = sorted(c.get("/api/v1/sessions")["sessions"], key=lambda s: s["t0_ns"])
        assert len(docs) == 2 and docs[0]["t0_ns"] + docs[0]["duration_ns"] == docs[1]["t0_ns"], docs
        assert docs[0]["duration_ns"] == 30_000_000_000 and 1.9e9 < docs[1]["duration_ns"] < 60e9, docs
        for doc, found in zip(docs, spaces):
            marks = {h: xspace.marks(space) for h, space in found.items()}
            common = set.intersection(*(set(m) for m in marks.values()))
            assert common, marks
            bound_ps = 1000 * max(h["clock_bound_ns"] for h in c.get(f"/api/v1/sessions/{doc['session']}")["hosts"])
            spread_ps = max(max(m[t] for m in marks.values()) - min(m[t] for m in marks.values()) for t in common)
            assert spread_ps <= 2 * bound_ps, (spread_ps, bound_ps, marks)
            print(f"     bursts {spread_ps / 1e6:.1f} us apart, the largest bound is {bound_ps / 1e6:.1f} us")
        for h in HOSTS:
            twice = set(xspace.marks(spaces[0][h])) & set(xspace.marks(spaces[1][h]))
            assert not twice, (h, twice)
        x = XProf(c.start, logdir)
        assert sorted(x.get("runs")) == runs, x.get("runs")
        hosts = [h["hostname"] for h in x.get("hosts", run=runs[1], tag="trace_viewer@")]
        assert len(hosts) == 3, hosts
        trace = x.get("data", run=runs[1], tag="trace_viewer@", hosts=",".join(hosts), resolution=100000)
        names = {e["pid"]: e["args"]["name"] for e in trace["traceEvents"] if e.get("name") == "process_name"}
        seen = {names[e["pid"]].split()[0] for e in trace["traceEvents"] if e.get("name", "").startswith("burst ")}
        assert seen == set(hosts), (seen, names)


def test_jax_collect_profile():
    with Cluster() as c:
        start(c)
        logdir = c.dir / "collected"
        p = c.start("collect", [sys.executable, "-m", "jax.collect_profile", "--host", "127.0.0.1", "--log_dir", logdir,
                                "--no_perfetto_link", c.grpc, 1000])
        assert p.wait(120 * SLOW) == 0, c.log("collect")
        files = sorted(f.name for f in logdir.rglob("*.xplane.pb"))
        assert len(files) == 3, (files, c.log("collect"))
        assert "NET-UNIDENTIFIED" not in c.logs_text()


main(test_opens_our_directory, test_opens_further_files, test_captures_through_one_address, test_snapshots_through_one_address,
     test_jax_collect_profile)
