# SPDX-License-Identifier: Apache-2.0
"""Invented hosts, agents that lie, clients of ProfilerService, datagrams: each attack in turn (lib/siege.py says what
must hold)."""
import contextlib
import http.server
import json
import os
import random
import socket
import struct
import subprocess
import threading
import time
import zlib

from lib import raw_h2
from lib.cluster import BIN, SLOW, main, wait_until
from lib.raw_h2 import frame
from lib.siege import (CONNECT, HOSTS, PROFILE, SANITIZED, TERMINATE, UPLOAD, AgentMessage, AggregatorMessage, ProfileRequest,
                       TerminateRequest, UploadMessage, attack_all, hello, times, together, varint)
from lib.xspace import message_class


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
                if isinstance(value, list):
                    getattr(part, name).extend(value)
                else:
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


def undated():
    """The least that is taken for a host's file."""
    space = message_class("tensorflow/xplane.proto", "tensorflow.profiler.XSpace")()
    plane = space.planes.add(name="Task Environment")
    plane.stat_metadata[1].id, plane.stat_metadata[1].name = 1, "profile_start_time"
    plane.stats.add(metadata_id=1, uint64_value=1)
    return space.SerializeToString()


def reports_of_other_files(s):
    """Sizes that are not those of the stored file: it is not cut, and the session of the others is committed. It is the smallest, and a host is missing,
    so it gets the warnings."""
    data = undated()
    with s.attack():
        for size in (0, 10, len(data) - 1, len(data) + 1, 2 * 10**9, 2**40, 2**64 - 1):
            with contextlib.closing(s.fake_agent("missing")[0]):
                liar = Liar(s, "liar")
                session = begin_capture(s, "all")
                assert liar.next("arm")
                liar.send(armed={"session": session})
                liar.send(progress={"session": session, "state": "uploading", "bytes_total": len(data)})
                assert liar.next("upload")
                h, call = liar.upload(session, [data])
                h.put(call, b"", end=True)
                h.send(frame(raw_h2.DATA, raw_h2.END_STREAM, call))
                assert h.read_until(lambda: h.messages.get(call)), "the file is not stored"
                liar.send(result={"session": session, "has_file": True, "files": [size], "crc32c": [zlib.crc32(data)]})
                found, honest = host_of(s, session, "liar"), host_of(s, session, "host-1")
                assert honest["state"] == "complete" and found["bytes"] > len(data), (size, found, honest)
                space = next((s.logdir / "plugins/profile" / session).glob("liar.xplane.pb")).read_bytes()
                assert space.startswith(data) and len(space) == found["bytes"], (size, found)
                h.close()
                liar.h.close()


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


# ---- text ----

BAD_TEXT = (b"\x1b]0;owned\x07", b"\x1b[2J", "\u009b2J".encode(), b"\x7f", b"\xff\xfe", b"\xc0\xaf", b"\xed\xa0\x80", b"x" * 300, b"x" * (1 << 20))
ODD_TEXT = ("<img src=x onerror=alert(1)>", "</script><script>alert(1)</script>", "\u202egnp.exe", "{{7*7}}", "%s%n", "\U0001f4a9", "a\nb\tc")


def hellos(text):
    """A Hello's bytes with this text in one of its fields, each in turn."""
    place = "PLACE" + "y" * 20

    for where in ("version", "label", "labelkey", "command", "reason", "help", "profiler_address"):
        m = hello("odd")
        if where in ("version", "profiler_address"):
            setattr(m.hello, where, place)
        elif where == "label":
            m.hello.labels["k"] = place
        elif where == "labelkey":
            m.hello.labels[place] = "v"
        elif where == "command":
            m.hello.jobs.add(pid=1, command=place, state="ready")
        elif where == "reason":
            m.hello.tracers.add(name="t", state="ok", reason=place)
        else:
            m.hello.settings.add(tracer="t", name="n", type="int", max=1, help=place)
        yield where, replaced(m, place, text)


def replaced(m, place, text):
    """The message with other bytes in the place of a text: lengths are set right on the way up."""
    def field(data, at):
        tag, at = number(data, at)
        if tag & 7 == 0:
            return (tag, *number(data, at))
        assert tag & 7 == 2
        n, at = number(data, at)
        return tag, data[at:at + n], at + n

    def number(data, at):
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 128:
                return value, at

    def rebuilt(data):
        out, at = b"", 0
        while at < len(data):
            tag, value, at = field(data, at)
            if isinstance(value, int):
                out += varint(tag) + varint(value)
                continue
            if value == place.encode():
                value = text
            elif place.encode() in value:
                value = rebuilt(value)
            out += varint(tag) + varint(len(value)) + value
        return out
    return rebuilt(m.SerializeToString())


def hostile_texts(s):
    """Control characters, bytes that are no UTF-8 and long texts end the link; markup is data, and no escape sequence comes out of the
    command line."""
    with s.attack():
        for text in BAD_TEXT[::4 if SANITIZED else 1]:
            for where, data in hellos(text):
                with contextlib.closing(s.h2()) as h:
                    with contextlib.suppress(OSError):
                        call = h.call(CONNECT)
                        h.message(call, data)
                    accepted = where == "reason" and text == b"x" * 300
                    assert h.read_until(lambda: call in h.reset or h.closed or (accepted and h.messages.get(call)), 10 * SLOW), (where, text[:40])
                s.next_attacker()  # a megabyte may be too much of one address
        assert "odd" not in s.hosts() or s.hosts()["odd"]["labels"] == {}, s.hosts()["odd"]
        for text in ODD_TEXT[::4 if SANITIZED else 1]:
            with contextlib.closing(s.h2()) as h:
                m = hello("odd")
                m.hello.labels["k"] = text
                m.hello.tracers.add(name="t", state="off", reason=text)
                call = h.call(CONNECT)
                h.message(call, m.SerializeToString())
                assert h.read_until(lambda: h.messages.get(call)), text
                assert s.hosts()["odd"]["labels"] == {"k": text}
                answer = s.http_bytes(b"GET /api/v1/hosts HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                head = answer.split(b"\r\n\r\n")[0].lower()
                assert b"content-type: application/json" in head and b"nosniff" in head and b"content-security-policy" in head, head
                for args in (("hosts",), ("hosts", "--json"), ("clock",)):
                    _, out = s.tutti(*args)
                    assert is_clean(out if isinstance(out, str) else ""), (args, out)
    assert "\x1b" not in s.log("aggregator") and "\x9b" not in s.log("aggregator")


def is_clean(text):
    return not any((ord(c) < 32 and c != "\n") or 0x7f <= ord(c) < 0xa0 for c in text)


def names_of_folders(s):
    """"." and "..", and names with "/": of hosts, runs, sessions and files."""
    with s.attack():
        for name in (".", "..", "", "../x", "a/b", "a/../b", ".hidden", "a\\b", "ALL_HOSTS", "~2", "x~2", "x" * 129, "a b", "a,b", "a:b", "-" * 200):
            with contextlib.closing(s.h2()) as h:
                call = h.call(CONNECT)
                h.message(call, hello(name).SerializeToString())
                assert h.read_until(lambda: call in h.reset or h.closed), f"a host with the name {name[:40]!r} was accepted"
        for run in (".", "..", "../x", "/etc", "a/../b", "a//b", "a/", "plugins", "a/plugins/b", ".hidden", "a\u0000b", "x" * 200, 7, {}):
            status, doc = s.call("POST", "/api/v1/captures", {"duration_ns": 10**6, "hosts": "all", "run": run})
            assert status == 400, (run, status, doc)
        for path in ("sessions/..", "sessions/.", "sessions/%2e%2e", "sessions/..%2f..%2fetc", "captures/..", "sessions/x/files/..",
                     "sessions/2026_01_01_00_00_00_aaaaaa/files/%2e%2e%2fmanifest.json"):
            for method in (b"GET", b"DELETE"):
                answer = s.http_bytes(method + b" /api/v1/" + path.encode() + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                assert answer[:10] == b"HTTP/1.1 4", (method, path, answer[:200])
    outside = [p for p in s.dir.iterdir() if p.name in ("x", "etc", "b")]
    assert not outside, outside


class Escapes(http.server.BaseHTTPRequestHandler):
    """An aggregator that answers everything with escape sequences."""
    text = "\x1b]0;owned\x07\x1b[2J\x9b2J\x7f"

    def do_GET(self):
        t = self.text
        host = {"host": t, "state": t, "address": t, "version": t, "labels": {t: t}, "clock": {"calibrated": False}, "jobs":
                [{"pid": 1, "command": t, "framework": t, "address": t, "state": t}], "tracers": [{"name": t, "state": t, "reason": t}]}
        doc = {"hosts": [host], "sessions": [{"session": t, "run": t, "state": t}], "session": t, "state": "committed", "run": t, "path": t,
               "warnings": [t], "error": t, "next": None}
        body = json.dumps({"error": t} if "sessions/" in self.path and self.path.endswith("z") else doc).encode()
        self.send_response(500 if self.path.endswith("z") else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_DELETE = do_GET

    def log_message(self, *args):
        pass


def a_hostile_aggregator(s):
    """Whatever it answers, no control character reaches the terminal of who asks."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Escapes)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for args in (("hosts",), ("clock",), ("sessions",), ("show", "x"), ("show", "z"), ("delete", "x"), ("capture", "--no-wait"), ("stop", "x"),
                 ("cancel", "x"), ("retry", "x"), ("export", "x", "-o", s.dir / "out")):
        for json_too in ((), ("--json",)):
            p = subprocess.run([BIN / "tutti", *args, *json_too, "--server", f"http://127.0.0.1:{server.server_port}"], capture_output=True,
                               timeout=20 * SLOW)
            out = (p.stdout + p.stderr).decode()
            assert is_clean(out), (args, out)
    server.shutdown()


def test_names():
    attack_all([invented_names], slow=[invented_names])


def test_files():
    attack_all([uploads_that_lie, reports_of_other_files, reasons_outside_of_the_table])


def test_others():
    attack_all([captures_of_others_are_not_terminated, datagrams, hostile_texts, names_of_folders])


def test_hostile_aggregator():
    attack_all([a_hostile_aggregator], slow=[a_hostile_aggregator])


main(test_names, test_files, test_others, test_hostile_aggregator)
