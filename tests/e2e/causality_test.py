# SPDX-License-Identifier: Apache-2.0
"""Barriers that all hosts went through hold their clocks to account: right clocks are never accused, a
wrong one that no probe can see is named. One that a lopsided path deceives, within its bound, is put right on
request (--refine=events).

TUTTI_CAUSALITY_CAPTURES=100 makes as many clean captures, for a figure by hand.
"""
import os

from lib import xspace
from lib.cluster import BIN, Cluster, main

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
        c.sockets["host-c"] = f"ipc://{c.dir}/host-c.ipc"
        start(c, "--shift=5ms", f"--shift-socket={c.sockets['host-c']}")
        doc = capture(c, "--refine", "events")
        verdict = doc["causality"]
        assert verdict["checked"] >= 1 and verdict["violations"], verdict
        assert doc["refined"]["reason"] == "contradiction" and not [h for h in doc["hosts"] if "refined" in h], doc
        for v in verdict["violations"]:
            assert v["late"] == "host-c" and v["early"] != "host-c" and 0 < v["by_ns"] < 5_000_000, v
        assert verdict["guilty"] == "host-c", verdict
        assert [w for w in doc["warnings"] if w.startswith("causality: ") and "host-c" in w], doc["warnings"]
        text = c.tutti("show", doc["session"], check=0)[1]
        key = verdict["violations"][0]["key"]
        assert f"warning: {key} ends on host-" in text and "before it begins on host-c" in text, text
        print(f"     {len(verdict['violations'])} of {verdict['checked']} barriers run backwards, host-c named")


def apart(logdir, doc, offsets=None):
    """How far apart the hosts' files have the same instants, at worst; in ns."""
    files = []
    for h in doc["hosts"]:
        space = xspace.load(logdir / "plugins" / "profile" / doc["session"] / h["file"])
        offset = offsets[h["host"]] if offsets else 0
        files.append({text: at / 1000 + offset for text, at in xspace.marks(space).items()})
        assert all(0 <= at < doc["duration_ns"] * 1000 for at in xspace.marks(space).values()), files
    common = set.intersection(*map(set, files))
    assert len(common) > 3, files
    return max(max(f[text] for f in files) - min(f[text] for f in files) for text in common)


def test_refined():
    """Probes of host-b take 1 ms longer on the way there: only events show that its clock is wrong by half of that."""
    with Cluster() as c:
        c.aggregator("--grpc", f"0.0.0.0:{c.grpc}", "--insecure")
        c.start("burst-relay", [BIN / "udp_relay", "--listen", f"127.0.0.2:{c.probe}", "--server",
                                f"127.0.0.1:{c.probe}", "--there-delay=1ms"])
        c.agent("host-a", "--test-clock-offset=-3s")
        c.agent("host-b", "--test-clock-offset=2s", "--aggregator", f"127.0.0.2:{c.grpc}")
        c.wait_hosts(2)
        c.burst("host-a", "host-b", flags=("--period=50ms", "--work=1ms", "--barrier"))
        plain = capture(c)
        assert "refined" not in plain and not [h for h in plain["hosts"] if "refined" in h], plain
        doc = capture(c, "--refine", "events")
        assert not doc["causality"]["violations"], doc
        all_hosts = doc["refined"]
        assert all_hosts["reason"] == "" and all_hosts["hosts"] == 2 and all_hosts["pairs"] >= 4, all_hosts
        assert all_hosts["in_files"] is False and all_hosts["reference"] == "host-a", all_hosts
        assert all_hosts["backwards_after"] <= all_hosts["backwards_before"], all_hosts
        for h in doc["hosts"]:
            offset = h["refined"]["offset_ns"]
            assert -h["clock"]["earlier_ns"] <= offset <= h["clock"]["later_ns"], h
            assert max(h["clock"]["earlier_ns"], h["clock"]["later_ns"]) <= h["clock_bound_ns"], h
        offsets = {h["host"]: h["refined"]["offset_ns"] for h in doc["hosts"]}
        before, after = apart(c.logdir, doc), apart(c.logdir, doc, offsets)
        assert before > 300_000 and after < before / 4, (before, after, doc)
        text = c.tutti("show", doc["session"], check=0)[1]
        assert "  refined " in text and "tutti export --refined" in text, text
        c.tutti("export", doc["session"], "--refined", "-o", c.dir / "out", check=0)
        exported = apart(c.dir / "out", doc)
        assert abs(exported - after) <= 2, (exported, after)
        for h in doc["hosts"]:
            space = xspace.load(c.dir / "out" / "plugins" / "profile" / doc["session"] / h["file"])
            assert [w for w in space.warnings if f"moved by {offsets[h['host']]} ns" in w], space.warnings
        assert c.tutti("export", plain["session"], "--refined", "-o", c.dir / "out")[0] == 2
        assert "captured without --refine" in c.stderr, c.stderr
        print(f"     the same instant: {before / 1e3:.1f} us apart as told, {after / 1e3:.1f} us refined")
        code, doc = c.tutti("capture", "--refine", "guesses", "--json")
        assert code == 2 and "refine 'guesses': use events" in c.stderr, (code, c.stderr)


def test_switched_off():
    with Cluster() as c:
        c.aggregator("--causality=0s")
        c.agent("host-a")
        c.wait_hosts(1)
        verdict = capture(c)["causality"]
        assert verdict["checked"] == 0 and verdict["skipped"] == "not checked, switched off: host-a", verdict


main(test_clean, test_wrong_stamps, test_refined, test_switched_off)
