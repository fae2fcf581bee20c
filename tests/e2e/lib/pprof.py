# SPDX-License-Identifier: Apache-2.0
"""Reads a profile of pprof by the field numbers of profile.proto, and checks what pprof's own reader checks."""
import collections
import gzip

from lib.pftrace import every, fields, one


def packed(data):
    return [v for _, v in fields(b"".join(b"\x08" + piece for piece in split(data)))]


def split(data):
    """The varints of a packed field."""
    begin = 0
    for i, byte in enumerate(data):
        if byte < 128:
            yield data[begin:i + 1]
            begin = i + 1


class Profile:
    """stacks: {(host, thread, (function, ...)): ns}, outermost first, functions of one name together; functions: {name: {(file, first line)}}."""

    def __init__(self, data):
        profile = fields(gzip.decompress(data))
        strings = [s.decode() for s in every(profile, 6)]
        assert strings[0] == "" and len(set(strings)) == len(strings)
        kinds = [fields(v) for v in every(profile, 1)]
        self.types = [(strings[one(k, 1)], strings[one(k, 2)]) for k in kinds]
        self.time_ns, self.duration_ns = one(profile, 9), one(profile, 10)
        self.functions, names = collections.defaultdict(set), {}
        for f in map(fields, every(profile, 5)):
            number = one(f, 1)
            assert number and number not in names
            names[number] = strings[one(f, 2)]
            self.functions[names[number]].add((strings[one(f, 4, 0)], one(f, 5, 0)))
        locations = {}
        for place in map(fields, every(profile, 4)):
            number, lines = one(place, 1), [fields(v) for v in every(place, 4)]
            assert number and number not in locations and len(lines) == 1
            locations[number] = names[one(lines[0], 1)]
        self.stacks = collections.Counter()
        for sample in map(fields, every(profile, 2)):
            values = packed(one(sample, 2))
            assert len(values) == len(kinds)
            labels = {strings[one(x, 1)]: strings[one(x, 2)] for x in map(fields, every(sample, 3))}
            stack = tuple(locations[v] for v in reversed(packed(one(sample, 1))))
            self.stacks[labels["host"], labels["thread"], stack] += values[0]
