# SPDX-License-Identifier: Apache-2.0
"""`tutti capture` behind a proxy that harms the stream of events: the command ends with the capture's result, and soon. With "silent"
as argument, also behind one that forwards nothing any more, which takes 45 s, or nothing of the next stream, which takes as long."""
import json
import signal
import socket
import subprocess
import sys
import threading
import time

from lib.cluster import BIN, SLOW, Cluster, main, wait_until


class Proxy:
    """Forwards connections to `target`. The first stream of events is harmed as `how` says, after its first event; of the next
    `n_silent` streams nothing is forwarded; what comes later passes."""

    def __init__(self, target, how, n_silent=0):
        self.target, self.how, self.harmed, self.n_silent = target, how, 0, n_silent
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.listener.close()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self.target), 20 * SLOW)
            far.settimeout(None)  # it may say nothing for as long as it likes
            is_events = threading.Event()
            threading.Thread(target=self.forward, args=(near, far, is_events), daemon=True).start()
            threading.Thread(target=self.back, args=(far, near, is_events), daemon=True).start()

    def forward(self, near, far, is_events):
        try:
            while data := near.recv(1 << 16):
                if b"/events " in data:
                    is_events.set()
                    if self.harmed and self.n_silent:
                        self.n_silent -= 1
                        continue
                far.sendall(data)
        except OSError:
            pass

    def back(self, far, near, is_events):
        try:
            while data := far.recv(1 << 16):
                near.sendall(data)
                if b"event: capture" in data and is_events.is_set() and not self.harmed:
                    self.harmed += 1
                    self.how(far, near)
        except OSError:
            pass
        for s in (near, far):
            s.close()


def half_close(far, near):
    """The end of the stream comes before that of the capture; the proxy still reads."""
    near.shutdown(socket.SHUT_WR)
    time.sleep(20)


def cut(far, near):
    near.shutdown(socket.SHUT_RDWR)


def delay(far, near):
    """All that is left comes late, at once."""
    held = b""
    end = time.monotonic() + 3
    while time.monotonic() < end:
        far.settimeout(max(0.01, end - time.monotonic()))
        try:
            held += far.recv(1 << 16)
        except TimeoutError:
            break
    far.settimeout(None)
    near.sendall(held)


def swallow(far, near):
    """Everything that comes, for ever."""
    while far.recv(1 << 16):
        pass


def capture_through(c, how, seconds, n_silent=0):
    with Proxy(c.http, how, n_silent) as proxy:
        start = time.monotonic()
        code, doc = c.tutti("capture", "--duration", "1s", "--json", "--server", f"http://127.0.0.1:{proxy.port}")
        took = time.monotonic() - start
        assert (proxy.harmed, proxy.n_silent) == (1, 0), "the stream was not harmed"
    assert (code, doc["complete"]) == (0, 1), (how.__name__, code, doc)
    assert took < seconds * SLOW, f"{how.__name__}: took {took:.1f} s"


def one_host(c):
    c.aggregator()
    c.agent("one", "--reconnect-max", "300ms", tracers="metrics")
    c.wait_hosts(1)


def test_harmed_streams():
    with Cluster() as c:
        one_host(c)
        for how in (half_close, cut, delay):
            capture_through(c, how, 15)


def test_silent_stream():
    if "silent" not in sys.argv:
        return
    with Cluster() as c:
        one_host(c)
        capture_through(c, swallow, 60)
        capture_through(c, cut, 60, n_silent=1)


def test_restart():
    """The aggregator is killed and starts again in the middle: the same command reports the session."""
    with Cluster() as c:
        one_host(c)
        out = open(c.dir / "answer.json", "w")
        p = subprocess.Popen([BIN / "tutti", "capture", "--duration", "3s", "--json", "--server", c.url], stdout=out,
                             stderr=subprocess.DEVNULL)
        wait_until("the capture to run", lambda: any(
            h["state"] == "running" for cap in c.get("/api/v1/captures")["captures"] for h in cap["hosts"]))
        c.kill("aggregator")
        c.aggregator()
        assert p.wait(60 * SLOW) == 0, (c.dir / "answer.json").read_text()
        assert '"complete": 1' in (c.dir / "answer.json").read_text()


def test_no_host():
    """A selector that no host matches: exit code 4, and with --json a document."""
    with Cluster() as c:
        one_host(c)
        code, doc = c.tutti("capture", "--hosts", "host-z", "--json")
        assert code == 4 and "host-z" in doc["error"], (code, doc)


def test_interrupted():
    """Ctrl-C ends the command, which says how to reach the capture; the capture goes on and becomes a session."""
    with Cluster() as c:
        one_host(c)
        p = subprocess.Popen([BIN / "tutti", "capture", "--duration", "3s", "--json", "--server", c.url], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        wait_until("the capture to run", lambda: any(
            h["state"] == "running" for cap in c.get("/api/v1/captures")["captures"] for h in cap["hosts"]))
        p.send_signal(signal.SIGINT)
        out, told = p.communicate(timeout=10 * SLOW)
        assert p.returncode == 130, (p.returncode, told)
        (capture,) = c.get("/api/v1/captures")["captures"]
        session = capture["session"]
        for command in ("show", "stop", "cancel"):
            assert f"tutti {command} {session}" in told, told
        assert json.loads(out)["error"].startswith(f"{session} goes on"), out
        wait_until("the session", lambda: session in [s["session"] for s in c.get("/api/v1/sessions")["sessions"]])


main(test_harmed_streams, test_silent_stream, test_restart, test_no_host, test_interrupted)
