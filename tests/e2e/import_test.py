# SPDX-License-Identifier: Apache-2.0
"""Existing profiles become sessions: in XProf's layout, one by one, compressed, PyTorch's traces; and what is refused."""
import collections
import contextlib
import gzip
import json
import os
import pathlib
import shutil
import sys
import urllib.error
import urllib.request

import google.protobuf.message

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from fault_proxy import FaultProxy  # noqa: E402
from lib import traces, xspace  # noqa: E402
from lib.cluster import Cluster, main, wait_until  # noqa: E402
from lib.command import Command  # noqa: E402

KINETO = pathlib.Path(__file__).resolve().parents[1] / "data/kineto"
T0 = 1_763_000_000_123_456_789


def job(begin_ns=T0, absolute=False, **how):
    """A job's XSpace: line times since the begin that its plane Task Environment has, or Unix times without such a plane."""
    space = xspace.message_class("tensorflow/xplane.proto", "tensorflow.profiler.XSpace")()
    space.ParseFromString(traces.job(steps=5, **how))
    if absolute:
        for plane in space.planes:
            for line in plane.lines:
                line.timestamp_ns += begin_ns
    elif begin_ns:
        p = space.planes.add(id=9, name="Task Environment")
        p.stat_metadata[1].id = 1
        p.stat_metadata[1].name = "profile_start_time"
        p.stats.add(metadata_id=1, uint64_value=begin_ns)
    return space.SerializeToString()


def shape(path):
    """Events by plane, line, name and duration; where the first one begins."""
    found = traces.events(path)
    return collections.Counter((p, line, name, d) for p, line, name, _, d in found), min(s for *_, s, _ in found)


def in_store(c, manifest):
    return c.logdir / manifest["run"] / "plugins/profile" / manifest["session"]


def sessions(c):
    return c.get("/api/v1/sessions")["sessions"]


def check_manifest(manifest, hosts):
    assert manifest["imported"] and manifest["state"] == "committed" and manifest["origin"] == "import", manifest
    assert [h["host"] for h in manifest["hosts"]] == hosts, manifest["hosts"]
    for h in manifest["hosts"]:
        assert h["clock_bound_ns"] is None and h["clock"]["grade"] == "X" and "its clock is unknown" in h["detail"], h


def test_layout():
    """Two runs of XProf's layout, one of them with a compressed file: two sessions, hosts on one axis."""
    with Cluster() as c:
        c.aggregator()
        runs = c.dir / "old/plugins/profile"
        for run, hosts in (("2025_11_01", 3), ("2025_11_02", 1)):
            (runs / run).mkdir(parents=True)
            for i in range(hosts):
                (runs / run / f"node-{i}.xplane.pb").write_bytes(job(T0 + i * 1_000_000_000, seed=i))
        packed = runs / "2025_11_01/node-2.xplane.pb"
        pathlib.Path(f"{packed}.gz").write_bytes(gzip.compress(packed.read_bytes()))
        packed.unlink()
        (runs / "2025_11_01/ALL_HOSTS.op_stats.pb").write_bytes(b"a cache of XProf")
        doc = c.tutti("import", c.dir / "old", "--run", "old/jobs", "--json", check=0)[1]
        first, second = doc["sessions"]
        check_manifest(first, ["node-0", "node-1", "node-2"])
        check_manifest(second, ["node-0"])
        assert first["t0_ns"] == T0 and first["duration_ns"] > 2e9, first
        for i in range(3):
            stored = in_store(c, first) / f"node-{i}.xplane.pb"
            want = c.dir / "want.pb"
            want.write_bytes(job(seed=i))
            counts, begin = shape(want)
            got, at = shape(stored)
            assert got == counts, (got - counts, counts - got)
            assert at - begin == i * 10**12, (i, at, begin)
            assert first["hosts"][i]["events"] == counts.total(), first["hosts"][i]
            assert list(xspace.load(stored).hostnames) == [f"node-{i}"]
        # it is a session like any other
        assert {s["session"] for s in sessions(c)} == {first["session"], second["session"]}
        fetched = c.tutti("fetch", first["session"], c.dir / "fetched", "--json", check=0)[1]
        assert len(fetched["files"]) == 3
        assert c.get(f"/api/v1/sessions/{first['session']}")["hosts"] == first["hosts"]
        assert c.tutti("retry", first["session"])[0] == 1  # no host lacks a file
        c.tutti("delete", first["session"], check=0)
        assert not in_store(c, first).exists() and [s["session"] for s in sessions(c)] == [second["session"]]
        assert not list((c.store / "tutti/ledger").glob("*"))
        # what tutti fetched comes back as it was
        again = c.tutti("import", c.dir / "fetched", "--json", check=0)[1]["sessions"][0]
        assert [h["events"] for h in again["hosts"]] == [h["events"] for h in first["hosts"]] and again["t0_ns"] == T0


def test_files():
    """Files that are named one by one are one session: Unix times, PyTorch's JSON, and a file without a time."""
    with Cluster() as c:
        c.aggregator()
        torch = json.loads((KINETO / "kineto-2.15-steps.json").read_text())
        (c.dir / "rank 0.pt.trace.json.gz").write_bytes(gzip.compress((KINETO / "kineto-2.15-steps.json").read_bytes()))
        begin_us = min(e["ts"] for e in torch["traceEvents"] if e["ph"] == "X" and e.get("cat") != "Trace")
        begin = torch["baseTimeNanoseconds"] + round(begin_us * 1000)
        (c.dir / "unix.pb").write_bytes(job(begin + 5_000_000, absolute=True))
        (c.dir / "undated.xplane.pb").write_bytes(job(0))
        doc = c.tutti("import", c.dir / "rank 0.pt.trace.json.gz", c.dir / "unix.pb", c.dir / "undated.xplane.pb", "--json",
                      check=0)[1]["sessions"][0]
        check_manifest(doc, ["rank-0", "undated", "unix"])
        assert abs(doc["t0_ns"] - begin) < 1000, (doc["t0_ns"], begin)
        assert [w for w in doc["warnings"] if w.startswith("undated.xplane.pb: it does not say when")], doc["warnings"]
        spans = sum(1 for e in torch["traceEvents"] if e["ph"] == "X" and e.get("cat") != "Trace" and isinstance(e["tid"], int))
        assert doc["hosts"][0]["events"] == spans, (doc["hosts"][0], spans)
        assert "PyTorch trace" in doc["hosts"][0]["detail"]
        begins = {h: shape(in_store(c, doc) / f"{h}.xplane.pb")[1] for h in ("unix", "undated", "rank-0")}
        want = shape_of_job = begins["undated"]  # it begins with the session
        assert begins["rank-0"] < 1_000_000 and begins["unix"] - shape_of_job == (begin + 5_000_000 - doc["t0_ns"]) * 1000, (begins, want)
        text = c.tutti("import", c.dir / "unix.pb", check=0)[1]
        assert "1 hosts" in text and "events" in text, text
        # a viewer opens it
        with urllib.request.urlopen(f"{c.url}/api/v1/sessions/{doc['session']}/view", timeout=20) as answer:
            assert answer.status in (200, 202)


def chrome_events():
    """Nested spans by begin and end, instants, a counter, an asynchronous span; what has no place is left out."""
    at = lambda ms, **more: {"pid": 7, "tid": 70, "ts": 1_763_000_000_000_000 + ms * 1000, **more}
    return [{"ph": "M", "name": "thread_name", "pid": 7, "tid": 70, "args": {"name": "loop"}}, at(0, ph="B", name="outer"), at(1, ph="B", name="inner"),
            at(3, ph="E", args={"n": 5}), at(4, ph="E"), at(2, ph="i", name="mark"), at(5, ph="C", name="load", args={"value": 0.5}),
            at(1, ph="b", cat="net", id="0x9", name="get"), at(6, ph="e", cat="net", id="0x9", name="get"), at(7, ph="O", name="object", id="1", args={})]


def test_chrome():
    """A document of Chrome's, the array alone that breaks off, and what Tutti itself has exported as one."""
    with Cluster() as c:
        c.aggregator()
        (c.dir / "doc.json").write_text(json.dumps({"traceEvents": chrome_events()}))
        (c.dir / "array.json").write_text(json.dumps(chrome_events())[:-1] + ",\n")
        doc = c.tutti("import", c.dir / "doc.json", c.dir / "array.json", "--json", check=0)[1]["sessions"][0]
        check_manifest(doc, ["array", "doc"])
        assert doc["t0_ns"] == 1_763_000_000_000_000_000 and "Chrome trace" in doc["hosts"][0]["detail"], doc
        spans = {("loop", "outer", 4), ("loop", "inner", 2), ("loop", "mark", 0), ("net", "get", 5)}  # and the counter
        for host in ("array", "doc"):
            found = {(line, name, d // 10**9) for _, line, name, _, d in traces.events(in_store(c, doc) / f"{host}.xplane.pb")}
            assert found == spans and [h["events"] for h in doc["hosts"]] == [5, 5], found
        assert any("1 events of the imported file are left out" in w for w in xspace.load(in_store(c, doc) / "doc.xplane.pb").warnings)
        c.tutti("export", doc["session"], "--format", "json", "-o", c.dir / "out", check=0)
        again = c.tutti("import", *(c.dir / "out").glob("*.json"), "--json", check=0)[1]["sessions"][0]
        assert again["t0_ns"] == doc["t0_ns"] and again["hosts"][0]["events"] == 10, again


# As its guide shows them: a list may be events by name, or one event.
NEURON = {
    "trace_events": {
        "Neuron_Runtime_API_Event": {
            "duration": 27094, "group": "nrt-nc-000", "id": 1, "instance_id": "i-0f207fb2a99bd2d08", "lnc_idx": "0", "name": "nrt_tensor_write", "parent_id": 0,
            "process_id": "1627711", "size": "4", "tensor_id": "4900392441224765051", "tensor_name": "_unknown_", "thread_id": 1627711,
            "timestamp": 1729888371056597613, "type": 11},
        "Framework_Event": {
            "duration": 3758079, "group": "framework-80375131", "instance_id": "i-0f207fb2a99bd2d08", "name": "PjitFunction(matmul_allgather)",
            "process_id": "701", "thread_id": 80375131, "timestamp": 1729888382798557372, "type": 99999}},
    "mem_usage": {"duration": 1, "instance_id": "i-0f207fb2a99bd2d08", "percent_usage": 9.728179797845964, "timestamp": 1729888369286687792, "usage": 51805806592},
    "cpu_util": [{"cpu_id": "47", "duration": 1, "instance_id": "i-0f207fb2a99bd2d08", "timestamp": 1729888371287337243, "util": 2.3255813},
                 {"cpu_id": "0", "duration": 1, "instance_id": "i-00000000000000001", "timestamp": 1729888371287337244, "util": 97.5}],
}


def test_neuron():
    """Each instance becomes a host, and the document comes out again, member for member."""
    with Cluster() as c:
        c.aggregator()
        (c.dir / "system_profile.json").write_text(json.dumps(NEURON))
        doc = c.tutti("import", c.dir / "system_profile.json", "--json", check=0)[1]["sessions"][0]
        check_manifest(doc, ["i-00000000000000001", "i-0f207fb2a99bd2d08"])
        assert [h["events"] for h in doc["hosts"]] == [1, 4] and doc["t0_ns"] == NEURON["mem_usage"]["timestamp"], doc
        c.tutti("export", doc["session"], "--format", "system-profile", "-o", c.dir / "out", "--json", check=0)
        found = json.loads((c.dir / "out" / f"{doc['session']}.system_profile.json").read_text())
        key = lambda e: json.dumps(e, sort_keys=True)
        for name, want in (("trace_events", [*NEURON["trace_events"].values()]), ("mem_usage", [NEURON["mem_usage"]]), ("cpu_util", NEURON["cpu_util"])):
            assert sorted(map(key, found[name])) == sorted(map(key, want)), (name, found[name])


def bent(data, where):
    """The file with a text that is longer than the message around it."""
    old, new = {"name": (b"\x12\x07train 1", b"\x12\x7ftrain 1"),  # of an event's metadata
                "stat": (b"\x22\x04\x08\x02\x18\x01", b"\x22\x04\x08\x02\x2a\x01")}[where]  # of an event: a number
    assert data.count(old) == 1, data.count(old)
    return data.replace(old, new)


def test_refused():
    """Hostile and damaged input: a sentence with file and place, nothing in the store."""
    with Cluster() as c:
        c.aggregator()
        good = job()
        cases = {
            "cut.xplane.pb": (good[:-100], "at byte"),
            "noise.xplane.pb": (bytes(range(256)) * 40, "no XSpace"),
            "empty.xplane.pb": (b"", "empty"),
            "bent-name.xplane.pb": (bent(good, "name"), "at byte"),
            "bent-stat.xplane.pb": (bent(good, "stat"), "at byte"),
            "cut.xplane.pb.gz": (gzip.compress(good)[:-2000], "gzip"),
            "broken.json": (b'{"traceEvents": [{"ph": "X", "ts": 1, ', "offset"),
            "none.json": (b'{"traceEvents": []}', "no event"),
            "other.json": (b'{"some": ["thing", 1]}', "traceEvents"),
            "neuron.json": (b'{"trace_events": [{"timestamp": "soon"}]}', "number"),
            "deep.json": (b'[{"args":' * 100000, "levels"),
        }
        for name, (data, words) in cases.items():
            path = c.dir / name
            path.write_bytes(data)
            code, doc = c.tutti("import", path, "--json")
            assert code in (1, 2) and words in doc["error"] and name in doc["error"], (name, code, doc)
        (c.dir / "late.pb").write_bytes(job(T0 + 7200 * 10**9))
        (c.dir / "early.pb").write_bytes(good)
        assert "span" in c.tutti("import", c.dir / "late.pb", c.dir / "early.pb", "--json")[1]["error"]
        (c.dir / "folder").mkdir()
        assert "no *.xplane.pb" in c.tutti("import", c.dir / "folder", "--json")[1]["error"]
        assert c.tutti("import", c.dir / "missing")[0] == 1
        assert c.tutti("import")[0] == 2 and c.tutti("import", "x", "--logs", "y")[0] == 2
        assert c.tutti("import", c.dir / "early.pb", "--run", "../x")[0] == 2
        assert not sessions(c) and not (c.store / "profiles").exists()


def dirty_space():
    """A job's file in which every kind of text has bytes that are not UTF-8. No library writes that: they take the place of others."""
    space = xspace.message_class("tensorflow/xplane.proto", "tensorflow.profiler.XSpace")()
    space.ParseFromString(job())
    bad, plane = "~BAD~", space.planes[0]
    plane.name += bad
    plane.lines[0].name += bad
    plane.lines[0].display_name = "shown " + bad
    plane.event_metadata[1].name += bad
    plane.event_metadata[1].display_name = "shown " + bad
    id = max(plane.stat_metadata) + 1
    plane.stat_metadata[id].id = id
    plane.stat_metadata[id].name = "stat " + bad
    plane.stat_metadata[id].description = bad
    plane.lines[0].events[0].stats.add(metadata_id=id, str_value="value " + bad)
    plane.stats.add(metadata_id=id, ref_value=id)
    plane.event_metadata[1].stats.add(metadata_id=id, bytes_value=bad.encode())
    space.errors.append("error " + bad)
    space.warnings.append("warning " + bad)
    return space.SerializeToString().replace(bad.encode(), b"\xff\xc3\xe9\xed\xa0")


def test_bytes():
    """Names with bytes that are not UTF-8, in each format and in names of files: protobuf's parser, which XProf has, opens the session."""
    with Cluster() as c:
        c.aggregator()
        dirty = dirty_space()
        with contextlib.suppress(google.protobuf.message.DecodeError):
            xspace.message_class("tensorflow/xplane.proto", "tensorflow.profiler.XSpace").FromString(dirty)
            raise AssertionError("such a file can be read, it proves nothing")
        chrome = json.dumps({"traceEvents": chrome_events()}).replace("outer", "out~").replace("loop", "lo~").replace('"n"', '"n~"').replace("load", "lo~d")
        neuron = json.dumps(NEURON).replace("nrt_tensor_write", "nrt~").replace("_unknown_", "~").replace("nrt-nc", "~").replace("_type", "~")
        torch = (KINETO / "kineto-2.15-steps.json").read_text().replace("aten::", "aten~").replace("python", "py~")
        files = {"space.xplane.pb": dirty, "chrome.json": chrome, "neuron.json": neuron, "torch.pt.trace.json": torch, "lone.json": chrome.replace("~", "\\ud800")}
        for name, data in files.items():
            path = os.fsencode(c.dir) + b"/\xff\xe9-" + name.encode()
            with open(path, "wb") as f:
                f.write(data if isinstance(data, bytes) else data.encode().replace(b"~", b"\xff\xe9"))
            doc = c.tutti("import", os.fsdecode(path), "--json", check=0)[1]["sessions"][0]
            found = [xspace.load(in_store(c, doc) / file) for h in doc["hosts"] for file in h["files"]]
            names = "".join(m.name for space in found for plane in space.planes for m in plane.event_metadata.values())
            assert "?" in names, (name, names)
            assert "imported from ??-" in doc["hosts"][0]["detail"], doc["hosts"][0]
        doc = c.tutti("import", os.fsdecode(os.fsencode(c.dir) + b"/\xff\xe9-space.xplane.pb"), "--json", check=0)[1]["sessions"][0]
        assert any("??-space.xplane.pb: 50 bytes of its texts are not UTF-8" in w for w in doc["warnings"]), doc["warnings"]
        space = xspace.load(in_store(c, doc) / doc["hosts"][0]["file"])
        plane = next(p for p in space.planes if "?????" in p.name)
        (id,) = [k for k, m in plane.stat_metadata.items() if m.name == "stat ?????"]
        stats = lambda of: [s for s in of.stats if s.metadata_id == id]
        assert plane.stat_metadata[id].description == "?????" and "?????" in plane.lines[0].name and plane.lines[0].display_name == "shown ?????"
        assert [s.str_value for line in plane.lines for e in line.events for s in stats(e)] == ["value ?????"]
        assert [s.bytes_value for m in plane.event_metadata.values() for s in stats(m)] == [b"\xff\xc3\xe9\xed\xa0"]  # those are no text
        assert "error ?????" in space.errors[0] and any("warning ?????" in w for w in space.warnings), (space.errors, space.warnings)
        # and a client that does not mind is told
        dirty = (in_store(c, doc) / doc["hosts"][0]["file"]).read_bytes().replace(b"stat ?????", b"stat \xff\xff\xff\xff\xff")
        file = {"file": "a.xplane.pb", "bytes": len(dirty), "crc32c": f"{crc32c(dirty):08x}"}
        base = f"/api/v1/imports/{c.call('POST', '/api/v1/imports', {'t0_ns': doc['t0_ns'], 'duration_ns': doc['duration_ns'], 'files': [file]})[1]['session']}"
        assert call(c, "PUT", f"{base}/files/a.xplane.pb?offset=0", dirty)[0] == 200
        status, answer = call(c, "POST", f"{base}/commit")
        assert status == 400 and "a.xplane.pb: a text is not UTF-8 (field 2 of XStatMetadata) at byte" in answer["error"], answer


class Cutting(FaultProxy):
    """In front of the aggregator. Ends the connection at this request for a piece, and at all further ones until it is told to go on."""

    def __init__(self, upstream, at):
        super().__init__(upstream)
        self.at, self.pieces, self.offsets = at, 0, []

    def next_fault(self, command, path):
        if command != "PUT":
            return None
        self.pieces += 1
        if self.at and self.pieces >= self.at:
            return "cut"
        self.offsets.append(int(path.split("offset=")[1]))


def test_resume():
    """An import whose command is killed, and one whose aggregator is restarted: what is there is not sent again, or it says why it is."""
    with Cluster() as c:
        c.aggregator()
        (c.dir / "big.xplane.pb").write_bytes(xspace.synthetic(400_000, 10**11))
        with Cutting(c.url, 4) as proxy:
            first = Command(c, "first", c.dir / "big.xplane.pb", "--server", proxy.endpoint, verb="import")
            wait_until("three pieces", lambda: proxy.pieces > 3)
            first.p.kill()
            first.p.wait(20)
            assert proxy.offsets == [0, 1 << 20, 2 << 20], proxy.offsets
            proxy.at = None
            doc = c.tutti("import", c.dir / "big.xplane.pb", "--server", proxy.endpoint, "--json", check=0)[1]["sessions"][0]
            assert proxy.offsets[3] == 3 << 20 and f"goes on behind the {3 << 20} bytes" in c.stderr, (proxy.offsets, c.stderr)
            assert doc["hosts"][0]["events"] == 400_000 and len(sessions(c)) == 1, doc
            # the same files once more are another session: that one is complete
            assert c.tutti("import", c.dir / "big.xplane.pb", "--json", check=0)[1]["sessions"][0]["session"] != doc["session"]
        with Cutting(c.url, 4) as proxy:
            again = Command(c, "again", c.dir / "big.xplane.pb", "--server", proxy.endpoint, verb="import")
            wait_until("three pieces", lambda: proxy.pieces > 3)
            c.kill("aggregator")
            c.aggregator()
            proxy.upstream, proxy.at = c.url.split("//")[1], None
            code, doc, said = again.finish()
            assert code == 0 and "begins anew" in said and proxy.offsets[3] == 0 and len(sessions(c)) == 3, (code, said, proxy.offsets)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_quota():
    """Imports that begin together, where only one more fits: the first one that commits is in, the other is refused, and may be when there is room."""
    with Cluster() as c:
        c.aggregator("--quota-sessions", "1")
        data = job()
        file = {"file": "a.xplane.pb", "bytes": len(data), "crc32c": f"{crc32c(data):08x}"}
        bases = []
        for _ in range(2):
            status, doc = c.call("POST", "/api/v1/imports", {"t0_ns": T0, "duration_ns": 3600 * 10**9, "files": [file]})
            assert status == 201, doc
            bases.append(f"/api/v1/imports/{doc['session']}")
            assert call(c, "PUT", f"{bases[-1]}/files/a.xplane.pb?offset=0", data)[0] == 200
        assert call(c, "POST", f"{bases[0]}/commit")[0] == 200
        status, doc = call(c, "POST", f"{bases[1]}/commit")
        assert status == 507 and doc["reason"] == "full" and len(sessions(c)) == 1, (status, doc)
        c.tutti("delete", sessions(c)[0]["session"], check=0)
        assert call(c, "POST", f"{bases[1]}/commit")[0] == 200 and len(sessions(c)) == 1


def test_quota_when_the_store_fails():
    """Imports that the store broke off count once they are committed after all, and do not where they are removed."""
    with Cluster() as c:
        rules = c.dir / "rules"
        rules.touch()
        c.aggregator(f"--store=fault://{rules}!file://{c.store}", "--quota-sessions", "2")
        used = lambda: c.get("/api/v1/sessions")["quotas"][0]["sessions"]
        (c.dir / "a.xplane.pb").write_bytes(job())
        for key, is_committed in (("profiles/*", False), ("tutti/sessions/*", True), ("tutti/index/*", True)):
            before = len(sessions(c))
            rules.write_text(f"put {key} fail times=1\n")
            code, doc = c.tutti("import", c.dir / "a.xplane.pb", "--json")
            assert code == 1 and "failed by a rule" in doc["error"], doc
            wait_until("its end", lambda: len(sessions(c)) == before + is_committed and not list((c.store / "tutti/ledger").glob("[!.]*")))
            wait_until("the use", lambda: used() == before + is_committed)
        code, doc = c.tutti("import", c.dir / "a.xplane.pb", "--json")
        assert code == 1 and "2 of 2 sessions" in doc["error"], doc


def call(c, method, path, body=None):
    """(status, document) of a call with any body."""
    data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(c.url + path, data, method=method), timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as e:
        return e.code, json.load(e)


def test_protocol():
    """The calls behind it, as any client may make them: what does not fit is refused, and nothing of it gets into the store."""
    with Cluster() as c:
        c.aggregator()
        c.tutti("import", "--help", check=0)
        good = {"t0_ns": T0, "duration_ns": 10**9, "files": [{"file": "a.xplane.pb", "bytes": 10, "crc32c": "00000000"}]}
        for wrong in ({"t0_ns": -1}, {"duration_ns": 0}, {"duration_ns": 10**18}, {"files": []}, {"files": [{}]}, {"run": "a//b"},
                      {"files": [{"file": "../a.xplane.pb", "bytes": 1, "crc32c": "00000000"}]},
                      {"files": [{"file": "a~2.xplane.pb", "bytes": 1, "crc32c": "00000000"}]},
                      {"files": [{"file": "a.xplane.pb", "bytes": 3 * 10**9, "crc32c": "00000000"}]},
                      {"files": [{"file": "a.xplane.pb", "bytes": 1, "crc32c": "z"}]},
                      {"files": good["files"] * 2}):
            status, doc = c.call("POST", "/api/v1/imports", {**good, **wrong})
            assert status == 400, (wrong, status, doc)
        status, doc = c.call("POST", "/api/v1/imports", good)
        assert status == 201, doc
        base = f"/api/v1/imports/{doc['session']}"
        assert call(c, "PUT", f"{base}/files/b.xplane.pb?offset=0", b"1")[0] == 404
        assert call(c, "PUT", f"{base}/files/a.xplane.pb", b"1")[0] == 400
        assert call(c, "PUT", f"{base}/files/a.xplane.pb?offset=5", b"1")[0] == 409
        assert call(c, "PUT", f"{base}/files/a.xplane.pb?offset=0", b"x" * 11)[0] == 429
        assert call(c, "PUT", f"{base}/files/a.xplane.pb?offset=0", b"12345") == (200, {"file": "a.xplane.pb", "bytes": 10, "received": 5})
        status, doc = call(c, "POST", f"{base}/commit")
        assert status == 400 and "5 of its 10 bytes" in doc["error"], doc
        assert call(c, "POST", f"{base}/commit")[0] == 404  # it is gone
        open_ones = [call(c, "POST", "/api/v1/imports", good)[1]["session"] for _ in range(16)]
        assert call(c, "POST", "/api/v1/imports", good)[0] == 429
        for session in open_ones:
            assert c.call("DELETE", f"/api/v1/imports/{session}") == (200, {"deleted": session})
        assert not sessions(c) and not (c.store / "profiles").exists() and not list((c.store / "tutti/ledger").glob("*"))
        shutil.rmtree(c.dir / "agg-spool/views", ignore_errors=True)


if __name__ == "__main__":
    main(test_layout, test_files, test_chrome, test_neuron, test_resume, test_quota, test_quota_when_the_store_fails, test_refused, test_bytes, test_protocol)
