# SPDX-License-Identifier: Apache-2.0
"""The last release's agents with today's aggregator, and the other way round; and an upgrade of the aggregator under a capture.

The release is the newest of tests/data/store-*.tar.xz. It is built from this clone's history into build/old (a minute and a half of CPU time,
once); a clone without it skips. TUTTI_OLD_BIN names a folder with that release's programs instead."""
import os
import pathlib
import re
import signal
import subprocess
import unittest.mock

from lib import cluster, schema
from lib.cluster import BIN, SLOW, Cluster, SkipTest, main, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ("tutti-agent", "tutti-aggregator", "tutti", "burst")
BUILD_S = 900
TRACERS = ("--tracers", "metrics,marks", "--reconnect-max", "300ms")


def last_release():
    """Its commit: that of the newest data."""
    found = [re.fullmatch(r"store-(.*)\.tar\.xz", p.name)[1] for p in (ROOT / "tests/data").glob("store-*.tar.xz")]
    dates = {name: git("log", "-1", "--format=%ct", f"{name}^{{commit}}") for name in found}
    known = {name: int(date) for name, date in dates.items() if date}
    if len(known) < len(found):
        raise SkipTest(f"this clone's history lacks {', '.join(set(found) - set(known))}: git fetch --unshallow")
    return max(known, key=known.get)


def git(*words):
    """What it prints; empty if it fails."""
    p = subprocess.run(["git", "-c", f"safe.directory={ROOT}", "-C", ROOT, *words], capture_output=True, text=True, timeout=60)
    return p.stdout.strip() if p.returncode == 0 else ""


def build(release):
    """The folder of its programs."""
    source = ROOT / "build/old" / release
    folder = source / "build/release/bin"
    if all((folder / name).exists() for name in PROGRAMS) and (source / ".complete").exists():
        return folder
    source.mkdir(parents=True, exist_ok=True)
    script = (f'git -c safe.directory="{ROOT}" -C "{ROOT}" archive {release} | tar -xf - && cmake --preset release && '
              f'cmake --build --preset release --target {" ".join(PROGRAMS)}')
    p = subprocess.run(["bash", "-o", "pipefail", "-c", script], cwd=source, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=BUILD_S)
    assert p.returncode == 0, f"{release} does not build:\n{p.stdout[-4000:]}"
    (source / ".complete").touch()
    return folder


OLD = pathlib.Path(os.environ["TUTTI_OLD_BIN"]) if "TUTTI_OLD_BIN" in os.environ else None


class Mixed(Cluster):
    """Each process is of the one or of the other release; what the old one says is held against no schema of today."""

    def of(self, release):
        return unittest.mock.patch.object(cluster, "BIN", release)

    def start_aggregator(self, release, *flags):
        with self.of(release):
            self.aggregator(*flags)

    def start_agent(self, release, host, *flags):
        with self.of(release):
            self.agent(host, *TRACERS, *flags)

    def ask(self, release, *args, check=0):
        with self.of(release):
            return self.tutti(*args, "--json", check=check)[1]

    def agents_back(self, n):
        wait_until(f"{n} agents", lambda: sum(h["state"] == "connected" and h["clock"]["calibrated"] for h in self.hosts().values()) == n, 60)


def check_work(c, release, old_hosts, n=3):
    """All that goes over the links: captures of each kind, marks, a retry, stops, a restart of an agent. `release` is the command line's."""
    doc = c.ask(release, "capture", "--duration", "500ms", "--set", "metrics.max_hz=5")
    assert doc["complete"] == n, doc["hosts"]
    assert max(h["clock_bound_ns"] for h in doc["hosts"]) < 10**9, doc["hosts"]
    c.wait_rings(2)
    doc = c.ask(release, "snapshot", "--last", "1s")
    assert doc["complete"] == n, doc["hosts"]
    doc = c.ask(release, "capture", "--at-step", "next", "--steps", "2")
    assert doc["complete"] == n and all(h["steps"]["last"] > h["steps"]["first"] for h in doc["hosts"]), doc["hosts"]
    doc = c.ask(release, "capture", "--duration", "1s", "--refine", "events")
    assert doc["complete"] == n and doc["causality"]["checked"] and not doc["causality"]["violations"], doc["causality"]
    status, running = c.call("POST", "/api/v1/captures", {"duration_ns": 600 * 10**9})
    assert status == 202, running
    wait_until("it to run", lambda: all(h["state"] == "running" for h in c.get(f"/api/v1/captures/{running['session']}")["hosts"]))
    c.ask(release, "stop", running["session"])
    wait_until("its commit", lambda: c.call("GET", f"/api/v1/sessions/{running['session']}")[0] == 200)
    host = old_hosts[0]
    c.kill(host, signal.SIGKILL)
    wait_until("the loss", lambda: c.hosts()[host]["state"] == "lost")
    doc = c.ask(release, "capture", "--duration", "200ms", "--hosts", ",".join(c.hosts()), check=3)
    c.start_agent(OLD if host in c.old else BIN, host)
    c.agents_back(n)
    doc = c.ask(release, "retry", doc["session"])
    assert doc["complete"] == n and doc["revision"] == 2, doc
    for h in doc["hosts"]:
        assert h["reason"] == "", h


def started(c, aggregator, releases):
    """An aggregator, and an agent of each of the releases."""
    c.old = {host for host, release in releases.items() if release == OLD}
    c.start_aggregator(aggregator)
    for host, release in releases.items():
        c.start_agent(release, host)
    c.agents_back(len(releases))
    c.burst(*releases, flags=("--period", "200ms", "--work", "5ms", "--barrier", "--steps"))


def test_old_agents():
    with Mixed() as c:
        started(c, BIN, {"host-a": OLD, "host-b": BIN, "host-c": OLD})
        check_work(c, BIN, ["host-c"])


def test_old_aggregator():
    with Mixed() as c, unittest.mock.patch.multiple(schema, check_answer=lambda *_: None, check_printed=lambda *_: None, check_stored=lambda *_: None):
        started(c, OLD, {"host-a": BIN, "host-b": OLD, "host-c": BIN})
        check_work(c, BIN, ["host-c"])  # with today's command line
        assert c.ask(OLD, "capture", "--duration", "200ms")["complete"] == 3


def test_upgrade():
    """The old aggregator is killed under a capture, today's carries it on with the old agents; then these are replaced, one by one."""
    with Mixed() as c:
        started(c, OLD, {"host-a": OLD, "host-b": OLD, "host-c": OLD})
        before = c.ask(OLD, "capture", "--duration", "200ms")
        status, doc = c.call("POST", "/api/v1/captures", {"duration_ns": int(4 * SLOW * 10**9)})
        assert status == 202, doc
        wait_until("it to run", lambda: all(h["state"] == "running" for h in c.get(f"/api/v1/captures/{doc['session']}")["hosts"]))
        c.kill("aggregator")
        c.start_aggregator(BIN)
        wait_until("its commit", lambda: c.call("GET", f"/api/v1/sessions/{doc['session']}")[0] == 200, 60)
        manifest = c.get(f"/api/v1/sessions/{doc['session']}")
        assert manifest["complete"] == 3, manifest["hosts"]
        assert before["session"] in {s["session"] for s in c.get("/api/v1/sessions")["sessions"]}
        for host in list(c.old):
            c.kill(host, signal.SIGTERM)
            assert c.processes[host].wait(30 * SLOW) == 0
            c.old.discard(host)
            c.start_agent(BIN, host)
            c.agents_back(3)
            assert c.ask(BIN, "capture", "--duration", "200ms")["complete"] == 3


def run(test):
    """The test, once the release is there."""
    def with_release():
        global OLD
        OLD = OLD or build(last_release())
        test()
    with_release.__name__ = test.__name__
    return with_release


main(*map(run, (test_old_agents, test_old_aggregator, test_upgrade)))
