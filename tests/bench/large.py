#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""More of one host than any file may hold: what it costs the two daemons in memory, and what files it makes.

    TUTTI_BIN=build/release/bin PYTHONPATH=tests/e2e tests/bench/large.py [--bytes N] [--file-limit N]

Frameworks that give 1.7 GB each (the same file, of tests/bench/xspace_gen, linked into the spool, as servers from before emit_xspace
do) stand beside one agent. On the disk there are, for a moment, four times `--bytes`. Every file is walked to its end.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import time

from lib.cluster import BIN, Cluster

PIECE = 1_700_000_000
GOAL_MIB = {"agent": 64, "aggregator": 128}


def peak_mib(process):
    text = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", text).group(1)) / 1024


def walk(path):
    """Lines of an XSpace file, which is read to its end in little memory."""
    tool = BIN.parent / "tests/xspace_rebase"
    out = subprocess.run([tool, path, "/dev/null", "0"], check=True, capture_output=True, text=True).stdout
    return int(out.split()[2])


def tail_has(path, text):
    """Hostnames stand at a file's end."""
    with open(path, "rb") as f:
        f.seek(-min(4096, path.stat().st_size), 2)
        return text.encode() in f.read()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--bytes", type=int, default=8 << 30)
    p.add_argument("--file-limit", type=int, default=2_000_000_000)
    args = p.parse_args()
    piece = min(PIECE, args.bytes)
    count = -(-args.bytes // piece)
    with Cluster() as c:
        free = shutil.disk_usage(c.dir).free
        if free < 5 * args.bytes:
            raise SystemExit(f"{free} bytes are free, {5 * args.bytes} are needed")
        space = c.dir / "space.pb"
        subprocess.run([BIN.parent / "tests/xspace_gen", space, str(piece), "400000000"], check=True)
        flags = c.profilers_of(*[space] * count)
        aggregator = c.aggregator("--grace", "1800s")
        agent = c.agent("host-a", *flags, "--tracers", "profiler", "--spool-limit", str(3 * args.bytes),
                        f"--file-limit={args.file_limit}")
        c.wait_hosts(1)
        before = {"agent": peak_mib(agent), "aggregator": peak_mib(aggregator)}
        start = time.monotonic()
        code, doc = c.tutti("capture", "--duration", "1s", "--json", timeout=1800)
        took = time.monotonic() - start
        peaks = {"agent": peak_mib(agent), "aggregator": peak_mib(aggregator)}
        host = doc["hosts"][0]
        assert code == 3 and (host["state"], host["reason"]) == ("partial", "profiler-old"), host
        where = pathlib.Path(doc["path"])
        lines = 0
        for name in host["files"]:
            size = (where / name).stat().st_size
            assert size <= args.file_limit and tail_has(where / name, name.removesuffix(".xplane.pb"))
            lines += walk(where / name)
            print(f"{name}: {size} bytes", flush=True)
        print(f"{host['bytes']} bytes, {host['events']} events, {lines} lines in {len(host['files'])} files, {took:.0f} s "
              f"after the request")
        for name, peak in peaks.items():
            print(f"peak RSS of the {name}: {peak:.0f} MiB, {before[name]:.0f} MiB before; goal {GOAL_MIB[name]} MiB")
        if any(peaks[name] - (before[name] if name == "agent" else 0) > GOAL_MIB[name] for name in peaks):
            raise SystemExit("a goal is missed")


main()
