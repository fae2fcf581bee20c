# SPDX-License-Identifier: Apache-2.0
"""tests/frameworks.sh: frameworks.py DIRECTORY [NAME...]; DIRECTORY has the Python environments. One session of each
framework, checked in each viewer; a check that fails is a row of the table, and the exit status is 1."""
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

from lib import xspace
from lib.cluster import BIN, SLOW, Cluster, wait_until
from lib.framework_jobs import (POLL_S, Table, annotated, capture, check_begin, check_jax_times, check_operators, check_steps, check_times,
                                logged, start_job, step_to_come, wait_known)
from lib.leftovers import temp_dir
from lib.netns import isolate, own_processes
from lib.waits import join
from lib.xprof import XProf

HERE = pathlib.Path(__file__).parent
ENVIRONMENTS = pathlib.Path(sys.argv[1])
JAX_CHECKS = ("events", "steps", "hlo")
FRAMEWORKS = {  # name: (Python, job, what its session must show)
    "jax 0.4.38": (ENVIRONMENTS / "jax-old/bin/python", "jax_job.py", JAX_CHECKS),
    "jax current": (sys.executable, "jax_job.py", JAX_CHECKS),
    "tensorflow 2.21.0": (ENVIRONMENTS / "tensorflow/bin/python", "tf_job.py", ("events", "steps")),
}
PYTORCH = {"pytorch 2.3.1": ENVIRONMENTS / "torch-old/bin/python", "pytorch 2.15.0": ENVIRONMENTS / "torch-new/bin/python"}
LARGE_EVENTS = 3_000_000
VIEWERS = {"xprof": None, "xprof-rs": [ENVIRONMENTS / "viewer/bin/xprof-rs"]}


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
            return "; ".join(check_viewer(x, run, wanted) for run in x.get("runs"))
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
        c.agent("host-a", f"--profiler=127.0.0.1:{start_job(c, python, job)}", tracers="all")
        c.wait_hosts(1)
        *_, file = capture(c)
        space = xspace.load(file)
        table.check(name, "events in the file", lambda: check_events(space))
        table.check(name, "dense ids of metadata", lambda: check_dense(space))
        check_viewers(c, table, name, c.logdir, wanted, "session")
        if job == "tf_job.py":
            table.check(name, "its client, through the aggregator", lambda: check_client(c, table, name, python))
        if python == sys.executable:
            table.check(name, "XProf's snapshots", lambda: check_snapshots(c, table, name))
        c.kill("job")


# ---- PyTorch ----

def start_torch(c, name):
    version = start_job(c, PYTORCH[name], "torch_job.py", "--log", c.dir / "torch.steps", name="torch",
                        env={"KINETO_USE_DAEMON": "1"})
    assert version.startswith(name.split()[1]), version
    return c.processes["torch"]


def wait_clean(p):
    wait_until("its files to go", lambda: not list(pathlib.Path("/tmp").glob(f"tutti_*_{p.pid}.json*")))


def check_pytorch(table, name):
    with Cluster() as c:
        c.aggregator()
        c.agent("host-a", tracers="all")
        c.wait_hosts(1)
        p = start_torch(c, name)
        wait_known(c, p, 60)
        for which in ("first", "second"):
            doc, _, file = capture(c)
            space, truth = xspace.load(file), logged(c, "torch")
            found = annotated(space, p.pid)
            table.check(name, f"{which} capture: times", lambda a=(doc, truth, found): check_times(*a))
            table.check(name, f"{which} capture: begin", lambda a=(doc, truth, found): check_begin(*a))
            table.check(name, f"{which} capture: operators", lambda s=space: check_operators(s))
            if which == "first":
                c.kill("host-a")
                (c.dir / "host-a.log").unlink()
                c.agent("host-a", tracers="all")
                table.check(name, "known to the next agent", lambda: f"{wait_known(c, p, 2 * POLL_S):.1f} s after its start")
                c.wait_hosts(1)
        table.check(name, "the next five steps", lambda: check_steps(c, p, "next"))
        table.check(name, "five numbered steps", lambda: check_steps(c, p, step_to_come(c, 4 * POLL_S)))
        table.check(name, "no file left in /tmp", lambda: wait_clean(p))
        check_viewers(c, table, name, c.logdir, ("events",), "session")


# ---- PyTorch under `tutti inspect` ----

def inspect(name, end, *flags):
    """(exit status, session, its file, the job's log and pid), of a job that trains for 8 s."""
    folder = temp_dir("tutti-frameworks")
    log, out = folder / "steps", folder / "out"
    p = subprocess.run([BIN.resolve() / "tutti", "inspect", "--json", *flags, "-o", out, "--", "sh", "-c", 'echo $$; exec "$@"', "sh",
                        PYTORCH[name], HERE / "torch_job.py", "--port-file", folder / "version", "--seconds", "8", "--log", log,
                        "--end", end], capture_output=True, text=True, timeout=300 * SLOW,
                       env={**os.environ, "PYTHONPATH": str(HERE.parents[1] / "python")})
    pid, _, text = p.stdout.partition("{\n")
    assert text, p.stderr
    doc = json.loads("{\n" + text)
    files = list(out.rglob("*.xplane.pb"))
    assert len(files) == 1, f"{files}: {doc} {p.stderr[-500:]}"
    space = xspace.load(files[0])
    rows = [line.split() for line in log.read_text().splitlines()]
    shutil.rmtree(folder)
    steps = {int(r[0]): (int(r[1]), int(r[2])) for r in rows if len(r) == 3}
    return p.returncode, doc, space, steps, int(pid), int(rows[-1][1])


def check_own_tracers(doc, space, pid, end_ns):
    """What this host's own tracers have of a program that was killed: to its last record."""
    last = {}
    for p in space.planes:
        is_own = xspace.stats(p).get("process_id") == pid
        for line in p.lines:
            if is_own or (p.name == "/host:CPU samples" and line.id == pid):
                ends = [doc["t0_ns"] + line.timestamp_ns + (ev.offset_ps + ev.duration_ps) / 1000 for ev in line.events]
                last[p.name] = max([last.get(p.name, 0), *ends])
        if is_own:
            names = [name for name, *_ in xspace.events(p)]
            last["the end"] = last.get("the end", 0) + names.count("the end")
    assert last.pop("the end"), last
    before = {name: (end_ns - at) / 1e6 for name, at in last.items()}
    assert len([ms for ms in before.values() if ms < 300 * SLOW]) >= 3, before
    return ", ".join(f"{name} {ms:.0f} ms before" for name, ms in before.items())


def check_inspect(table, name):
    code, doc, space, steps, pid, _ = inspect(name, "exit", "--set", "pytorch.open_s=300")  # a busy machine imports for long
    (h,) = doc["hosts"]
    found = annotated(space, pid)
    ends = [n for p in space.planes for n, *_ in xspace.events(p) if n == "the end"]

    def check_all():
        missing = sorted(set(steps) - set(found))
        assert not missing, f"{len(missing)} of {len(steps)} steps are missing: {missing[:3]} to {missing[-3:]}"
        return f"all {len(steps)} steps"

    def check_end():
        assert (code, len(ends)) == (7, 2), (code, ends)
        assert (h["state"], h["reason"]) == ("complete", ""), h
        return "exit status 7, complete, both last annotations"
    table.check(name, "inspect: every step", check_all)
    table.check(name, "inspect: times", lambda: check_times(doc, steps, found))
    table.check(name, "inspect: operators", lambda: check_operators(space))
    table.check(name, "inspect: its end", check_end)
    code, doc, space, _, pid, end_ns = inspect(name, "killed")
    (h,) = doc["hosts"]

    def check_killed():
        assert code == 128 + 9 and h["state"] != "complete", (code, h)
        assert "the process ended while it recorded" in h["detail"] and " of the " in h["detail"], h
        return h["detail"][:100]
    table.check(name, "inspect: killed", check_killed)
    table.check(name, "inspect: own tracers to the end", lambda: check_own_tracers(doc, space, pid, end_ns))


# ---- one session ----

def mark_until(stop, c, marks):
    while not stop.wait(0.2):
        text, begin_ns = f"mark {len(marks)}", time.time_ns()
        subprocess.run([BIN / "tutti", "mark", "--local-socket", c.sockets["host-a"], text], check=True, timeout=60)
        marks[text] = begin_ns, time.time_ns()


def check_marks(doc, space, marks):
    found = {text: doc["t0_ns"] + at / 1000 for text, at in xspace.marks(space).items()}
    assert len(found) >= 3, found
    for text, at_ns in found.items():
        begin_ns, end_ns = marks[text]
        assert begin_ns - 1e6 < at_ns < end_ns + 1e6, (text, at_ns - begin_ns, end_ns - at_ns)
    return f"{len(found)} between their program's begin and end"


def check_samples(space, pid):
    lines = xspace.plane(space, "/host:CPU samples").lines
    (main,) = [line for line in lines if line.id == pid]
    assert main.events, main.name
    return f"{len(main.events)} in {main.name}"


def check_one_session(table, name):
    """A JAX job, a PyTorch job, marks and CPU samples of one host."""
    with Cluster() as c:
        c.aggregator()
        p = start_torch(c, "pytorch 2.15.0")
        port = start_job(c, sys.executable, "jax_job.py", "--log", c.dir / "jax.steps", name="jax")
        c.agent("host-a", f"--profiler=127.0.0.1:{port}", "--test-clock-offset", "5s", tracers="all")
        c.wait_hosts(1)
        wait_known(c, p, 60)
        stop, marks = threading.Event(), {}
        marker = threading.Thread(target=mark_until, args=(stop, c, marks), daemon=True)
        marker.start()
        try:
            doc, _, file = capture(c)
        finally:
            stop.set()
            join(marker)
        space = xspace.load(file)
        table.check(name, "PyTorch: times", lambda: check_times(doc, logged(c, "torch"), annotated(space, p.pid)))
        table.check(name, "JAX: times", lambda: check_jax_times(doc, space, logged(c, "jax")))
        table.check(name, "marks: times", lambda: check_marks(doc, space, marks))
        table.check(name, "CPU samples of the PyTorch job", lambda: check_samples(space, p.pid))
        check_viewers(c, table, name, c.logdir, ("events", "steps"), "session")


def check_large():
    """Millions of Python events, with the default grace: the framework needs long to hand them over. On a busy machine the job makes
    fewer calls a second, so the window is as long as they need."""
    with Cluster() as c:
        c.aggregator()
        c.agent("host-a", f"--profiler=127.0.0.1:{start_job(c, sys.executable, 'jax_job.py', '--calls', '10000')}", tracers="all")
        c.wait_hosts(1)
        seconds = 4
        for _ in range(3):
            begin = time.monotonic()
            _, h, _ = capture(c, "--set", "python_tracer_level=1", seconds=seconds)
            took = time.monotonic() - begin
            if h["events"] > LARGE_EVENTS:
                break
            seconds = min(60, math.ceil(1.5 * seconds * LARGE_EVENTS / h["events"]))
        c.kill("job")
        assert h["events"] > LARGE_EVENTS, h["events"]
        return f"{h['events']} events, {h['bytes'] / 1e6:.0f} MB, complete after {took:.0f} s"


def main():
    isolate()
    table = Table()
    rows = [(name, "captured", lambda row=row, name=name: check_framework(table, name, *row)) for name, row in FRAMEWORKS.items()]
    rows.append(("jax current", "a large profile", check_large))
    rows += [(f"inspect {name}", "to the end", lambda name=name: check_inspect(table, name)) for name in PYTORCH]
    rows += [(name, "captured twice", lambda name=name: check_pytorch(table, name)) for name in PYTORCH]
    rows.append(("one session", "JAX, PyTorch, the host", lambda: check_one_session(table, "one session")))
    for name, what, fn in rows:
        if not sys.argv[2:] or any(wanted in name for wanted in sys.argv[2:]):
            table.check(name, what, fn)
    sys.exit(1 if table.failed else 0)


own_processes()  # steps of other programs here would count
main()
