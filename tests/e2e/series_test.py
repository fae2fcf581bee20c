# SPDX-License-Identifier: Apache-2.0
"""A series of snapshots while the aggregator is killed, an agent is stopped, the disk is full: each window is a session of all hosts."""
import datetime
import json
import os
import random
import signal
import subprocess
import sys
import time

from lib import xspace
from lib.cluster import BIN, SLOW, Cluster, main, wait_until
from lib.leftovers import die_with_parent

HOSTS = {"host-a": [], "host-b": ["--test-clock-offset", "5s"], "host-c": ["--test-clock-offset", "-3s"]}
NUMBERS = [int(a) for a in sys.argv[1:] if a.isdigit()]
WINDOWS, SEED = NUMBERS + [4, 1][len(NUMBERS):]  # series_test.py [WINDOWS [SEED]]: many more than the test's
rng = random.Random(SEED)
KEEP = min(5, WINDOWS // 2)


class Store:
    """A store that fails by rules (storage/store_fault.h)."""

    def __init__(self, c):
        self.rules = c.dir / "rules"
        self.set("")
        self.flag = f"--store=fault://{self.rules}!file://{c.store}"

    def set(self, text):
        new = self.rules.with_suffix(".new")
        new.write_text(text)
        os.rename(new, self.rules)


class Series:
    def __init__(self, c, *flags):
        self.c = c
        self.err = open(c.dir / "series.log", "w+")
        self.p = subprocess.Popen([BIN / "tutti", "snapshot", "--every", "1s", "--for", f"{WINDOWS}s", "--json", *flags],
                                  env={**os.environ, "TUTTI_SERVER": c.url}, stdout=subprocess.PIPE, stderr=self.err, text=True,
                                  preexec_fn=die_with_parent)

    def runs(self):
        return self.p.poll() is None

    def said(self):
        return (self.c.dir / "series.log").read_text()

    def finish(self):
        out, _ = self.p.communicate(timeout=(WINDOWS * 5 + 120) * SLOW)
        return json.loads(out)["snapshots"], self.said()


def start(c, *flags):
    c.aggregator(*flags)
    for host, clock in HOSTS.items():
        c.agent(host, *clock, "--reconnect-max", "1s")
    c.wait_hosts(3)
    c.burst(*HOSTS, flags=("--period", "100ms", "--work", "10ms"))
    time.sleep(1)


def check(c, rows, said, stopped=""):
    """Each window once, all in order, each of all hosts; the last ones are in the store, no others; no burst twice or missing.
    A host that was stopped may say that most of a window is missing."""
    assert len(rows) == WINDOWS, (rows, said)
    for a, b in zip(rows, rows[1:]):
        assert a["t0_ns"] + a["duration_ns"] == b["t0_ns"], (a, b, said)
    assert [r["state"] for r in rows] == ["committed"] * WINDOWS, (rows, said)
    kept = rows[-KEEP:]
    wait_until("the others to be deleted", lambda: {s["session"] for s in c.get("/api/v1/sessions?limit=1000")["sessions"]} ==
               {r["session"] for r in kept})
    seen = {host: [] for host in HOSTS}
    for r in kept:
        doc = c.get(f"/api/v1/sessions/{r['session']}")
        states = {h["host"]: (h["state"], h["reason"]) for h in doc["hosts"]}
        if stopped and states[stopped] == ("partial", "window-cut"):
            states[stopped] = ("complete", "")
        assert states == {h: ("complete", "") for h in HOSTS}, (states, said)
        for h in doc["hosts"]:
            space = xspace.load(c.logdir / "plugins/profile" / r["session"] / h["file"])
            seen[h["host"]] += [int(t.split()[1]) for t in xspace.marks(space)]
    made = {int(line.split()[1]) for line in c.log("burst").splitlines() if line.startswith("burst ")}
    for host, n in seen.items():
        assert len(n) == len(set(n)) and set(n) == {m for m in made if min(n) <= m <= max(n)}, (host, sorted(n))


def test_aggregator_is_killed():
    """At any point: between two windows, in one, while an old one is being deleted."""
    with Cluster() as c:
        start(c)
        series = Series(c, "--keep", str(KEEP))
        wait_until("the series to begin", lambda: c.get("/api/v1/captures")["captures"])
        kills, end = 0, time.monotonic() + WINDOWS * 5 * SLOW
        while series.runs() and time.monotonic() < end:
            time.sleep(rng.uniform(0.2, 4))
            if not series.runs() or kills * 4 > WINDOWS:
                break
            c.kill("aggregator")
            kills += 1
            time.sleep(rng.uniform(0, 2))
            c.aggregator()
        rows, said = series.finish()
        print(f"     {kills} kills in {len(rows)} windows", flush=True)
        check(c, rows, said)


def test_first_window_is_asked_for_again():
    """The aggregator is killed before it has answered the first request of a series."""
    with Cluster() as c:
        store = Store(c)
        start(c, store.flag)
        store.set("put,write * hang")
        series = Series(c, "--keep", str(KEEP))
        wait_until("the first window", lambda: c.get("/api/v1/captures")["captures"])
        c.kill("aggregator")
        store.set("")
        c.aggregator(store.flag)
        rows, said = series.finish()
        assert "the connection broke" in said or "no server listens" in said, said
        check(c, rows, said)


def test_host_ends_with_the_aggregator():
    """No agent tells the next aggregator of it: the windows after that name it nevertheless."""
    with Cluster() as c:
        start(c)
        series = Series(c)
        wait_until("the first window", lambda: c.get("/api/v1/sessions")["sessions"])
        c.kill("aggregator")
        c.kill("host-c")
        c.aggregator()
        rows, said = series.finish()
        assert len(rows) == WINDOWS and "host host-c has not connected" in said, (rows, said)
        states = {h["host"]: (h["state"], h["reason"]) for h in c.get(f"/api/v1/sessions/{rows[-1]['session']}")["hosts"]}
        assert states == {"host-a": ("complete", ""), "host-b": ("complete", ""), "host-c": ("failed", "unreachable")}, states
        assert series.p.returncode == 3, series.p.returncode


def test_pinned_and_interrupted():
    """A session that stays keeps no other one; SIGINT ends a series with what it has."""
    with Cluster() as c:
        c.aggregator()
        c.agent("host-a")
        c.wait_hosts(1)
        time.sleep(1)
        series = Series(c, "--keep", "2", "--for", "0s")
        first = wait_until("the first window", lambda: c.get("/api/v1/sessions")["sessions"])[0]["session"]
        c.tutti("pin", first)
        wait_until("more windows", lambda: series.said().count(": committed") >= 5)
        sessions = {s["session"] for s in c.get("/api/v1/sessions")["sessions"]}
        assert first in sessions and len(sessions) <= 4, sessions
        series.p.send_signal(signal.SIGINT)
        rows, said = series.finish()
        assert series.p.returncode == 130 and len(rows) >= 5 and "interrupted in number" in said, (series.p.returncode, rows, said)


def stop_for_a_while(c, host):
    """Its rings go on in the kernel and in its programs; the readings that it did not make itself are named, and a window without one is cut."""
    c.kill(host, signal.SIGSTOP)
    time.sleep(2)
    end = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    c.kill(host, signal.SIGCONT)
    _, doc = c.tutti("snapshot", "--hosts", host, "--last", "1500ms", "--ending-at", end, "--tracer", "metrics", "--json", check=3)
    c.tutti("delete", doc["session"], check=0)
    [metrics] = doc["hosts"][0]["tracers"]
    assert metrics["lost"] >= 5 and "metrics" in metrics["name"], metrics
    assert (metrics["state"], metrics["reason"]) == ("degraded", "window-cut") and "most or all metrics" in metrics["detail"], metrics
    assert (doc["hosts"][0]["state"], doc["hosts"][0]["reason"]) == ("partial", "window-cut"), doc["hosts"]


def test_agent_is_stopped_and_disk_is_full():
    """One host does not run for two seconds, then the store takes nothing for a while."""
    with Cluster() as c:
        store = Store(c)
        start(c, store.flag)
        series = Series(c, "--keep", str(KEEP))
        for _ in range(1 + WINDOWS // 30):
            time.sleep(rng.uniform(0, 1))
            stop_for_a_while(c, "host-c")
            store.set("put,write * full")
            time.sleep(rng.uniform(1, 5))
            store.set("")
        rows, said = series.finish()
        check(c, rows, said, stopped="host-c")


main(test_aggregator_is_killed, test_host_ends_with_the_aggregator, test_first_window_is_asked_for_again, test_pinned_and_interrupted,
     test_agent_is_stopped_and_disk_is_full)
