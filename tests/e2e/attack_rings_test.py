# SPDX-License-Identifier: Apache-2.0
"""Processes whose annotations lie: rings of every size, heads that run away, names without end, memory that changes while it is read.
An honest program beside them is recorded, the agent's memory stays within its goal (builds without sanitizer), and is given back."""
import contextlib
import pathlib
import sys
import time

from lib import xspace
from lib.cluster import BIN, SLOW, Cluster, main, wait_until
from lib.siege import SANITIZED, memory_mb

HOSTILE = pathlib.Path(__file__).with_name("hostile_ring.py")
PEAK_MB = 128  # of a capture while a window is full of hostile names
AFTER_MB = 80
PROCESSES = 24  # each with the 8 rings that are read of one: all that a user may have


class Host(Cluster):
    def __enter__(self):
        super().__enter__()
        self.aggregator("--lead", "50ms")
        self.p = self.agent("host-0", "--annotations-look", "100ms", tracers="all")
        self.wait_hosts(1)
        self.start("burst-honest", [BIN / "annotator", 50])
        return self

    def hostile(self, how, n):
        names = [f"burst-{how}-{i}" for i in range(n)]
        for name in names:
            self.start(name, [sys.executable, HOSTILE, how])
        for name in names:
            wait_until(f"{name} to begin", lambda: "ready" in self.log(name), 60)
        return names

    @contextlib.contextmanager
    def attack(self, how, n):
        """Yields when the agent has had two seconds of it."""
        names = self.hostile(how, n)
        time.sleep(2 * SLOW)
        pathlib.Path(f"/proc/{self.p.pid}/clear_refs").write_text("5")
        yield
        peak = memory_mb(self.p.pid, "VmHWM")
        print(f"       {how}: agent: {peak:.0f} MiB at most", flush=True)
        assert self.p.poll() is None, "the agent ended"
        assert SANITIZED or peak <= PEAK_MB, f"{peak:.0f} MiB"
        for name in names:
            self.kill(name)
        if not SANITIZED:
            wait_until("the agent's memory", lambda: memory_mb(self.p.pid, "VmRSS") <= AFTER_MB, 15)

    def capture(self, *flags):
        """The honest program's steps are in it; a flood may have pushed the begin of a past window out of the agent's ring."""
        code, doc = self.tutti(*flags, "--tracer", "annotations", "--json", timeout=120)
        assert code == 0 or code == 3 and doc["hosts"][0]["reason"] == "window-cut", doc
        space = xspace.load(self.logdir / "plugins/profile" / doc["session"] / "host-0.xplane.pb")
        found = [name for p in space.planes for name, *_ in xspace.events(p) if name == "train"]
        assert found, [p.name for p in space.planes]
        assert all(len(p.event_metadata) <= 65536 + 1 for p in space.planes)


def test_rings():
    with Host() as s:
        for how, n in (("anything", 4), ("heads_that_run", 2), ("new_names", 1), ("open_scopes", 4 if SANITIZED else PROCESSES)):
            with s.attack(how, n):
                s.capture("capture", "--duration", "1s")
                s.capture("snapshot", "--last", "1s")


main(test_rings)
