# SPDX-License-Identifier: Apache-2.0
"""Reads a trace of Perfetto as its own importer does: packets in order of time, a stack of slices for each track. By the
field numbers of protos/perfetto/trace/, so nothing is taken from the program that wrote it."""
import collections
import struct


def fields(data):
    """[(number, value)] of a message: ints, and bytes of what has a length or 64 bits."""
    at, out = 0, []

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        tag = varint()
        kind = tag & 7
        if kind == 0:
            out.append((tag >> 3, varint()))
        elif kind == 1:
            out.append((tag >> 3, data[at:at + 8]))
            at += 8
        elif kind == 2:
            length = varint()
            assert at + length <= len(data), "a field that is longer than its message"
            out.append((tag >> 3, data[at:at + length]))
            at += length
        else:
            raise AssertionError(f"wire type {kind}")
    return out


def one(message, number, default=None):
    found = [v for n, v in message if n == number]
    return found[-1] if found else default


def every(message, number):
    return [v for n, v in message if n == number]


class Trace:
    """slices: [(path of tracks, name, start_ns, end_ns, args, flows)] with Unix times; counters: {path: [(ns, value)]}."""

    def __init__(self, data):
        self.tracks, self.slices, self.counters, self.descriptions = {}, [], collections.defaultdict(list), {}
        events, names, args, texts, bases = [], {}, {}, {}, {}
        for number, packet in fields(data):
            assert number == 1, number
            p = fields(packet)
            sequence = one(p, 10)
            assert sequence, "a packet without a sequence"
            for track in every(p, 60):
                t = fields(track)
                self.tracks[one(t, 1)] = (one(t, 2).decode(), one(t, 5), one(t, 8) is not None)
                self.descriptions[one(t, 2).decode()] = one(t, 14, b"").decode()
            for clocks in every(p, 6):
                found = {one(fields(c), 1): one(fields(c), 2) for c in every(fields(clocks), 1)}
                assert found[1] == found[6] and found[64] == 0, found
                bases[sequence] = found[1]
                assert one(fields(one(p, 59)), 58) == 64 and one(p, 13) == 3
            if one(p, 12):
                for kind, table in ((2, names), (3, args), (29, texts)):
                    for entry in every(fields(one(p, 12)), kind):
                        f = fields(entry)
                        table[sequence, one(f, 1)] = one(f, 2).decode()
            if one(p, 11):
                events.append((bases[sequence] + one(p, 8), len(events), sequence, fields(one(p, 11)), dict(names=names, args=args, texts=texts)))
        self.read(events)

    def path(self, uuid):
        name, parent, _ = self.tracks[uuid]
        return (*self.path(parent), name) if parent else (name,)

    def arg(self, sequence, data, tables):
        f = fields(data)
        name = tables["args"][sequence, one(f, 1)]
        for number, read in ((3, int), (4, lambda v: v - (1 << 64 if v >> 63 else 0)), (5, lambda v: struct.unpack("<d", v)[0]),
                             (6, bytes.decode), (17, lambda v: tables["texts"][sequence, v])):
            value = one(f, number)
            if value is not None:
                return name, read(value)
        raise AssertionError(f"the arg {name} has no value")

    def read(self, events):
        open_slices = collections.defaultdict(list)
        for ns, _, sequence, event, tables in sorted(events, key=lambda e: e[:2]):
            kind, track = one(event, 9), one(event, 11)
            if kind == 4:
                assert self.tracks[track][2], "a sample on a track that is no counter"
                self.counters[self.path(track)].append((ns, struct.unpack("<d", one(event, 44))[0]))
                continue
            if kind == 2:
                path, name, start, args, flows = open_slices[track].pop()
                self.slices.append((path, name, start, ns, args, flows))
                continue
            name = tables["names"][sequence, one(event, 10)]
            found = dict(self.arg(sequence, a, tables) for a in every(event, 4))
            flows = [int.from_bytes(v, "little") for v in every(event, 47)]
            if kind == 3:
                self.slices.append((self.path(track), name, ns, ns, found, flows))
            else:
                assert kind == 1, kind
                open_slices[track].append((self.path(track), name, ns, found, flows))
        assert not any(open_slices.values()), "slices without an end"
