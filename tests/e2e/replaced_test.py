# SPDX-License-Identifier: Apache-2.0
"""An agent is replaced at random points of captures, as a rolling update does it: no capture loses its host.

replaced_test.py [REPLACEMENTS [SEED]]: so many; a few as part of the test run. One caller captures both hosts again and again; meanwhile
one agent gets SIGTERM, and another one comes with the same spool, 1 to 4 s after it has ended. In every capture each host has a file: a
whole one, or one that ends where the agent was stopped, with that reason.
"""
import collections
import random
import signal
import sys
import threading
import time

from lib.cluster import SLOW, Cluster, main, wait_until

REPLACEMENTS = int(sys.argv[1]) if len(sys.argv) > 1 else 4
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 32)
HOSTS = ("a", "b")
WINDOWS = ("300ms", "1s", "3s")
STOP_LIMIT_S = 8  # windows of up to 4 s are finished


class Caller(threading.Thread):
    """Captures one window after the other until it is told to end."""
    def __init__(self, c, seed):
        super().__init__(daemon=True)
        self.c, self.rng, self.ended = c, random.Random(seed), threading.Event()
        self.captures, self.error = [], None

    def run(self):
        while not self.ended.is_set() and not self.error:
            code, doc = self.c.tutti("capture", "--hosts", "all", "--duration", self.rng.choice(WINDOWS), "--json", timeout=120)
            if code not in (0, 3):
                self.error = f"exit {code}: {doc}"
            else:
                self.captures.append(doc)


def start_agent(c, host):
    c.agent(host, "--reconnect-max", "300ms", "--stop-limit", f"{STOP_LIMIT_S}s", "--back-within", f"{30 * SLOW:g}s")


def replace(c, host, away_s):
    agent = c.processes[host]
    begin = time.monotonic()
    agent.terminate()
    assert agent.wait(60) == 0, agent.returncode
    took = time.monotonic() - begin
    assert took < STOP_LIMIT_S + 10 * SLOW, f"{host} ended {took:.1f} s after SIGTERM"
    time.sleep(away_s)
    start_agent(c, host)


def check(captures):
    ends = collections.Counter()
    for doc in captures:
        assert sorted(h["host"] for h in doc["hosts"]) == list(HOSTS), doc
        for h in doc["hosts"]:
            ends[(h["state"], h.get("reason", ""))] += 1
    lost = [(doc["session"], h["host"], h["reason"], h.get("detail")) for doc in captures for h in doc["hosts"] if h["state"] == "failed"]
    print(f"     {len(captures)} captures: {dict(ends)}", flush=True)
    assert not lost, lost
    assert set(ends) <= {("complete", ""), ("partial", "window-cut"), ("partial", "uncalibrated")}, ends


def test_replaced_under_captures():
    rng = random.Random(SEED)
    print(f"     seed {SEED}", flush=True)
    with Cluster() as c:
        c.aggregator()
        for host in HOSTS:
            start_agent(c, host)
        c.wait_hosts(len(HOSTS))
        caller = Caller(c, SEED)
        caller.start()
        for _ in range(REPLACEMENTS):
            time.sleep(rng.uniform(0, 3))
            replace(c, rng.choice(HOSTS), rng.uniform(1, 4))
            n = len(caller.captures)
            wait_until("a capture after it", lambda: len(caller.captures) > n or caller.error, 60)
        caller.ended.set()
        caller.join(120)
        assert not caller.error, caller.error
        check(caller.captures)


def result(c, session, host):
    doc = c.get(f"/api/v1/captures/{session}")
    return next(h for h in doc["hosts"] if h["host"] == host)


def begin(c, seconds):
    status, doc = c.call("POST", "/api/v1/captures", {"duration_ns": int(seconds * 1e9)})
    assert status in (200, 201, 202), (status, doc)
    wait_until("the window to begin", lambda: all(h["state"] == "running" for h in c.get(f"/api/v1/captures/{doc['session']}")["hosts"]))
    return doc["session"]


def wait_committed(c, session):
    wait_until("the commit", lambda: c.get(f"/api/v1/captures/{session}")["state"] == "committed", 90)


def test_long_window_is_cut():
    """What is recorded of a window that is too long to wait for is kept, with the reason."""
    with Cluster() as c:
        c.aggregator()
        for host in HOSTS:
            start_agent(c, host)
        c.wait_hosts(len(HOSTS))
        session = begin(c, 600)
        time.sleep(1)
        replace(c, "a", 0)
        c.tutti("stop", session, check=0)
        wait_committed(c, session)
        a = result(c, session, "a")
        assert (a["state"], a["reason"]) == ("partial", "window-cut") and "the agent was stopped" in a["detail"], a
        assert result(c, session, "b")["state"] == "complete", result(c, session, "b")


def test_aggregator_at_the_same_time():
    """The agent finishes a file that it cannot deliver; the next one delivers it."""
    with Cluster() as c:
        c.aggregator()
        for host in HOSTS:
            start_agent(c, host)
        c.wait_hosts(len(HOSTS))
        session = begin(c, 2)
        c.kill("aggregator", signal.SIGTERM)
        replace(c, "a", 0.5)
        assert c.processes["aggregator"].wait(60) == 0
        c.aggregator()
        wait_committed(c, session)
        ends = {h: result(c, session, h)["state"] for h in HOSTS}
        assert ends == {h: "complete" for h in HOSTS}, (ends, result(c, session, "a"))


main(test_replaced_under_captures, test_long_window_is_cut, test_aggregator_at_the_same_time)
