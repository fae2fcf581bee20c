# SPDX-License-Identifier: Apache-2.0
"""A hostile peer of the aggregator: each attack in turn against one aggregator with three agents. Meanwhile /healthz answers
within a second, memory stays below 64 MiB (builds without sanitizer), and but for two of the attacks no agent loses its link;
afterwards a capture is complete. With a sanitizer the attacks are smaller and fewer, all against one aggregator."""
import contextlib
import os
import random
import resource
import socket
import struct
import subprocess
import gzip
import threading
import time
import zlib

from lib import raw_h2
from lib.cluster import BIN, SLOW, main, wait_until
from lib.siege import (CONNECT, HOSTS, PROFILE, SANITIZED, TERMINATE, UPLOAD, WATCH, AggregatorMessage, ProfileRequest, Siege,
                       TerminateRequest, UploadMessage, AgentMessage, hello)
from lib.raw_h2 import frame

ATTACKER, SECOND = "127.0.0.66", "127.0.0.67"
SMALL = 8 if SANITIZED else 1  # attacks are so many times smaller


def times(n):
    return max(1, n // SMALL)


# ---- peers that do not read ----

def streams_that_are_not_read(s):
    """Events over HTTP, control links, watches: all open, none read, while captures make messages for them."""
    with s.attack(), contextlib.ExitStack() as stack:
        for _ in range(times(200)):
            conn = stack.enter_context(socket.create_connection(("127.0.0.1", s.http), 10, source_address=(ATTACKER, 0)))
            conn.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for i in range(times(64)):
            h, _ = s.fake_agent(f"deaf-{i}", window=0)
            stack.callback(h.close)
            for _ in range(times(16)):
                h.message(h.call(WATCH), b"", end=True)
        for _ in range(3):
            s.capture()
            s.call("POST", "/api/v1/captures", {"duration_ns": 10**8, "hosts": "all"})


def large_answers_that_are_not_read(s):
    """Profile answers of 30 MB, and files over HTTP."""
    with s.attack(), contextlib.ExitStack() as stack:
        request = ProfileRequest(session_id="greedy", duration_ms=100).SerializeToString()
        for _ in range(times(48)):
            h = s.h2()
            stack.callback(h.close)
            h.message(h.call(PROFILE), request, end=True)
        doc = s.capture()
        for _ in range(times(200)):
            conn = stack.enter_context(socket.create_connection(("127.0.0.1", s.http), 10, source_address=(ATTACKER, 0)))
            conn.sendall(f"GET /api/v1/sessions/{doc['session']} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 40)
        time.sleep(2)


# ---- messages ----

def profiler_calls_with_huge_names(s):
    request = ProfileRequest(session_id="x" * 120000, duration_ms=1000).SerializeToString()
    with s.attack(), contextlib.closing(s.h2()) as h:
        calls = []
        for _ in range(128):
            calls.append(h.call(PROFILE))
            h.message(calls[-1], request, end=True)
        assert h.read_until(lambda: all(c in h.reset for c in calls)), "a call with a name of 120 kB was not refused"
    assert s.get("/api/v1/captures")["captures"][0]["origin"] != "profiler-service", "one was accepted"


def messages_of_empty_submessages(s):
    """4 MB of empty submessages, eight at once: what a message unpacks to is no more than a hundred times its limit."""
    with s.attack():
        def go(path, data):
            with contextlib.closing(s.h2()) as h:
                call = h.call(path)
                h.message(call, data, end=True)
                assert h.read_until(lambda: call in h.reset or h.closed, 10 * SLOW), f"{path} was not refused"
        # Hello.labels, Hello.held; ProfileRequest.opts as often as there is room, and tool_options
        inner = b"\x2a\x00\x42\x00" * 1_000_000
        attacks = [(CONNECT, b"\x0a" + varint(len(inner)) + inner), (PROFILE, b"\x22\x00" * 2_000_000),
                   (PROFILE, b"\x2a\x00" * 2_000_000), (TERMINATE, b"\x0a\x00" * 2_000_000)]
        together(lambda a: go(*a), attacks * 2)


def announced_lengths(s):
    """Messages that announce up to 4 GiB and go on and on; at most 300 MB are sent of each."""
    block = b"\0" * (1 << 20)

    def go(args):
        path, announced = args
        with contextlib.closing(s.h2()) as h:
            call = h.call(path)
            h.put(call, struct.pack(">BI", 0, announced), patience=1)
            for _ in range(times(300)):
                if h.put(call, block, patience=1) < len(block):
                    return
    with s.attack(links=False):
        together(go, [(path, n) for path in (CONNECT, UPLOAD, PROFILE, WATCH) for n in (300 << 20, (1 << 32) - 1)])


def unfinished_messages(s):
    """Many streams, each with most of a message that it never ends."""
    with s.attack(links=False), contextlib.ExitStack() as stack:
        for _ in range(times(16)):
            h = s.h2()
            stack.callback(h.close)
            with contextlib.suppress(OSError):
                for _ in range(64):
                    call = h.call(CONNECT)
                    h.put(call, struct.pack(">BI", 0, 1 << 20) + b"\0" * 60000, patience=0.1)


def compressed_messages(s):
    """8 kB that would become 8 MB: compression is not accepted."""
    bomb = gzip.compress(b"\0" * (8 << 20))
    with s.attack(), contextlib.closing(s.h2()) as h:
        for _ in range(times(64)):
            call = h.call(PROFILE, [("grpc-encoding", "gzip")])
            h.put(call, raw_h2.grpc_message(bomb, compressed=1), end=True)
            assert h.read_until(lambda: call in h.reset), "a compressed message was not refused"


def wild_numbers(s):
    numbers = (-1, 0, 1, 2**31, 2**53, 2**62, 2**63 - 1, 2**63, 2**64, -2**63, 1e308, -1e308, 0.5, "1", None, [], {}, True)
    fields = ("duration_ns", "wait_ns", "at_step", "steps", "not_before_ns", "grace_ns", "after_steps")
    with s.attack():
        for field in fields:
            for n in numbers:
                body = {"duration_ns": 10**6, "hosts": "no-such-host", field: n}
                status, _ = s.call("POST", "/api/v1/captures", body)
                assert 400 <= status < 500, (field, n, status)
        for body in (b"[" * 100000, b'{"a":' * 100000, b'{"duration_ns": 1e999999999}', b'"\\ud800"', b"\xff" * 1000, b"nul"):
            answer = s.http_bytes(b"POST /api/v1/captures HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
                                  % len(body) + body)
            assert answer.startswith(b"HTTP/1.1 400"), answer[:300]
        for query in ("limit=99999999999999999999", "limit=-1", "after=" + "x" * 4000, "run=%2e%2e%2f", "&" * 4000, "limit=1&" * 60):
            answer = s.http_bytes(f"GET /api/v1/sessions?{query} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            assert answer[:10] in (b"HTTP/1.1 2", b"HTTP/1.1 4", b""), (query[:80], answer[:300])


# ---- HTTP ----

def paths_with_many_wildcards(s):
    with s.attack():
        for path in ("/api/v1/sessions/" + "*/" * 4000, "/" * 8000, "/api/v1/sessions/" + "%2f" * 2000 + "/files/x",
                     "/api/v1/sessions/../../../etc/passwd", "/api/v1/sessions/x/files/..%2f..%2fplan.json", "/%00", "/%"):
            answer = s.http_bytes(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            assert answer[:10] == b"HTTP/1.1 4", (path[:80], answer[:300])


def names_of_other_sites(s):
    """A site in a user's browser makes its own name resolve to the aggregator."""
    with s.attack():
        for name in ("evil.example", f"evil.example:{s.http}", "localhost.evil.example", "127.0.0.1.evil.example", "evil.example@localhost",
                     "[::1].evil.example", "xn--", "localhost:1@evil.example", "0x7f000001.evil", ""):
            for method, path in (("GET", "/api/v1/hosts"), ("POST", "/api/v1/captures"), ("DELETE", "/api/v1/sessions/x")):
                answer = s.http_bytes(f"{method} {path} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".encode())
                assert answer.startswith(b"HTTP/1.1 421"), (name, answer[:200])
        answer = s.http_bytes(b"POST /api/v1/captures HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\nConnection: close\r\n"
                              b"Content-Length: 2\r\n\r\n{}")
        assert answer.startswith(b"HTTP/1.1 403"), answer[:200]


def two_ends_of_a_body(s):
    smuggled = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with s.attack():
        for headers in (b"Content-Length: 0\r\nContent-Length: %d" % len(smuggled), b"Content-Length: 5\r\nTransfer-Encoding: chunked",
                        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", b"Transfer-Encoding: xchunked",
                        b"Content-Length: +5", b"Content-Length: 5, 5", b"Content-Length: 0x5", b"Content-Length : 5"):
            answer = s.http_bytes(b"POST /api/v1/captures HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n\r\n" + smuggled)
            assert answer.startswith(b"HTTP/1.1 400") and b"HTTP/1.1 2" not in answer, (headers, answer[:500])


def two_addresses_hold_the_connections(s):
    """Heads and bodies of which a byte comes now and then; an address gets at most half of what is left."""
    body = b"POST /api/v1/captures HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048576\r\n\r\n" + b"x" * 1000000
    heads = b"GET /healthz HTTP/1.1\r\nX: " + b"y" * 30000
    with s.attack(), contextlib.ExitStack() as stack:
        conns = []
        for source, n in ((ATTACKER, 510), (SECOND, 260)):
            for i in range(n):
                with contextlib.suppress(OSError):
                    c = socket.create_connection(("127.0.0.1", s.http), 10, source_address=(source, 0))
                    stack.callback(c.close)
                    c.setblocking(False)
                    c.send(heads if i % 2 else body)
                    conns.append(c)
        end = time.monotonic() + 13
        while time.monotonic() < end:
            for c in conns:
                with contextlib.suppress(OSError):
                    c.send(b"z")
            time.sleep(1)
        if not SANITIZED:
            assert sum(is_over(c) for c in conns) > 300, "slow heads are waited for without end"


def is_over(conn):
    try:
        while conn.recv(65536):
            pass
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


# ---- names ----

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
        with contextlib.closing(s.h2(source=SECOND)) as other:  # a host with another address has its place
            s.fake_agent("newcomer", other)
            assert other.read_until(lambda: other.messages.get(1)), "a newcomer with another address got no Welcome"
    wait_until("no more attackers", lambda: not any(h["state"] == "connected" and not n.startswith("host-") for n, h in s.hosts().items()))


# ---- agents that lie ----

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
    with s.attack(), contextlib.closing(s.h2()) as mine, contextlib.closing(s.h2(source=SECOND)) as other:
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


# ---- HTTP/2 ----

def floods_of_frames(s):
    """Frames that cost the sender nothing: pings, settings, resets of new streams, headers without end."""
    def pings(h):
        for _ in range(times(400)):
            h.send(frame(raw_h2.PING, 0, 0, b"12345678") * 50)

    def settings(h):
        for _ in range(times(400)):
            h.send(frame(raw_h2.SETTINGS, 0, 0, struct.pack(">HI", 4, 65535) * 10) * 20)

    def resets(h):
        for _ in range(times(1000)):
            h.send(frame(raw_h2.RST_STREAM, 0, h.call(WATCH), struct.pack(">I", 8)))

    def continuations(h):
        block = raw_h2.header_block([("x" * 50, "y" * 100)] * 90)
        h.send(frame(raw_h2.HEADERS, 0, 1, block))
        for _ in range(times(300)):
            h.send(frame(raw_h2.CONTINUATION, 0, 1, block))

    def large_headers(h):
        for _ in range(times(4)):
            h.call(WATCH, [("x", "y" * 1000000)])

    def windows(h):
        call = h.call(WATCH)
        for _ in range(times(20000)):
            h.send(frame(raw_h2.WINDOW_UPDATE, 0, call, struct.pack(">I", (1 << 31) - 1)))

    def empty_data(h):
        call = h.call(CONNECT)
        for _ in range(times(2000)):
            h.send(frame(raw_h2.DATA, 0, call) * 50)

    def priorities(h):
        for i in range(times(400)):
            h.send(b"".join(frame(2, 0, 2 * k + 1, struct.pack(">IB", 0, 1)) for k in range(100 * i, 100 * i + 100)))

    def streams(h):
        for _ in range(times(1500)):
            h.call(WATCH)

    def one(flood):
        with contextlib.suppress(OSError), contextlib.closing(s.h2()) as h:
            flood(h)
            h.read_for(0.2)
    with s.attack():
        for flood in (pings, settings, resets, continuations, large_headers, windows, empty_data, priorities, streams):
            one(flood)


def calls_that_are_never_used(s):
    """One address has its share of them, another one its own; without a first message they end."""
    with s.attack(), contextlib.ExitStack() as stack:
        calls = 0
        for _ in range(10):
            h = s.h2()
            stack.callback(h.close)
            for _ in range(200):
                h.call(WATCH)
                calls += 1
            h.read_for(0.2)
        assert calls == 2000
        with contextlib.closing(s.h2(source=SECOND)) as other:
            call = other.call(WATCH)
            other.message(call, b"")
            assert other.read_until(lambda: other.messages.get(call)), "another address got no call"


def datagrams(s):
    """Every answer of the probe port is as long as what it answers; garbage gets none."""
    with s.attack(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as u:
        u.bind((ATTACKER, 0))
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


# ---- files ----

def token_files_that_others_read(s):
    with s.attack():
        token = s.dir / "open-token"
        token.write_text("0123456789abcdef0123\n")
        token.chmod(0o644)
        p = subprocess.run([BIN / "tutti-aggregator", "--store", f"file://{s.dir}/other", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0",
                            "--probe", "127.0.0.1:0", "--spool", s.dir / "other-spool", "--token-file", token],
                           capture_output=True, text=True, timeout=20 * SLOW)
        assert p.returncode == 1 and "open-token" in p.stderr and "correct" not in p.stderr, p


# ---- helpers ----

def varint(n):
    out = bytearray()
    while n >= 128:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def together(fn, args):
    """Each in a thread of its own; the first failure is raised here."""
    failures = []

    def go(arg):
        try:
            fn(arg)
        except (OSError, struct.error):
            pass  # the connection was ended: that is an answer, too
        except Exception as e:  # noqa: BLE001
            failures.append(e)
    threads = [threading.Thread(target=go, args=(a,), daemon=True) for a in args]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
    if failures:
        raise failures[0]


ATTACKS = [streams_that_are_not_read, profiler_calls_with_huge_names, messages_of_empty_submessages, announced_lengths,
           unfinished_messages, compressed_messages, wild_numbers, paths_with_many_wildcards, names_of_other_sites, two_ends_of_a_body,
           two_addresses_hold_the_connections, invented_names, uploads_that_lie, reasons_outside_of_the_table,
           captures_of_others_are_not_terminated, floods_of_frames, calls_that_are_never_used, datagrams,
           token_files_that_others_read, large_answers_that_are_not_read]


SLOW_ONES = (streams_that_are_not_read, announced_lengths, unfinished_messages, two_addresses_hold_the_connections, invented_names,
             floods_of_frames, calls_that_are_never_used, large_answers_that_are_not_read)


def chosen():
    """All; with a sanitizer the quick ones; or those named in $TUTTI_ATTACK, for work on one of them."""
    names = os.environ.get("TUTTI_ATTACK", "").split()
    return [a for a in ATTACKS if (a.__name__ in names if names else not (SANITIZED and a in SLOW_ONES))]


def attack_all(siege):
    """siege(attack) runs one; returns what failed."""
    failed = []
    for attack in chosen():
        start = time.monotonic()
        print(f"     {attack.__name__}", flush=True)
        try:
            siege(attack)
        except Exception as e:  # noqa: BLE001: the others are tried, too
            failed.append(f"{attack.__name__}: {type(e).__name__}: {e}"[:600])
            print(f"       FAILED {failed[-1]}", flush=True)
        print(f"       {time.monotonic() - start:.1f} s", flush=True)
    return failed


def on_its_own(attack):
    with Siege() as s:
        attack(s)


def test_attacks():
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(20000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
    if SANITIZED:
        with Siege() as s:
            failed = attack_all(lambda attack: attack(s))
    else:
        failed = attack_all(on_its_own)
    assert not failed, "\n".join(failed)


main(test_attacks)
