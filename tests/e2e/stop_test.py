# SPDX-License-Identifier: Apache-2.0
"""SIGTERM ends an agent within 2 s, whatever is being symbolised."""
import os
import pathlib
import shutil
import subprocess

from lib.cluster import BIN, SLOW, Cluster, main, wait_until
from lib.netns import SkipTest

JOB = BIN.parent / "tests/agent_job"
STUCK = BIN / "libstuck_pread.so"


def start_stuck_agent(c, file, mark):
    os.environ.update(LD_PRELOAD=str(STUCK), ASAN_OPTIONS="verify_asan_link_order=0", STUCK_MARK=str(mark),
                      STUCK_INODE=str(file.stat().st_ino))
    try:
        return c.agent("host-a", tracers="cpu,metrics,marks")
    finally:
        for name in ("LD_PRELOAD", "ASAN_OPTIONS", "STUCK_MARK", "STUCK_INODE"):
            del os.environ[name]


def end_stuck_agent(c, file, program):
    """Runs the program until a reader is stuck in that file, then ends the agent: its log."""
    mark = c.dir / "mark"
    agent = start_stuck_agent(c, file, mark)
    c.wait_hosts(1, calibrated=False)
    if [t["state"] for t in c.hosts()["host-a"]["tracers"] if t["name"] == "cpu"] == ["off"]:
        raise SkipTest("no CPU samples here")
    job = subprocess.Popen([program, "1000"], stdout=subprocess.DEVNULL)
    try:
        wait_until("the symbols to be read", mark.exists)
    finally:
        job.kill()
        job.wait(20 * SLOW)
    agent.terminate()
    assert agent.wait(20 * SLOW) == 0, agent.returncode
    return c.log("host-a")


def test_sigterm_while_a_file_of_symbols_does_not_answer():
    """Another process reads it: no worker of the agent waits for it."""
    with Cluster() as c:
        c.aggregator()
        program = c.dir / "stuck-job"
        shutil.copy(JOB, program)
        log = end_stuck_agent(c, program, program)
        assert "state=cut" not in log, log


def test_sigterm_while_a_worker_is_stuck():
    with Cluster() as c:
        c.aggregator()
        log = end_stuck_agent(c, pathlib.Path("/proc/kallsyms"), JOB)
        assert "state=cut" in log, log


main(test_sigterm_while_a_file_of_symbols_does_not_answer, test_sigterm_while_a_worker_is_stuck)
