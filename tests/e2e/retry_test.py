# SPDX-License-Identifier: Apache-2.0
"""Captures ended early, and sessions completed afterwards: only what failed is asked again."""
import os
import re
import subprocess

from lib import xspace
from lib.cluster import BIN, SLOW, Cluster, main, wait_until


def begin(c, *flags):
    """`tutti capture` in the background, once it records; returns (process, session)."""
    known = {cap["session"] for cap in c.get("/api/v1/captures")["captures"]}
    p = subprocess.Popen([BIN / "tutti", "capture", *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                         env={**os.environ, "TUTTI_SERVER": c.url})

    def running():
        return [cap["session"] for cap in c.get("/api/v1/captures")["captures"]
                if cap["session"] not in known and all(h["state"] == "running" for h in cap["hosts"])]
    return p, wait_until("the capture to run", running)[0]


def test_stop_and_cancel():
    with Cluster() as c:
        c.aggregator()
        for host in ("a", "b"):
            c.agent(host)
        c.wait_hosts(2)
        p, session = begin(c, "--duration", "600s")
        assert "data is kept" in c.tutti("stop", session, check=0)[1]
        assert p.wait(60 * SLOW) == 0
        doc = c.tutti("show", session, "--json", check=0)[1]
        assert doc["complete"] == 2 and doc["duration_ns"] < 60e9, doc
        p, session = begin(c, "--duration", "600s")
        assert "data is dropped" in c.tutti("cancel", session, check=0)[1]
        assert p.wait(60 * SLOW) == 4
        assert c.tutti("cancel", session)[0] == c.tutti("stop", session)[0] == 1
        assert not list((c.logdir / "plugins/profile").glob(f"{session}/*"))
        assert len(c.tutti("sessions", "--json")[1]["sessions"]) == 1


def test_killed_after_the_answer():
    """An answered stop or cancel holds, whatever happens to the aggregator afterwards."""
    with Cluster() as c:
        c.aggregator()
        for host in ("a", "b"):
            c.agent(host, "--reconnect-max", "300ms")
        c.wait_hosts(2)
        for verb in ("stop", "cancel"):
            p, session = begin(c, "--duration", "600s")
            c.tutti(verb, session, "--json", check=0)
            c.kill("aggregator")
            p.wait(60 * SLOW)
            c.aggregator()
            c.wait_hosts(2)
            if verb == "cancel":
                assert [s["session"] for s in c.tutti("sessions", "--json")[1]["sessions"]] == [kept]
                assert not list((c.store / "tutti/sessions").glob(f"{session}/*"))
                assert not [cap for cap in c.get("/api/v1/captures")["captures"] if cap["session"] == session]
            else:
                kept = session
                wait_until("the session", lambda: c.tutti("sessions", "--json")[1]["sessions"], 60)
                doc = c.tutti("show", session, "--json", check=0)[1]
                assert doc["complete"] == 2 and doc["duration_ns"] < 60e9, doc


def test_no_caller_waits():
    with Cluster() as c:
        c.aggregator()
        c.agent("a")
        c.wait_hosts(1)
        p, session = begin(c, "--duration", "1s")
        p.kill()
        p.wait(20 * SLOW)
        wait_until("the session", lambda: [s for s in c.tutti("sessions", "--json")[1]["sessions"]
                                           if s["session"] == session and s["complete"] == 1])


def test_retry_records_again():
    with Cluster() as c:
        c.aggregator()
        for host in ("good", "dead"):
            c.agent(host)
        c.wait_hosts(2)
        p, session = begin(c, "--duration", "2s")
        c.kill("dead")
        assert p.wait(60 * SLOW) == 3
        files = c.logdir / "plugins/profile" / session
        before = os.stat(files / "good.xplane.pb")
        old = c.tutti("show", session, "--json", check=0)[1]
        assert c.tutti("retry", session, "--grace", "9s")[0] == 3, "the dead host is still dead"
        assert c.call("POST", f"/api/v1/sessions/{session}/retry", {"grace_ns": 5})[0] == 400
        assert c.tutti("show", session, "--json")[1]["hosts"][0]["reason"] == "unreachable"
        c.agent("dead")
        c.wait_hosts(2)
        doc = c.tutti("retry", session, "--json", check=0)[1]
        assert doc["revision"] == 3 and doc["complete"] == 2, doc
        dead, good = doc["hosts"]
        assert good == old["hosts"][1], "the good host was touched"
        after = os.stat(files / "good.xplane.pb")
        assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
        assert dead["t0_ns"] > doc["t0_ns"] + doc["duration_ns"] and "t0_ns" not in good
        assert any(re.search("dead was recorded again", w) for w in doc["warnings"]), doc["warnings"]
        space = xspace.load(files / "dead.xplane.pb")
        assert any("recorded again by a retry" in w for w in space.warnings), list(space.warnings)
        start = xspace.stats(xspace.plane(space, "Task Environment"))["profile_start_time"]
        assert start == dead["t0_ns"], (start, dead["t0_ns"])
        assert c.tutti("retry", session)[0] == 1, "nothing is left to retry"
        listed = c.tutti("sessions", "--json")[1]["sessions"]
        assert [(s["session"], s["complete"], s["failed"]) for s in listed] == [(session, 2, 0)]


main(test_stop_and_cancel, test_killed_after_the_answer, test_no_caller_waits, test_retry_records_again)
