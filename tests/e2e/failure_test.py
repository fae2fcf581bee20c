# SPDX-License-Identifier: Apache-2.0
"""Partial failure told in full: a killed agent, a frozen one, a dead profiler; everybody dead, and a flood of silence."""
import http.client
import json
import os
import resource
import signal
import socket
import subprocess
import time

from lib.cluster import BIN, SLOW, Cluster, free_port, main, wait_until
from lib.netns import Pair, SkipTest


def test_three_kinds_of_failure():
    with Cluster() as c:
        c.aggregator()
        for host in ("good", "killed", "frozen"):
            c.agent(host)
        c.agent("half", f"--profiler=127.0.0.1:{free_port()}", tracers="profiler,metrics")
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
        assert took < 25 * SLOW, f"committed after {took:.1f} s"
        doc = json.loads((c.dir / "capture.json").read_text())
        hosts = {h["host"]: h for h in doc["hosts"]}
        got = {h: (r["state"], r["reason"]) for h, r in hosts.items()}
        assert got == {"good": ("complete", ""), "killed": ("failed", "lost"),
                       "frozen": ("failed", "unresponsive"), "half": ("partial", "profiler-unreachable")}, got
        text = c.tutti("show", doc["session"], check=0)[1]
        for reason in ("lost", "unresponsive", "profiler-unreachable"):
            assert reason in text, text
        print(f"     committed {took:.1f} s after the request; {got}")


def wait_for_record(c):
    """The one file that stays of a failed capture; its ledger goes after the answer."""
    def alone():
        files = [f for f in c.store.rglob("*") if f.is_file()]
        return files if len(files) == 1 else None
    left, = wait_until("the ledger to go", alone)
    assert left.parent == c.store / "tutti/failed", left
    return left


def test_all_dead():
    with Cluster() as c:
        c.aggregator()
        c.agent("one")
        c.agent("two")
        c.wait_hosts(2)
        c.kill("one")
        c.kill("two")
        wait_until("the loss to be seen", lambda: all(h["state"] == "lost" for h in c.hosts().values()))
        assert c.tutti("capture", "--duration", "1s")[0] == 4
        assert c.tutti("sessions", "--json")[1]["sessions"] == []
        left = wait_for_record(c)
        c.kill("aggregator")
        c.aggregator()
        assert c.get(f"/api/v1/captures/{left.stem}")["state"] == "failed"


def test_no_host_ever():
    with Cluster() as c:
        c.aggregator()
        assert c.tutti("capture", "--duration", "1s")[0] == 4


def test_killed_while_recording_all():
    with Cluster() as c:
        c.aggregator()
        c.agent("one")
        c.wait_hosts(1)
        p = subprocess.Popen([BIN / "tutti", "capture", "--duration", "5s"], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, env={**os.environ, "TUTTI_SERVER": c.url})
        wait_until("the capture to run", lambda: any(
            h["state"] == "running" for cap in c.get("/api/v1/captures")["captures"] for h in cap["hosts"]))
        c.kill("one")
        assert p.wait(30 * SLOW) == 4
        assert c.tutti("sessions", "--json")[1]["sessions"] == []
        left = wait_for_record(c)
        # Whoever asks later, of another aggregator, is told so all the same.
        c.kill("aggregator")
        c.aggregator()
        doc = c.get(f"/api/v1/captures/{left.stem}")
        assert (doc["state"], doc["hosts"][0]["reason"]) == ("failed", "lost"), doc


def test_stopped_while_the_store_fails():
    """SIGTERM between two tries to commit: nothing that is stored is given up, the next start commits it."""
    with Cluster() as c:
        c.aggregator()
        c.agent("one", "--reconnect-max", "300ms", tracers="metrics")
        c.wait_hosts(1)
        index = c.store / "tutti/index"
        index.parent.mkdir(exist_ok=True)
        index.write_text("in the way")
        p = subprocess.Popen([BIN / "tutti", "capture", "--duration", "300ms"], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, env={**os.environ, "TUTTI_SERVER": c.url})
        wait_until("a commit to fail", lambda: "action=end try=1" in c.log("aggregator"))
        aggregator = c.processes["aggregator"]
        aggregator.terminate()
        assert aggregator.wait(20 * SLOW) == 0
        assert "AGG-LEFT" in c.log("aggregator")
        p.wait(20 * SLOW)
        index.unlink()
        c.aggregator()
        session = wait_until("the session", lambda: c.get("/api/v1/sessions")["sessions"])[0]
        assert session["complete"] == 1, session


def capture_in_background(c, duration):
    return subprocess.Popen([BIN / "tutti", "capture", "--duration", duration], stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL, env={**os.environ, "TUTTI_SERVER": c.url})


def test_sigterm_keeps_captures():
    """A rolling update in the middle of a window: the next aggregator carries the capture on, nothing is missing."""
    with Cluster() as c:
        c.aggregator()
        c.agent("one", "--reconnect-max", "300ms", tracers="metrics")
        c.wait_hosts(1)
        p = capture_in_background(c, "1500ms")
        wait_until("the capture to run", lambda: any(
            h["state"] == "running" for cap in c.get("/api/v1/captures")["captures"] for h in cap["hosts"]))
        aggregator = c.processes["aggregator"]
        aggregator.terminate()
        assert aggregator.wait(20 * SLOW) == 0
        p.wait(20 * SLOW)
        assert not list(c.store.glob("tutti/sessions/*/manifest.json"))
        c.aggregator()
        session = wait_until("the session", lambda: c.get("/api/v1/sessions")["sessions"])[0]
        assert (session["complete"], session["failed"]) == (1, 0), session


def test_stop_has_a_deadline():
    """A store that hangs in the middle of a commit does not hold SIGTERM up; what it has is there at the next start."""
    with Cluster() as c:
        rules = c.dir / "rules"
        rules.touch()
        store = f"--store=fault://{rules}!file://{c.store}"
        c.aggregator(store, "--stop-limit", "1s")
        c.agent("one", "--reconnect-max", "300ms", tracers="metrics")
        c.wait_hosts(1)
        rules.write_text("put tutti/index/* hang\n")
        p = capture_in_background(c, "100ms")
        wait_until("the commit", lambda: any(
            cap["state"] == "committing" for cap in c.get("/api/v1/captures")["captures"]))
        aggregator = c.processes["aggregator"]
        aggregator.expected = False
        aggregator.terminate()
        assert aggregator.wait(20 * SLOW) == 1
        p.wait(20 * SLOW)
        rules.write_text("")
        c.aggregator(store)
        session = wait_until("the session", lambda: c.get("/api/v1/sessions")["sessions"])[0]
        assert session["complete"] == 1, session


def test_vanished_without_a_word():
    """A host loses power and is back at once: its name is free as soon as its old stream does not answer, not only at
    the next ping."""
    try:
        with Pair() as net, Cluster() as c:
            net.enter(net.near)
            c.away = net.entrance(net.far)
            c.aggregator("--grpc", f"{net.NEAR}:{c.grpc}", "--insecure")
            flags = "--aggregator", f"{net.NEAR}:{c.grpc}", "--reconnect-max", "500ms"
            c.agent("host-a", *flags)
            c.wait_hosts(1, calibrated=False)
            net.unplug_far()
            c.kill("host-a")
            net.renew_far()
            start = time.monotonic()
            c.agent("host-a", *flags)
            wait_until("the host to be back", lambda: c.log("aggregator").count("AGG-HOST host=host-a") == 2, 15)
            print(f"     back after {time.monotonic() - start:.1f} s")
    except SkipTest as why:
        print(f"     not tried: {why}")


def answers(c, source, seconds):
    """How long until /healthz is answered to that address."""
    start = time.monotonic()
    while True:
        conn = http.client.HTTPConnection("127.0.0.1", c.http, timeout=1, source_address=(source, 0))
        try:
            conn.request("GET", "/healthz")
            assert conn.getresponse().status == 200
            return time.monotonic() - start
        except (OSError, http.client.HTTPException):
            assert time.monotonic() - start < seconds * SLOW, f"{source} had no answer for {seconds} s"
        finally:
            conn.close()


def is_open(connection):
    connection.setblocking(False)
    try:
        connection.recv(1)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def test_half_open():
    """A thousand connections that say nothing: other addresses are served at once, their own soon."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with Cluster() as c:
        c.aggregator()
        half_open = [socket.create_connection(("127.0.0.1", c.http), 20 * SLOW) for _ in range(1000)]
        other = answers(c, "127.0.0.2", 10)
        assert any(map(is_open, half_open)), "the other address was served when there was room again"
        own = answers(c, "127.0.0.1", 20)
        print(f"     another address after {other:.2f} s, their own after {own:.2f} s")
        for s in half_open:
            s.close()


main(test_half_open, test_vanished_without_a_word, test_sigterm_keeps_captures, test_stop_has_a_deadline, test_stopped_while_the_store_fails, test_three_kinds_of_failure, test_all_dead, test_no_host_ever,
     test_killed_while_recording_all)
