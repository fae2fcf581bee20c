# SPDX-License-Identifier: Apache-2.0
"""Jobs of Python that log their own phases, and how much of each a timeline of Python samples has."""
import collections
import pathlib
import shutil

from lib import xspace
from lib.cluster import wait_until

JOB = pathlib.Path(__file__).resolve().parents[1] / "python_job.py"
PHASES = ("spin", "sleep", "encode")


def start_job(c, name, command, seconds=600, threads=0):
    """A job of this interpreter, perhaps in a root folder of its own ("chroot FOLDER PYTHON"); p.log is its log."""
    root, folder = pathlib.Path("/"), c.dir
    if command[0] == "chroot":
        root = pathlib.Path(command[1])
        folder = root / "tmp" / c.dir.name
        folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(JOB, folder / "job.py")
    log = folder / f"{name}.log"
    inside = pathlib.Path("/") / folder.relative_to(root)
    p = c.start(name, [*command, inside / "job.py", seconds, inside / log.name, threads])
    p.log = log
    wait_until("the job to begin", lambda: log.exists() and log.read_text().count("\n") > 3)
    return p


def sampled(c, host):
    """The pids that an agent with --log-level debug samples, or has sampled."""
    return [int(line.split("pid=")[1].split()[0]) for line in c.log(host).splitlines()
            if "AGENT-PYTHON" in line and "state=sampled" in line]


def tids(p):
    """The threads of a job, the main one first."""
    return [int(tid) for tid in p.log.read_text().splitlines()[0].split()]


def truth(p, begin_ns, end_ns):
    """The share of each phase in a time of the wall clock, by the job's own log."""
    spent = collections.Counter()
    for line in p.log.read_text().splitlines()[1:]:
        begin, end, name = line.split()
        spent[name] += max(0, min(int(end), end_ns) - max(int(begin), begin_ns))
    return {name: spent[name] / sum(spent[n] for n in PHASES) for name in PHASES}


def plane_name(p):
    return f"/host:CPU python [{p.pid}]"


def plane_of(space, p):
    return xspace.plane(space, plane_name(p))


def lines_of(plane):
    """{tid: [(name, start_ps, duration_ps, stats)]}."""
    return {line.id: [(plane.event_metadata[ev.metadata_id].name, ev.offset_ps, ev.duration_ps, xspace.stats(plane, ev))
                      for ev in line.events] for line in plane.lines}


def seen(space, p):
    """How many samples of the job's main thread were in each phase. What "generated" calls is not one."""
    counts = collections.Counter()
    until = -1
    for name, start, duration, stats in lines_of(plane_of(space, p))[tids(p)[0]]:
        if name == "generated":
            until = start + duration
        elif name in PHASES and start >= until:
            counts[name] += stats["samples"]
    return counts


def worst_error(counts, expected):
    n = sum(counts.values())
    return max(abs(counts[name] / n - expected[name]) for name in PHASES)
