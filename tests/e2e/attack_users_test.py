# SPDX-License-Identifier: Apache-2.0
"""A hostile user beside an honest one, and one agent for both: what the first one has names for takes nothing from the
second one, and little of the agent's memory (builds without sanitizer); a program on a file system that hangs costs others nothing."""
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys

from lib import xspace
from lib.cluster import BIN, Cluster, main, wait_until
from lib.netns import SkipTest
from lib.siege import SANITIZED, memory_mb

HERE = pathlib.Path(__file__).parent
HOSTILE = 4242
PEAK_MB = 224  # of a capture: 144 for indexes, and 80 that an agent may have anyway
AFTER_MB = 80
JITS, NAMES = 8, 700_000  # processes of the hostile user, and names of each: 70 MB of the agent's memory


def as_user(*command):
    return ["setpriv", f"--reuid={HOSTILE}", f"--regid={HOSTILE}", "--clear-groups", *command]


class Host(Cluster):
    def __init__(self, *flags):
        super().__init__()
        self.flags = flags

    def __enter__(self):
        super().__enter__()
        self.aggregator()
        self.p = self.agent("host-a", *self.flags, tracers="all")
        self.wait_hosts(1)
        return self

    def names(self, tracer):
        """Of the events of a capture."""
        code, doc = self.tutti("capture", "--duration", "2s", "--tracer", tracer, "--grace", "2m", "--json", timeout=180)
        assert code == 0, doc
        space = xspace.load(self.logdir / "plugins/profile" / doc["session"] / "host-a.xplane.pb")
        return {name for p in space.planes for name, *_ in xspace.events(p)}


def test_names():
    """Hundreds of megabytes of names for code made at run time."""
    if platform.machine() != "x86_64":
        raise SkipTest("the code is for x86-64")
    with Host() as c:
        jobs = [(f"burst-hostile-{i}", as_user(sys.executable, HERE / "jit_code.py", f"hostile_{i}", NAMES)) for i in range(JITS)]
        for name, command in jobs:
            c.start(name, command)
        for name, _ in jobs:
            wait_until(name, lambda: "ready" in c.log(name), 60)
        c.start("burst-honest", [sys.executable, HERE / "jit_code.py", "honest"])
        wait_until("the honest one", lambda: "ready" in c.log("burst-honest"), 60)
        pathlib.Path(f"/proc/{c.p.pid}/clear_refs").write_text("5")
        found = c.names("cpu")
        peak = memory_mb(c.p.pid, "VmHWM")
        print(f"       agent: {peak:.0f} MiB at most")
        for name, _ in jobs:
            c.kill(name, signal.SIGTERM)
        assert "honest" in found, found
        assert any(name.startswith("hostile_") for name in found), found
        assert SANITIZED or peak <= PEAK_MB, f"{peak:.0f} MiB"
        if not SANITIZED:
            wait_until("the agent's memory", lambda: memory_mb(c.p.pid, "VmRSS") <= AFTER_MB, 15)


def test_hung_file_system():
    """Annotations are found without a question to the file system of a program, whose answer may never come."""
    if not os.path.exists("/dev/fuse"):
        print("     note: no FUSE here")
        return
    with Host("--annotations-look", "100ms") as c:
        folder = c.dir / "hung"
        folder.mkdir()
        server = c.start("burst-server", [sys.executable, HERE / "hung_fs.py", shutil.which("sleep"), folder])
        wait_until("the mount", lambda: "mounted" in c.log("burst-server"))
        try:
            c.start("burst-sleep", [folder / "prog", "600"])
            wait_until("the program", lambda: os.readlink(f"/proc/{c.processes['burst-sleep'].pid}/exe").endswith("prog"))
            server.send_signal(signal.SIGUSR1)
            c.start("burst-honest", [BIN / "annotator", 50])
            wait_until("the honest one", lambda: "train" in c.names("annotations"))
        finally:
            c.kill("burst-server")  # what waits for an answer gets an error
            subprocess.run(["umount", "-l", folder], check=True, timeout=60)


if os.geteuid():
    print("skip: only root has processes of other users")
    sys.exit(77)
main(test_names, test_hung_file_system)
