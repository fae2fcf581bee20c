# SPDX-License-Identifier: Apache-2.0
"""Clocks over a bad network: marks of one instant stand together within the bounds that are published.

Probes go through a relay that delays, reorders, loses, forges and replays them; agents' clocks are off
by seconds and drift. `TUTTI_CLOCK_CAPTURES=50` makes a campaign of it, `TUTTI_CLOCK_AGENTS=16` a crowd.
"""
import os

from lib import xspace
from lib.cluster import BIN, Cluster, main

CAPTURES = int(os.environ.get("TUTTI_CLOCK_CAPTURES", "2"))
AGENTS = int(os.environ.get("TUTTI_CLOCK_AGENTS", "4"))
BAD_NETWORK = ("--there-delay=1ms", "--there-jitter=200us", "--back-delay=300us", "--back-jitter=200us",
               "--loss=10", "--evil=20")


def start(c, relay_flags, agents):
    """Everything talks to 127.0.0.2; only the probes' port there is the relay's."""
    there = f"127.0.0.2:{c.grpc}"
    c.aggregator("--grpc", there)
    if relay_flags is not None:
        c.start("burst-relay", [BIN / "udp_relay", "--listen", f"127.0.0.2:{c.probe}", "--server",
                                f"127.0.0.1:{c.probe}", *relay_flags])
    for i in range(agents):
        where = there if relay_flags is not None else f"127.0.0.1:{c.grpc}"
        c.agent(f"host-{i}", "--aggregator", where, f"--test-clock-offset={(i * 7) % 11 - 5}s",
                f"--test-clock-drift-ppm={(i * 37) % 199 - 99}")
    c.wait_hosts(agents)
    c.burst(*(f"host-{i}" for i in range(agents)), flags=("--period=100ms", "--work=1ms"))


def check_capture(c, agents):
    """One capture: the worst ratio of what two marks are apart to what their bounds allow, in (us, us)."""
    _, doc = c.tutti("capture", "--duration", "600ms", "--json", check=0)
    marks, bounds = {}, {}
    for h in doc["hosts"]:
        space = xspace.load(c.logdir / "plugins" / "profile" / doc["session"] / h["file"])
        env = xspace.stats(xspace.plane(space, "Task Environment"))
        assert env["clock_calibrated"] == 1 and env["clock_bound_ns"] == h["clock_bound_ns"], (env, h)
        assert env["clock_method"] == h["clock"]["method"] and env["clock_grade"] in "ABCD", env
        assert h["clock"]["steps"] == [], h
        marks[h["host"]], bounds[h["host"]] = xspace.marks(space), h["clock_bound_ns"]
    assert len(marks) == agents
    common = set.intersection(*(set(m) for m in marks.values()))
    assert len(common) >= 3, marks
    worst = (0, 1)
    for text in common:
        for a in marks:
            for b in marks:
                apart, allowed = abs(marks[a][text] - marks[b][text]) / 1e3, bounds[a] + bounds[b] + 1
                assert apart <= allowed, f"{text}: {a} and {b} are {apart} ns apart, bounds allow {allowed}"
                if apart * worst[1] > worst[0] * allowed:
                    worst = (apart, allowed)
    return worst, max(bounds.values())


def campaign(c, captures, agents):
    results = [check_capture(c, agents) for _ in range(captures)]
    apart = max(r[0][0] for r in results) / 1e3
    print(f"     {captures} captures of {agents} agents: marks at most {apart:.1f} us apart "
          f"({max(r[0][0] / r[0][1] for r in results):.2f} of what bounds allow), "
          f"largest bound {max(r[1] for r in results) / 1e3:.1f} us")


def test_bad_network():
    with Cluster() as c:
        start(c, BAD_NETWORK, AGENTS)
        campaign(c, CAPTURES, AGENTS)
        dropped = int(next(line.split()[1] for line in c.metrics() if line.startswith("tutti_probes_dropped_total ")))
        assert dropped > 0, "the relay's forged and old packets were not noticed"


def test_clock_verb():
    with Cluster() as c:
        c.aggregator()
        c.agent("host-0", "--test-clock-offset=3s")
        c.agent("host-1")
        c.wait_hosts(2)
        _, doc = c.tutti("clock", "host-0", "--json", check=0)
        clock, = (h["clock"] for h in doc["hosts"])
        assert clock["grade"] in "ABCD" and clock["rtt_min_ns"] > 0, clock
        assert clock["method"] in ("udp-kernel", "udp-user"), clock
        _, text = c.tutti("clock", check=0)
        assert "host-0" in text and "host-1" in text and clock["method"] in text, text
        c.tutti("clock", "--warn-above", "1ns", check=3)
        assert c.stderr.count("warning: host-") == 2, c.stderr
        c.tutti("clock", "nobody", check=1)


main(test_bad_network, test_clock_verb)
