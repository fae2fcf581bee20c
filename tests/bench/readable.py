#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long after the end of the window everything can be read: so many hosts on this machine, each with so many bytes.

    TUTTI_BIN=build/release/bin PYTHONPATH=tests/e2e tests/bench/readable.py [--hosts N] [--bytes N] [--repeats N]

Readable means: `tutti capture` has ended, so the manifest is there and every file where XProf looks. Then each is fetched by HTTP.
"""
import argparse
import os
import statistics
import subprocess
import time
import urllib.request

from lib.cluster import BIN, Cluster

GOAL_S = 2


def fetch_all(c, doc):
    """Bytes of all files, by HTTP."""
    n = 0
    for host in doc["hosts"]:
        for name in host["files"]:
            with urllib.request.urlopen(f"{c.url}/api/v1/sessions/{doc['session']}/files/{name}") as answer:
                while data := answer.read(1 << 20):
                    n += len(data)
    return n


def cpu_seconds(processes):
    """User and system time of them all so far: on a busy machine the time on the wall says little."""
    stats = [open(f"/proc/{p.pid}/stat").read().rsplit(")", 1)[1].split() for p in processes]
    return sum(int(s[11]) + int(s[12]) for s in stats) / os.sysconf("SC_CLK_TCK")


def spans(c, host, session):
    """Seconds after T1, told by the agent's log: file ready, file stored."""
    out = {}
    for line in c.log(host).splitlines():
        for word in ("state=ready", "state=stored"):
            if word in line and session in line:
                h, m, s = line.split("T")[1].split("Z")[0].split(":")
                out[word] = int(h) * 3600 + int(m) * 60 + float(s)
    return out


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--hosts", type=int, default=16)
    p.add_argument("--bytes", type=int, default=16 << 20)
    p.add_argument("--repeats", type=int, default=5)
    args = p.parse_args()
    with Cluster() as c:
        space = c.dir / "space.pb"
        subprocess.run([BIN.parent / "tests/xspace_gen", space, str(args.bytes), "400000000"], check=True)
        flags = c.profilers_of(*[space] * args.hosts, mode="good")
        aggregator = c.aggregator("--lead", "1s")
        agents = [c.agent(f"host-{i:02}", flag, "--tracers", "profiler,metrics") for i, flag in enumerate(flags)]
        c.wait_hosts(args.hosts)
        found = []
        for _ in range(args.repeats):
            used = cpu_seconds(agents), cpu_seconds([aggregator])
            _, doc = c.tutti("capture", "--duration", "1s", "--json", check=0)
            readable = time.time()
            t1_ns = doc["t0_ns"] + doc["duration_ns"]
            assert all(h["bytes"] > args.bytes * 0.9 for h in doc["hosts"]), doc["hosts"]
            stored = readable - t1_ns / 1e9
            start = time.monotonic()
            n = fetch_all(c, doc)
            fetch = time.monotonic() - start
            day = t1_ns / 1e9 % 86400
            ready, last = (max(spans(c, h["host"], doc["session"])[w] for h in doc["hosts"]) - day
                           for w in ("state=ready", "state=stored"))
            used = cpu_seconds(agents) - used[0], cpu_seconds([aggregator]) - used[1]
            found.append(stored)
            print(f"readable {stored:.2f} s after the window (last file assembled {ready:.2f} s, stored {last:.2f} s); "
                  f"CPU agents {used[0]:.2f} s, aggregator {used[1]:.2f} s; {n / 1e6:.0f} MB fetched in {fetch:.2f} s", flush=True)
            c.tutti("delete", doc["session"], check=0)
        median = statistics.median(found)
        print(f"{args.hosts} hosts x {args.bytes / (1 << 20):.0f} MiB: median {median:.2f} s, worst {max(found):.2f} s; goal {GOAL_S} s")
        if median > GOAL_S:
            raise SystemExit("the goal is missed")


main()
