# SPDX-License-Identifier: Apache-2.0
"""More of a host than a file may hold: further files, which everything that reads a session follows. The limit is
lowered here; tests/bench/large does it with gigabytes."""
import json
import os
import pathlib
import subprocess

from lib.cluster import BIN, SLOW, Cluster, main, wait_until
from lib.relay import Relay
from lib import xspace

EVENTS = 30_000  # of one profiler, in some 400 kB
LIMIT = 512 << 10


def profilers(c, n):
    return c.profilers(*[xspace.synthetic(EVENTS, 500_000_000_000)] * n)


def names(host, n):
    return [f"{host}.xplane.pb"] + [f"{host}~{i}.xplane.pb" for i in range(2, n + 1)]


def check_file(path):
    """Opens by itself; the number of its events."""
    assert path.stat().st_size <= LIMIT, path
    space = xspace.load(path)
    assert list(space.hostnames) == [path.name.removesuffix(".xplane.pb")], space.hostnames
    environment = xspace.stats(xspace.plane(space, "Task Environment"))
    assert environment["tutti_session"] == path.parent.name, environment
    return sum(1 for p in space.planes for _ in xspace.events(p))


def check_fetch(c, session, where, files):
    """A fetch adds what a broken one lacks, replaces what is wrong, and leaves alone what is right."""
    doc = c.tutti("fetch", session, c.dir / "fetched", "--json", check=0)[1]
    there = pathlib.Path(doc["directory"])
    assert sorted(doc["files"]) == sorted(files) and there == c.dir / "fetched/plugins/profile" / session, doc
    whole = {f: (where / f).read_bytes() for f in files}
    assert doc["bytes"] == sum(map(len, whole.values())), doc
    first, second, third, last = files
    (there / f"{first}.part").write_bytes(whole[first][:100_000])  # of a fetch that broke off
    (there / f"{second}.part").write_bytes(b"x" * 100_000)  # not of this file
    (there / third).write_bytes(b"y" + whole[third][1:])  # damaged
    (there / first).unlink()
    (there / second).unlink()
    kept = (there / last).stat().st_ino
    c.tutti("fetch", session, c.dir / "fetched", check=0)
    assert {p.name: p.read_bytes() for p in there.iterdir()} == whole
    assert (there / last).stat().st_ino == kept and f"{last}  " in c.stderr and "was there" in c.stderr, c.stderr
    assert c.tutti("fetch", session, "/proc/x")[0] == 1
    assert c.tutti("fetch", "x", c.dir)[0] == 2


def test_three_files():
    """Over a link that breaks in the middle of the second."""
    with Cluster() as c:
        c.aggregator()
        relay = Relay(c.grpc, cuts=(600_000,))
        c.agent("host-a", *profilers(c, 3), f"--file-limit={LIMIT}", "--aggregator",
                f"127.0.0.1:{relay.port}", tracers="profiler,metrics")
        c.agent("host-a-2", tracers="metrics")  # may be called so
        c.wait_hosts(2)
        code, doc = c.tutti("capture", "--duration", "1s", "--json", check=3)
        assert relay.cut == 1
        session, where = doc["session"], pathlib.Path(doc["path"])
        a, b = doc["hosts"]
        assert a["reason"] == "profiler-old", a  # what they give has no date
        assert a["files"] == names("host-a", 3) and a["file"] == a["files"][0], a
        assert b["files"] == ["host-a-2.xplane.pb"], b
        found = sum(check_file(where / f) for f in a["files"])
        assert found == a["events"] > 2 * EVENTS, (found, a)
        assert sum((where / f).stat().st_size for f in a["files"]) == a["bytes"]
        assert doc["causality"]["skipped"].count("cannot be read") == 0, doc["causality"]
        assert "3 files" in c.tutti("show", session, check=0)[1]
        c.tutti("export", session, "--output", c.dir / "out", check=0)
        for f in a["files"] + b["files"]:
            exported = c.dir / "out/plugins/profile" / session / f
            assert exported.read_bytes() == (where / f).read_bytes(), f
        check_fetch(c, session, where, a["files"] + b["files"])
        c.tutti("delete", session, check=0)
        assert not list(c.store.rglob("*.xplane.pb"))
        relay.stop()


def test_killed_while_storing():
    """Files of a host are all there in the end, or none of them is seen."""
    with Cluster() as c:
        c.aggregator("--grace", "60s")
        c.agent("host-a", *profilers(c, 2), f"--file-limit={LIMIT}", tracers="profiler")
        c.wait_hosts(1)
        out = open(c.dir / "capture.json", "w")
        p = subprocess.Popen([BIN / "tutti", "capture", "--duration", "1s", "--json"], stdout=out,
                             stderr=subprocess.DEVNULL, env={**os.environ, "TUTTI_SERVER": c.url})
        wait_until("the second file", lambda: list(c.logdir.rglob("host-a~2.xplane.pb")), 30)
        c.kill("aggregator")
        p.wait(30 * SLOW)
        c.aggregator("--grace", "60s")
        manifest = wait_until("the session", lambda: list(c.store.rglob("manifest.json")), 60)[0]
        host = json.loads(manifest.read_text())["hosts"][0]
        files = sorted(f.name for f in c.logdir.rglob("*.xplane.pb"))
        assert files == sorted(host["files"]) == sorted(names("host-a", 2)), (files, host)


def test_plane_too_large():
    """What no file can hold is left out, by name; the rest is there."""
    with Cluster() as c:
        c.aggregator()
        c.agent("host-a", *profilers(c, 1), "--file-limit=256K", tracers="profiler,metrics")
        c.wait_hosts(1)
        code, doc = c.tutti("capture", "--duration", "1s", "--json")
        host = doc["hosts"][0]
        assert code == 3 and (host["state"], host["reason"]) == ("partial", "too-large"), host
        assert "/host:CPU" in host["detail"], host
        space = xspace.load(pathlib.Path(doc["path"]) / host["file"])
        assert any("/host:CPU is left out" in e for e in space.errors), space.errors
        assert xspace.plane(space, "/host:CPU metrics")


def test_no_room():
    """What a framework gave is more than the spool may hold, before anything is merged: told, and the agent lives on."""
    with Cluster() as c:
        c.aggregator()
        spool = c.dir / "host-a-spool"
        c.agent("host-a", *profilers(c, 1), "--spool-limit", "300K", tracers="profiler,metrics")
        c.wait_hosts(1)
        for tracer, expected in (("profiler", "disk-full"), ("metrics", "")):
            flags = ["--tracer", tracer] if tracer == "metrics" else []
            code, doc = c.tutti("capture", "--duration", "300ms", "--json", *flags)
            host = doc["hosts"][0]
            assert host["reason"] == expected and host["file"], host
            assert "--spool-limit" in host["detail"] or not expected, host
            wait_until("the spool to be empty", lambda: [p for p in spool.iterdir()] == [spool / ".lock"])


main(test_three_files, test_killed_while_storing, test_plane_too_large, test_no_room)
