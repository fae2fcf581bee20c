# SPDX-License-Identifier: Apache-2.0
"""The profiler tracer alone against real JAX: its trace, the options' way there, contention, a frozen process."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

try:
    import jax  # noqa: F401
except ImportError:
    print("jax is not installed")
    sys.exit(77)

from lib import netns, xspace
from lib.waits import join

HERE = pathlib.Path(__file__).parent
SLOW = float(os.environ.get("TUTTI_TEST_SLOW", "1"))
ONCE = pathlib.Path(os.environ["TUTTI_BIN"]) / "profile_once"


class Job:
    """A JAX job under way."""

    def __init__(self, directory, *flags):
        self.port_file = pathlib.Path(directory) / "port"
        self.log = open(pathlib.Path(directory) / "job.log", "w+")
        self.process = subprocess.Popen(
            [sys.executable, HERE / "jax_job.py", "--seconds", "300", "--port-file", self.port_file, *flags],
            stdout=self.log, stderr=subprocess.STDOUT)

    def port(self):
        for _ in range(1200):
            if self.port_file.exists():
                return int(self.port_file.read_text())
            assert self.process.poll() is None, self.text()
            time.sleep(0.1)
        raise AssertionError(f"the job does not come up: {self.text()}")

    def address(self):
        return f"127.0.0.1:{self.port()}"

    def text(self):
        self.log.seek(0)
        return self.log.read()

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait(20 * SLOW)
        if not self.log.closed:
            self.log.close()


def once(directory, ms, addresses=(), options=b""):
    """One window; what the tracer says, with its parts loaded and removed."""
    p = subprocess.run([ONCE, directory, str(ms), options.hex() or "-", *addresses], stdout=subprocess.PIPE,
                       timeout=120 * SLOW, check=True)
    result = json.loads(p.stdout)
    for part in result["parts"]:
        part["space"] = xspace.load(part["path"])
        os.remove(part["path"])
    assert not os.listdir(directory), os.listdir(directory)
    return result


def check_trace(result, j, ms):
    assert result["result"] == "ok", result
    (part,) = result["parts"]
    assert part["pid"] == j.process.pid and part["label"].endswith(f" {j.process.pid}"), part
    events = list(xspace.events(xspace.plane(part["space"], "/host:CPU")))
    names = {e[0] for e in events}
    assert "train" in names and "PjitFunction(train_step)" in names, sorted(names)[:50]
    lead_ms = (result["t0_real_ns"] - part["start_real_ns"]) / 1e6
    first = min(e[1] for e in events) / 1e9 - lead_ms
    last = max(e[1] + e[2] for e in events) / 1e9 - lead_ms
    assert first < 50 * SLOW and last > ms - 50 * SLOW, f"window 0 to {ms} ms, events from {first} to {last}"
    print(f"     {len(events)} events from {first:.1f} to {last:.1f} ms of a window of {ms} ms")
    return part["space"]


def check_discovery(directory, j):
    """Of all jobs of this machine."""
    result = once(directory, 1000)
    mine = [p for p in result["parts"] if p["pid"] == j.process.pid]
    check_trace({**result, "result": "ok", "parts": mine}, j, 1000)


def check_options(directory, j):
    options = xspace.message_class("tensorflow/profiler_options.proto", "tensorflow.ProfileOptions")()
    options.version = 1
    options.host_tracer_level = 1
    options.python_tracer_level = 1
    options.advanced_configuration["tracemark_lower"].int64_value = 7
    plain = check_trace(once(directory, 1000, [j.address()]), j, 1000)
    python = once(directory, 500, [j.address()], options.SerializeToString())["parts"][0]["space"]

    def python_events(space):
        return sum(e[0].startswith("$") for p in space.planes for e in xspace.events(p))

    assert python_events(plain) == 0
    assert python_events(python) > 10
    arrived = type(options).FromString(
        xspace.stats(xspace.plane(python, "Task Environment"))["profile_options"])
    assert arrived.host_tracer_level == 1 and arrived.python_tracer_level == 1
    assert arrived.advanced_configuration["tracemark_lower"].int64_value == 7


def check_contention(directory, busy):
    result = once(directory, 300, [busy.address()])
    assert (result["result"], result["reason"]) == ("failed", "profiler-busy"), result
    assert "nother profiling session" in result["detail"]


def check_frozen(directory, frozen, good):
    frozen.process.send_signal(signal.SIGSTOP)
    begin = time.monotonic()
    result = once(directory, 300, [frozen.address(), good.address()])
    assert time.monotonic() - begin < 20 * SLOW
    assert (result["result"], result["reason"]) == ("degraded", "profiler-timeout"), result
    check_trace({**result, "result": "ok"}, good, 300)


def check_gone(directory, gone):
    gone.end()
    result = once(directory, 300, [gone.address()])
    assert (result["result"], result["reason"]) == ("failed", "profiler-unreachable"), result


def is_called(port):
    """Whether a client is connected to this port."""
    rows = [line.split() for name in ("tcp", "tcp6") for line in open(f"/proc/net/{name}").readlines()[1:]]
    return any(int(row[1].rpartition(":")[2], 16) == port and row[3] == "01" for row in rows)


def check_ends(directory, j):
    """A job that is killed in the window is not complete."""
    def kill():
        for _ in range(int(600 * SLOW)):
            if is_called(j.port()):
                time.sleep(0.5)
                break
            time.sleep(0.1)
        j.process.kill()

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    result = once(directory, 2500, [f"127.0.0.1:{j.port()}"])
    join(killer)
    assert (result["result"], result["reason"]) == ("failed", "profiler-lost"), result["reason"]


def main():
    """A job takes seconds of a CPU to start: one is traced throughout, one is busy, then frozen, then gone."""
    netns.isolate()
    with contextlib.ExitStack() as stack:
        folders = [stack.enter_context(tempfile.TemporaryDirectory()) for _ in range(4)]
        directory, trace = folders[2:]
        j, busy = Job(folders[0]), Job(folders[1], "--trace", trace)
        stack.callback(busy.end)
        stack.callback(j.end)
        for check, jobs in ((check_options, (j,)), (check_discovery, (j,)), (check_contention, (busy,)),
                            (check_frozen, (busy, j)), (check_gone, (busy,)), (check_ends, (j,))):
            print(f"  {check.__name__}", flush=True)
            check(directory, *jobs)


main()
