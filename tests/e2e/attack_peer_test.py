# SPDX-License-Identifier: Apache-2.0
"""Invented hosts, agents that lie, clients of ProfilerService, datagrams: each attack in turn (lib/siege.py says what
must hold)."""
import contextlib
import os
import random
import socket
import struct
import time
import zlib

from lib import raw_h2
from lib.cluster import SLOW, main, wait_until
from lib.raw_h2 import frame
from lib.siege import (CONNECT, HOSTS, PROFILE, TERMINATE, UPLOAD, AgentMessage, AggregatorMessage, ProfileRequest, TerminateRequest,
                       UploadMessage, attack_all, hello, times, together)


def invented_names(s):
    """1,000 names, each as fast as the one before got its answer; then some with all that a Hello can hold."""
    def invent(i):
        with contextlib.suppress(OSError), contextlib.closing(s.h2()) as h:
            for k in range(250):
                if k % 100 == 0:
                    h.data.clear()
                _, stream = s.fake_agent(f"invented-{i}-{k}", h)
                h.read_until(lambda: stream in h.data or stream in h.reset)
    with s.attack(), contextlib.ExitStack() as stack:
        together(invent, range(times(4)))
        big = hello("big")
        for i in range(64):
            big.hello.labels[f"{i:0>60}"] = "v" * 100
        for i in range(256):
            big.hello.settings.add(tracer="t", name=f"n{i}", type="int", max=1, help="h" * 40)
        for i in range(times(300)):
            if i % 200 == 0:
                h = s.h2()
                stack.callback(h.close)
            big.hello.host = f"big-{i}"
            with contextlib.suppress(OSError):
                stream = h.call(CONNECT)
                h.message(stream, big.SerializeToString())
                h.read_until(lambda: stream in h.data or stream in h.reset)
        known = s.hosts()
        assert all(known[f"host-{i}"]["state"] == "connected" for i in range(HOSTS))
        assert len(known) <= 260 + HOSTS, len(known)
        with contextlib.closing(s.h2(source=s.second)) as other:  # a host with another address has its place
            s.fake_agent("newcomer", other)
            assert other.read_until(lambda: other.messages.get(1)), "a newcomer with another address got no Welcome"
    wait_until("no more attackers", lambda: not any(h["state"] == "connected" and not n.startswith("host-") for n, h in s.hosts().items()))


class Liar:
    """A fake host that takes part in captures."""

    def __init__(self, s, name):
        self.s = s
        self.name = name
        self.h, self.stream = s.fake_agent(name)
        self.seen = 0
        assert self.next("welcome")

    def next(self, kind, seconds=10):
        """The next message of that kind."""
        end = time.monotonic() + seconds * SLOW
        while time.monotonic() < end and not self.h.closed:
            messages = self.h.messages.get(self.stream, [])
            while self.seen < len(messages):
                m = AggregatorMessage.FromString(messages[self.seen])
                self.seen += 1
                if m.WhichOneof("kind") == kind:
                    return getattr(m, kind)
            self.h.read_for(0.05)
        return None

    def send(self, **kinds):
        m = AgentMessage()
        for kind, fields in kinds.items():
            part = getattr(m, kind)
            for name, value in fields.items():
                setattr(part, name, value)
        self.h.message(self.stream, m.SerializeToString())

    def upload(self, session, chunks, instance=1, h=None, **begin):
        """Begins an upload and sends these chunks; the connection, and its stream."""
        h = h or self.s.h2()
        call = h.call(UPLOAD)
        m = UploadMessage()
        m.begin.session, m.begin.host, m.begin.instance = session, self.name, instance
        files = begin.pop("files", [sum(map(len, chunks)) or 1])
        m.begin.files.extend(files)
        m.begin.bytes = begin.pop("bytes", sum(files))
        h.message(call, m.SerializeToString())
        at = 0
        for data in chunks:
            m = UploadMessage()
            m.chunk.offset, m.chunk.data, m.chunk.crc32 = at, data, zlib.crc32(data)
            h.message(call, m.SerializeToString(), patience=2)
            at += len(data)
        return h, call


def begin_capture(s, hosts, ms=200):
    status, doc = s.call("POST", "/api/v1/captures", {"duration_ns": ms * 10**6, "hosts": hosts})
    assert status == 202, doc
    return doc["session"]


def host_of(s, session, name):
    doc = wait_until("the end of the capture", lambda: (d := s.get(f"/api/v1/captures/{session}"))["state"] in ("committed", "failed") and d, 60)
    return next(h for h in doc["hosts"] if h["host"] == name)


def uploads_that_lie(s):
    """Without a credit; of what was not captured; announced as 100 GB and never sent; garbage; more than announced."""
    with s.attack(), contextlib.ExitStack() as stack:
        liar = Liar(s, "liar")
        stack.callback(liar.h.close)
        before = len(os.listdir(f"/proc/{s.agg.pid}/fd"))
        for _ in range(times(64)):  # no such capture
            h, call = liar.upload("2026_01_01_00_00_00_aaaaaa", [b"x" * 60000])
            assert h.read_until(lambda: call in h.reset), "an upload for no capture was not refused"
            h.close()
        session = begin_capture(s, "all")
        arm = liar.next("arm")
        assert arm and arm.session == session
        liar.send(armed={"session": session})
        h, call = liar.upload(session, [b"x" * 60000])  # before any credit
        stack.callback(h.close)
        liar.send(progress={"session": session, "state": "uploading", "bytes_total": 100 * 10**9})
        assert liar.next("upload"), "the liar got no credit"
        h, _ = liar.upload(session, [], files=[2 * 10**9] * 50)
        stack.callback(h.close)
        time.sleep(0.5)
        spool = sum(f.stat().st_blocks * 512 for f in (s.dir / "agg-spool").rglob("*") if f.is_file())
        assert spool < 64 << 20, f"an announced length took {spool} bytes of the disk"
        for files, chunks in (([1000], [b"\xff" * 1000]), ([1000], [b"x" * 2000]), ([1, 2, 3], [b"x" * 5]), ([100], [b"", b"x"])):
            h, call = liar.upload(session, chunks, files=files)
            stack.callback(h.close)
            h.put(call, b"", end=True)
            h.send(frame(raw_h2.DATA, raw_h2.END_STREAM, call))
            assert h.read_until(lambda: call in h.reset, 10 * SLOW), f"an upload of garbage was not refused: {files}"
        liar.send(result={"session": session, "has_file": False, "reason": "upload", "detail": "gave up"})
        assert host_of(s, session, "liar")["state"] == "failed"
        assert host_of(s, session, "host-1")["state"] == "complete"
        assert len(os.listdir(f"/proc/{s.agg.pid}/fd")) < before + 40


def reasons_outside_of_the_table(s):
    with s.attack():
        for how in ("refused", "result"):
            liar = Liar(s, "liar")
            session = begin_capture(s, "all")
            assert liar.next("arm")
            words = "the moon <script>alert(1)</script>"
            if how == "refused":
                liar.send(refused={"session": session, "reason": words, "detail": "d" * 900})
            else:
                liar.send(armed={"session": session})
                liar.send(result={"session": session, "has_file": False, "reason": words, "detail": "d" * 900})
            h = host_of(s, session, "liar")
            assert h["state"] == "failed" and h["reason"] in ("refused", "other"), h
            assert h["detail"].startswith(words), h
            liar.h.close()


def captures_of_others_are_not_terminated(s):
    with s.attack(), contextlib.closing(s.h2()) as mine, contextlib.closing(s.h2(source=s.second)) as other:
        call = mine.call(PROFILE)
        mine.message(call, ProfileRequest(session_id="mine", duration_ms=1500).SerializeToString(), end=True)
        session = wait_until("the capture", lambda: [c["session"] for c in s.get("/api/v1/captures")["captures"]
                                                     if c["state"] in ("arming", "running", "waiting")])[0]
        for name in ("mine", session):
            stop = other.call(TERMINATE)
            other.message(stop, TerminateRequest(session_id=name).SerializeToString(), end=True)
            other.read_until(lambda: stop in other.reset)
        doc = wait_until("its end", lambda: (d := s.get(f"/api/v1/captures/{session}"))["state"] == "committed" and d, 30)
        assert doc["duration_ns"] == 1500 * 10**6, doc["duration_ns"]


def datagrams(s):
    """Every answer of the probe port is as long as what it answers; garbage gets none."""
    with s.attack(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as u:
        u.bind((s.attacker, 0))
        u.connect(("127.0.0.1", s.probe))
        u.setblocking(False)
        magic = struct.pack(">IBBBB", 0x54544D31, 2, 1, 1, 0)
        rnd = random.Random(1)
        got = 0
        for i in range(times(40000)):
            data = magic + rnd.randbytes(120) if i % 2 else rnd.randbytes(rnd.randrange(1400))
            with contextlib.suppress(OSError):
                u.send(data)
            with contextlib.suppress(OSError):
                u.recv(2000)
                got += 1
        assert not got, f"{got} answers to datagrams without a cookie"


ATTACKS = [invented_names, uploads_that_lie, reasons_outside_of_the_table, captures_of_others_are_not_terminated, datagrams]


def test_peers():
    attack_all(ATTACKS, slow=(invented_names,))


main(test_peers)
