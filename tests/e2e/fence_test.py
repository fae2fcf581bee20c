# SPDX-License-Identifier: Apache-2.0
"""Two aggregators on one bucket. The first one is stopped (SIGSTOP) while one of its requests to the store is on its way; its successor takes the
session over and ends it; then that request arrives, or is lost, and the first one wakes up. Never two commits, nothing torn, nothing left.

    fence_test.py [EVERY [FIRST]]     at every so manieth request in the life of a capture, from the first one on; as part of the test run: 7 4
"""
import json
import pathlib
import re
import signal
import socket
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from fake_s3 import FakeS3, env  # noqa: E402
from lib.cluster import BIN, SLOW, Cluster, free_port, main, wait_until  # noqa: E402

EVERY, FIRST = (int(a) for a in (sys.argv[1:] + ["7", "4"][len(sys.argv) - 1:]))
HOSTS = ("a", "b")
SESSION = re.compile(r"\d{4}(_\d\d){5}_\w{6}")


class Held:
    """Holds the n-th request of the aggregator about sessions, and none after it."""

    def __init__(self, s3, nth, lose):
        self.left, self.lose = nth, lose
        self.held, self.go, self.over, self.lock = threading.Event(), threading.Event(), threading.Event(), threading.Lock()
        self.what = None
        s3.before = self

    def __call__(self, method, path):
        if path.endswith(("tutti/ready", ".xplane.pb")):
            return
        with self.lock:
            self.left -= 1
            if self.left != -1:
                return
        self.what = f"{method} {path}"
        self.held.set()
        self.go.wait(120 * SLOW)
        self.over.set()
        if self.lose:
            raise ConnectionAbortedError


class Two:
    def __init__(self, c, s3):
        self.c, self.s3 = c, s3
        self.url = s3.url("bucket/fleet")
        c.aggregator("--store", self.url, "--lead", "100ms", "--grace", "20s", env=env())
        for host in HOSTS:
            c.agent(host, "--reconnect-max", "300ms", tracers="metrics")

    def keys(self, *parts):
        with self.s3.lock:
            return {k: o.body for k, o in self.s3.buckets["bucket"].items() if all(p in k for p in parts)}

    def start_successor(self):
        spool = self.c.dir / f"spool-{len(list(self.c.dir.glob('spool-*')))}"
        self.http = free_port()
        return self.c.start("successor", [BIN / "tutti-aggregator", "--store", self.url, "--http", f"127.0.0.1:{self.http}", "--grpc", f"127.0.0.1:{free_port()}",
                                          "--probe", f"127.0.0.1:{free_port(socket.SOCK_DGRAM)}", "--spool", spool, "--grace", "20s"], env())

    def successor_has_ended_all(self):
        url, self.c.http = self.c.http, self.http
        try:
            return self.c.is_ready(self.c.processes["successor"]) and not self.keys("tutti/ledger/")
        finally:
            self.c.http = url

    def check_whole(self, session):
        manifests = self.keys(session, "manifest.json")
        files = {k.rsplit("/", 1)[1]: len(body) for k, body in self.keys(session, ".xplane.pb").items()}
        named = {h["file"]: h["bytes"] for m in manifests.values() for h in json.loads(m)["hosts"] if h["file"]}
        assert files == named, (session, files, named)
        assert len(self.keys("tutti/index/", session)) == len(self.keys("tutti/runs/", session)) == len(manifests), (session, list(self.keys(session)))
        assert len(manifests) + len(self.keys("tutti/failed/", session)) == 1, (session, list(self.keys(session)))
        return manifests

    def play(self, nth, lose):
        """False: the capture has no such request."""
        wait_until("both hosts", lambda: sum(h["state"] == "connected" for h in self.c.hosts().values()) == 2, 30)
        before, held = set(self.keys("tutti/")), Held(self.s3, nth, lose)
        asked = threading.Thread(target=lambda: self.c.tutti("capture", "--duration", "100ms", "--json"), daemon=True)
        asked.start()
        wait_until("the request, or the end", lambda: held.held.is_set() or not asked.is_alive(), 60)
        if not held.held.is_set():
            self.s3.before = None
            return False
        self.c.kill("aggregator", signal.SIGSTOP)
        successor = self.start_successor()
        wait_until(f"the successor to end what is left, after {held.what}", self.successor_has_ended_all, 60)
        ended = self.keys("manifest.json")
        held.go.set()
        assert held.over.wait(60 * SLOW)
        self.c.kill("aggregator", signal.SIGCONT)
        asked.join(120 * SLOW)
        assert not asked.is_alive(), held.what
        wait_until(f"the first one to be done, after {held.what}", lambda: not self.keys("tutti/ledger/") and not self.under_way(), 60)
        after = self.keys("manifest.json")
        assert {k: after.get(k) for k in ended} == ended, held.what
        assert all(self.s3.created.count(k) == 1 for k in after), held.what
        new = {SESSION.search(k)[0] for k in set(self.keys("tutti/")) - before if "/index/" in k or "/failed/" in k}
        assert len(new) <= 1, (held.what, new)
        for session in new:
            self.check_whole(session)
        successor.terminate()
        assert successor.wait(30 * SLOW) == 0
        return held.what

    def under_way(self):
        return [x for x in self.c.get("/api/v1/captures")["captures"] if x["state"] not in ("committed", "failed")]


def test_two_aggregators():
    for lose in False, True:
        with FakeS3() as s3, Cluster() as c:
            s3.short_pages = False
            two, nth, played = Two(c, s3), FIRST, 0
            while what := two.play(nth, lose):
                print(f"     request {nth}{', lost' if lose else ''}: {what}", flush=True)
                nth += EVERY
                played += 1
            print(f"     {played} times stopped, requests {'lost' if lose else 'late'}; {len(two.keys('manifest.json'))} sessions committed", flush=True)
            assert played


main(test_two_aggregators)
