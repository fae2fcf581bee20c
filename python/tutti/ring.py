# SPDX-License-Identifier: Apache-2.0
"""The ring of this process: docs/annotations.md and include/tutti/tutti.h have the format.

A thread writes a record, and then the head of its lane with one aligned store of eight bytes. On processors that keep
stores in order (x86) that is enough. On others the agent may read a record before it is complete: it then drops the record or
shows it wrong.
"""
import contextlib
import itertools
import mmap
import os
import socket
import struct
import threading
import time

NAME = "tutti-annotations"
MAGIC = 0x474E495249545455
VERSION = 1
CLOCK_RAW = 1

LANES = 64
SLOTS = 8192
SLOT_BYTES = 32
LANE_BYTES = 64
LANES_AT = 4096
SLOTS_AT = LANES_AT + LANES * LANE_BYTES
REFUSED_AT = 32

TEXT_HERE, TEXT_NEXT, TEXT_MAX = 12, 31, 127
DEPTH_MAX = 64

THREAD, BEGIN, END, STEP, INSTANT, COUNTER, RANGE_BEGIN, RANGE_END, TEXT = 1, 2, 3, 4, 5, 6, 7, 8, 0x80
NONE, INT, UINT, DOUBLE = 0, 1, 2, 3

HEADER = struct.Struct("@QIIIIII")
SLOT = {kind: struct.Struct(f"@BBBB12sQ{code}") for kind, code in ((NONE, "Q"), (INT, "q"), (UINT, "Q"), (DOUBLE, "d"))}
SLOT_TEXT = struct.Struct("@B31s")

INT_MIN, INT_MAX = -(1 << 63), (1 << 63) - 1


def now(clock=time.CLOCK_MONOTONIC_RAW, read=time.clock_gettime_ns):
    return read(clock)


class Ring:
    """The memory; made by the first annotation of the process."""

    def __init__(self):
        self.pid = os.getpid()
        self.fd = os.memfd_create(NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            size = SLOTS_AT + LANES * SLOTS * SLOT_BYTES
            os.ftruncate(self.fd, size)
            self.memory = mmap.mmap(self.fd, size)
        except OSError:
            os.close(self.fd)
            raise
        self.words = memoryview(self.memory).cast("Q")
        HEADER.pack_into(self.memory, 0, 0, VERSION, LANES, SLOTS, CLOCK_RAW, self.pid, 0)
        self.words[0] = MAGIC
        self.send()

    def send(self):
        """Sends the memory's descriptor to the agent, which then can read it even if the process ends at once."""
        path = os.environ.get("TUTTI_ANNOTATIONS_SOCKET")
        if not path:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
                to.settimeout(0.1)
                to.connect(path)
                socket.send_fds(to, [b"\1"], [self.fd])
        except OSError:
            pass  # it is found below /proc

    def take_lane(self):
        """A free lane for the calling thread, or None. The caller holds the lock."""
        for number in range(LANES):
            word = (LANES_AT + number * LANE_BYTES) // 8
            if not self.words[word + 1] >> 32:
                return Lane(self, number, word)
        self.words[REFUSED_AT // 8] += 1
        return None


class Lane:
    """What one thread writes to."""

    def __init__(self, ring, number, word):
        self.ring, self.word = ring, word
        self.memory, self.words = ring.memory, ring.words
        self.first = SLOTS_AT + number * SLOTS * SLOT_BYTES
        self.head = self.words[word]
        tid = threading.get_native_id()
        name = threading.current_thread().name.encode("utf-8", "replace")[:15]
        self.words[word + 1] = 1 << 32 | tid
        self.memory[(word + 2) * 8:(word + 4) * 8] = name.ljust(16, b"\0")
        self.put(THREAD, UINT, 0, now(), tid, name)

    def __del__(self):
        if self.ring.pid == os.getpid():
            self.words[self.word + 1] = 0

    def put(self, kind, type_, depth, ticks, value, text):
        head = self.head
        length = len(text)
        SLOT[type_].pack_into(self.memory, self.first + head % SLOTS * SLOT_BYTES, kind, type_, depth, length,
                              text[:TEXT_HERE], ticks, value)
        head += 1
        if length > TEXT_HERE:
            for at in range(TEXT_HERE, length, TEXT_NEXT):
                SLOT_TEXT.pack_into(self.memory, self.first + head % SLOTS * SLOT_BYTES, TEXT, text[at:at + TEXT_NEXT])
                head += 1
        self.head = self.words[self.word] = head


class State(threading.local):
    """The state of a thread: its lane, and when each open scope began (None: that scope is not recorded)."""

    def __init__(self):
        self.begins = []
        self.taken = None  # a lane; False: there is none for this thread

    def lane(self):
        """None if annotations are off, or there is no lane."""
        if not process.enabled:
            return None
        if self.taken is None:
            self.taken = process.take_lane() or False
        return self.taken or None


class Process:
    def __init__(self):
        self.lock = threading.Lock()
        self.ring = None
        self.enabled = os.environ.get("TUTTI_ANNOTATIONS", "on") not in ("off", "0", "false")
        self.failed = False
        self.ranges = itertools.count(1)

    def take_lane(self):
        with self.lock:
            try:
                if not self.ring and not self.failed:
                    self.ring = Ring()
            except (OSError, AttributeError):  # no memory, or a system without memfds
                self.failed = True
            return self.ring.take_lane() if self.ring else None

    def after_fork(self):
        """The child makes a ring of its own when it annotates; this one stays its parent's."""
        global state
        if self.ring:
            os.close(self.ring.fd)
        self.ring = None
        self.failed = False
        self.lock = threading.Lock()
        state = State()


process = Process()
state = State()
names = {}


def encode(name):
    """The bytes of a name, cut to TEXT_MAX. Keeps the first 4096 names: most programs have fewer."""
    text = names.get(name)
    if text is None:
        text = str(name).encode("utf-8", "replace")[:TEXT_MAX]
        if len(names) < 4096:
            names[name] = text
    return text


def value_of(value):
    """(type, value) of what a program gives."""
    if value is None:
        return NONE, 0
    if isinstance(value, int) and INT_MIN <= value <= INT_MAX:
        return INT, value
    return DOUBLE, float(value)


class scope(contextlib.ContextDecorator):
    """From here to the end of the block: `with tutti.scope("load"):`, or `@tutti.scope("load")` on a function."""

    __slots__ = ("kind", "text", "type", "value")

    def __init__(self, name, value=None):
        self.kind = BEGIN
        self.text = encode(name)
        self.type, self.value = value_of(value)

    def __enter__(self):
        s = state
        begins = s.begins
        lane = s.lane()
        if lane and len(begins) < DEPTH_MAX:
            ticks = now()
            lane.put(self.kind, self.type, len(begins), ticks, self.value, self.text)
            begins.append(ticks)
        else:
            begins.append(None)
        return self

    def __exit__(self, *_):
        s = state
        begins = s.begins
        begin = begins.pop() if begins else None  # none in a forked child
        if begin is not None:
            s.taken.put(END, UINT, len(begins), now(), begin, b"")


class step(scope):
    """A training step with this number: XProf shows it as one, and `tutti capture --at-step` can wait for it."""

    __slots__ = ()

    def __init__(self, number, name="train"):
        super().__init__(name, int(number))
        self.kind = STEP


class span(contextlib.ContextDecorator):
    """A range from here to the end of the block. Ranges may overlap, so coroutines can use them."""

    __slots__ = ("text", "numbers")

    def __init__(self, name):
        self.text = encode(name)
        self.numbers = []

    def __enter__(self):
        number = next(process.ranges)
        self.numbers.append(number)
        put_now(RANGE_BEGIN, UINT, number, self.text)
        return self

    def __exit__(self, *_):
        put_now(RANGE_END, UINT, self.numbers.pop(), b"")


def put_now(kind, type_, value, text):
    lane = state.lane()
    if lane:
        lane.put(kind, type_, 0, now(), value, text)


def instant(name, value=None):
    """An event without a duration, now."""
    put_now(INSTANT, *value_of(value), encode(name))


def counter(name, value):
    """The counter has this value from now on. Each counter is a line of its own in the viewer."""
    put_now(COUNTER, *value_of(value), encode(name))


def set_enabled(enabled):
    """Turns the annotations of this process on or off from now on."""
    process.enabled = bool(enabled)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=process.after_fork)
