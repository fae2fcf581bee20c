# SPDX-License-Identifier: Apache-2.0
"""Disks that are really full, or read-only, below the store and the spools: nothing that was promised is lost, and a full store gets its
room back by deletions and rules. Needs root: the disks are tmpfs in a mount namespace of this test's own."""
import contextlib
import ctypes
import os
import subprocess
import time

from lib import xspace
from lib.cluster import SLOW, Cluster, main, wait_until
from lib.netns import SkipTest

CLONE_NEWNS = 0x20000
TRUTH_S = 5  # docs/operations.md; a busy machine is given longer


def own_mounts():
    if os.geteuid() or ctypes.CDLL(None).unshare(CLONE_NEWNS):
        raise SkipTest("no mount namespace of its own")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True, timeout=60)


class Disk:
    def __init__(self, c, path, size):
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", path], check=True, timeout=60)
        c.closing.append(self.relax)

    def fill(self):
        with open(self.path / ".filler", "ab", buffering=0) as f, contextlib.suppress(OSError):
            while True:
                f.write(bytes(4096))

    def make_read_only(self):
        self.remount("ro")

    def remount(self, mode):
        # "busy" while a file is open for writing
        wait_until(f"a disk that is {mode}", lambda: not subprocess.run(["mount", "-o", f"remount,{mode}", self.path], timeout=60).returncode)

    def relax(self):
        self.remount("rw")
        (self.path / ".filler").unlink(missing_ok=True)


def start_agents(c, *hosts, flags=(), tracers="metrics,marks"):
    for host in hosts:
        c.agent(host, *flags, "--reconnect-max", "300ms", tracers=tracers)
    c.wait_hosts(len(hosts))


def restart(c, *flags):
    """As after a crash; it may not get ready."""
    p = c.processes["aggregator"]
    if p.poll() is None:
        c.kill("aggregator")
    return c.start("aggregator", [*p.args, *flags])


def answer(c, path):
    """(0, None) while nothing listens."""
    try:
        return c.call("GET", path)
    except OSError:
        return 0, None


def wait_ready(c, ready):
    wait_until(f"ready={ready}", lambda: c.is_ready(c.processes["aggregator"]) == ready, 3 * TRUTH_S)


def capture(c, **more):
    status, doc = c.call("POST", "/api/v1/captures", {"duration_ns": 10 ** 9, **more})
    assert status == 202, (status, doc)
    return doc["session"]


def wait_end(c, session):
    def end():
        status, doc = c.call("GET", f"/api/v1/captures/{session}")
        return status == 200 and doc["state"] in ("committed", "failed") and doc
    doc = wait_until(f"the end of {session}", end, 60)
    return doc["state"], {h["host"]: (h["state"], h["reason"]) for h in doc["hosts"]}


def sessions(c):
    return {s["session"] for s in c.get("/api/v1/sessions")["sessions"]}


def test_store():
    """In the middle of a capture; once with a crash while it is full."""
    with Cluster() as c:
        disk = Disk(c, c.store, "16m")
        c.aggregator()
        start_agents(c, "a", "b")
        for spoil, crash in ((disk.fill, False), (disk.fill, True), (disk.make_read_only, True)):
            session = capture(c)
            spoil()
            wait_ready(c, False)
            status, doc = c.call("POST", "/api/v1/captures", {})
            assert (status, doc["reason"]) == (503, "store"), (status, doc)
            assert c.call("GET", "/api/v1/sessions")[0] == 200  # what can be read is read
            time.sleep(1.5)  # the window is over, and its files cannot be stored
            if crash:
                restart(c)
                wait_until("an answer", lambda: answer(c, f"/api/v1/captures/{session}")[0])
                status, doc = c.call("GET", f"/api/v1/captures/{session}")
                assert (status, doc["reason"]) == (503, "store"), (status, doc)
            disk.relax()
            wait_ready(c, True)
            assert wait_end(c, session) == ("committed", {"a": ("complete", ""), "b": ("complete", "")}), session
            wait_until("its line", lambda: session in sessions(c))
        assert not list(c.store.glob("**/.tutti-*")), "temporary files"


def test_room_by_hand():
    """A deletion needs room for its own record: it makes that first."""
    with Cluster() as c:
        disk = Disk(c, c.store, "16m")
        c.aggregator()
        start_agents(c, "a")
        first, second, pinned = (c.tutti("capture", "--duration", "50ms", "--json", check=0)[1]["session"] for _ in range(3))
        c.tutti("pin", pinned, check=0)
        for session, start in ((first, False), (second, True)):
            disk.fill()
            wait_ready(c, False)
            if start:
                restart(c)
                wait_until("an answer", lambda: answer(c, "/api/v1/hosts")[0])
            c.tutti("delete", session, check=0)
            wait_ready(c, True)
        assert sessions(c) == {pinned}
        disk.relax()


def test_room_by_rules():
    """A store that was full before the start."""
    with Cluster() as c:
        disk = Disk(c, c.store, "16m")
        c.aggregator()
        start_agents(c, "a")
        old = []
        for _ in range(3):
            time.sleep(1)  # the names of sessions, by which they are in order, tell the second
            old.append(c.tutti("capture", "--duration", "50ms", "--json", check=0)[1]["session"])
        c.kill("aggregator")  # the newest may have no entry in the index yet
        disk.fill()
        damaged = c.store / "tutti/sessions" / old[0] / "manifest.json"  # the oldest: it keeps no other one
        whole = damaged.read_bytes()
        damaged.write_bytes(b"{" + whole[1:-1])
        restart(c, "--retain-bytes", "1", "--retain-period", "200ms")
        wait_until("the second one to go", lambda: not (c.store / "tutti/sessions" / old[1]).exists())
        wait_ready(c, True)
        wait_until("the entry of the newest", lambda: sessions(c) == {old[0], old[2]})
        damaged.write_bytes(whole)
        disk.relax()


def test_room_by_a_removal():
    """A removal was killed when the manifest was gone, and then the store was full: the start goes on with it."""
    with Cluster() as c:
        disk = Disk(c, c.store, "16m")
        rules = c.dir / "rules"
        rules.touch()
        p = c.aggregator("--store", f"fault://{rules}!file://{c.store}")
        start_agents(c, "a")
        session = c.tutti("capture", "--duration", "50ms", "--json", check=0)[1]["session"]
        wait_until("its commit", lambda: not list((c.store / "tutti/ledger").glob("[!.]*")))
        rules.write_text("remove profiles/* crash\n")
        c.tutti("delete", session)
        p.wait(20 * SLOW)
        p.expected = False
        assert not (c.store / "tutti/sessions" / session).exists() and (c.logdir / "plugins/profile" / session).exists()
        rules.write_text("")
        disk.fill()
        restart(c)
        wait_ready(c, True)
        assert not sessions(c) and not list(c.logdir.rglob("*.pb")) and not list((c.store / "tutti/ledger").glob("[!.]*"))
        disk.relax()


def test_spool_of_the_agent():
    """Said so; the next capture has the host again."""
    with Cluster() as c:
        disk = Disk(c, c.dir / "a-spool", "4m")
        c.aggregator()
        start_agents(c, "a", "b")
        disk.fill()
        code, doc = c.tutti("capture", "--duration", "300ms", "--json", check=3)
        a, b = doc["hosts"]
        assert (a["state"], a["reason"], b["state"]) == ("failed", "disk-full", "complete"), doc["hosts"]
        assert "No space left" in a["detail"], a
        disk.relax()
        assert c.tutti("retry", doc["session"], "--json", check=0)[1]["complete"] == 2
        c.tutti("capture", "--duration", "300ms", "--json", check=0)
        wait_until("an empty spool", lambda: {p.name for p in disk.path.iterdir()} == {".lock"})


def test_spool_of_the_aggregator():
    """Full when the files come, and free again before their deadline; and not before: a retry has them."""
    with Cluster() as c:
        disk = Disk(c, c.dir / "agg-spool", "8m")
        c.aggregator("--grace", f"{8 * SLOW:g}s")
        start_agents(c, "a", flags=c.profilers(xspace.synthetic(200_000, 500_000_000_000)), tracers="profiler")
        disk.fill()
        session = capture(c)
        wait_until("a refusal", lambda: "spool has no space" in c.log("aggregator"))
        disk.relax()
        state, hosts = wait_end(c, session)
        assert state == "committed" and hosts["a"][0] != "failed", hosts
        disk.fill()
        session = capture(c)
        state, hosts = wait_end(c, session)
        assert state == "failed" and hosts["a"][0] == "failed", (state, hosts)
        disk.relax()


main(test_store, test_room_by_hand, test_room_by_rules, test_room_by_a_removal, test_spool_of_the_agent, test_spool_of_the_aggregator, before=[own_mounts])
