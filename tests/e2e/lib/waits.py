# SPDX-License-Identifier: Apache-2.0
"""Waits for what has no deadline of its own: a line of a process, the end of a thread or of a forked child. tests/lint/deadlines.py refuses them elsewhere.

What has no deadline all the same (a library's own call, the end of a pool of threads) ends with the test: after TUTTI_TEST_LIMIT_S, where that
is set, it prints where each thread is, and ends; its processes end with it."""
import faulthandler
import io
import os
import select
import time

SLOW = float(os.environ.get("TUTTI_TEST_SLOW", "1"))  # sanitizers and busy machines wait longer
if "TUTTI_TEST_LIMIT_S" in os.environ:
    faulthandler.dump_traceback_later(float(os.environ["TUTTI_TEST_LIMIT_S"]), exit=True)


def read_line(pipe, seconds=30):
    """The next line of a process, as pipe.readline() gives it; "" at its end. Takes no byte behind the line."""
    end, line = time.monotonic() + seconds * SLOW, b""
    ready = select.poll()
    ready.register(pipe, select.POLLIN)
    while not line.endswith(b"\n"):
        if not ready.poll(max(0, end - time.monotonic()) * 1000):
            raise AssertionError(f"waited {seconds * SLOW:.0f} s for a line; there is {line!r}")
        byte = os.read(pipe.fileno(), 1)
        if not byte:
            break
        line += byte
    return line.decode(errors="replace") if isinstance(pipe, io.TextIOBase) else line


def join(thread, seconds=60):
    """Thread.join() says nothing when its time is over."""
    thread.join(seconds * SLOW)
    assert not thread.is_alive(), f"waited {seconds * SLOW:.0f} s for the end of {thread.name}"


def wait4(pid, seconds=60):
    """The status and the usage of a child that ends."""
    fd = os.pidfd_open(pid)
    ready = select.select([fd], [], [], seconds * SLOW)[0]
    os.close(fd)
    assert ready, f"waited {seconds * SLOW:.0f} s for the end of process {pid}"
    return os.wait4(pid, 0)[1:]
