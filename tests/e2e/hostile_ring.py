# SPDX-License-Identifier: Apache-2.0
"""A process with annotations that lie, in the format of include/tutti/tutti.h: hostile_ring.py HOW [SECONDS]. It prints "ready" when its
rings are there. What HOW may be is below, one function each."""
import ctypes
import mmap
import os
import random
import struct
import sys
import time

PAGE = 4096
MAGIC = 0x474E495249545455
RAW = 1  # the clock
THREAD, BEGIN, END, STEP, INSTANT, COUNTER, RANGE_BEGIN, RANGE_END, TEXT = 1, 2, 3, 4, 5, 6, 7, 8, 0x80
NAME = b"tutti-annotations"


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


class Ring:
    def __init__(self, lanes, slots, pid=None):
        self.lanes, self.slots = lanes, slots
        self.at = (PAGE + lanes * 64 + PAGE - 1) // PAGE * PAGE
        self.fd = os.memfd_create(NAME.decode(), 0)
        os.ftruncate(self.fd, self.at + lanes * slots * 32)
        self.map = mmap.mmap(self.fd, 0)
        self.map[:40] = struct.pack("<QIIIIIIQ", MAGIC, 1, lanes, slots, RAW, pid or os.getpid(), 0, 0)

    def lane(self, i, head, tid=1, name=b"liar"):
        self.map[PAGE + i * 64:PAGE + i * 64 + 32] = struct.pack("<QII16s", head, tid, 1, name)

    def put(self, i, n, data):
        at = self.at + (i * self.slots + n % self.slots) * 32
        self.map[at:at + len(data)] = data


def record(kind, depth=0, text=b"", value=0, ticks=None, type_=0):
    """A record's slots."""
    head = struct.pack("<BBBB12sQQ", kind, type_, depth, len(text), text[:12], now() if ticks is None else ticks, value)
    return head + b"".join(struct.pack("<B31s", TEXT, text[k:k + 31]) for k in range(12, len(text), 31))


def open_scopes():
    """As many rings, lanes, open scopes and ranges as are read of a process."""
    rings = []
    for _ in range(8):
        r = Ring(256, 64)
        for i in range(256):
            body = b"".join(record(BEGIN, d, b"s" * 127) for d in range(4)) + record(RANGE_BEGIN, 0, b"r" * 127, i)
            r.put(i, 0, body)
            r.lane(i, len(body) // 32)
        rings.append(r)
    return rings, lambda: time.sleep(0.1)


def new_names():
    """A name that was never there before in each record, as many as are read."""
    ring, step, count, head = Ring(1, 65536), 16000, 0, 0

    def go():
        nonlocal count, head
        at = now()
        data = b"".join(record(INSTANT, 0, b"%012x" % (count + k), 0, at) for k in range(step))
        for k in range(0, step, 1000):
            ring.put(0, head + k, data[k * 32:(k + 1000) * 32][:(ring.slots - (head + k) % ring.slots) * 32])
        count, head = count + step, head + step
        ring.lane(0, head)
        time.sleep(0.05)
    return [ring], go


def heads_that_run():
    """Heads that are further each time, without a record: the reader is behind for ever."""
    rings, head = [Ring(256, 65536) for _ in range(8)], 0

    def go():
        nonlocal head
        head += 65536
        for r in rings:
            for i in range(256):
                r.lane(i, head)
        time.sleep(0.005)
    return rings, go


def anything():
    """Random bytes anywhere, sizes that change, heads that jump; sometimes a true header again."""
    rng = random.Random(7)
    rings = [Ring(rng.choice((1, 8, 256)), rng.choice((64, 1024))) for _ in range(8)]

    def go():
        r = rng.choice(rings)
        how = rng.randrange(8)
        size = r.at + r.lanes * r.slots * 32
        if how == 0:
            os.ftruncate(r.fd, rng.choice((0, 1, PAGE, PAGE + 17, r.at, size)))
        elif how == 1:
            os.pwrite(r.fd, rng.randbytes(48), rng.randrange(48))
        elif how == 2:
            os.pwrite(r.fd, struct.pack("<QIIIIIIQ", MAGIC, 1, rng.choice((0, 1, 257, 2**32 - 1)), rng.choice((0, 63, 64, 2**31)), RAW,
                                        rng.choice((0, 1, os.getpid())), 0, 0), 0)
        elif how == 3:
            os.pwrite(r.fd, struct.pack("<Q", rng.choice((0, 1, 63, 64, 2**32, 2**61, 2**62, 2**63, 2**64 - 1, rng.getrandbits(64)))),
                      PAGE + rng.randrange(r.lanes) * 64)
        elif how == 4:
            os.pwrite(r.fd, rng.randbytes(4096), r.at + rng.randrange(r.lanes * r.slots) * 32)
        elif how == 5:
            data = b"".join(record(rng.randrange(10), rng.randrange(80), rng.randbytes(rng.randrange(128)), rng.getrandbits(64),
                                   rng.choice((None, 0, 2**64 - 1, now() + 10**9 - 1))) for _ in range(20))
            os.pwrite(r.fd, data, r.at)
            os.pwrite(r.fd, struct.pack("<Q", len(data) // 32), PAGE)
        elif how == 6:
            fd = os.memfd_create(NAME.decode(), 0)
            os.dup2(fd, r.fd)
            os.close(fd)
            os.pwrite(r.fd, struct.pack("<QIIIIIIQ", MAGIC, 1, 8, 64, RAW, os.getpid(), 0, 0), 0)
            r.lanes, r.slots, r.at = 8, 64, 2 * PAGE
        else:
            ctypes.CDLL(None).prctl(15, b"\x1b[31m\xff" + rng.randbytes(9), 0, 0, 0)
        time.sleep(0.001)
    return rings, go


rings, step = {f.__name__: f for f in (open_scopes, new_names, heads_that_run, anything)}[sys.argv[1]]()
end = time.monotonic() + float(sys.argv[2] if len(sys.argv) > 2 else 60)
print("ready", flush=True)
while time.monotonic() < end:
    step()
