# SPDX-License-Identifier: Apache-2.0
"""Partial failure told in full: a killed agent, a frozen one, a dead profiler; and everybody dead."""
import signal
import subprocess
import time

from lib.cluster import BIN, SLOW, Cluster, free_port, main, wait_until
import os


def test_three_kinds_of_failure():
    with Cluster() as c:
        c.aggregator("--grace", "10s")
        for host in ("good", "killed", "frozen"):
            c.agent(host)
        c.agent("half", f"--profiler=127.0.0.1:{free_port()}")
        c.wait_hosts(4)
        c.kill("frozen", signal.SIGSTOP)
        out = open(c.dir / "capture.json", "w")
        start = time.monotonic()
        p = subprocess.Popen([BIN / "tutti", "capture", "--duration", "3s", "--json"], stdout=out,
                             stderr=subprocess.DEVNULL, env={**os.environ, "TUTTI_SERVER": c.url})
        wait_until("the capture to run", lambda: any(
            h["host"] == "killed" and h["state"] == "running"
            for cap in c.get("/api/v1/captures")["captures"] for h in cap["hosts"]))
        c.kill("killed")
        assert p.wait(60 * SLOW) == 3
        took = time.monotonic() - start
        assert took < (3 + 10 + 3) * SLOW, f"committed after {took:.1f} s"
        import json
        doc = json.loads((c.dir / "capture.json").read_text())
        hosts = {h["host"]: h for h in doc["hosts"]}
        got = {h: (r["state"], r["reason"]) for h, r in hosts.items()}
        assert got == {"good": ("complete", ""), "killed": ("failed", "lost"),
                       "frozen": ("failed", "unresponsive"), "half": ("partial", "profiler-unreachable")}, got
        text = c.tutti("show", doc["session"], check=0)[1]
        for reason in ("lost", "unresponsive", "profiler-unreachable"):
            assert reason in text, text
        print(f"     committed {took:.1f} s after the request; {got}")


def test_all_dead():
    with Cluster() as c:
        c.aggregator("--grace", "5s")
        c.agent("one")
        c.agent("two")
        c.wait_hosts(2)
        c.kill("one")
        c.kill("two")
        wait_until("the loss to be seen", lambda: all(h["state"] == "lost" for h in c.hosts().values()))
        assert c.tutti("capture", "--duration", "1s")[0] == 4
        assert c.tutti("sessions", "--json")[1]["sessions"] == []
        assert not [f for f in c.store.rglob("*") if f.is_file()], list(c.store.rglob("*"))


def test_nobody_ever():
    with Cluster() as c:
        c.aggregator()
        assert c.tutti("capture", "--duration", "1s")[0] == 4


def test_killed_while_recording_all():
    with Cluster() as c:
        c.aggregator("--grace", "5s")
        c.agent("one")
        c.wait_hosts(1)
        p = subprocess.Popen([BIN / "tutti", "capture", "--duration", "5s"], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, env={**os.environ, "TUTTI_SERVER": c.url})
        wait_until("the capture to run", lambda: any(
            h["state"] == "running" for cap in c.get("/api/v1/captures")["captures"] for h in cap["hosts"]))
        c.kill("one")
        assert p.wait(30 * SLOW) == 4
        assert c.tutti("sessions", "--json")[1]["sessions"] == []
        assert not [f for f in c.store.rglob("*") if f.is_file()]


main(test_three_kinds_of_failure, test_all_dead, test_nobody_ever, test_killed_while_recording_all)
