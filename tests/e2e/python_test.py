# SPDX-License-Identifier: Apache-2.0
"""What Python programs do, seen from outside: a job logs its own phases, and the timeline says the same.

TUTTI_PYTHONS has the interpreters, one a line, "VERSION COMMAND...", of which the first is this one by default. With
TUTTI_PYTHON_SECONDS the windows are that long, and the limits are those of docs/tracers.md: tests/pythons.sh.
"""
import collections
import os
import pathlib
import shutil
import subprocess
import sys

from lib import xspace
from lib.cluster import BIN, Cluster, main, wait_until

JOB = pathlib.Path(__file__).resolve().parent / "python_job.py"
SECONDS = float(os.environ.get("TUTTI_PYTHON_SECONDS", "2"))
STRICT = SECONDS >= 10
MINE = f"3.{sys.version_info.minor} {os.path.realpath(sys.executable)}"
PYTHONS = [line.split() for line in os.environ.get("TUTTI_PYTHONS", MINE).splitlines()]
THREADS = 4
PHASES = ("spin", "sleep", "encode")
WAITING = {"Thread._bootstrap", "Thread._bootstrap_inner", "Thread.run", "wait_for", "Event.wait", "Condition.wait",
           "Event.is_set"}  # what a thread that waits is in


def job(c, name, command, seconds=600, threads=THREADS):
    """A job of this interpreter, perhaps in a root folder of its own; and the log as this process sees it."""
    root = pathlib.Path(command[1] if command[0] == "chroot" else "/")
    folder = root / "tmp" / c.dir.name
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(JOB, folder / "job.py")
    log = folder / f"{name}.log"
    inside = pathlib.Path("/") / folder.relative_to(root)
    p = c.start(name, [*command, inside / "job.py", seconds, inside / log.name, threads])
    p.log = log
    wait_until("the job to begin", lambda: log.exists() and log.read_text().count("\n") > 3)
    return p


def sampled(c, host="host-a"):
    """The pids that the agent samples now, as it has logged."""
    return [int(line.split("pid=")[1].split()[0]) for line in c.log(host).splitlines()
            if "AGENT-PYTHON" in line and "state=sampled" in line]


def agent(c, *flags):
    c.agent("host-a", "--tracers", "python", "--log-level", "debug", *flags)
    c.wait_hosts(1)


def capture(c, seconds=SECONDS, *flags):
    code, doc = c.tutti("capture", "--duration", f"{seconds:g}s", "--json", *flags)
    [host] = doc["hosts"]
    assert host["file"], doc
    space = xspace.load(c.logdir / "plugins" / "profile" / doc["session"] / host["file"])
    return code, host, space


def plane_of(space, p):
    return xspace.plane(space, f"/host:CPU python [{p.pid}]")


def lines_of(plane):
    """{tid: [(name, start_ps, duration_ps, stats)]}."""
    return {line.id: [(plane.event_metadata[ev.metadata_id].name, ev.offset_ps, ev.duration_ps, xspace.stats(plane, ev))
                      for ev in line.events] for line in plane.lines}


def names_of(events):
    return {name for name, *_ in events}


def truth(p, begin_ns, end_ns):
    """The share of each phase in the window, by the job's own log."""
    spent = collections.Counter()
    for line in p.log.read_text().splitlines()[1:]:
        begin, end, name = line.split()
        spent[name] += max(0, min(int(end), end_ns) - max(int(begin), begin_ns))
    return {name: spent[name] / sum(spent[n] for n in PHASES) for name in PHASES}


def check_phases(space, p, what):
    """Shares of phases are the log's, as exactly as so many samples can say."""
    plane = plane_of(space, p)
    stats = xspace.stats(plane)
    window = xspace.stats(xspace.plane(space, "Task Environment"))
    expected = truth(p, window["profile_start_time"], window["profile_stop_time"])
    tids = [int(tid) for tid in p.log.read_text().splitlines()[0].split()]
    events = lines_of(plane)[tids[0]]
    # "generated" spins too, below a function of its own
    seen = collections.Counter()
    under = None
    for name, start, duration, s in events:
        if name == "generated":
            under = start + duration
        elif name in PHASES and not (under and start < under):
            seen[name] += s["samples"]
    n = sum(seen.values())
    shares = {name: seen[name] / n for name in PHASES}
    worst = max(abs(shares[name] - expected[name]) for name in PHASES)
    limit = 0.04 if STRICT else 0.05 + 2 / n ** 0.5
    complete = 1 - stats["torn_samples"] / stats["samples"]
    print(f"     {what}: {n} samples of phases, worst share off by {worst:.3f}, {100 * complete:.2f} % of "
          f"{stats['samples']} complete", flush=True)
    assert n > (1000 if STRICT else 20), n
    assert worst < limit, (shares, expected, limit)
    assert complete >= (0.995 if STRICT else 0.97), stats
    assert stats["process_id"] == p.pid and stats["python_version"] == what.split()[0], stats


def check_lines(space, p):
    """Each function is shown with its file, and a line of itself; each thread has its line, also those that wait."""
    tids = [int(tid) for tid in p.log.read_text().splitlines()[0].split()]
    lines = lines_of(plane_of(space, p))
    assert set(lines) == set(tids), (lines.keys(), tids)
    source = JOB.read_text().splitlines()
    begins = {name: source.index(f"def {text}") + 1 for name, text in (
        ("spin", "spin(seconds):"), ("encode", "encode(seconds):"), ("deeper", "deeper(n, function, seconds):"),
        ("wait_for", "wait_for(event):"), ("generated", "generated(function, seconds):"))}
    for tid in tids:
        for name, _, _, s in lines[tid]:
            if name in begins:
                assert s["file"].endswith("/job.py") and begins[name] < s["line"] <= begins[name] + 5 or \
                    name == "spin" and s["line"] == begins[name], (name, s)
    names = names_of(lines[tids[0]])
    assert {"<module>", "main", "spin", "sleep", "deeper", "generated"} <= names, names
    for tid in tids[1:]:
        waiting = [e for e in lines[tid] if e[0] == "wait_for"]
        assert sum(s["samples"] for *_, s in waiting) > 10 and names_of(lines[tid]) <= WAITING, names_of(lines[tid])


def check_depth(space, p):
    """max_depth counts from the outermost frame."""
    tids = [int(tid) for tid in p.log.read_text().splitlines()[0].split()]
    assert names_of(lines_of(plane_of(space, p))[tids[0]]) == {"<module>", "main"}, space


def test_timeline():
    """A window ahead; a shallower one; then the time before, from the ring, in which the job has ended."""
    for version, *command in PYTHONS:
        with Cluster() as c:
            c.aggregator()
            agent(c)
            p = job(c, "job", command)
            wait_until("the agent to find the job", lambda: p.pid in sampled(c), 30)
            code, host, space = capture(c)
            assert code == 0, host
            check_phases(space, p, f"{version} {command[0]}")
            check_lines(space, p)
            check_depth(capture(c, 0.3, "--set", "python.max_depth=2", "--set", "python.hz=50")[2], p)
            c.kill("job")
            _, doc = c.tutti("snapshot", "--last", f"{SECONDS:g}s", "--json")
            space = xspace.load(c.logdir / "plugins" / "profile" / doc["session"] / doc["hosts"][0]["file"])
            assert {"main", "deeper"} <= set.union(*map(names_of, lines_of(plane_of(space, p)).values()))


def test_no_permission():
    """Without CAP_SYS_PTRACE the agent starts, and says what is missing; the capture says it, too."""
    if os.geteuid():
        return
    with Cluster() as c:
        c.aggregator()
        c.dir.chmod(0o777)
        p = job(c, "job", PYTHONS[0][1:], threads=0)
        real = c.start
        c.start = lambda name, argv, **more: real(name, [
            "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", *argv], **more)
        agent(c)
        c.start = real

        def is_told():
            [tracer] = [t for t in c.hosts()["host-a"]["tracers"] if t["name"] == "python"]
            return tracer["state"] == "degraded" and "CAP_SYS_PTRACE" in tracer["reason"]
        wait_until("the reason", is_told)
        code, doc = c.tutti("capture", "--duration", "300ms", "--tracer", "python", "--json")
        assert doc["hosts"][0]["reason"] == "no-permission" and "CAP_SYS_PTRACE" in doc["hosts"][0]["detail"], doc
        assert code == 3 and p.poll() is None, doc


assert subprocess.run([BIN / "tutti-agent", "--help"], capture_output=True, text=True).stdout.count("--python-hz") == 1
main(test_timeline, test_no_permission)
