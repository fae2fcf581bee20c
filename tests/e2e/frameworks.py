# SPDX-License-Identifier: Apache-2.0
"""tests/frameworks.sh: frameworks.py DIRECTORY, which has the Python environments. One session of each framework, checked
in each viewer; a check that fails is a row of the table, and the exit status is 1."""
import pathlib
import subprocess
import sys
import time

from lib import xspace
from lib.cluster import SLOW, Cluster, wait_until
from lib.netns import isolate
from lib.xprof import XProf

HERE = pathlib.Path(__file__).parent
ENVIRONMENTS = pathlib.Path(sys.argv[1])
JAX_CHECKS = ("events", "steps", "hlo")
FRAMEWORKS = {  # name: (Python, job, what its session must show)
    "jax 0.4.38": (ENVIRONMENTS / "jax-old/bin/python", "jax_job.py", JAX_CHECKS),
    "jax current": (sys.executable, "jax_job.py", JAX_CHECKS),
    "tensorflow 2.21.0": (ENVIRONMENTS / "tensorflow/bin/python", "tf_job.py", ("events", "steps")),
}
LARGE_EVENTS = 3_000_000
VIEWERS = {"xprof": None, "xprof-rs": [ENVIRONMENTS / "viewer/bin/xprof-rs"]}


class Table:
    def __init__(self):
        self.rows, self.failed = {}, 0

    def check(self, framework, what, fn):
        try:
            self.rows[framework, what] = fn() or "ok"
        except Exception as e:  # every check of the table is made
            self.rows[framework, what] = f"FAILED: {type(e).__name__}: {str(e)[:200]}"
            self.failed += 1

    def print(self):
        for (framework, what), result in self.rows.items():
            print(f"{framework:20} {what:34} {result}")


def start_job(c, python, job, *flags):
    port_file = c.dir / "port"
    c.start("job", [python, HERE / job, "--port-file", port_file, "--seconds", "600", *flags])
    wait_until("the job", port_file.exists, 180)
    return port_file.read_text().strip()


def capture(c, *flags):
    _, doc = c.tutti("capture", "--duration", "2s", "--json", *flags, check=0, timeout=600)
    (h,) = doc["hosts"]
    assert (h["state"], h["reason"]) == ("complete", ""), (h["state"], h["reason"], h["detail"])
    return h, c.logdir / "plugins/profile" / doc["session"] / h["file"]


def check_events(space):
    names = [e[0] for e in xspace.events(xspace.plane(space, "/host:CPU"))]
    assert names.count("train") > 10, (len(names), names.count("train"))
    return f"{len(names)} events, {names.count('train')} steps"


def check_dense(space):
    for p in space.planes:
        for ids in (p.stat_metadata, p.event_metadata):
            assert not ids or max(ids) <= 2 * len(ids), (p.name, len(ids), max(ids))


def check_viewer(x, run, wanted):
    (host,) = [h["hostname"] for h in x.get("hosts", run=run, tag="trace_viewer@")]
    trace = x.get("data", run=run, tag="trace_viewer@", hosts=host, resolution=100000)
    found = {
        "events": sum(e.get("ph") == "X" for e in trace["traceEvents"]),
        "steps": len(x.steps(run, host)),
        "hlo": sum(m.startswith("jit_train_step") for m in x.modules(run, host)),
    }
    for tool in ("framework_op_stats", "input_pipeline_analyzer"):
        assert x.get("data", run=run, tag=tool, host=host), tool
    missing = [w for w in wanted if not found[w]]
    assert not missing, f"without {missing}: {found}"
    return ", ".join(f"{n} {w}" for w, n in found.items() if n)


def check_viewers(c, table, name, logdir, wanted, what):
    for viewer, argv in VIEWERS.items():
        def look(argv=argv):
            x = XProf(c.start, logdir, argv)
            (run,) = x.get("runs")
            return check_viewer(x, run, wanted)
        table.check(name, f"{what} in {viewer}", look)


def check_client(c, table, name, python):
    """TensorFlow's own client, through the aggregator's address."""
    logdir = c.dir / "by-client"
    script = (f"import tensorflow as tf; tf.profiler.experimental.client.trace('grpc://127.0.0.1:{c.grpc}', "
              f"{str(logdir)!r}, 1500)")
    p = subprocess.run([python, "-c", script], capture_output=True, text=True, timeout=180 * SLOW)
    assert p.returncode == 0, p.stderr[-500:]
    (file,) = logdir.rglob("*.xplane.pb")
    check_viewers(c, table, name, logdir, ("events",), "its client's session")
    return check_events(xspace.load(file))


def check_snapshots(c, table, name):
    """XProf's client of continuous profiling, through the aggregator's address."""
    logdir = c.dir / "by-snapshot"
    script = ("from xprof.api import continuous_profiling_snapshot as s; "
              f"a = '127.0.0.1:{c.grpc}'; s.start_continuous_profiling(a, {{}}); s.get_snapshot(a, {str(logdir)!r}); "
              "s.stop_continuous_profiling(a)")
    p = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=180 * SLOW)
    assert p.returncode == 0, p.stderr[-500:]
    (file,) = logdir.rglob("*.xplane.pb")
    check_viewers(c, table, name, logdir, ("events",), "its client's snapshot")
    return f"{sum(1 for p in xspace.load(file).planes for _ in xspace.events(p))} events"


def check_framework(table, name, python, job, wanted):
    with Cluster() as c:
        c.aggregator()
        c.agent("host-a", f"--profiler=127.0.0.1:{start_job(c, python, job)}")
        c.wait_hosts(1)
        _, file = capture(c)
        space = xspace.load(file)
        table.check(name, "events in the file", lambda: check_events(space))
        table.check(name, "dense ids of metadata", lambda: check_dense(space))
        check_viewers(c, table, name, c.logdir, wanted, "session")
        if job == "tf_job.py":
            table.check(name, "its client, through the aggregator", lambda: check_client(c, table, name, python))
        if python == sys.executable:
            table.check(name, "XProf's snapshots", lambda: check_snapshots(c, table, name))
        c.kill("job")


def check_large():
    """Millions of Python events, with the default grace: the framework needs long to hand them over."""
    with Cluster() as c:
        c.aggregator()
        c.agent("host-a", f"--profiler=127.0.0.1:{start_job(c, sys.executable, 'jax_job.py', '--calls', '10000')}")
        c.wait_hosts(1)
        begin = time.monotonic()
        h, _ = capture(c, "--set", "python_tracer_level=1")
        took = time.monotonic() - begin
        c.kill("job")
        assert h["events"] > LARGE_EVENTS, h["events"]
        return f"{h['events']} events, {h['bytes'] / 1e6:.0f} MB, complete after {took:.0f} s"


def main():
    isolate()
    table = Table()
    for name, row in FRAMEWORKS.items():
        table.check(name, "captured", lambda row=row, name=name: check_framework(table, name, *row))
    table.check("jax current", "a large profile", check_large)
    table.print()
    sys.exit(1 if table.failed else 0)


main()
