# SPDX-License-Identifier: Apache-2.0
"""The scheduler's tracer and that of cgroups beside the kernel's own accounts; an agent with a budget."""
import bisect
import collections
import json
import os
import pathlib
import secrets
import signal
import subprocess
import sys

from lib import xspace
from lib.cluster import Cluster, main, wait_until
from lib.leftovers import die_with_parent
from lib.waits import read_line

WINDOW_S = 2
FEW = 50 # of some 5,000 switches: short ones of kernel threads

# Logs (wall ns, CPU ns of the thread, ns in the run queue by the kernel) until SIGTERM: busy on one CPU, or a fifth of
# the time. It says when it begins.
JOB = """
import json, os, signal, sys, time
busy, ends = sys.argv[1] == "busy", []
signal.signal(signal.SIGTERM, lambda *_: ends.append(1))
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
log, fd, last = [], os.open("/proc/self/schedstat", os.O_RDONLY), 0
print("begun", flush=True)
while not ends:
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


class OwnCgroup:
    """A cgroup as a container has it, with an id of its own; path is None where none may be made."""
    def __init__(self):
        container = secrets.token_hex(32)
        self.label = f"container {container[:12]}"
        for root in map(pathlib.Path, ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")):
            self.path = root / f"tutti-test-{container}.scope"
            try:
                if (root / "cgroup.controllers").exists():
                    self.path.mkdir()
                    return
            except OSError as e:
                print(f"     no cgroup of the test's own: {e}")
        self.path = None

    def take(self, pid):
        if self.path:
            (self.path / "cgroup.procs").write_text(str(pid))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Also after a failure, with its processes in it: they end with it."""
        if self.path:
            for pid in (self.path / "cgroup.procs").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
            wait_until("the cgroup to be empty", lambda: not (self.path / "cgroup.procs").read_text())
            self.path.rmdir()


def check_cgroup(space, label, log, t0):
    """CPU per cent of the cgroup beside the CPU time that its only thread has logged, from reading to reading."""
    plane = next(p for p in space.planes if p.name == "/host:CPU cgroups")
    names = {key: value.name for key, value in plane.event_metadata.items()}
    found = [(t0 + e.offset_ps / 1e3, e.stats[0].double_value) for e in plane.lines[0].events
             if names[e.metadata_id] == f"{label}: cpu %"]
    assert len(found) >= 2, (label, sorted(set(names.values())))
    kernel = between(log, 1, found[0][0], found[-1][0])
    ours = sum(percent / 100 * (at - before) / 1e9 for (before, _), (at, percent) in zip(found, found[1:]))
    print(f"     its cgroup {ours:.4f} s in {len(found)} readings, the thread itself {kernel:.4f}")
    assert abs(ours - kernel) < 0.05 * WINDOW_S, (ours, kernel, found)


def check_one_cgroup(c, name, pid):
    """Of one snapshot only: the threads of one cgroup, by a part of its path."""
    def lines(text):
        _, doc = c.tutti("snapshot", "--hosts", "host-a", "--tracer", "sched", "--last", "1s", "--set", f"sched.cgroup={text}", "--json", check=0)
        space = xspace.load(c.logdir / "plugins" / "profile" / doc["session"] / doc["hosts"][0]["file"])
        return {line.id for p in space.planes if p.name == "/host:CPU scheduler" for line in p.lines}
    assert lines(name) == {pid}, (lines(name), pid)
    assert not lines("no-cgroup-of-this-name")
    assert len(lines("")) > 3


def check_limited(c):
    """An agent above its budget records less, says so everywhere, and shows in the trace what it takes itself."""
    def state():
        return next(t for t in c.hosts()["limited"]["tracers"] if t["name"] == "metrics")
    wait_until("a step down", lambda: state()["state"] == "degraded", 60)
    assert "--max-cpu is 0.01%" in state()["reason"], state()
    code, doc = c.tutti("capture", "--hosts", "limited", "--duration", "1500ms", "--json")
    [host] = doc["hosts"]
    assert code == 3 and host["state"] == "partial" and host["reason"] == "budget", host
    space = xspace.load(c.logdir / "plugins" / "profile" / doc["session"] / host["file"])
    plane = next(p for p in space.planes if p.name == "/host:CPU agent")
    names = {key: value.name for key, value in plane.event_metadata.items()}
    values = collections.defaultdict(list)
    for e in plane.lines[0].events:
        values[names[e.metadata_id]].append(e.stats[0].double_value)
    assert min(values["metrics: steps down"]) >= 1 and min(values["agent: mem MB"]) > 1, values
    assert max(values["agent: cpu %"]) > 0 and "metrics: cpu %" in values, values


def start_job(kind):
    p = subprocess.Popen([sys.executable, "-c", JOB, kind], stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
    assert read_line(p.stdout) == "begun\n"
    return p


def end_job(p):
    p.terminate()
    return json.loads(p.communicate(timeout=20)[0])


def capture(c):
    """An agent that a busy machine keeps from running loses switches by the thousand, and says so: not a window to compare with the
    kernel. Of threads whose switches perf does not report a few are lost in most windows there; both agents count the same.
    Returns the session and each host's space."""
    def whole():
        code, doc = c.tutti("capture", "--hosts", "host-a,woken", "--duration", f"{WINDOW_S}s", "--json")
        return all(t["lost"] <= FEW for h in doc["hosts"] for t in h["tracers"] if t["name"] == "sched") and (code, doc)
    code, doc = wait_until("a window with hardly a lost switch", whole, 90)
    assert doc["hosts"][0]["state"] == "complete" and (code == 0 or not has_wakeups(c)), doc
    return doc, [xspace.load(c.logdir / "plugins" / "profile" / doc["session"] / h["file"]) for h in doc["hosts"]]


def has_wakeups(c):
    """Whether the agent that is to record wake-ups can; else it names what it lacks."""
    state = next(t for t in c.hosts()["woken"]["tracers"] if t["name"] == "sched")
    if state["state"] != "ok":
        assert state["state"] == "degraded" and "--sched-wakeups" in state["reason"], state
        print(f"     no wake-ups here: {state['reason']}")
    return state["state"] == "ok"


def test_beside_kernel():
    """Two busy threads share a CPU with one that sleeps."""
    with OwnCgroup() as group, Cluster() as c:
        c.aggregator()
        c.agent("host-a", "--cgroups-hz", "10", tracers="sched,cgroups")
        c.agent("woken", "--sched-wakeups", tracers="sched")
        c.agent("limited", "--metrics-hz", "100", "--max-cpu", "0.01%", tracers="metrics,budget")
        c.wait_hosts(3)
        jobs = [start_job(kind) for kind in ("busy", "busy", "lazy")]
        group.take(jobs[0].pid)
        doc, (space, woken) = capture(c)
        if group.path:
            check_one_cgroup(c, group.path.name, jobs[0].pid)
        logs = [end_job(j) for j in jobs]
        t0, t1 = doc["t0_ns"], doc["t0_ns"] + doc["duration_ns"]
        if group.path:
            check_cgroup(space, group.label, logs[0], t0)
        for job, log in zip(jobs, logs):
            found = times_of(space, job.pid)
            ran, waited = between(log, 1, t0, t1), between(log, 2, t0, t1)
            print(f"     running {found['running']:.4f} s, the kernel {ran:.4f}; runnable {found['runnable']:.4f}, the kernel {waited:.4f}")
            assert abs(found["running"] - ran) < 0.01 * WINDOW_S, (found, ran)
            # The kernel's figure has the delay after wake-ups, too, which no switch shows.
            assert found["runnable"] < waited + 0.01 * WINDOW_S, (found, waited)
            if has_wakeups(c):
                found = times_of(woken, job.pid)
                print(f"     with wake-ups runnable {found['runnable']:.4f}")
                assert abs(found["runnable"] - waited) < 0.02 * WINDOW_S, (found, waited)
        for job, log in zip(jobs[:2], logs[:2]):
            assert abs(times_of(space, job.pid)["runnable"] - between(log, 2, t0, t1)) < 0.02 * WINDOW_S
        check_limited(c)  # here, because it had to wait for ten seconds


main(test_beside_kernel, own_pids=False)  # wake-ups are known in the machine's first PID namespace alone
