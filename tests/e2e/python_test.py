# SPDX-License-Identifier: Apache-2.0
"""What Python programs do, seen from outside: a job logs its own phases, and the timeline says the same.

TUTTI_PYTHONS has the interpreters, one a line, "VERSION COMMAND...", of which the first is this one by default. With
TUTTI_PYTHON_SECONDS the windows are that long, and the limits are those of docs/tracers.md: tests/pythons.sh.
"""
import os
import pathlib
import signal
import subprocess
import sys
import time

from lib import xspace
from lib.cluster import BIN, SLOW, Cluster, main, wait_until
from lib.python_jobs import JOB, lines_of, plane_name, plane_of, sampled, seen, start_job, tids, truth, worst_error

SECONDS = float(os.environ.get("TUTTI_PYTHON_SECONDS", "2"))
STRICT = SECONDS >= 10
MINE = f"3.{sys.version_info.minor} {os.path.realpath(sys.executable)}"
PYTHONS = [line.split() for line in os.environ.get("TUTTI_PYTHONS", MINE).splitlines()]
THREADS = 4
WAITING = {"Thread._bootstrap", "Thread._bootstrap_inner", "Thread.run", "wait_for", "Event.wait", "Condition.wait",
           "Event.is_set"}  # what a thread that waits is in


def agent(c, **more):
    c.agent("host-a", "--log-level", "debug", **more, tracers="cpu,python")
    c.wait_hosts(1)


def capture(c, seconds=SECONDS, *flags):
    code, doc = c.tutti("capture", "--duration", f"{seconds:g}s", "--json", *flags)
    [host] = doc["hosts"]
    assert host["file"], doc
    space = xspace.load(c.logdir / "plugins" / "profile" / doc["session"] / host["file"])
    return code, host, space


def names_of(events):
    return {name for name, *_ in events}


def is_enough(space, p):
    counts = seen(space, p)
    return sum(counts.values()) >= 60 and "generated" in names_of(lines_of(plane_of(space, p))[tids(p)[0]])


def check_phases(space, p, what):
    """Shares of phases are the log's, as exactly as so many samples can say."""
    plane = plane_of(space, p)
    stats = xspace.stats(plane)
    window = xspace.stats(xspace.plane(space, "Task Environment"))
    expected = truth(p, window["profile_start_time"], window["profile_stop_time"])
    counts = seen(space, p)
    n, worst = sum(counts.values()), worst_error(counts, expected)
    limit = 0.04 if STRICT else 0.05 + 2 / n ** 0.5
    complete = 1 - stats["torn_samples"] / stats["samples"]
    print(f"     {what}: {n} samples of phases, worst share off by {worst:.3f}, {100 * complete:.2f} % of "
          f"{stats['samples']} complete", flush=True)
    assert n >= (1000 if STRICT else 60), n
    assert worst < limit, (counts, expected, limit)
    assert complete >= (0.995 if STRICT else 0.97), stats
    assert stats["process_id"] == p.pid and stats["python_version"] == what.split()[0], stats


def check_lines(space, p):
    """Each function is shown with its file, and a line of itself; each thread has its line, also those that wait."""
    lines = lines_of(plane_of(space, p))
    assert set(lines) == set(tids(p)), (lines.keys(), tids(p))
    source = JOB.read_text().splitlines()
    begins = {name: source.index(f"def {text}") + 1 for name, text in (
        ("spin", "spin(seconds):"), ("encode", "encode(seconds):"), ("deeper", "deeper(n, function, seconds):"),
        ("wait_for", "wait_for(event):"), ("generated", "generated(function, seconds):"))}
    found = {name: [s for tid in tids(p) for n, _, _, s in lines[tid] if n == name] for name in begins}
    for name, spans in found.items():
        assert all(s["file"].endswith("/job.py") and 0 <= s["line"] - begins[name] <= 5 for s in spans), (name, spans)
        entered = [s for s in spans if s["line"] == begins[name]]  # sampled at its first instruction, which is that of "def"
        assert len(entered) <= 1 + len(spans) / 10, (name, entered)
    names = names_of(lines[tids(p)[0]])
    assert {"<module>", "main", "spin", "sleep", "deeper", "generated"} <= names, names
    for tid in tids(p)[1:]:
        waiting = [e for e in lines[tid] if e[0] == "wait_for"]
        assert sum(s["samples"] for *_, s in waiting) > 10 and names_of(lines[tid]) <= WAITING, names_of(lines[tid])


def check_merged(space, p):
    """CPU samples of the job have its Python functions around what C does, where the kernel permits CPU samples."""
    found = [q for q in space.planes if q.name == "/host:CPU"]
    events = lines_of(found[0]).get(p.pid, []) if found else []
    stack = []
    for name, start, duration, stats in events:
        while stack and stack[-1][1] <= start:
            stack.pop()
        stack.append((name, start + duration))
        if name == "encode (job.py)":
            outermost = [n for n, _ in stack if n.endswith(".py)")][:2]
            assert outermost == ["<module> (job.py)", "main (job.py)"], stack
            assert stats["file"].endswith("/job.py") and stats["first_line"] > 0, stats
    names = names_of(events)
    assert not events or {"main (job.py)", "spin (job.py)", "deeper (job.py)"} & names, names


def check_depth(c, p):
    """max_depth counts from the outermost frame. On a busy machine a short window may have no sample."""
    def outermost():
        space = capture(c, 0.3, "--set", "python.max_depth=2", "--set", "python.hz=50")[2]
        return [q for q in space.planes if q.name == plane_name(p) and tids(p)[0] in lines_of(q)]
    [plane] = wait_until("a sample of the main thread", outermost)
    assert names_of(lines_of(plane)[tids(p)[0]]) == {"<module>", "main"}, plane


def check_past(c, p):
    """The time before an instant at which the job has just ended, however late it is asked for."""
    c.kill("job")
    end = time.time_ns()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(end // 10**9)) + f".{end % 10**9:09d}Z"
    _, doc = c.tutti("snapshot", "--last", f"{SECONDS:g}s", "--ending-at", stamp, "--json")
    space = xspace.load(c.logdir / "plugins" / "profile" / doc["session"] / doc["hosts"][0]["file"])
    assert {"main", "deeper"} <= set.union(*map(names_of, lines_of(plane_of(space, p)).values()))


def test_timeline():
    """A window ahead; a shallower one; then the time before, from the ring, in which the job has ended."""
    for version, *command in PYTHONS:
        with Cluster() as c:
            c.aggregator()
            agent(c)
            p = start_job(c, "job", command, threads=THREADS)
            wait_until("the agent to find the job", lambda: p.pid in sampled(c, "host-a"), 30)
            for _ in range(1 if STRICT else 8):  # on a machine with much else to do there are fewer samples
                code, host, space = capture(c)
                assert code == 0, host
                if is_enough(space, p):
                    break
            check_phases(space, p, f"{version} {command[0]}")
            check_lines(space, p)
            check_merged(space, p)
            check_depth(c, p)
            check_past(c, p)


def test_stopped():
    """Samples that an agent misses because it is stopped count as lost, in each window that has a part of that time."""
    with Cluster() as c:
        c.aggregator()
        agent(c)
        p = start_job(c, "job", PYTHONS[0][1:])
        wait_until("the agent to find the job", lambda: p.pid in sampled(c, "host-a"), 30)

        def lost():
            _, doc = c.tutti("snapshot", "--last", "10s", "--tracer", "python", "--json")
            tracers = doc["hosts"][0]["tracers"] if isinstance(doc, dict) and doc.get("hosts") else []
            return sum(t["lost"] for t in tracers)
        c.kill("host-a", signal.SIGSTOP)
        time.sleep(2.5)  # as long as it is stopped
        c.kill("host-a", signal.SIGCONT)
        assert wait_until("the samples that are missing", lost) >= 10


def test_roots():
    """In a chroot that is mounted in a namespace of its own, the path of an interpreter leads nowhere from here."""
    if os.geteuid():
        return
    with Cluster() as c:
        c.aggregator()
        agent(c)
        (c.dir / "root").mkdir()
        p = start_job(c, "job", ["unshare", "--mount", "sh", "-ec", f'mount --rbind / {c.dir}/root; exec chroot {c.dir}/root "$@"',
                                 "sh", *PYTHONS[0][1:]])
        wait_until("the agent to find the job", lambda: p.pid in sampled(c, "host-a"), 30)
        _, _, space = capture(c)
        assert {"main", "deeper"} <= set.union(*map(names_of, lines_of(plane_of(space, p)).values()))
        check_merged(space, p)


def test_crowd():
    """A process with a thousand threads is sampled less often than another one, and does not slow that."""
    with Cluster() as c:
        c.aggregator()
        agent(c)
        p, crowd = start_job(c, "job", PYTHONS[0][1:]), start_job(c, "crowd", PYTHONS[0][1:], threads=1000)
        wait_until("the agent to find the jobs", lambda: {p.pid, crowd.pid} <= set(sampled(c, "host-a")), 30)
        _, _, space = capture(c, 3)
        mine, theirs = (xspace.stats(plane_of(space, q))["samples"] for q in (p, crowd))
        print(f"     {mine} samples of one thread, {theirs} of 1,001", flush=True)
        assert mine >= 60 and mine > 5 * theirs / 1001, (mine, theirs)


def python_tracer(c):
    return next(t for t in c.hosts()["host-a"]["tracers"] if t["name"] == "python")


def test_too_many_threads():
    """What is not sampled of a process with more threads than are sampled of one counts as lost, and the tracer says why."""
    with Cluster() as c:
        c.aggregator()
        agent(c)
        start_job(c, "crowd", PYTHONS[0][1:], threads=4200)
        wait_until("the reason", lambda: "more threads than are sampled" in python_tracer(c)["reason"], 60)
        # the process may be sampled as rarely as every 5 s: it needs more than its share of CPU time
        code, doc = c.tutti("capture", "--duration", f"{2 * SLOW:g}s", "--tracer", "python", "--json", check=3)
        [host] = doc["hosts"]
        [tracer] = host["tracers"]
        assert (host["reason"], tracer["state"]) == ("unsupported", "degraded") and tracer["lost"] > 0, doc


def test_short_window():
    """A process with so many threads that it is sampled rarely is in a short window, or the result names it."""
    with Cluster() as c:
        c.aggregator()
        agent(c)
        p = start_job(c, "crowd", PYTHONS[0][1:], threads=3500)

        def is_shown(seconds):
            _, host, space = capture(c, seconds, "--tracer", "python")
            found = any(q.name == plane_name(p) for q in space.planes)
            named = (host["state"], host["reason"]) == ("partial", "window-cut") and f"pid {p.pid} is sampled" in host["detail"]
            assert found or not is_known or named, host
            return found
        is_known = False
        is_known = wait_until("its first samples", lambda: is_shown(1), 60)
        assert not all(is_shown(0.05) for _ in range(8)), "every window has a sample"


def test_asked_rarely():
    """Programs that are sampled as rarely as was asked for, or not at all, and one that has just begun, are no reason."""
    with Cluster() as c:
        c.aggregator()
        c.agent("host-a", "--python-hz", "0", tracers="python")
        c.wait_hosts(1)
        for i in range(3):
            start_job(c, f"job-{i}", PYTHONS[0][1:])

        def count(command, *flags):
            code, doc = c.tutti(*command, "--tracer", "python", "--json", *flags)
            [host] = doc["hosts"]
            assert (code, host["state"]) == (0, "complete"), host
            space = xspace.load(c.logdir / "plugins" / "profile" / doc["session"] / host["file"])
            return sum(" python [" in p.name for p in space.planes)
        wait_until("all", lambda: count(("capture", "--duration", "1s")) >= 3, 60)
        for _ in range(3):
            count(("capture", "--duration", "500ms"), "--set", "python.hz=1")
        count(("snapshot", "--last", "300ms"))


def test_exec():
    """A program that becomes another one of the same interpreter, which may lie at the same addresses."""
    with Cluster() as c:
        c.aggregator()
        agent(c)
        command = PYTHONS[0][1:]
        (c.dir / "second.py").write_text("while True: sum(range(1000))\n")
        (c.dir / "first.py").write_text("import os, sys, time\nwhile not os.path.exists(sys.argv[1]): sum(range(1000))\n"
                                        "os.execv(sys.argv[3], sys.argv[3:] + [sys.argv[2]])\n")
        p = c.start("job", [*command, c.dir / "first.py", c.dir / "go", c.dir / "second.py", *command])

        def shown():
            _, doc = c.tutti("capture", "--duration", "300ms", "--tracer", "python", "--json")
            space = xspace.load(c.logdir / "plugins" / "profile" / doc["session"] / doc["hosts"][0]["file"])
            return {xspace.stats(q)["command"].split()[-1] for q in space.planes if q.name == plane_name(p)}
        wait_until("the first program", lambda: shown() == {"first.py"}, 30)
        (c.dir / "go").touch()
        wait_until("the second one", lambda: shown() == {"second.py"}, 30)


def child(pid, name):
    """The process of that name which process `pid` has started."""
    for status in pathlib.Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":\t", 1) for line in status.read_text().splitlines())
        except OSError:
            continue  # it has ended
        if (fields["Name"], fields["PPid"]) == (name, str(pid)):
            return int(status.parent.name)
    raise AssertionError(f"{pid} has no {name}")


def test_killed_reader():
    """What reads files and memory for the agent is killed. The next capture has names of a program that is new; stacks are whole again soon."""
    with Cluster() as c:
        c.aggregator()
        agent(c)
        p = start_job(c, "job", PYTHONS[0][1:])
        wait_until("the agent to find the job", lambda: p.pid in sampled(c, "host-a"), 30)
        os.kill(child(child(c.processes["host-a"].pid, "tutti-guard"), "tutti-files"), signal.SIGKILL)
        c.start("burst", [BIN / "burst", "--period", "100ms", "--work", "50ms"])
        _, _, space = capture(c)
        cpu = [q for q in space.planes if q.name == "/host:CPU"]
        assert not cpu or "burst_work" in {name for name, *_ in xspace.events(cpu[0])}, cpu
        [line] = [line for line in c.log("host-a").splitlines() if "part=files" in line]
        assert "W AGT-PART part=files state=restarted" in line and "signal 9" in line, line

        def is_whole():
            code, _, space = capture(c)
            found = [lines_of(q) for q in space.planes if q.name == plane_name(p)]
            return code == 0 and found and {"main", "deeper"} <= set.union(*map(names_of, found[0].values()))
        wait_until("whole stacks", is_whole, 30)


def test_no_reader():
    """Where no process is left that could start another reader, no window is called whole, however short it is."""
    with Cluster() as c:
        c.aggregator()
        agent(c)
        p = start_job(c, "job", PYTHONS[0][1:])
        wait_until("the agent to find the job", lambda: p.pid in sampled(c, "host-a"), 30)
        wait_until("the job in a session", lambda: any(q.name == plane_name(p) for q in capture(c)[2].planes), 30)
        guard = child(c.processes["host-a"].pid, "tutti-guard")
        files = child(guard, "tutti-files")
        for pid in (guard, files):
            os.kill(pid, signal.SIGKILL)
        wait_until("the tracer's state", lambda: any(t["name"] == "python" and t["state"] == "degraded"
                                                    for t in c.hosts()["host-a"]["tracers"]), 30)
        for _ in range(3):
            code, host, space = capture(c, 0.5)
            assert not any(" python [" in q.name for q in space.planes)
            assert (code, host["state"], host["reason"]) == (3, "partial", "window-cut"), host
            assert "Python samples of the window are missing" in host["detail"], host


def test_no_permission():
    """Without CAP_SYS_PTRACE the agent starts, and says what is missing; the capture says it, too."""
    if os.geteuid():
        return
    with Cluster() as c:
        c.aggregator()
        c.dir.chmod(0o777)
        p = start_job(c, "job", PYTHONS[0][1:])
        agent(c, prefix=["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"])

        def is_told():
            [tracer] = [t for t in c.hosts()["host-a"]["tracers"] if t["name"] == "python"]
            return tracer["state"] == "degraded" and "CAP_SYS_PTRACE" in tracer["reason"]
        wait_until("the reason", is_told)
        code, doc = c.tutti("capture", "--duration", "300ms", "--tracer", "python", "--json")
        assert doc["hosts"][0]["reason"] == "no-permission" and "CAP_SYS_PTRACE" in doc["hosts"][0]["detail"], doc
        assert code == 3 and p.poll() is None, doc


assert subprocess.run([BIN / "tutti-agent", "--help"], capture_output=True, text=True, timeout=60).stdout.count("--python-hz") == 1
main(test_timeline, test_stopped, test_roots, test_crowd, test_too_many_threads, test_short_window, test_asked_rarely, test_exec, test_killed_reader,
     test_no_reader, test_no_permission)
