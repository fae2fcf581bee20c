# SPDX-License-Identifier: Apache-2.0
"""Time namespaces, in which containers see other clocks: programs there, and an agent there."""
import collections
import concurrent.futures
import pathlib
import shutil
import subprocess
import sys
import time

from lib import xspace
from lib.cluster import BIN, SLOW, Cluster, SkipTest, main, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
# In these namespaces the raw clock is ahead by so many seconds. Too few for a refusal of times that are impossible.
JOBS = {"job": None, "job-before": "-5", "job-long-before": "-120"}
AGENTS = {"host-a": None, "host-b": "1000"}
LATE_S = 3  # at most from a text's time to its instant: a program that sends a mark may take long to begin. Shifts are larger.
JOB = """
import sys, time
import tutti
print("begun", flush=True)
while True:
    tutti.instant(f"at {time.time_ns()}")
    sum(range(50000))
    time.sleep(0.01)
"""


def within(ahead_s):
    """A command that runs what follows in a time namespace, in the same process."""
    return ("unshare", "--time", "--monotonic", ahead_s) if ahead_s else ()


def skip_without_namespaces():
    if not shutil.which("unshare") or subprocess.run(["unshare", "--time", "--monotonic", "1", "true"], capture_output=True, timeout=60).returncode:
        raise SkipTest("no time namespaces here")


def start_job(c, name):
    p = c.start(f"burst-{name}", [*within(JOBS[name]), sys.executable, "-c", JOB], env={"PYTHONPATH": str(ROOT / "python")})
    wait_until(name, lambda: c.log(f"burst-{name}"))
    return p


def check_annotations(space, t0_ns, pid, what):
    planes = [p for p in space.planes if xspace.stats(p).get("process_id") == pid]
    assert planes, f"no plane of {what}"
    found = [(t0_ns + at // 1000, int(name.split()[1])) for p in planes for name, at, _, _ in xspace.events(p)
             if name.startswith("at ")]
    assert len(found) > 5, f"{what}: {len(found)} annotations"
    for at_ns, said_ns in found:
        assert abs(at_ns - said_ns) < LATE_S * 1e9, f"{what}: an annotation of {said_ns} is {at_ns - said_ns} ns off"


def check_host(c, session, host, jobs):
    doc = c.get(f"/api/v1/sessions/{session}")
    space = xspace.load(c.logdir / "plugins/profile" / session / f"{host}.xplane.pb")
    lines = collections.Counter(line.id for p in space.planes if p.name.startswith("/host:CPU") for line in p.lines if line.events)
    for name, p in jobs.items():
        check_annotations(space, doc["t0_ns"], p.pid, f"{name} on {host}")
        assert lines[p.pid] >= 2, f"{host} has samples and switches of {name} on {lines[p.pid]} lines"
    (text, at_ps), = xspace.marks(space).items()
    off_ns = doc["t0_ns"] + at_ps // 1000 - int(text.split()[1])
    assert abs(off_ns) < LATE_S * 1e9, f"{host}: a mark is {off_ns} ns off"


def test_time_namespaces():
    """Wherever programs and the agent are, annotations, samples, switches and marks have the times of their instants."""
    skip_without_namespaces()
    with Cluster() as c, concurrent.futures.ThreadPoolExecutor(1) as pool:
        c.aggregator()
        for host, ahead in AGENTS.items():
            c.agent(host, "--annotations-look", "200ms", tracers="cpu,sched,annotations,marks", prefix=within(ahead))
        c.wait_hosts(len(AGENTS))
        jobs = {name: start_job(c, name) for name in JOBS}
        time.sleep(2)
        capture = pool.submit(c.tutti, "capture", "--duration", "10s", "--json", check=0)
        time.sleep(4)  # well within the window
        for host in AGENTS:
            subprocess.run([*within("-7"), BIN / "tutti", "mark", f"mark {time.time_ns()}", "--local-socket", c.sockets[host]],
                           check=True, stdout=subprocess.DEVNULL, timeout=60)
        _, doc = capture.result(60 * SLOW)
        for host in AGENTS:
            check_host(c, doc["session"], host, jobs)


main(test_time_namespaces)
