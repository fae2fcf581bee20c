# SPDX-License-Identifier: Apache-2.0
"""SIGTERM ends an agent within 2 s, whatever is being symbolised."""
import os
import shutil
import subprocess
import time

from lib.cluster import BIN, SLOW, Cluster, main, wait_until
from lib.netns import SkipTest

JOB = BIN.parent / "tests/agent_job"
STUCK = BIN / "libstuck_pread.so"


def start_stuck_agent(c, program, mark):
    os.environ.update(LD_PRELOAD=str(STUCK), ASAN_OPTIONS="verify_asan_link_order=0", STUCK_MARK=str(mark),
                      STUCK_INODE=str(program.stat().st_ino))
    try:
        return c.agent("host-a", "--tracers", "cpu,metrics,marks")
    finally:
        for name in ("LD_PRELOAD", "ASAN_OPTIONS", "STUCK_MARK", "STUCK_INODE"):
            del os.environ[name]


def test_sigterm_while_a_file_of_symbols_does_not_answer():
    with Cluster() as c:
        c.aggregator()
        program, mark = c.dir / "stuck-job", c.dir / "mark"
        shutil.copy(JOB, program)
        agent = start_stuck_agent(c, program, mark)
        c.wait_hosts(1, calibrated=False)
        if [t["state"] for t in c.hosts()["host-a"]["tracers"] if t["name"] == "cpu"] == ["off"]:
            raise SkipTest("no CPU samples here")
        job = subprocess.Popen([program, "1000"], stdout=subprocess.DEVNULL)
        try:
            wait_until("a worker to read the program's symbols", mark.exists)
        finally:
            job.kill()
            job.wait()
        begin = time.monotonic()
        agent.terminate()
        assert agent.wait(20 * SLOW) == 0, agent.returncode
        took = time.monotonic() - begin
        assert took < 2 * SLOW, f"the agent ended after {took:.1f} s"
        assert "state=cut" in c.log("host-a"), c.log("host-a")


main(test_sigterm_while_a_file_of_symbols_does_not_answer)
