# SPDX-License-Identifier: Apache-2.0
"""A cluster under attack: what the aggregator takes meanwhile, and whether it serves others.

    with Siege() as s:
        with s.attack():
            ...                  # /healthz is asked all the time from another address
    # leaving it checks memory and answers, then makes an honest capture

Memory is checked with builds that have no sanitizer.
"""
import contextlib
import http.client
import os
import pathlib
import socket
import threading
import time

from lib.cluster import BIN, SLOW, Cluster
from lib.raw_h2 import H2
from lib.xspace import message_class

SANITIZED = b"__asan_init" in (BIN / "tutti-aggregator").read_bytes() or b"__tsan_init" in (BIN / "tutti-aggregator").read_bytes()
RSS_MAX_MB = 64
HEALTH_MAX_S = 1.0
HONEST = "127.0.0.1"
HOSTS = 3

AgentMessage = message_class("tutti/v1/control.proto", "tutti.v1.AgentMessage")
AggregatorMessage = message_class("tutti/v1/control.proto", "tutti.v1.AggregatorMessage")
UploadMessage = message_class("tutti/v1/ingest.proto", "tutti.v1.UploadMessage")
ProfileRequest = message_class("tensorflow/profiler_service.proto", "tensorflow.ProfileRequest")
TerminateRequest = message_class("tensorflow/profiler_service.proto", "tensorflow.TerminateRequest")

CONNECT, UPLOAD = "/tutti.v1.Control/Connect", "/tutti.v1.Ingest/Upload"
PROFILE, TERMINATE = "/tensorflow.ProfilerService/Profile", "/tensorflow.ProfilerService/Terminate"
WATCH = "/grpc.health.v1.Health/Watch"


def memory_mb(pid, key):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) / 1024
    raise KeyError(key)


class Health(threading.Thread):
    """Asks for /healthz, on a new connection each time; how long the answers took, but for the longest in twenty: this machine
    may have been away meanwhile."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.over, self.took, self.asked = port, threading.Event(), [], 0
        self.start()

    def run(self):
        while not self.over.is_set():
            start = time.monotonic()
            try:
                conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10, source_address=(HONEST, 0))
                conn.request("GET", "/healthz")
                assert conn.getresponse().read() == b"ok\n"
                conn.close()
            except (OSError, http.client.HTTPException):
                start -= 1e9
            self.took.append(time.monotonic() - start)
            self.asked += 1
            self.over.wait(0.1)

    def stop(self):
        self.over.set()
        self.join(20)
        return sorted(self.took)[len(self.took) - 1 - len(self.took) // 20]


class Siege(Cluster):
    def __enter__(self):
        super().__enter__()
        self.agg = self.aggregator("--lead", "50ms")
        for i in range(HOSTS):
            self.agent(f"host-{i}")
        self.wait_hosts(HOSTS)
        return self

    @contextlib.contextmanager
    def attack(self, links=True):
        """links: no honest agent may lose its link."""
        lost = self.log("aggregator").count("W AGG-HOST-LOST host=host-")
        pathlib.Path(f"/proc/{self.agg.pid}/clear_refs").write_text("5")
        health = Health(self.http)
        yield
        time.sleep(0.2)
        worst, peak = health.stop(), memory_mb(self.agg.pid, "VmHWM")
        fds = len(os.listdir(f"/proc/{self.agg.pid}/fd"))
        print(f"       {peak:.0f} MiB at most, /healthz within {1e3 * worst:.0f} ms of {health.asked}, {fds} descriptors", flush=True)
        assert health.asked and worst < HEALTH_MAX_S * SLOW, f"/healthz took {worst:.2f} s"
        assert SANITIZED or peak <= RSS_MAX_MB, f"the aggregator took {peak:.0f} MiB"
        now = self.log("aggregator").count("W AGG-HOST-LOST host=host-")
        assert now == lost or not links, "the attack cost an honest agent its link"
        self.wait_hosts(HOSTS)
        self.capture()

    def capture(self, seconds="100ms"):
        """An honest one, of the honest hosts."""
        hosts = ",".join(f"host-{i}" for i in range(HOSTS))
        _, doc = self.tutti("capture", "--hosts", hosts, "--duration", seconds, "--json", check=0)
        assert doc["complete"] == HOSTS, doc
        return doc

    # ---- peers ----

    def h2(self, source="127.0.0.66", window=None):
        return H2(("127.0.0.1", self.grpc), window=window, source=(source, 0))

    def fake_agent(self, name, h=None, **kwargs):
        """A connection and a stream on which a Hello was sent."""
        h = h or self.h2(**kwargs)
        stream = h.call(CONNECT)
        h.message(stream, hello(name).SerializeToString())
        return h, stream

    def http_bytes(self, data, source="127.0.0.66", seconds=10):
        """Sends bytes to the HTTP port; all that came back until the other side closed, or until the end of an answer."""
        with socket.create_connection(("127.0.0.1", self.http), 10, source_address=(source, 0)) as s:
            s.sendall(data)
            s.settimeout(seconds * SLOW)
            answer = b""
            try:
                while part := s.recv(65536):
                    answer += part
            except OSError:
                pass
            return answer


def hello(name, instance=1):
    m = AgentMessage()
    m.hello.host, m.hello.instance, m.hello.version = name, instance, "0"
    return m
