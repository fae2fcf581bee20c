# SPDX-License-Identifier: Apache-2.0
"""A process that behaves as recorded PyTorch does under KINETO_USE_DAEMON (tests/data/kineto): asks its daemon, takes a
configuration, records from its start for its duration, and writes a trace with an annotation every 10 ms. Only its
patience is shorter: it asks every half second. It calls its optimizer every 10 ms, for the first time at the instant in
LOG.begin (Unix ns); a recording of calls has an annotation "call N" for each.

    fake_torch.py SOCKET_DIR LOG [refuse|empty|broken|link|silent|greedy|again|hasty]

greedy: its trace is well-formed, and takes more memory than the agent gives one.

again: its first request comes twice, as from PyTorch when its agent was away: it waits for one answer. hasty: it does not
wait for the first answer.

LOG.behind gets the number of each request before which an older answer lay there: it is taken for the new one.

LOG gets a JSON line for each configuration: what it said, and when it came; LOG.written the path of each trace.
"""
import decimal
import json
import os
import pathlib
import select
import socket
import struct
import sys
import time
import uuid

BASE_NS = 1790857026000000000
CALL_NS = 10_000_000
EVERY_S = 0.5


def microseconds(ns):
    return decimal.Decimal(ns - BASE_NS) / 1000


def greedy_rows():
    row = f'"ph": "X", "pid": {os.getpid()}, "ts": 1, "dur": 1'
    return ",".join(f'{{{row}, "tid": {i % 999}, "name": "kernel {i}"}}' for i in range(1_500_000))


# Made before the process asks: the agent does not wait for long.
GREEDY = greedy_rows() if sys.argv[3:] == ["greedy"] else ""


def trace(start_ns, end_ns, path):
    pid = os.getpid()
    rows = [f'{{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{i}", "pid": {pid}, "tid": {pid}, '
            f'"ts": {microseconds(at):.3f}, "dur": 5000.5, "args": {{"External id": {i}}}}}'
            for i, at in enumerate(range(start_ns - start_ns % 10_000_000 + 10_000_000, end_ns, 10_000_000))]
    rows.append(f'{{"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler", '
                f'"ts": {microseconds(start_ns):.3f}, "dur": {(end_ns - start_ns) / 1000:.3f}}}')
    rows.append('{"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 1.5}')
    return (f'{{"schemaVersion": 1, "baseTimeNanoseconds": {BASE_NS}, "traceEvents": [{",".join(rows)}], '
            f'"traceName": "{path}"}}')


def trace_calls(begin_ns, first, n):
    """From the end of the call before the first to the end of the last."""
    pid = os.getpid()
    at = begin_ns + (first - 1) * CALL_NS
    rows = [f'{{"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler", '
            f'"ts": {microseconds(at):.3f}, "dur": {n * CALL_NS // 1000}}}']
    rows += [f'{{"ph": "X", "cat": "user_annotation", "name": "call {first + i}", "pid": {pid}, "tid": {pid}, '
             f'"ts": {microseconds(at + i * CALL_NS + 1000):.3f}, "dur": 9998}}' for i in range(n)]
    return f'{{"baseTimeNanoseconds": {BASE_NS}, "traceEvents": [{",".join(rows)}]}}'


def record_calls(config, begin_ns):
    """PROFILE_START_ITERATION is the call that ends before the first one, or has passed."""
    n, warm_up = int(config["ACTIVITIES_ITERATIONS"]), int(config["ACTIVITIES_WARMUP_ITERATIONS"])
    now = (time.time_ns() - begin_ns) // CALL_NS
    start = max(int(config["PROFILE_START_ITERATION"]), now + warm_up)
    time.sleep(max(0, begin_ns + (start + n) * CALL_NS - time.time_ns()) / 1e9 + 0.3)
    return trace_calls(begin_ns, start + 1, n)


def write(path, text, log):
    path.with_suffix(".json.tmp").write_text(text)
    path.with_suffix(".json.tmp").rename(path)
    with open(f"{log}.written", "a") as f:
        print(path, file=f)


def record(config, how, log, begin_ns):
    wanted = pathlib.Path(config["ACTIVITIES_LOG_FILE"])
    path = wanted.with_name(f"{wanted.stem}_{os.getpid()}.json")
    if "PROFILE_START_ITERATION" in config:
        return write(path, record_calls(config, begin_ns), log)
    start_ns = int(config["PROFILE_START_TIME"]) * 1_000_000
    end_ns = start_ns + int(config["ACTIVITIES_DURATION_MSECS"]) * 1_000_000
    warm_up = int(config["ACTIVITIES_WARMUP_PERIOD_SECS"])
    if how == "refuse" or start_ns < time.time_ns() + warm_up * 1_000_000_000:
        return  # "insufficient time for warmup" goes to its own log only
    time.sleep(max(0, end_ns - time.time_ns()) / 1e9 + 0.3)
    text = trace(start_ns, end_ns if how != "empty" else start_ns, path)
    if how == "greedy":
        text = f'{{"baseTimeNanoseconds": {start_ns}, "traceEvents": [{GREEDY}]}}'
    if how == "broken":
        text = text[:len(text) // 2]
    if how == "link":
        path.symlink_to("/etc/shadow")
        return
    write(path, text, log)


def main(directory, log, how=""):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.bind(f"\0dynoconfigclient{uuid.uuid4()}\0")
    s.settimeout(0.09)
    body = struct.pack("<iiqii", 3, 2, 0, os.getpid(), os.getppid())
    asked, begin_ns = 0, time.time_ns()
    pathlib.Path(f"{log}.begin").write_text(str(begin_ns))
    while True:
        if how == "silent" and asked == 1:
            time.sleep(3600)
        if select.select([s], [], [], 0)[0]:
            with open(f"{log}.behind", "a") as f:
                print(asked, file=f)
        try:
            for _ in range(2 if how == "again" and not asked else 1):
                s.sendto(struct.pack("<Q32s", len(body), b"req") + body, f"{directory}/dynolog")
            asked += 1
            if how == "hasty" and asked == 1:
                time.sleep(EVERY_S)
                continue
            size, _ = struct.unpack_from("<Q32s", answer := s.recv(4096))
            text = answer[40:40 + size].decode()
        except OSError:
            text = ""
        if text:
            config = dict(line.split("=", 1) for line in text.splitlines())
            with open(log, "a") as f:
                print(json.dumps({"asked": asked, "at_ns": time.time_ns(), **config}), file=f)
            record(config, how, log, begin_ns)
        time.sleep(EVERY_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
