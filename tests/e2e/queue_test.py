# SPDX-License-Identifier: Apache-2.0
"""Captures that want the same framework profiler at the same time: shared if they are the same, else one after the other."""
import json
import urllib.error
import urllib.request

from lib.cluster import BIN, SLOW, Cluster, main, wait_until
from lib.command import Command


def profiled_agent(c, host):
    c.agent(host, f"--profiler=127.0.0.1:{(c.dir / f'{host}.port').read_text().strip()}", tracers="profiler,metrics")


def start_profiled(c, *hosts):
    """Agents with a framework each that records one session at a time."""
    for host in hosts:
        port_file = c.dir / f"{host}.port"
        c.start(f"burst-{host}", [BIN / "fake_profiler", "--port-file", port_file])
        wait_until("the profiler", port_file.exists)
        profiled_agent(c, host)
    c.wait_hosts(len(hosts))


def begin_long(c, *flags):
    """A capture that goes on until stop() ends it."""
    command = Command(c, "long", "--duration", "600s", *flags)
    return command, wait_until("it to run", lambda: captures(c, "running"))[0]["session"]


def stop(c, session):
    assert "data is kept" in c.tutti("stop", session, check=0)[1]


def captures(c, state):
    return [cap for cap in c.get("/api/v1/captures")["captures"] if cap["state"] == state]


def window(doc):
    return doc["t0_ns"], doc["t0_ns"] + doc["duration_ns"]


def test_one_after_the_other():
    with Cluster() as c:
        c.aggregator()
        start_profiled(c, "a", "b")
        first, session = begin_long(c)
        second = Command(c, "second", "--duration", "400ms")
        wait_until("the second to wait", lambda: captures(c, "queued"))
        same = Command(c, "same", "--duration", "400ms")
        third = Command(c, "third", "--duration", "300ms", "--hosts", "b")
        rings = Command(c, "rings", "--duration", "200ms", "--tracer", "metrics")
        wait_until("the same request to share", lambda: [q for q in captures(c, "queued") if q.get("callers") == 2])
        wait_until("two to be counted", lambda: "tutti_captures_queued 2" in c.metrics())
        rings.p.wait(100 * SLOW)
        stop(c, session)
        results = {n: p.finish() for n, p in [("first", first), ("second", second), ("same", same), ("third", third), ("rings", rings)]}
        for name, (code, doc, err) in results.items():
            assert code == 0, (name, code, doc, err)
        docs = {n: r[1] for n, r in results.items()}
        assert docs["second"]["session"] == docs["same"]["session"] and docs["same"]["callers"] == 2
        assert "shared" in results["same"][2] and "queued, number 1, waits for capture" in results["second"][2], results
        assert "number 2" in results["third"][2], results["third"]
        assert window(docs["second"])[0] > window(docs["first"])[1]
        assert window(docs["third"])[0] > window(docs["second"])[1]
        assert window(docs["rings"])[0] < window(docs["first"])[1], "it needs no profiler, and waited"
        between = (window(docs["second"])[0] - window(docs["first"])[1]) / 1e9
        print(f"     the second window began {between:.2f} s after the first one's end")


def test_ends_of_waiting():
    with Cluster() as c:
        c.aggregator()
        start_profiled(c, "a")
        first, session = begin_long(c)
        code, text = c.tutti("capture", "--duration", "1s", "--wait", "0s")
        assert code == 1 and "framework profilers of a" in c.stderr, c.stderr
        code, doc = c.tutti("capture", "--duration", "1s", "--wait", "300ms", "--json")
        assert code == 4 and "waited without success" in doc["error"] and doc["hosts"][0]["reason"] == "queued", doc
        waits = Command(c, "waits", "--duration", "1s")
        queued = wait_until("it to wait", lambda: captures(c, "queued"))[0]
        assert "data is dropped" in c.tutti("cancel", queued["session"], check=0)[1]
        code, doc, _ = waits.finish()
        assert code == 4 and doc["error"] == "cancelled", doc
        waits = Command(c, "stopped", "--duration", "1s")
        queued = wait_until("it to wait", lambda: captures(c, "queued"))[0]
        assert "before its window began" in c.tutti("stop", queued["session"], check=0)[1]
        assert waits.finish()[0] == 4
        stop(c, session)
        assert first.finish()[0] == 0


def test_restart():
    with Cluster() as c:
        c.aggregator()
        start_profiled(c, "a")
        first, session = begin_long(c)
        second = Command(c, "second", "--duration", "300ms")
        wait_until("a promise to the second", lambda: "queued" in second.err.read_text())
        queued = captures(c, "queued")[0]
        c.kill("aggregator")
        first.p.wait(20 * SLOW)
        c.aggregator()
        again = c.get(f"/api/v1/captures/{queued['session']}")
        assert again["state"] == "queued", again
        c.wait_hosts(1)
        stop(c, session)
        wait_until("the second to be committed", lambda: captures(c, "committed")
                   and c.get(f"/api/v1/captures/{queued['session']}")["state"] == "committed", 60)
        doc = c.tutti("show", queued["session"], "--json", check=0)[1]
        assert doc["complete"] == 1, doc


def test_retry():
    with Cluster() as c:
        c.aggregator()
        start_profiled(c, "a", "b")
        first, session = begin_long(c)
        c.kill("b")
        wait_until("the loss to be seen", lambda: c.hosts()["b"]["state"] == "lost")
        stop(c, session)
        code, doc, _ = first.finish()
        assert code == 3 and doc["hosts"][1]["reason"] == "lost", doc
        profiled_agent(c, "b")
        c.wait_hosts(2)
        other, session = begin_long(c, "--hosts", "b")
        again = Command(c, "again", doc["session"], verb="retry")
        wait_until("the retry to wait", lambda: "queued, number 1" in again.err.read_text())
        stop(c, session)
        code, doc, err = again.finish()
        assert code == 0 and doc["complete"] == 2 and not doc["hosts"][1]["reason"], (doc, err)
        assert "queued, number 1, waits for capture" in err, err
        code, before, err = other.finish()
        assert code == 0, (before, err)
        assert doc["hosts"][1]["t0_ns"] > window(before)[1]


main(test_one_after_the_other, test_ends_of_waiting, test_restart, test_retry)
