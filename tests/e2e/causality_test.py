# SPDX-License-Identifier: Apache-2.0
"""Barriers that all hosts went through hold their clocks to account: right clocks are never accused, a
wrong one that no probe can see is named.

TUTTI_CAUSALITY_CAPTURES=100 makes as many clean captures, for a figure by hand.
"""
import os

from lib.cluster import Cluster, main

HOSTS = ("host-a", "host-b", "host-c")
CAPTURES = int(os.environ.get("TUTTI_CAUSALITY_CAPTURES", "2"))


def start(c, *flags):
    c.aggregator()
    for host in HOSTS:
        c.agent(host, "--test-clock-offset=2s")
    c.wait_hosts(3)
    c.burst(*HOSTS, flags=("--period=50ms", "--work=1ms", "--barrier", *flags))


def capture(c, *flags):
    code, doc = c.tutti("capture", "--duration", "1s", "--json", *flags, check=0)
    return doc


def test_clean():
    with Cluster() as c:
        start(c)
        checked = 0
        for _ in range(CAPTURES):
            doc = capture(c)
            verdict = doc["causality"]
            assert verdict["violations"] == [] and not verdict["skipped"] and verdict["guilty"] == "", verdict
            assert not [w for w in doc["warnings"] if "causality" in w], doc["warnings"]
            checked += verdict["checked"]
        assert checked >= CAPTURES, checked
        print(f"     {CAPTURES} clean captures, {checked} barriers checked, 0 flagged")


def test_wrong_stamps():
    with Cluster() as c:
        c.doors["host-c"] = f"ipc://{c.dir}/host-c.ipc"
        start(c, "--shift=5ms", f"--shift-door={c.doors['host-c']}")
        doc = capture(c)
        verdict = doc["causality"]
        assert verdict["checked"] >= 1 and verdict["violations"], verdict
        for v in verdict["violations"]:
            assert v["late"] == "host-c" and v["early"] != "host-c" and 0 < v["by_ns"] < 5_000_000, v
        assert verdict["guilty"] == "host-c", verdict
        assert [w for w in doc["warnings"] if w.startswith("causality: ") and "host-c" in w], doc["warnings"]
        text = c.tutti("show", doc["session"], check=0)[1]
        key = verdict["violations"][0]["key"]
        assert f"warning: {key} ends on host-" in text and "before it begins on host-c" in text, text
        print(f"     {len(verdict['violations'])} of {verdict['checked']} barriers run backwards, host-c named")


def test_switched_off():
    with Cluster() as c:
        c.aggregator("--causality=0s")
        c.agent("host-a")
        c.wait_hosts(1)
        verdict = capture(c)["causality"]
        assert verdict["checked"] == 0 and verdict["skipped"] == "not checked, switched off: host-a", verdict


main(test_clean, test_wrong_stamps, test_switched_off)
