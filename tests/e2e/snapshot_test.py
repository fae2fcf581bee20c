# SPDX-License-Identifier: Apache-2.0
"""Snapshots: windows that are over, cut from the rings of three hosts with wrong clocks, again and again."""
import os
import pathlib
import sys
import time

from lib import xspace
from lib.cluster import SLOW, Cluster, is_whole, main, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
from tutti import local  # noqa: E402

HOSTS = {"host-a": [], "host-b": ["--test-clock-offset", "5s"], "host-c": ["--test-clock-offset", "-3s"]}
BOUND_PS = 1_000_000_000  # bursts of two hosts are this near each other, 1 ms; on a busy machine the clocks' bounds are wider


def start(c, *flags, **tracers):
    c.aggregator()
    for host, clock in HOSTS.items():
        c.agent(host, *clock, *flags, **tracers)
    c.wait_hosts(3)
    c.burst(*HOSTS, flags=("--period", "100ms", "--work", "20ms"))


def spaces(c, doc):
    directory = c.logdir / "plugins" / "profile" / doc["session"]
    return {h["host"]: xspace.load(directory / h["file"]) for h in doc["hosts"] if h["file"]}


def marks(c, doc):
    """{host: {text: ps since T0}}."""
    return {host: xspace.marks(space) for host, space in spaces(c, doc).items()}


def limit_ps(doc):
    bounds = sorted(h["clock_bound_ns"] for h in doc["hosts"])
    return max(BOUND_PS, 1000 * sum(bounds[-2:]))


def check_aligned(found, limit):
    """Each burst marks all hosts at one instant."""
    common = set.intersection(*(set(m) for m in found.values()))
    assert len(common) >= 3, {h: len(m) for h, m in found.items()}
    for text in common:
        times = [m[text] for m in found.values()]
        assert max(times) - min(times) < limit, (text, times)


def snapshot(c, *flags):
    """Of three hosts that are whole."""
    code, doc = c.tutti("snapshot", *flags, "--json")
    assert [is_whole(h) for h in doc["hosts"]] == [True] * 3 and code == (3 if doc["partial"] else 0), (code, doc)
    return doc


def test_snapshot():
    """The last seconds, then the same window again by its instant: the same marks at the same times, nothing stopped.
    All tracers take part: a busy machine may cut what the heavy ones record."""
    with Cluster() as c:
        start(c, tracers="all")
        c.wait_rings(3)
        doc = snapshot(c, "--last", "3s")
        assert doc["snapshot"] and doc["duration_ns"] == 3_000_000_000, doc
        found = marks(c, doc)
        check_aligned(found, limit_ps(doc))
        assert all(0 <= at < 3e12 for m in found.values() for at in m.values())
        for host, space in spaces(c, doc).items():
            for tracer in ("samples", "metrics"):
                assert any(tracer in p.name or p.name == "/host:CPU" for p in space.planes), (host, tracer)
        end = doc["t0_ns"] + doc["duration_ns"]
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(end // 10**9)) + f".{end % 10**9:09d}Z"
        again = snapshot(c, "--last", "3s", "--ending-at", stamp)
        assert again["t0_ns"] == doc["t0_ns"] and again["session"] != doc["session"], again
        for host, m in marks(c, again).items():
            limit = max(limit_ps(doc), limit_ps(again))
            assert set(found[host]) <= set(m) and all(abs(m[t] - at) < limit for t, at in found[host].items()), host
            for t in set(m) - set(found[host]):  # on a busy machine a burst's mark may arrive when the file is made
                assert m[t] > 2e12, (host, t, m[t])
        older = snapshot(c, "--last", "1s", "--ending-at", "now-2s")
        age = time.time_ns() - older["t0_ns"] - older["duration_ns"]
        assert 2e9 <= age < 2e9 + 30e9 * SLOW, age


def test_series():
    """Windows of a second: no gap, no mark twice, none lost; only the last sessions stay."""
    with Cluster() as c:
        start(c)
        c.wait_rings(1.5)
        _, doc = c.tutti("snapshot", "--every", "1s", "--for", "5s", "--keep", "3", "--json", check=0)
        rows = doc["snapshots"]
        assert [r["number"] for r in rows] == list(range(1, 6)), rows
        for a, b in zip(rows, rows[1:]):
            assert a["t0_ns"] + a["duration_ns"] == b["t0_ns"], (a, b)
        kept = [s["session"] for s in c.get("/api/v1/sessions")["sessions"]]
        assert set(kept) == {r["session"] for r in rows[-3:]}, kept
        seen = {}
        for row in rows[-3:]:
            manifest = c.get(f"/api/v1/sessions/{row['session']}")
            for host, m in marks(c, manifest).items():
                for text in m:
                    assert (host, text) not in seen, (host, text, row)
                    seen[host, text] = row["number"]
        numbers = {host: sorted(int(t.split()[-1]) for h, t in seen if h == host) for host in HOSTS}
        for host, n in numbers.items():
            made = {int(line.split()[1]) for line in c.log("burst").splitlines() if line.startswith("burst ")}
            # on a busy machine there are few bursts
            assert len(n) >= 3 and set(n) == {m for m in made if n[0] <= m <= n[-1]}, (host, n)


def test_reach():
    """What rings do not reach: refused if it is all of the window, else the host says what it lacks."""
    with Cluster() as c:
        start(c, "--ring-seconds", "3")
        c.wait_rings(0)
        time.sleep(4)
        code, doc = c.tutti("snapshot", "--last", "8s", "--json")
        assert code == 3 and all(h["state"] == "partial" and h["reason"] == "window-cut" for h in doc["hosts"]), doc
        assert " s after the window" in doc["hosts"][0]["detail"], doc["hosts"][0]
        c.tutti("snapshot", "--last", "1s", "--ending-at", "now-1h", check=2)
        assert "before all rings begin" in c.stderr and "host-" in c.stderr, c.stderr
        for flags, words in ((["--ending-at", "2090-01-01T00:00:00Z"], "of the past"), (["--ending-at", "yesterday"], "no instant"),
                             (["--ending-at", "2026-02-30T00:00:00Z"], "no instant"),
                             (["--for", "10s"], "--every"), (["--last", "2h"], "last_ns"), (["--every", "10ms"], "1s or more")):
            c.tutti("snapshot", *flags, check=2)
            assert words in c.stderr, (flags, c.stderr)
        for instant in (0, -1):
            status, answer = c.call("POST", "/api/v1/snapshots", {"ending_at_ns": instant})
            assert status == 400 and "ending_at_ns" in answer["error"], (status, answer)
        _, text = c.tutti("hosts", "-o", "wide", check=0)
        assert "rings reach back: " in text, text


def test_late_mark():
    """One that comes after its window was gathered is in no session: the log says so, and the host's next session."""
    with Cluster() as c:
        c.aggregator()
        c.agent("host-a", tracers="marks")
        c.wait_hosts(1)
        c.wait_rings(3)
        stamp_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        _, doc = c.tutti("snapshot", "--last", "3s", "--json", check=0)
        assert (doc["hosts"][0]["state"], doc["hosts"][0]["tracers"][0]["lost"]) == ("complete", 0), doc["hosts"]
        local.call(c.sockets["host-a"], 2, local.field_bytes(1, "late") + local.field_int(2, stamp_ns), 15 * SLOW)
        wait_until("the log to have it", lambda: f"AGT-MARKS late=1 pid={os.getpid()} late_ms=" in c.log("host-a"))
        _, doc = c.tutti("capture", "--duration", "100ms", "--json", check=None)
        [tracer] = doc["hosts"][0]["tracers"]
        assert (tracer["name"], tracer["lost"]) == ("marks", 1), doc["hosts"]
        assert "marks of earlier windows are lost" in tracer["detail"], tracer


main(test_snapshot, test_series, test_reach, test_late_mark)
