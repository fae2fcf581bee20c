# SPDX-License-Identifier: Apache-2.0
"""Two real JAX jobs through two agents by one capture: their own events, on one clock, beside ours."""
import pathlib
import time

from lib import xspace
from lib.cluster import Cluster, SkipTest, free_port, main, wait_until
import sys

try:
    import jax  # noqa: F401
except ImportError:
    JAX = False
else:
    JAX = True

JOB = pathlib.Path(__file__).with_name("jax_job.py")
HOSTS = {"host-a": "5s", "host-b": "-3s"}


def start(c):
    if not JAX:
        raise SkipTest("jax is not installed")
    c.aggregator()
    for host, offset in HOSTS.items():
        port_file = c.dir / f"{host}.port"
        c.start(f"jax-{host}", [sys.executable, JOB, "--port", free_port(), "--port-file", port_file, "--seconds", "600"])
    for host, offset in HOSTS.items():
        port_file = c.dir / f"{host}.port"
        wait_until("the JAX job", port_file.exists, 120)
        c.agent(host, f"--test-clock-offset={offset}", f"--profiler=127.0.0.1:{port_file.read_text().strip()}",
                f"--watch={c.dir}/traces-{host}", tracers="profiler,watch,cpu,metrics,marks")
    c.wait_hosts(2)
    c.start("jax-own", [sys.executable, JOB, "--seconds", "1", "--trace", c.dir / "traces-host-b"])


def capture(c, *flags):
    _, doc = c.tutti("capture", "--duration", "1500ms", "--json", *flags, check=0)
    where = c.logdir / "plugins/profile" / doc["session"]
    return doc, {h["host"]: xspace.load(where / h["file"]) for h in doc["hosts"]}


def is_jax(name):
    return "PjitFunction" in name or "ExecuteHelper" in name or "TfrtCpuExecutable" in name or name.startswith("jit_")


def check_one_clock(c):
    c.burst(*HOSTS)
    doc, spaces = capture(c)
    for host, space in spaces.items():
        cpu = xspace.plane(space, "/host:CPU")
        jax_events = [e for e in xspace.events(cpu) if is_jax(e[0])]
        assert jax_events, f"{host}: no JAX events among {sorted({e[0] for e in xspace.events(cpu)})[:60]}"
        first = min(e[1] for e in jax_events) / 1e9
        last = max(e[1] + e[2] for e in jax_events) / 1e9
        assert 0 <= first < 500 and 1000 < last <= 1500, f"{host}: JAX from {first} to {last} ms"
        names = [p.name for p in space.planes]
        assert "/host:CPU samples" in names and "/host:CPU metrics" in names, names
        print(f"     {host}: {len(jax_events)} XLA events from {first:.1f} to {last:.1f} ms")
    marks = {h: xspace.marks(s) for h, s in spaces.items()}
    common = set(marks["host-a"]) & set(marks["host-b"])
    assert common and all(abs(marks["host-a"][m] - marks["host-b"][m]) < 1e9 for m in common), marks
    # JAX stamps with the wall clock, our sampler with the raw clock: the sampler sees the job's own
    # threads busy while JAX says so.
    for host, space in spaces.items():
        samples = xspace.plane(space, "/host:CPU samples")
        assert any("python" in line.name for line in samples.lines), [line.name for line in samples.lines]


def check_options_arrive(c):
    _, plain = capture(c, "--set", "python_tracer_level=0")
    _, python = capture(c, "--set", "python_tracer_level=1", "--set", "host_tracer_level=1", "--set",
                        "advanced.tracemark_lower=7")
    for host in HOSTS:
        def python_events(space):
            return sum(1 for p in space.planes for e in xspace.events(p) if e[0].startswith("$"))
        assert python_events(plain[host]) == 0
        assert python_events(python[host]) > 0
        options = xspace.message_class("tensorflow/profiler_options.proto", "tensorflow.ProfileOptions")()
        env = xspace.stats(xspace.plane(python[host], "Task Environment"))
        options.ParseFromString(env["profile_options"])
        assert options.python_tracer_level == 1 and options.host_tracer_level == 1
        assert options.advanced_configuration["tracemark_lower"].int64_value == 7


def check_snapshots(c):
    """A job that always records gives its last seconds, again and again, and captures go on; a server that cannot is named."""
    port = (c.dir / "host-a.port").read_text().strip()
    c.agent("host-d", "--continuous", f"--profiler=127.0.0.1:{port}", *c.profilers(xspace.synthetic(10, 1_000_000_000)), tracers="profiler,metrics")
    c.wait_hosts(3)

    def snapshot(last):
        _, doc = c.tutti("snapshot", "--hosts", "host-d", "--last", last, "--json")
        host = doc["hosts"][0]
        space = xspace.load(c.logdir / "plugins/profile" / doc["session"] / host["file"])
        (profiler,) = [t for t in host["tracers"] if t["name"] == "profiler"]
        return profiler, [e for p in space.planes for e in xspace.events(p) if is_jax(e[0])]

    wait_until("the job to record", lambda: snapshot("1s")[1], 60)
    time.sleep(2.5)
    profiler, events = snapshot("1500ms")
    first, last = min(e[1] for e in events) / 1e9, max(e[1] + e[2] for e in events) / 1e9
    assert profiler["state"] == "ok" and 0 <= first < 500 and 1000 < last <= 1500, (profiler, first, last)
    assert profiler["detail"].count("lacks continuous profiling") == 1, profiler
    _, doc = c.tutti("capture", "--hosts", "host-d", "--duration", "500ms", "--json")
    (profiler,) = [t for t in doc["hosts"][0]["tracers"] if t["name"] == "profiler"]
    assert profiler["reason"] != "profiler-busy", profiler
    wait_until("the job to record again", lambda: snapshot("1s")[1], 60)
    c.processes["host-d"].terminate()
    c.processes["host-d"].wait(20)
    c.tutti("capture", "--hosts", "host-a", "--duration", "1500ms", "--json", check=0)


def check_watched(c):
    """A job that traced itself while others were captured: a session of its time, JAX's planes and the host's."""
    runs = c.dir / "traces-host-b/plugins/profile"

    def found():
        for s in c.get("/api/v1/sessions")["sessions"]:
            if s["run"] and (runs / s["run"]).is_dir():
                status, doc = c.call("GET", f"/api/v1/sessions/{s['session']}")  # listed before its manifest is there
                return doc if status == 200 else None
    doc = wait_until("the session of its own trace", found, 60)
    assert doc["origin"] == "watch host-b" and doc["failed"] == 0, doc
    [host] = doc["hosts"]
    space = xspace.load(pathlib.Path(doc["path"]) / host["file"])
    events = [e for e in xspace.events(xspace.plane(space, "/host:CPU")) if is_jax(e[0])]
    first, last = min(e[1] for e in events) / 1e9, max(e[1] + e[2] for e in events) / 1e9
    assert 0 <= first < 500 and 900 < last <= doc["duration_ns"] / 1e6, (first, last, doc["duration_ns"])
    assert "/host:CPU metrics" in [p.name for p in space.planes], [p.name for p in space.planes]


def check_jobs_are_listed(c):
    """By an agent that discovers them, on the same machine."""
    c.agent("host-c", discover=True, tracers="profiler")
    c.wait_hosts(3)

    def found():
        return [j for j in c.hosts()["host-c"]["jobs"] if j["state"] == "ready"]
    wait_until("both jobs to be found", lambda: len(found()) == 2, 30)
    jobs = [c.processes[f"jax-{host}"] for host in HOSTS]
    assert sorted(j["pid"] for j in found()) == sorted(j.pid for j in jobs), found()
    for j in found():
        assert j["command"] == f"{pathlib.Path(sys.executable).name} jax_job.py" and j["framework"] == "jax", j
        assert j["address"] == f"127.0.0.1:{j['port']}", j
    assert [j["state"] for j in c.hosts()["host-a"]["jobs"]] == ["configured"], c.hosts()["host-a"]["jobs"]
    _, text = c.tutti("hosts", "-o", "wide", check=0)
    assert text.count("jax_job.py") >= 2 and "--seconds" not in text, text
    c.kill("jax-host-a")
    wait_until("one job to be gone", lambda: len(found()) == 1, 30)


def test_two_jobs():
    with Cluster() as c:
        start(c)
        check_one_clock(c)
        check_options_arrive(c)
        check_snapshots(c)
        check_watched(c)
        check_jobs_are_listed(c)


main(test_two_jobs)
