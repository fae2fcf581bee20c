# SPDX-License-Identifier: Apache-2.0
"""Captures that begin with a training step: the same whole steps on three hosts of one job, whose hosts wait for each other after each step."""
import re
import shutil
import subprocess
import time

from lib import xspace
from lib.cluster import BIN, Cluster, main, wait_until

OFFSETS = {"host-a": "0", "host-b": "5s", "host-c": "-3s"}
PERIOD_S = 0.2
PACE_S = PERIOD_S / 2  # a job that is later than this does not keep its pace
URGENT = ["chrt", "--fifo", "10"]  # where that is allowed: it is not the pace of the job that is tested


def start_job(c, *hosts):
    """One process tells all of them of one instant: those of several would be late by what a busy machine gives each, and disagree."""
    prefix = URGENT if shutil.which(URGENT[0]) and not subprocess.run([*URGENT, "true"], capture_output=True, timeout=20).returncode else []
    name = "burst-" + hosts[-1]
    c.start(name, [*prefix, BIN / "burst", *(f"--local-socket={c.sockets[h]}" for h in hosts), f"--period={PERIOD_S * 1000:.0f}ms", "--work=5ms", "--steps"])
    wait_until("the first step", lambda: c.log(name))


def start(c):
    c.aggregator()
    for host, offset in OFFSETS.items():
        c.agent(host, f"--test-clock-offset={offset}")
    c.wait_hosts(3)


def late_s(c):
    """By how much each step of the job began after its time, beyond the one that was late least."""
    steps = [(int(m[1]), int(m[2]) / 1e9) for m in re.finditer(r"step_num=(\d+)# (\d+)", c.log("burst-host-c"))]
    late = {n: at - n * PERIOD_S for n, at in steps}
    return {n: x - min(late.values()) for n, x in late.items()}


def capture_steps(c, step, n):
    """A capture of n steps, and the first of them: one for which the job was late neither when its pace was measured nor in those steps."""
    end = time.monotonic() + 40
    while True:
        asked = now()
        code, doc = c.tutti("capture", "--at-step", asked + step if isinstance(step, int) else step, "--steps", n, "--json")
        late = {i: s for i, s in late_s(c).items() if i >= asked - 20 and s >= PACE_S}
        if not late or time.monotonic() > end:
            assert code == 0, (doc, c.stderr, late)
            return doc, doc["at_step"]["step"]


def now():
    return int(time.time() / PERIOD_S)


def wait_known(c, n=3):
    """All know how long a step takes."""
    def known():
        c.tutti("capture", "--at-step", now() + 100000, "--json")  # too far away: but asks all to tell
        return sum(h.get("steps", {}).get("period_ns", 0) > 0 for h in c.hosts().values()) >= n
    wait_until("the steps", known)


def check_steps(c, doc, first, last):
    """Where the guard and what the job is late by are shorter than a step, as on a quiet machine, there is no other step before."""
    assert doc["at_step"]["step"] == first, doc["at_step"]
    for h in doc["hosts"]:
        seen = h["steps"]
        assert seen["first"] <= first and seen["last"] == last, (h["host"], seen, doc["at_step"])
        assert seen["first"] == first or doc["at_step"]["guard_ns"] > PERIOD_S * 1e9 / 2, (h["host"], seen, doc["at_step"])
        space = xspace.load(c.logdir / "plugins/profile" / doc["session"] / h["file"])
        marks = xspace.plane(space, "/host:CPU marks")
        names = [name for name, *_ in xspace.events(marks)]
        assert names and set(names) == {"train"}, names
        assert len(names) == seen["last"] - seen["first"] + 2, (names, seen)


def test_number_and_next():
    with Cluster() as c:
        start(c)
        start_job(c, *OFFSETS)
        wait_known(c)
        doc, first = capture_steps(c, 30, 4)  # a busy machine needs seconds to ask
        assert f"step {first}, expected in" in c.stderr, c.stderr
        check_steps(c, doc, first, first + 3)
        assert doc["duration_ns"] - doc["at_step"]["guard_ns"] < 5 * PERIOD_S * 1e9, doc
        assert not doc["warnings"], doc["warnings"]
        print(f"     steps {first} to {first + 3}: guard {doc['at_step']['guard_ns'] / 1e6:.1f} ms, "
              f"wrong by {doc['at_step'].get('error_ns', 0) / 1e6:.2f} ms")
        doc, first = capture_steps(c, "next", 2)
        check_steps(c, doc, first, first + 1)
        assert doc["at_step"]["asked"] == "next"
        text = c.tutti("show", doc["session"], check=0)[1]
        assert f"step    {doc['at_step']['step']}" in text, text
        _, doc = c.tutti("capture", "--at-step", "next", "--duration", "500ms", "--json", check=0)
        assert doc["duration_ns"] == 500_000_000 and doc["hosts"][0]["steps"]["first"] <= doc["at_step"]["step"], doc
        assert " (one in " in c.tutti("hosts", check=0)[1]


def test_refused():
    with Cluster() as c:
        start(c)
        for flags, text in [(["--at-step", "5"], "reports a training step"), (["--steps", "3"], "needs at_step"),
                            (["--at-step", "soon"], "a step's number, or next"), (["--at-step", "-1"], "a step's number")]:
            assert c.tutti("capture", *flags)[0] == 2, flags
            assert text in c.stderr, (flags, c.stderr)
        start_job(c, "host-a", "host-b")
        start_job(c, "host-c")
        wait_known(c)
        assert c.tutti("capture", "--at-step", "5")[0] == 2 and "step 5 has passed: host-" in c.stderr, c.stderr
        assert c.tutti("capture", "--at-step", now() + 100000)[0] == 2 and "too far away" in c.stderr, c.stderr
        assert c.tutti("sessions", "--json", check=0)[1]["sessions"] == []
        c.processes["burst-host-c"].terminate()
        c.processes["burst-host-c"].wait(20)
        wait_until("host-c to be taken for silent", lambda: not c.tutti(
            "mark", "--local-socket", c.sockets["host-c"], "--step", now() - 1000, check=0)[0] and c.tutti(
            "capture", "--at-step", "next", "--steps", "1")[0] == 2 and "disagree" in c.stderr)
        assert "host-c at step" in c.stderr or "host-c is at step" in c.stderr, c.stderr


main(test_number_and_next, test_refused)
