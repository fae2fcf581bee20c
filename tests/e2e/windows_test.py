# SPDX-License-Identifier: Apache-2.0
"""Windows shorter and longer than the tracers' rings are complete, from every always-on tracer.

By default rings of 3 s and windows of 5 ms and 5 s. Real lengths, with rings of 60 s (12 minutes):

    TUTTI_BIN=build/release/bin TUTTI_TEST_WINDOWS=5ms,59s,80s,10m tests/e2e/windows_test.py
"""
import os
import pathlib
import re
import statistics
import subprocess
import time

from lib import xspace
from lib.cluster import BIN, HEAVY, SLOW, Cluster, is_whole, main, wait_until

LONG = os.environ.get("TUTTI_TEST_WINDOWS", "")
WINDOWS = LONG.split(",") if LONG else ["5ms", "5s"]
RING_S = 60 if LONG else 3
PERIOD_S = 0.1
GAP_S = 0.5 * SLOW  # a busy machine reads late


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(ms|s|m)", text).groups()
    return int(number) * {"ms": 0.001, "s": 1, "m": 60}[unit]


def memory_kb(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])


def ring_files(pid):
    """Blocks on disk of the files, without names, that the agent's rings have open."""
    sizes = []
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            if "/.ring (deleted)" in os.readlink(fd):
                sizes.append(fd.stat().st_blocks * 512)
        except FileNotFoundError:
            pass
    return sizes


def check_covered(what, starts_ps, length_s):
    """Something every GAP_S, from the window's begin to its end."""
    at = [0, *sorted(t / 1e12 for t in starts_ps), length_s]
    gap, where = max((b - a, a) for a, b in zip(at, at[1:]))
    assert gap < GAP_S, f"{what}: nothing for {gap:.2f} s at {where:.2f} s of {length_s} s"
    return gap


def check_marks(space, length_s, bursts):
    """All marks that were sent in the window are there, and no others. `bursts`: number -> raw ns. The last
    ones may reach the agent after it cut its ring."""
    starts = {int(text.split()[-1]): start for text, start in xspace.marks(space).items()}
    t0_ns = statistics.median(bursts[k] - start / 1e3 for k, start in starts.items())
    edge_ns = 1e6  # neither side of an edge is certain
    t1_ns = t0_ns + length_s * 1e9
    surely = {k for k, at in bursts.items() if t0_ns + edge_ns <= at < t1_ns - GAP_S * 1e9}
    assert surely <= set(starts), f"marks are missing: {sorted(surely - set(starts))}"
    outside = [k for k in starts if not t0_ns - edge_ns <= bursts[k] <= t1_ns + edge_ns]
    assert not outside, f"marks of another time: {outside}"
    return len(starts)


def check_file(path, length_s, bursts):
    """Events and the longest gap of each tracer."""
    space = xspace.load(path)
    env = xspace.stats(xspace.plane(space, "Task Environment"))
    assert env["profile_stop_time"] - env["profile_start_time"] == round(length_s * 1e9), env
    if length_s < 1:
        return {}
    found = {"marks": check_marks(space, length_s, bursts)}
    # "/host:CPU" is a program's with annotations, of another test, if one runs meanwhile.
    for what, names in {"samples": ("/host:CPU", "/host:CPU samples"), "metrics": ("/host:CPU metrics",)}.items():
        [plane] = [p for p in space.planes if p.name in names and "process_id" not in xspace.stats(p)]
        starts = [start for _, start, *_ in xspace.events(plane)]
        found[what] = (len(starts), round(check_covered(what, starts, length_s), 3))
    return found


def sent(c):
    """The marks that were sent: number -> raw ns."""
    lines = [line.split() for line in c.log("burst").splitlines()]
    return {int(line[1]): int(line[2]) for line in lines if len(line) == 3 and line[0] == "burst"}


def capture(c, agent, window):
    """The session's document, and the most that the rings had in files meanwhile."""
    length_s, most = seconds(window), 0
    env = {**os.environ, "TUTTI_SERVER": c.url}
    p = subprocess.Popen([BIN / "tutti", "capture", "--duration", window, "--json"], env=env, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    end = time.monotonic() + length_s + 60 * SLOW
    while p.poll() is None and time.monotonic() < end:
        most = max(most, sum(ring_files(agent.pid)))
        time.sleep(0.1)
    out, err = p.communicate(timeout=20 * SLOW)
    assert p.returncode in (0, 3), f"{window}: exit {p.returncode}\n{err}{out}"
    assert (most > 0) == (length_s > RING_S * 1.5) or length_s < RING_S * 1.5, f"{window}: {most} bytes in files"
    wait_until("the rings to give their files back", lambda: not ring_files(agent.pid))
    return out, most


def check_lost(host):
    """Nothing, but for what a busy machine takes before a ring has it: readings of the metrics (their gaps are looked at
    below), rounds of Python samples (e2e/python counts those), a few switches while the agent does not run (many, and samples, on a
    very busy one), and marks that came too late for the window before."""
    lost = {t["name"]: t for t in host["tracers"] if t["lost"] and t["name"] not in ("metrics", "python")}
    if "sched" in lost and lost["sched"]["lost"] <= host["events"] // 50:
        del lost["sched"]
    if os.getloadavg()[0] > 4 * os.cpu_count():
        lost = {name: t for name, t in lost.items() if name not in HEAVY or "the agent got too little CPU time" not in t["detail"]}
    if "marks" in lost and lost["marks"]["detail"].startswith(f"{lost['marks']['lost']} marks of earlier windows"):
        del lost["marks"]
    assert not lost, host


def test_windows_are_complete():
    with Cluster() as c:
        c.aggregator()
        agent = c.agent("host-a", f"--ring-seconds={RING_S}", "--log-level=debug", tracers="all")
        c.wait_hosts(1)
        c.burst("host-a", flags=[f"--period={PERIOD_S * 1000:.0f}ms", "--work=60ms"])
        time.sleep(1)
        before = memory_kb(agent.pid)
        for window in WINDOWS:
            out, in_files = capture(c, agent, window)
            _, doc = c.tutti("sessions", "--json", check=0)
            session = doc["sessions"][0]["session"]
            host = c.tutti("show", session, "--json", check=0)[1]["hosts"][0]
            assert is_whole(host), host
            check_lost(host)
            found = check_file(c.logdir / "plugins/profile" / session / host["file"], seconds(window), sent(c))
            print(f"     {window}: {host['state']}; (events, longest gap in s) {found}; files of the rings {in_files} bytes, "
                  f"VmRSS {before} -> {memory_kb(agent.pid)} kB", flush=True)
        if LONG:
            print("\n".join(line for line in c.log("host-a").splitlines() if "AGT-RING" in line))


main(test_windows_are_complete)
