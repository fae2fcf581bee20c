# SPDX-License-Identifier: Apache-2.0
"""One capture end to end: three agents whose clocks are wrong by seconds, one instant seen by all."""
import os

from lib import xspace
from lib.cluster import Cluster, is_whole, main, wait_until

OFFSETS = {"host-a": "0", "host-b": "5s", "host-c": "-3s"}


def start_three(c, **tracers):
    c.aggregator()
    for host, offset in OFFSETS.items():
        c.agent(host, f"--test-clock-offset={offset}", "--test-clock-drift-ppm=20", **tracers)
    c.wait_hosts(3)
    c.burst(*OFFSETS)


def check_file(path):
    assert xspace.protoc_decodes(path)
    space = xspace.load(path)
    assert list(space.hostnames) == [path.name.removesuffix(".xplane.pb")]
    cpu = xspace.plane(space, "/host:CPU")
    assert sum(len(line.events) for line in cpu.lines) > 0, "no CPU samples"
    assert any(line.name == "_counters_" for p in space.planes for line in p.lines), "no counters"
    env = xspace.stats(xspace.plane(space, "Task Environment"))
    assert env["profile_stop_time"] - env["profile_start_time"] == 2_000_000_000, env
    assert env["clock_bound_ns"] > 0, env
    for p in space.planes:
        for key, m in list(p.event_metadata.items()) + list(p.stat_metadata.items()):
            assert key == m.id and key > 0
        for name, start, duration, line in xspace.events(p):
            assert 0 <= start and start + duration <= 2_000_000_000_000, (p.name, line, name, start, duration)
    return space


def test_offsets_vanish():
    """With all tracers at once: a busy machine may cut what the heavy ones record, and nothing else."""
    with Cluster() as c:
        start_three(c, tracers="all")
        wrong_by = {h: doc["clock"]["offset_ns"] / 1e9 for h, doc in c.hosts().items()}
        assert abs(wrong_by["host-b"] - 5) < 0.1 and abs(wrong_by["host-c"] + 3) < 0.1, wrong_by
        code, doc = c.tutti("capture", "--duration", "2s", "--json")
        assert {h["host"] for h in doc["hosts"] if is_whole(h)} == set(OFFSETS) and code == (3 if doc["partial"] else 0), (code, doc)
        files = {h["host"]: c.logdir / "plugins" / "profile" / doc["session"] / h["file"] for h in doc["hosts"]}
        seen = {h: xspace.marks(check_file(f)) for h, f in files.items()}
        common = set.intersection(*(set(m) for m in seen.values()))
        assert len(common) >= 3, seen
        for text in common:
            starts = [m[text] for m in seen.values()]
            spread_us = (max(starts) - min(starts)) / 1e6
            assert spread_us < 1000, f"{text}: {spread_us} us apart"
        print(f"     {len(common)} bursts on 3 hosts, largest spread "
              f"{max((max(m[t] for m in seen.values()) - min(m[t] for m in seen.values())) / 1e6 for t in common):.1f} us")


def test_verbs():
    with Cluster() as c:
        start_three(c)
        _, doc = c.tutti("capture", "--duration", "300ms", "--hosts", "host-a,host-c", "--run", "exp/1", "--json", check=0)
        session = doc["session"]
        assert sorted(h["host"] for h in doc["hosts"]) == ["host-a", "host-c"]
        assert (c.logdir / "exp/1/plugins/profile" / session / "host-a.xplane.pb").exists()
        _, listing = c.tutti("sessions", "--json", check=0)
        assert [s["session"] for s in listing["sessions"]] == [session]
        assert c.tutti("sessions", "other", "--json")[1]["sessions"] == []
        assert c.tutti("show", session, "--json", check=0)[1]["run"] == "exp/1"
        c.tutti("export", session, "--format", "xspace", "-o", c.dir / "out", check=0)
        exported = (c.dir / "out/plugins/profile" / session / "host-a.xplane.pb").read_bytes()
        assert exported == (c.logdir / "exp/1/plugins/profile" / session / "host-a.xplane.pb").read_bytes()
        c.tutti("delete", session, check=0)
        assert not list(c.store.rglob("*.xplane.pb"))
        assert c.tutti("show", session)[0] == 1


def test_refusals():
    with Cluster() as c:
        start_three(c)
        assert c.tutti("capture", "--set", "no_such_option=1")[0] == 2
        assert "no_such_option" in c.stderr
        assert c.tutti("capture", "--hosts", "no-such-host")[0] == 4
        assert "no-such-host" in c.stderr
        assert c.tutti("capture", "--duration", "0s")[0] == 2
        assert c.tutti("sessions", "--json")[1]["sessions"] == []


def test_programmatic():
    with Cluster() as c:
        start_three(c)
        socket_url = c.sockets["host-a"]
        session = c.tutti("start", "--local-socket", socket_url, "--hosts", "all", check=0)[1].strip()
        c.tutti("mark", "--local-socket", socket_url, "hello from a test", check=0)
        assert c.tutti("stop", session, "--json", "--local-socket", socket_url, check=0)[1] == {"session": session}
        wait_until("the session", lambda: [s for s in c.tutti("sessions", "--json")[1]["sessions"] if s["session"] == session])
        doc = c.tutti("show", session, "--json", check=0)[1]
        assert doc["complete"] == 3, doc
        space = xspace.load(c.logdir / "plugins/profile" / session / "host-a.xplane.pb")
        assert "hello from a test" in xspace.marks(space)
        assert c.tutti("status", "--local-socket", socket_url, check=0)[1]["host"] == "host-a"


def test_token():
    with Cluster() as c:
        (c.dir / "token").write_text("correct horse battery\n".replace(" ", "-"))
        (c.dir / "wrong").write_text("incorrect-horse-battery\n")
        (c.dir / "short").write_text("horse\n")
        for name in ("token", "wrong", "short"):
            (c.dir / name).chmod(0o600)
        c.aggregator("--token-file", c.dir / "token")
        c.agent("host-a")
        c.wait_hosts(1)
        for flags, text in [([], "needs the aggregator's token"), (["--token-file", c.dir / "wrong"], "needs the aggregator's token"),
                            (["--token-file", c.dir / "short"], "a secret of 5 bytes")]:
            assert c.tutti("capture", "--duration", "100ms", *flags)[0] in (1, 2), flags
            assert text in c.stderr, (flags, c.stderr)
        assert c.tutti("hosts", "--json", check=0)[1]["hosts"], "reading needs none"
        session = c.tutti("capture", "--duration", "100ms", "--json", "--token-file", c.dir / "token", check=0)[1]["session"]
        assert c.tutti("delete", session)[0] == 1
        c.tutti("delete", session, "--token-file", c.dir / "token", check=0)


def test_agents_environment():
    """TUTTI_HOST names an agent's host; it is no filter of `export`."""
    with Cluster() as c:
        c.aggregator()
        c.agent("host-a")
        c.wait_hosts(1)
        session = c.tutti("capture", "--duration", "100ms", "--json", check=0)[1]["session"]
        os.environ["TUTTI_HOST"] = "another-host"
        try:
            c.tutti("export", session, "-o", c.dir / "out", check=0)
        finally:
            del os.environ["TUTTI_HOST"]
        assert list((c.dir / "out").rglob("host-a.xplane.pb"))


main(test_offsets_vanish, test_verbs, test_refusals, test_programmatic, test_token, test_agents_environment)
