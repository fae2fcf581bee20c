# SPDX-License-Identifier: Apache-2.0
"""Settings of tracers: listed, checked before a host starts, and applied by each host that has them."""
import subprocess

from lib import xspace
from lib.cluster import BIN, SLOW, Cluster, main


def start(c):
    c.aggregator()
    c.agent("host-a", tracers="cpu,metrics")
    c.agent("host-b", tracers="metrics")
    c.wait_hosts(2)
    c.burst("host-a")


def spaces(c, *flags):
    """The manifest, and the XSpace of each host."""
    _, doc = c.tutti("capture", "--duration", "2s", "--json", *flags, check=0)
    directory = c.logdir / "plugins" / "profile" / doc["session"]
    return doc, {h["host"]: xspace.load(directory / h["file"]) for h in doc["hosts"]}


def readings(space):
    """How often the most frequent number about the host was read."""
    names = []
    for p in space.planes:
        for line in p.lines if p.name == "/host:CPU metrics" else ():
            if line.name == "_counters_":
                names += [e.metadata_id for e in line.events]
    return max((names.count(n) for n in set(names)), default=0)


def depth(space):
    """The largest number of events inside each other on a line of CPU samples."""
    deepest = 0
    for line in xspace.plane(space, "/host:CPU").lines:
        ends = []
        for e in sorted(line.events, key=lambda e: (e.offset_ps, -e.duration_ps)):
            while ends and ends[-1] <= e.offset_ps:
                ends.pop()
            ends.append(e.offset_ps + e.duration_ps)
            deepest = max(deepest, len(ends))
    return deepest


def test_applied():
    """One capture with settings, one without: the values are per capture; a host that lacks one is named in a warning."""
    with Cluster() as c:
        start(c)
        doc, plain = spaces(c)
        assert not doc["warnings"], doc
        assert readings(plain["host-b"]) > 5, readings(plain["host-b"])  # 20 where the agent is not kept from running
        assert depth(plain["host-a"]) > 2
        doc, few = spaces(c, "--set", "metrics.max_hz=2", "--set", "cpu.max_depth=2")
        for host, space in few.items():
            assert 1 <= readings(space) <= 5, (host, readings(space))
        assert depth(few["host-a"]) == 2
        assert doc["settings"] == {"metrics.max_hz": "2", "cpu.max_depth": "2"}, doc
        [warning] = doc["warnings"]
        assert warning == "setting 'cpu.max_depth': 1 of 2 hosts do not have it and record without it: host-b", warning


def test_refused():
    """By name, before any host starts."""
    with Cluster() as c:
        start(c)
        for flags, words in (
                (["--set", "cpu.max_deph=3"], ["'cpu.max_deph'", "--help-settings"]),
                (["--set", "gpu.max_depth=3"], ["'gpu.max_depth'"]),
                (["--set", "cpu.max_depth=0"], ["'cpu.max_depth'", "'0'", "1 to 256"]),
                (["--set", "cpu.max_depth=many"], ["'many'", "1 to 256"]),
                (["--set", "cpu.max_depth=3", "--tracer", "metrics"], ["'cpu.max_depth'", "tracers of this capture"]),
                (["--set", "cpu.max_depth=3", "--hosts", "host-b"], ["'cpu.max_depth'"]),
                (["--set", "host_tracer_levle=3"], ["'host_tracer_levle'"])):
            c.tutti("capture", *flags, check=2)
            for word in words:
                assert word in c.stderr, (flags, c.stderr)
        assert not c.get("/api/v1/captures")["captures"]


def test_listed():
    with Cluster() as c:
        start(c)
        rows = {row["name"]: row for row in c.get("/api/v1/settings")["settings"]}
        assert rows["cpu.max_depth"] == {"name": "cpu.max_depth", "tracer": "cpu", "type": "int", "min": 1, "max": 256,
                                         "default": 256, "hosts": 1, "help": rows["cpu.max_depth"]["help"]}
        assert rows["metrics.max_hz"]["hosts"] == 2
        assert rows["host_tracer_level"]["default"] == 2 and rows["device_type"]["values"][1] == "CPU"
        _, doc = c.tutti("capture", "--help-settings", "--json", check=0)
        assert [row["name"] for row in doc["settings"]] == list(rows)
        _, text = c.tutti("capture", "--help-settings", check=0)
        for name in rows:
            assert f"--set {name}=" in text, text
        assert "(1 to 256) [256] (on 1 host)" in text, text


def test_unknown_tracer():
    p = subprocess.run([BIN / "tutti-agent", "--host", "host-a", "--tracers", "cpu,cpuu"], capture_output=True, text=True,
                       timeout=20 * SLOW)
    assert p.returncode == 2, p
    refusal, _, known = p.stderr.partition(": use ")
    assert refusal.endswith("--tracers: unknown tracer 'cpuu'"), p.stderr
    assert {"profiler", "cpu", "metrics", "marks"} <= set(known.strip().split(", ")), p.stderr


def test_missing_framework():
    """A capture that asks for a framework is not complete without one; any other capture is."""
    with Cluster() as c:
        c.aggregator()
        c.agent("host-a", discover=True, tracers="profiler,metrics")
        c.wait_hosts(1)
        for flags in (["--tracer", "profiler"], ["--set", "device_type=CPU"]):
            code, doc = c.tutti("capture", "--duration", "300ms", "--json", *flags)
            [host] = doc["hosts"]
            assert code == 3 and host["state"] == "partial" and host["reason"] == "no-framework", (code, host)
            assert "start_server()" in host["detail"], host
        for flags in ([], ["--set", "python_tracer_level=1"], ["--set", "host_tracer_level=1"]):
            code, doc = c.tutti("capture", "--duration", "300ms", "--json", *flags, check=0)
            assert doc["hosts"][0]["state"] == "complete", doc


main(test_applied, test_missing_framework, test_refused, test_listed, test_unknown_tracer)
