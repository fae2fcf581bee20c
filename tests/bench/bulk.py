#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast and in how little memory one host's file travels: agent's spool -> aggregator -> store, beside a plain TCP
copy of the same bytes into a file on the same disk, in the same run.

    TUTTI_BIN=build/release/bin PYTHONPATH=tests/e2e tests/bench/bulk.py [--bytes N] [--repeats N]

The agent is killed when its small file is ready, a big one is laid in its place, and the next agent delivers it.
"""
import argparse
import os
import pathlib
import re
import socket
import statistics
import subprocess
import threading
import time
import zlib

from lib.cluster import BIN, Cluster, wait_until
from lib.relay import Relay
from lib.xspace import message_class

MIB = 1 << 20


def crc_of(path):
    crc = 0
    with open(path, "rb") as f:
        while data := f.read(MIB):
            crc = zlib.crc32(data, crc)
    return crc


def fill(path, size):
    """Noise: nobody on the way looks into it."""
    block = os.urandom(MIB)
    with open(path, "wb") as f:
        for _ in range(size // MIB):
            f.write(block)


def raw_copy(source, target):
    """Seconds for a plain copy over TCP: 1 MiB reads and writes, fsync at the end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def send():
            with socket.create_connection(listener.getsockname()) as s, open(source, "rb") as f:
                s.sendfile(f)
        start = time.monotonic()
        sender = threading.Thread(target=send)
        sender.start()
        connection, _ = listener.accept()
        buffer = memoryview(bytearray(MIB))
        with connection, open(target, "wb") as f:
            while n := connection.recv_into(buffer):
                f.write(buffer[:n])
            f.flush()
            os.fsync(f.fileno())
        sender.join()
        seconds = time.monotonic() - start
    os.unlink(target)
    return seconds


def peak_mib(process):
    text = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", text).group(1)) / 1024


def lay_down(folder, big, size, crc):
    """Puts the big file in place of the finished one, and its entry."""
    entry_path = folder / "entry"
    entry = message_class("tutti/v1/ingest.proto", "tutti.v1.SpoolEntry")()
    entry.ParseFromString(entry_path.read_bytes())
    os.unlink(folder / entry.file)
    os.link(big, folder / entry.file)
    entry.bytes, entry.crc32 = size, crc
    entry.files[:] = [size]
    entry_path.write_bytes(entry.SerializeToString())


def seconds_between(log, first, last):
    stamp = {}
    for line in log.splitlines():
        for word in (first, last):
            if word in line:  # the last: the log goes on with the next agent
                h, m, s = line.split("T")[1].split("Z")[0].split(":")
                stamp[word] = int(h) * 3600 + int(m) * 60 + float(s)
    return stamp[last] - stamp[first]


def through_tutti(big, size, crc):
    """(seconds, agent's peak, aggregator's peak)"""
    with Cluster() as c:
        aggregator = c.aggregator("--grace", "120s")
        relay = Relay(c.grpc, hold=3000)
        c.agent("host-a", "--tracers", "metrics", "--metrics-hz", "100", "--aggregator", f"127.0.0.1:{relay.port}")
        c.wait_hosts(1)
        capture = subprocess.Popen([BIN / "tutti", "capture", "--duration", "500ms", "--json"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env={**os.environ, "TUTTI_SERVER": c.url})
        spool = c.dir / "host-a-spool"
        wait_until("a finished file", lambda: list(spool.glob("2*/entry")))
        c.kill("host-a")
        relay.stop()
        lay_down(next(spool.glob("2*")), big, size, crc)
        agent = c.agent("host-a", "--tracers", "metrics")
        peaks = [0, 0]

        def is_stored():
            peaks[0], peaks[1] = peak_mib(agent), peak_mib(aggregator)
            return "state=stored" in c.log("host-a")
        wait_until("the file to be stored", is_stored, 100)
        assert capture.wait(60) == 0, "the capture is not complete"
        return seconds_between(c.log("host-a"), "state=up", "state=stored"), *peaks


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--bytes", type=int, default=1 << 30)
    p.add_argument("--repeats", type=int, default=3)
    args = p.parse_args()
    size = args.bytes // MIB * MIB
    with Cluster() as scratch:
        big = scratch.dir / "big"
        fill(big, size)
        crc = crc_of(big)
        raw, ours, agents, aggregators = [], [], [], []
        for _ in range(args.repeats):
            raw.append(raw_copy(big, scratch.dir / "copy"))
            seconds, agent, aggregator = through_tutti(big, size, crc)
            ours.append(seconds)
            agents.append(agent)
            aggregators.append(aggregator)
            print(f"raw {raw[-1]:.2f} s, tutti {seconds:.2f} s, peak RSS agent {agent:.0f} MiB, "
                  f"aggregator {aggregator:.0f} MiB", flush=True)
    a, b = statistics.median(raw), statistics.median(ours)
    print(f"{size / 1e6:.0f} MB, medians of {args.repeats}: raw {size / a / 1e6:.0f} MB/s, tutti {size / b / 1e6:.0f} "
          f"MB/s, {a / b:.2f}x; peak RSS agent {max(agents):.0f} MiB, aggregator {max(aggregators):.0f} MiB")


main()
