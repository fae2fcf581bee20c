# SPDX-License-Identifier: Apache-2.0
"""Uploads that fail: a link that breaks, an agent that is killed with its file finished."""
import os
import pathlib
import subprocess

from lib.cluster import BIN, SLOW, Cluster, main, wait_until
from lib.relay import Relay
from lib import xspace


def huge_profiler(c):
    """A framework whose XSpace has some 13 MB in a second; its address."""
    port_file = c.dir / "profiler.port"
    c.start("burst-profiler", [BIN / "fake_profiler", "--mode", "huge", "--port-file", port_file])
    wait_until("the profiler", port_file.exists)
    return f"127.0.0.1:{port_file.read_text().strip()}"


def agent_behind(c, relay, host, *flags):
    return c.agent(host, f"--profiler={huge_profiler(c)}", *flags,
                   "--aggregator", f"127.0.0.1:{relay.port}", tracers="profiler")


def start_capture(c, name, duration):
    out = open(c.dir / name, "w")
    return subprocess.Popen([BIN / "tutti", "capture", "--duration", duration, "--json"], stdout=out,
                            stderr=subprocess.DEVNULL, env={**os.environ, "TUTTI_SERVER": c.url})


def test_small_file_shares_the_connection():
    with Cluster() as c:
        c.aggregator()
        relay = Relay(c.grpc)
        c.agent("host-a", "--aggregator", f"127.0.0.1:{relay.port}", tracers="metrics")
        c.wait_hosts(1)
        c.tutti("capture", "--duration", "300ms", "--json", check=0)
        assert relay.connections == 1, relay.connections
        relay.stop()


def test_link_breaks_twice():
    with Cluster() as c:
        c.aggregator()
        relay = Relay(c.grpc, cuts=(6_000_000, 7_000_000))
        agent_behind(c, relay, "host-a")
        c.wait_hosts(1)
        _, doc = c.tutti("capture", "--duration", "1s", "--json", check=0)
        host = doc["hosts"][0]
        assert host["state"] == "complete", host
        assert relay.cut == 2, relay.cut
        path = pathlib.Path(doc["path"]) / host["file"]
        assert path.stat().st_size == host["bytes"] > 13_000_000
        assert xspace.load(path).hostnames == ["host-a"]
        assert c.log("aggregator").count("resumed_at=") == 2, "nothing was resumed"
        # What was there was not sent again, but for what was under way when the link broke.
        assert relay.passed < host["bytes"] + 12_000_000, f"{relay.passed} bytes for {host['bytes']}"
        wait_until("the spool to be empty", lambda: not any((c.dir / "host-a-spool").glob("2*")))
        assert not list((c.dir / "agg-spool").glob("*.part"))
        relay.stop()
        print(f"     {host['bytes']} bytes, {relay.passed} sent over 3 connections")


def test_killed_with_a_finished_file():
    """The next agent has the file and offers it; the host is complete, or typed."""
    with Cluster() as c:
        c.aggregator("--grace", "20s")
        relay = Relay(c.grpc, hold=3_000_000)
        agent_behind(c, relay, "host-a")
        c.wait_hosts(1)
        p = start_capture(c, "capture.json", "1s")
        wait_until("the upload to be stuck", lambda: relay.held and "state=ready" in c.log("host-a"))
        wait_until("the spool's entry", lambda: list((c.dir / "host-a-spool").glob("2*/entry")))
        c.kill("host-a")
        torn = c.dir / "host-a-spool" / "2026_01_01_00_00_00_abcdef"
        torn.mkdir()
        (torn / "host-a.xplane.pb").write_bytes(b"torn")
        relay.stop()
        c.agent("host-a", tracers="metrics")
        wait_until("the file to be found", lambda: "swept=1 kept=1" in c.log("host-a"))
        assert not torn.exists()
        code = p.wait(60 * SLOW)
        if code == 0:
            print("     delivered by the next agent")
            return
        assert code in (3, 4), code
        result = c.get("/api/v1/captures")["captures"][0]["hosts"][0]
        assert result["state"] == "failed" and result["reason"], result
        print(f"     typed: {result['reason']}")


main(test_small_file_shares_the_connection, test_link_breaks_twice, test_killed_with_a_finished_file)
