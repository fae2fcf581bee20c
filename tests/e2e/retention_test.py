# SPDX-License-Identifier: Apache-2.0
"""How long sessions stay: rules, pins, and deletions of many."""
import signal
import urllib.request

from lib.cluster import SLOW, Cluster, main, wait_until


def capture(c, run=""):
    return c.tutti("capture", "--duration", "50ms", *(["--run", run] if run else []), "--json", check=0)[1]["session"]


def sessions(c):
    return {s["session"]: s.get("pinned", False) for s in c.get("/api/v1/sessions")["sessions"]}


def files(c, session):
    return list(c.store.glob(f"profiles/**/{session}/*"))


def removed(c):
    """Sessions that rules have removed whole: a listing lacks one as soon as its removal has begun."""
    return next(int(line.split()[1]) for line in c.metrics() if line.startswith("tutti_retention_removed_total "))


def test_rules():
    """Sessions of a run with a rule of its own go; the pinned one only when it is unpinned."""
    with Cluster() as c:
        c.aggregator()
        c.agent("host-a", tracers="metrics")
        c.wait_hosts(1)
        damaged, pinned, gone, other = capture(c, "brief"), capture(c, "brief"), capture(c, "brief"), capture(c)
        manifest = c.store / "tutti/sessions" / damaged / "manifest.json"
        whole = manifest.read_text()
        manifest.write_text("{")  # the oldest: it must not keep the others from going
        c.tutti("pin", pinned, check=0)
        c.kill("aggregator", signal.SIGKILL)
        c.aggregator("--retain-run", "brief=1s", "--retain-period", "200ms")
        wait_until("the session of the brief run is gone", lambda: removed(c) == 1)
        assert sessions(c) == {damaged: False, pinned: True, other: False}, sessions(c)
        assert files(c, pinned) and files(c, other) and not files(c, gone)
        assert " pinned" in c.tutti("sessions", "brief", check=0)[1]
        status, doc = c.call("DELETE", f"/api/v1/sessions/{pinned}")
        assert status == 409 and "is pinned: tutti unpin" in doc["error"], (status, doc)
        assert c.call("PUT", "/api/v1/sessions/2026_01_01_00_00_00_aaaaaa/pin")[0] == 404
        c.tutti("unpin", pinned, check=0)
        manifest.write_text(whole)
        wait_until("the unpinned session and the one that was damaged are gone", lambda: removed(c) == 3)
        assert set(sessions(c)) == {other}, sessions(c)
        assert not files(c, pinned) and not list(c.store.glob("tutti/pins/*"))
        assert "by=retention" in c.log("aggregator")


def test_delete_many():
    with Cluster() as c:
        c.aggregator()
        c.agent("host-a", tracers="metrics")
        c.wait_hosts(1)
        pinned, a, b, other = capture(c, "r"), capture(c, "r"), capture(c, "r"), capture(c, "s")
        c.tutti("pin", pinned, check=0)
        for wrong in ((), (a, "--run", "r"), (a, "--dry-run"), ("--run", "r", "--older-than=-1s")):
            c.tutti("delete", *wrong, check=2)
        c.tutti("delete", "--run", "r", check=2)
        assert "say --yes" in c.stderr
        shown = c.tutti("delete", "--run", "r", "--dry-run", check=0)[1]
        assert f"would delete {a}" in shown and f"would delete {b}" in shown and pinned not in shown, shown
        assert "2 sessions, " in shown and "1 pinned sessions stay" in shown, shown
        doc = c.tutti("delete", "--older-than", "1h", "--dry-run", "--json", check=0)[1]
        assert doc == {"would_delete": [], "pinned": [], "bytes": 0}, doc
        doc = c.tutti("delete", "--run", "r", "--yes", "--json", check=0)[1]
        assert set(doc["deleted"]) == {a, b} and [s["session"] for s in doc["pinned"]] == [pinned], doc
        assert set(sessions(c)) == {pinned, other}, sessions(c)


def refused(c, *words, path="captures", **body):
    status, doc = c.call("POST", f"/api/v1/{path}", body)
    assert status == 507 and doc["reason"] == "full" and all(w in doc["error"] for w in words), (status, doc)


def test_quotas():
    """What would exceed a quota is refused before a host takes part, over a restart too; a deletion makes room."""
    with Cluster() as c:
        c.aggregator("--quota-sessions", "3", "--quota-run", "r=0,1", "--quota-run", "small=100,0")
        c.agent("host-a", tracers="metrics")
        c.wait_hosts(1)
        wait_until("the use to be known", lambda: any(line.startswith("tutti_quota_used_sessions 0") for line in c.metrics()))
        first = capture(c, "r")
        refused(c, "run 'r' has 1 of 1 sessions", run="r", duration_ns=10**8)
        refused(c, "run 'r'", path="snapshots", run="r", last_ns=10**8)
        code, doc = c.tutti("capture", "--run", "r", "--json")
        assert code == 1 and "1 of 1 sessions of its quota" in doc["error"], (code, doc)
        small = capture(c, "small")
        refused(c, "run 'small' has", "bytes of its quota", run="small", duration_ns=10**8)
        # one under way counts
        status, doc = c.call("POST", "/api/v1/captures", {"duration_ns": 20 * 10**9, "run": "long"})
        assert status == 202, doc
        refused(c, "the store has 3 of 3 sessions", duration_ns=10**8)
        refused(c, "the store has 3 of 3 sessions", path="imports", t0_ns=0, duration_ns=1, files=[])
        assert not [line for line in c.log("host-a").splitlines() if "small" in line and "refused" in line]
        c.call("DELETE", f"/api/v1/captures/{doc['session']}")
        wait_until("room", lambda: c.call("GET", f"/api/v1/captures/{doc['session']}")[1]["state"] == "failed")
        assert c.tutti("sessions", check=0) and "quota: 2 of 3 sessions" in c.stderr and "of run 'r': 1 of 1" in c.stderr, c.stderr
        c.kill("aggregator", signal.SIGKILL)
        c.aggregator("--quota-sessions", "3", "--quota-run", "r=0,1")
        c.wait_hosts(1)
        wait_until("the use", lambda: any(line.startswith("tutti_quota_used_sessions 2") for line in c.metrics()))
        refused(c, "run 'r' has 1 of 1 sessions", run="r", duration_ns=10**8)
        c.tutti("delete", first, check=0)
        again = capture(c, "r")
        assert set(sessions(c)) == {small, again}
        assert c.get("/api/v1/sessions")["quotas"][1]["sessions"] == 1


def test_broken_off():
    """A deletion that the store breaks off is carried on: then pages are told, and the quota has the room."""
    with Cluster() as c:
        rules = c.dir / "rules"
        rules.touch()
        c.aggregator(f"--store=fault://{rules}!file://{c.store}", "--quota-sessions", "1")
        c.agent("host-a", tracers="metrics")
        c.wait_hosts(1)
        wait_until("the use to be known", lambda: any(line.startswith("tutti_quota_used_sessions 0") for line in c.metrics()))
        session = capture(c)
        wait_until("its commit", lambda: not list((c.store / "tutti/ledger").glob("[!.]*")))
        with urllib.request.urlopen(f"{c.url}/api/v1/events", timeout=20 * SLOW) as stream:
            rules.write_text("remove tutti/index/* fail times=1\n")
            assert c.call("DELETE", f"/api/v1/sessions/{session}")[0] == 503
            while stream.readline().strip() != b"event: sessions":
                pass
            assert session in stream.readline().decode()
        assert not sessions(c)
        wait_until("room", lambda: c.get("/api/v1/sessions")["quotas"][0]["sessions"] == 0)
        capture(c)


main(test_rules, test_delete_many, test_quotas, test_broken_off)
