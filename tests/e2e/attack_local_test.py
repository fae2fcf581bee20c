# SPDX-License-Identifier: Apache-2.0
"""Hostile processes on an agent's host: its local socket, its socket for PyTorch, and profilers. `tutti status` and `tutti mark` are
answered meanwhile; afterwards the agent has at most 80 MiB within 10 s (builds without sanitizer) and a capture is complete. The peak is
printed: a trace that a process gives is converted in memory."""
import contextlib
import os
import pathlib
import select
import socket
import struct
import sys
import threading
import time
import traceback

from lib import raw_h2, xspace
from lib.cluster import SLOW, Cluster, main, wait_until
from lib.siege import SANITIZED, memory_mb, times, together
from lib.waits import join
from lib.xspace import message_class

LocalRequest = message_class("tutti/v1/local.proto", "tutti.v1.LocalRequest")
LocalReply = message_class("tutti/v1/local.proto", "tutti.v1.LocalReply")
XSpace = message_class("tensorflow/xplane.proto", "tensorflow.profiler.XSpace")
AGENT_MAX_MB = 80


class Local:
    """A client of the local socket that keeps to nng's protocol (a requester's), and to nothing else."""

    def __init__(self, path, seconds=10):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(seconds * SLOW)
        self.sock.connect(str(path))
        self.sock.sendall(b"\0SP\0\0\x30\0\0")
        self.read(8)
        self.number = 0

    def read(self, n):
        data = b""
        while len(data) < n:
            part = self.sock.recv(n - len(data))
            if not part:
                raise ConnectionResetError
            data += part
        return data

    def send(self, body):
        self.number += 1
        data = struct.pack(">I", 1 << 31 | self.number) + body
        self.sock.sendall(b"\1" + struct.pack(">Q", len(data)) + data)

    def reply(self):
        size = struct.unpack(">xQ", self.read(9))[0]
        reply = LocalReply()
        reply.ParseFromString(self.read(size)[4:])
        return reply

    def ask(self, body):
        self.send(body)
        return self.reply()

    def close(self):
        self.sock.close()


def mark(text=b"", **numbers):
    """A LocalRequest with a mark, whose text may be any bytes."""
    m = LocalRequest()
    m.mark.SetInParent()
    for name, n in numbers.items():
        setattr(m.mark, name, n)
    inner = m.mark.SerializeToString() + b"\x0a" + varint(len(text)) + text
    return b"\x12" + varint(len(inner)) + inner


def varint(n):
    out = b""
    while n > 127:
        out += bytes((n & 127 | 128,))
        n >>= 7
    return out + bytes((n,))


def status():
    m = LocalRequest()
    m.status.SetInParent()
    return m.SerializeToString()


class Host(Cluster):
    """One agent, under attack. What is asked of it afterwards names its tracers; its memory is that of all."""

    tracers = "all"

    def __enter__(self):
        super().__enter__()
        self.aggregator("--lead", "50ms")
        (self.dir / "torch").mkdir()
        self.p = self.agent("host-0", "--pytorch-socket=", f"--pytorch-dir={self.dir}/torch", "--pytorch-poll=100ms", *self.flags(), tracers=self.tracers)
        self.wait_hosts(1)
        self.path = self.sockets["host-0"].removeprefix("ipc://")
        return self

    def flags(self):
        return []

    def client(self):
        return Local(self.path)

    def tutti_local(self, *args):
        return self.tutti(*args, "--local-socket", self.sockets["host-0"], check=0)

    @contextlib.contextmanager
    def attack(self):
        pathlib.Path(f"/proc/{self.p.pid}/clear_refs").write_text("5")
        yield
        self.tutti_local("status")
        self.tutti_local("mark", "an honest mark")
        peak = memory_mb(self.p.pid, "VmHWM")
        print(f"       agent: {peak:.0f} MiB at most, {len(os.listdir(f'/proc/{self.p.pid}/fd'))} descriptors", flush=True)
        assert self.p.poll() is None, "the agent ended"
        if not SANITIZED:
            wait_until("the agent's memory", lambda: memory_mb(self.p.pid, "VmRSS") <= AGENT_MAX_MB, 10)
        _, doc = self.tutti("capture", "--duration", "100ms", "--tracer", "marks", "--tracer", "metrics", "--json", check=0)
        assert doc["complete"] == 1, doc


# ---- the local socket ----

def a_flood_of_marks(s):
    """Marks as long as may be, as fast as they are answered; an honest one is not lost among them, and lost ones are counted."""
    over = threading.Event()

    def go(i):
        with contextlib.closing(s.client()) as c:
            while not over.is_set():
                for _ in range(16):
                    c.send(mark(b"x" * 1000))
                for _ in range(16):
                    c.reply()
    with s.attack():
        attackers = threading.Thread(target=together, args=(go, range(4)), daemon=True)
        attackers.start()
        try:
            for i in range(3):
                s.tutti_local("mark", f"an honest mark {i}")
                code, doc = s.tutti("capture", "--duration", "300ms", "--tracer", "marks", "--tracer", "metrics", "--json")
                lost = sum(t.get("lost", 0) for t in doc["hosts"][0]["tracers"])
                assert code == 0 or lost, doc
        finally:
            over.set()
            join(attackers)


def clients_that_do_not_read(s):
    """Requests without end whose answers are not read, on several connections; others are answered meanwhile."""
    with s.attack(), contextlib.ExitStack() as stack:
        for _ in range(12):
            c = s.client()
            stack.callback(c.close)
            c.sock.settimeout(0.2)
            with contextlib.suppress(OSError):
                for _ in range(3000):
                    c.send(status())
        for i in range(5):
            s.tutti_local("mark", f"honest {i}")


def connections_that_are_held(s):
    """A user has half of the connections at most."""
    with s.attack(), contextlib.ExitStack() as stack:
        held = 0
        for _ in range(times(600)):
            with contextlib.suppress(OSError):
                c = s.client()
                stack.callback(c.close)
                c.ask(mark(b"held"))
                held += 1
        assert held <= 128, held
        assert len(os.listdir(f"/proc/{s.p.pid}/fd")) < 250


def questions_to_the_aggregator(s):
    """Starts and stops wait for the aggregator, which does not answer: other requests are answered."""
    aggregator = s.processes["aggregator"]
    aggregator.send_signal(19)
    try:
        with contextlib.ExitStack() as stack:
            m = LocalRequest()
            m.start.duration_ns = 10**9
            clients = [stack.enter_context(contextlib.closing(s.client())) for _ in range(20)]
            for c in clients:
                c.send(m.SerializeToString())
            s.tutti_local("status")
            answered = select.select([c.sock for c in clients], [], [], 0)[0]
            assert len(answered) < len(clients), "requests that wait for the aggregator hold up others"
    finally:
        aggregator.send_signal(18)
    wait_until("the link", lambda: s.hosts()["host-0"]["state"] == "connected", 30)
    with s.attack():
        pass


HOSTILE = {"escape": b"\x1b]0;owned\x07\x1b[2J", "c1": "\u009b2J".encode(), "markup": b"<img src=x onerror=alert(1)>", "bidi": "\u202egnp".encode(),
           "bytes": b"\xff\xfe\x9b2J", "format": b"%s%n%n", "newline": b"a\nI AGT-FAKE line", "nul": b"a\0b"}


def hostile_texts(s):
    """In marks: what arrives in files, lists and terminals has no control character and is UTF-8."""
    with s.attack():
        with contextlib.closing(s.client()) as c:
            replies = {name: c.ask(mark(b"hostile " + text)) for name, text in HOSTILE.items()}
            assert any(r.ok for r in replies.values()), replies
            assert not c.ask(mark(b"y" * 2000)).ok, "a mark beyond its limit was taken"
            for r in replies.values():
                assert is_clean(r.detail), r
        with contextlib.closing(s.client()) as c, contextlib.suppress(OSError):
            c.ask(mark(b"y" * (1 << 20)))
            raise AssertionError("a mark of a megabyte was answered")
        _, doc = s.tutti("snapshot", "--last", "5s", "--tracer", "marks", "--json")
        assert doc["hosts"][0]["state"] in ("complete", "partial"), doc  # the ring may be younger
        space = xspace.load(s.logdir / "plugins" / "profile" / doc["session"] / doc["hosts"][0]["file"])
        names = [m.name for p in space.planes for m in p.event_metadata.values()]
        assert any("onerror" in n for n in names), "markup is data: it arrives"
        assert all(is_clean(n) for n in names), names
    assert "\x1b" not in s.log("host-0") and "\x9b" not in s.log("host-0")


def is_clean(text):
    return not any(ord(c) < 32 or 0x7f <= ord(c) < 0xa0 for c in text)


# ---- the socket for PyTorch ----

PRETENDER = r"""
import ctypes, os, socket, struct, sys, time
how, directory, folder = sys.argv[1:4]
ctypes.CDLL(None).prctl(15, b"\x1b]0;x\x07\xff\"\n")
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind("\0pretender%d" % os.getpid())
s.settimeout(0.05)
pid = {"lies": 1, "negative": -5}.get(how, os.getpid())
body = struct.pack("<iiqii", 3, 2, -1, pid, os.getppid())
while True:
    try:
        s.sendto(struct.pack("<Q32s", len(body), b"req") + body, directory + "/dynolog")
        text = s.recv(4096)[40:].decode()
    except OSError:
        text = ""
    if "ACTIVITIES_LOG_FILE" in text:
        name = dict(l.split("=", 1) for l in text.splitlines())["ACTIVITIES_LOG_FILE"]
        name = "%s_%d.json" % (name[:-5], pid)
        open(folder + "/names", "a").write(name + "\n")
        if how == "fifo":
            os.mkfifo(name)
        elif how == "huge":
            with open(name, "w") as f:
                f.truncate(1 << 40)
        elif how == "folder":
            os.mkdir(name)
        elif how == "link":
            os.symlink("/proc/self/mem", name)
        elif how == "shadow":
            os.symlink("/etc/shadow", name)
        elif how == "hard":
            os.link(folder + "/other", name)
        elif how == "deep":
            open(name, "w").write('{"a":' * 200000)
        elif how == "grows":
            f = open(name, "w")
            f.write('{"schemaVersion": 1, "traceEvents": [')
            end = time.time() + 5
            while time.time() < end:
                f.write('{"ph":"X","name":"n","pid":1,"tid":1,"ts":1,"dur":1},' * 100)
                f.flush()
    time.sleep(0.05)
"""


def processes_that_pretend(s):
    """Each names a file that is none, or not its own, or never ends, and has escape sequences in its name."""
    hows = ("fifo", "huge", "folder", "link", "shadow", "hard", "deep", "grows", "lies", "negative")
    (s.dir / "other").write_text("{}")
    names = s.dir / "names"
    for how in hows:
        s.start(f"burst-{how}", [sys.executable, "-c", PRETENDER, how, s.dir / "torch", s.dir])
    try:
        with s.attack():
            wait_until("the processes", lambda: s.log("host-0").count("state=known") >= len(hows) - 1, 30)
            start = time.monotonic()
            code, doc = s.tutti("capture", "--duration", "300ms", "--tracer", "pytorch", "--tracer", "metrics", "--json", "--grace", "20s")
            host = doc["hosts"][0]
            assert code == 3 and host["state"] == "partial", doc
            assert time.monotonic() - start < 40 * SLOW
            assert is_clean(host["detail"]), host["detail"]
            for secret in ("root:", "daemon:"):
                assert secret not in str(doc)
            log = s.log("host-0")
            assert all(is_clean(line) for line in log.splitlines()), "a process's name reached the log as it was"
            for how in hows:
                s.kill(f"burst-{how}")
    finally:
        for name in names.read_text().split() if names.exists() else ():
            with contextlib.suppress(OSError):
                os.rmdir(name) if os.path.isdir(name) and not os.path.islink(name) else os.unlink(name)


def datagrams_without_end(s):
    over = threading.Event()

    def go(i):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as d:
            d.settimeout(1)
            data = (b"", b"x" * 100, b"\xff" * 60000, struct.pack("<Q32s", 2**64 - 1, b"req"),
                    struct.pack("<Q32s", 16, b"req") + struct.pack("<iiq", 3, 2**31 - 1, 0))
            k = 0
            while not over.is_set():
                k += 1
                with contextlib.suppress(OSError):
                    d.sendto(data[k % len(data)], f"{s.dir}/torch/dynolog")
    with s.attack():
        attackers = threading.Thread(target=together, args=(go, range(2)), daemon=True)
        attackers.start()
        try:
            for _ in range(3):
                s.tutti_local("mark", "honest")
                s.tutti("capture", "--duration", "100ms", "--tracer", "metrics", "--json", check=0)
        finally:
            over.set()
            join(attackers)
    assert len(s.log("host-0").splitlines()) < 200, "the flood fills the log"


# ---- profilers ----

class Profiled(Host):
    """With two profilers: one with a plane more than an XSpace may have, one of an ordinary kind."""

    tracers = "profiler,metrics,marks"

    def flags(self):
        space = XSpace()
        for i in range(65537):
            plane = space.planes.add(id=i, name=f"/device:TPU:{i}")
            plane.event_metadata[1].id = 1
            plane.lines.add(id=1).events.add(metadata_id=1, offset_ps=10**9, duration_ps=1)
        good = XSpace()
        plane = good.planes.add(name="/host:CPU")
        plane.event_metadata[1].name = "honest"
        plane.event_metadata[1].id = 1
        line = plane.lines.add(id=1, name="thread")
        line.events.add(metadata_id=1, offset_ps=10**9, duration_ps=10**9)
        return self.profilers(space.SerializeToString(), good.SerializeToString())


def a_profiler_with_65537_planes(s):
    """Costs its own part: the other profiler's events and the host's other tracers are there."""
    with s.attack():
        _, doc = s.tutti("capture", "--duration", "500ms", "--json")
        host = doc["hosts"][0]
        assert host["state"] == "partial" and host["reason"] == "too-large" and "left out" in host["detail"], host
        assert host["events"] > 1, host
        space = xspace.load(s.logdir / "plugins" / "profile" / doc["session"] / host["file"])
        assert any("left out" in w and "65536 planes" in w for w in space.warnings), list(space.warnings)
        names = {m.name for p in space.planes for m in p.event_metadata.values()}
        assert "honest" in names, names
        assert any("metrics" in p.name.lower() or "Tutti" in p.name for p in space.planes), [p.name for p in space.planes]


class EndlessProfiler(threading.Thread):
    """A profiler's server that answers every call with a message of 4 GB, as far as the caller takes it."""

    def __init__(self):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.sent = 0
        self.start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.serve, args=(self.listener.accept()[0],), daemon=True).start()

    def serve(self, conn):
        with contextlib.suppress(OSError), contextlib.closing(raw_h2.H2(None, accepted=conn)) as h:
            if not h.read_until(lambda: h.headers, 60):
                return
            stream = next(iter(h.headers))
            h.answer(stream)
            self.sent += h.put(stream, raw_h2.grpc_message(b"", length=(1 << 32) - 1))
            while n := h.put(stream, bytes(1 << 20)):
                self.sent += n


class Endless(Host):
    """With a profiler that answers without end, and a limit of 8 MiB. Without CPU samples: names of what else runs here take memory, too."""

    tracers = "profiler,metrics,marks"

    def flags(self):
        self.profiler = EndlessProfiler()
        return [f"--profiler=127.0.0.1:{self.profiler.listener.getsockname()[1]}", "--profiler-limit=8M"]


def a_profiler_that_answers_without_end(s):
    """Costs its own part, and not much more memory than its limit."""
    with s.attack():
        before = memory_mb(s.p.pid, "VmRSS")
        _, doc = s.tutti("capture", "--duration", "300ms", "--json")
        host = doc["hosts"][0]
        assert host["state"] == "partial" and host["reason"] == "too-large" and "--profiler-limit" in host["detail"], host
        more = memory_mb(s.p.pid, "VmHWM") - before
        print(f"       {s.profiler.sent >> 20} MiB were sent; {more:.0f} MiB more memory", flush=True)
        assert s.profiler.sent > 4 << 20, s.profiler.sent
        assert SANITIZED or more < 24, f"a reply of at most 8 MiB took {more:.0f} MiB"


def one_after_the_other(host, *attacks):
    failed = []
    with host() as s:
        for attack in attacks:
            print(f"     {attack.__name__}", flush=True)
            start = time.monotonic()
            try:
                attack(s)
            except Exception as e:  # noqa: BLE001: the others are tried, too
                traceback.print_exc()
                failed.append(f"{attack.__name__}: {e}"[:500])
            print(f"       {time.monotonic() - start:.1f} s", flush=True)
        assert not failed, "\n".join(failed)


def test_local():
    floods = (a_flood_of_marks, clients_that_do_not_read, connections_that_are_held, datagrams_without_end)
    one_after_the_other(Host, questions_to_the_aggregator, hostile_texts, processes_that_pretend, *(() if SANITIZED else floods))


def test_profilers():
    one_after_the_other(Profiled, a_profiler_with_65537_planes)
    one_after_the_other(Endless, a_profiler_that_answers_without_end)


main(test_local, test_profilers)
