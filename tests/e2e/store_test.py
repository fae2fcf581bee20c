# SPDX-License-Identifier: Apache-2.0
"""A store that fails under a whole cluster: at the start, in the middle, and what the aggregator answers meanwhile."""
import pathlib
import signal
import time
import urllib.request

from lib.cluster import SLOW, Cluster, main, wait_until

TRUTH_S = 5  # docs/operations.md; a busy machine is given longer, but not as long as a call that hangs


class Store:
    """A store of this cluster that fails by rules (storage/store_fault.h)."""

    def __init__(self, c):
        self.rules = c.dir / "rules"
        self.rules.touch()
        self.flag = f"--store=fault://{self.rules}!file://{c.store}"

    def set(self, rules=""):
        self.rules.write_text(rules and rules + "\n")


def answers(c):
    try:
        return urllib.request.urlopen(f"{c.url}/healthz", timeout=2).status == 200
    except OSError:
        return False


def begin(c, seconds):
    status, doc = c.call("POST", "/api/v1/captures", {"duration_ns": int(seconds * 1e9)})
    assert status == 202, (status, doc)
    return doc["session"]


def start_agent(c):
    c.agent("one", "--reconnect-max", "300ms", tracers="metrics")
    c.wait_hosts(1)


def test_store_down_at_start():
    """The aggregator is killed in the middle of a capture, and the store is away when it starts: nothing is lost."""
    with Cluster() as c:
        store = Store(c)
        c.aggregator(store.flag)
        start_agent(c)
        session = begin(c, 1)
        c.kill("aggregator")
        store.set("* * fail")
        c.start("aggregator", [a for a in c.processes["aggregator"].args])
        wait_until("an answer", lambda: answers(c))
        c.wait_hosts(1)
        for method, path in (("POST", "/api/v1/captures"), ("GET", f"/api/v1/captures/{session}")):
            status, doc = c.call(method, path, {} if method == "POST" else None)
            assert (status, doc.get("reason")) == (503, "store"), (path, status, doc)
        store.set()
        found = wait_until("the session", lambda: c.call("GET", "/api/v1/sessions")[1].get("sessions"))[0]
        assert (found["session"], found["complete"]) == (session, 1), found


def catches_sigterm(p):
    status = pathlib.Path(f"/proc/{p.pid}/status").read_text()
    return int(status.split("SigCgt:")[1].split()[0], 16) >> (signal.SIGTERM - 1) & 1


def test_sigterm_while_the_store_hangs_at_start():
    with Cluster() as c:
        store = Store(c)
        p = c.aggregator(store.flag)
        c.kill("aggregator")
        store.set("list * hang")
        p = c.start("aggregator", list(p.args))
        wait_until("the start", lambda: catches_sigterm(p))
        p.expected = False
        p.terminate()
        assert p.wait(20 * SLOW) == 0, p.returncode
        assert "before the store was open" in c.log("aggregator"), c.log("aggregator")


def seconds_until(c, p, ready):
    start = time.monotonic()
    wait_until(f"ready={ready}", lambda: c.is_ready(p) == ready)
    took = time.monotonic() - start
    metric = f"tutti_store_ready {int(ready)}"
    assert metric in c.metrics(), metric
    return took


def test_readiness():
    with Cluster() as c:
        store = Store(c)
        p = c.aggregator(store.flag)
        start_agent(c)
        for rules in ("put * full", "write * hang"):
            store.set(rules)
            down = seconds_until(c, p, False)
            status, doc = c.call("POST", "/api/v1/captures", {})
            assert (status, doc.get("reason")) == (503, "store"), (status, doc)
            store.set()
            up = seconds_until(c, p, True)
            print(f"     {rules}: not ready after {down:.1f} s, ready after {up:.1f} s")
            assert max(down, up) < 3 * TRUTH_S * SLOW


def test_plan_refused():
    """503 with a reason; the fleet is free for the next capture."""
    with Cluster() as c:
        store = Store(c)
        c.aggregator(store.flag)
        start_agent(c)
        store.set("put tutti/ledger/* full")
        status, doc = c.call("POST", "/api/v1/captures", {"duration_ns": 10 ** 8})
        assert (status, doc.get("reason")) == (503, "store"), (status, doc)
        store.set()
        session = begin(c, 0.1)
        wait_until("the session", lambda: session in [s["session"] for s in c.get("/api/v1/sessions")["sessions"]])


main(test_store_down_at_start, test_sigterm_while_the_store_hangs_at_start, test_readiness, test_plan_refused)
