# SPDX-License-Identifier: Apache-2.0
"""Reads XSpace files for tests, with the real protobuf library and our own .proto files."""
import functools
import pathlib
import subprocess
import tempfile

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PROTO = pathlib.Path(__file__).resolve().parents[3] / "proto"


@functools.cache
def message_class(file, name):
    """A message class made from a .proto file; no generated code, so any protobuf version will do."""
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(["protoc", f"-I{PROTO}", "--include_imports", f"--descriptor_set_out={out.name}", file],
                       check=True, timeout=60)
        files = descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(out.name).read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for f in files.file:
        pool.Add(f)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def load(path):
    space = message_class("tensorflow/xplane.proto", "tensorflow.profiler.XSpace")()
    space.ParseFromString(pathlib.Path(path).read_bytes())
    return space


def synthetic(events, span_ps):
    """The bytes of an XSpace: a plane, a line from 0 on, and so many events one after the other. Undated."""
    space = message_class("tensorflow/xplane.proto", "tensorflow.profiler.XSpace")()
    p = space.planes.add(id=1, name="/host:CPU")
    p.event_metadata[1].id = 1
    p.event_metadata[1].name = "synthetic"
    line = p.lines.add(id=1, name="main")
    each = span_ps // events
    for i in range(events):
        line.events.add(metadata_id=1, offset_ps=i * each, duration_ps=each)
    return space.SerializeToString()


def protoc_decodes(path):
    """Does `protoc --decode` accept the file?"""
    with open(path, "rb") as f:
        p = subprocess.run(["protoc", f"-I{PROTO}", "--decode=tensorflow.profiler.XSpace",
                            "tensorflow/xplane.proto"], stdin=f, stdout=subprocess.DEVNULL, timeout=60)
    return p.returncode == 0


def plane(space, name):
    found = [p for p in space.planes if p.name == name]
    assert len(found) == 1, f"{len(found)} planes '{name}' among {[p.name for p in space.planes]}"
    return found[0]


def events(p):
    """(name, start_ps since T0, duration_ps, line name) of every timed event of a plane."""
    for line in p.lines:
        for ev in line.events:
            if ev.WhichOneof("data") != "num_occurrences":
                yield p.event_metadata[ev.metadata_id].name, line.timestamp_ns * 1000 + ev.offset_ps, ev.duration_ps, line.name


def stats(p, holder=None):
    """{name: value} of a plane's stats, or of an event's."""
    out = {}
    for s in (holder or p).stats:
        which = s.WhichOneof("value")
        value = getattr(s, which)
        out[p.stat_metadata[s.metadata_id].name] = p.stat_metadata[value].name if which == "ref_value" else value
    return out


def marks(space):
    """{text: start_ps} of the marks of a host."""
    out = {}
    for p in space.planes:
        if p.name.startswith("/host:CPU marks"):
            out.update({name: at for name, at, _, _ in events(p)})
    return out
