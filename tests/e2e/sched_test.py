# SPDX-License-Identifier: Apache-2.0
"""The scheduler's tracer beside the kernel's own accounts: how long threads ran, and how long they waited for a CPU."""
import bisect
import json
import subprocess
import sys
import time

from lib import xspace
from lib.cluster import SLOW, Cluster, main

WINDOW_S = 2

# Logs (wall ns, CPU ns of the thread, ns in the run queue by the kernel): busy on one CPU, or a fifth of the time.
JOB = """
import json, os, sys, time
busy, until = sys.argv[1] == "busy", time.monotonic() + float(sys.argv[2])
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
log, fd, last = [], os.open("/proc/self/schedstat", os.O_RDONLY), 0
while time.monotonic() < until:
    now = time.time_ns()
    if now - last >= 1_000_000:
        waited = int(os.pread(fd, 99, 0).split()[1])
        log.append((time.time_ns(), time.thread_time_ns(), waited))
        last = now
    if not busy and now % 50_000_000 > 10_000_000:
        time.sleep(0.04)
json.dump(log, sys.stdout)
"""


def between(log, column, t0, t1):
    """Growth of a column from t0 to t1, in seconds, by straight lines between entries."""
    times = [row[0] for row in log]

    def at(t):
        i = min(max(bisect.bisect(times, t), 1), len(log) - 1)
        a, b = log[i - 1], log[i]
        return a[column] + (b[column] - a[column]) * (t - a[0]) / (b[0] - a[0])
    return (at(t1) - at(t0)) / 1e9


def times_of(space, pid):
    """Seconds of "running" and of "runnable"; no two of a thread at the same time."""
    plane = next(p for p in space.planes if p.name == "/host:CPU scheduler")
    names = {key: value.name for key, value in plane.event_metadata.items()}
    line = next(line for line in plane.lines if line.id == pid)
    assert line.name == f"python3/{pid}" or line.name.endswith(f"/{pid}"), line.name
    total, end = {"running": 0, "runnable": 0}, 0
    for e in line.events:
        assert e.offset_ps >= end, (pid, e.offset_ps, end)
        end = e.offset_ps + e.duration_ps
        total[names[e.metadata_id]] += e.duration_ps / 1e12
    return total


def test_beside_kernel():
    """Two busy threads share a CPU with one that sleeps; one snapshot has the same window from the ring."""
    with Cluster() as c:
        c.aggregator()
        c.agent("host-a", "--tracers", "sched")
        c.wait_hosts(1)
        jobs = [subprocess.Popen([sys.executable, "-c", JOB, kind, str(WINDOW_S + 4 * SLOW)], stdout=subprocess.PIPE, text=True)
                for kind in ("busy", "busy", "lazy")]
        time.sleep(1)
        _, doc = c.tutti("capture", "--duration", f"{WINDOW_S}s", "--json", check=0)
        logs = [json.loads(j.communicate()[0]) for j in jobs]
        path = c.logdir / "plugins" / "profile" / doc["session"] / doc["hosts"][0]["file"]
        space = xspace.load(path)
        t0, t1 = doc["t0_ns"], doc["t0_ns"] + doc["duration_ns"]
        for job, log in zip(jobs, logs):
            found = times_of(space, job.pid)
            ran, waited = between(log, 1, t0, t1), between(log, 2, t0, t1)
            print(f"     running {found['running']:.4f} s, the kernel {ran:.4f}; runnable {found['runnable']:.4f}, the kernel {waited:.4f}")
            assert abs(found["running"] - ran) < 0.01 * WINDOW_S, (found, ran)
            # The kernel's figure has the delay after wake-ups, too, which no switch shows.
            assert found["runnable"] < waited + 0.01 * WINDOW_S, (found, waited)
        for job, log in zip(jobs[:2], logs[:2]):
            assert abs(times_of(space, job.pid)["runnable"] - between(log, 2, t0, t1)) < 0.02 * WINDOW_S


main(test_beside_kernel)
