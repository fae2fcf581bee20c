# SPDX-License-Identifier: Apache-2.0
"""An open session, asked as a viewer asks."""
import array
import json
import urllib.request

from lib import schema
from lib.cluster import wait_until

BUCKETS = 1024


class View:
    """An open session over HTTP."""

    def __init__(self, c, session, doc=None):
        """With `doc` a catalogue that is there already, complete or not."""
        self.base = f"{c.url}/api/v1/sessions/{session}/view"
        self.doc = doc or wait_until("the view", self.open)
        self.tracks = [(h["host"], f["file"], plane["name"], plane["first_track"] + i, t)
                       for h in self.doc["hosts"] for f in h["files"] for plane in f["planes"] for i, t in enumerate(plane["tracks"])]

    def open(self):
        doc = json.loads(self.fetch("")[1])
        schema.check(doc, "view")
        return doc if doc["state"] == "ready" else None

    def fetch(self, path, headers=None):
        with urllib.request.urlopen(urllib.request.Request(self.base + path, headers=headers or {}), timeout=60) as answer:
            return answer, answer.read()

    def ask(self, what, **query):
        words = "&".join(f"{k}={urllib.request.quote(str(v))}" for k, v in {"build": self.doc["build"], **query}.items())
        doc = json.loads(self.fetch(f"/{what}?{words}")[1])
        schema.check(doc, f"view-{what}")
        return doc

    def tile(self, file, group, shift, index):
        """{track: [(start_ps, length_ps, name, event, count, row)]}, positions as exact as the tile has them."""
        answer, data = self.fetch(f"/tile?build={self.doc['build']}&file={file}&group={group}&shift={shift}&index={index}&rows=0",
                                  {"Accept-Encoding": "gzip"})
        assert ("immutable" in answer.headers["Cache-Control"]) == (self.doc["state"] == "ready") and answer.headers["ETag"], dict(answer.headers)
        return decode_tile(data, group, shift, index)


def numbers(data, at, n):
    """n numbers of 7 bits a byte; and where they end."""
    out = []
    for _ in range(n):
        v = shift = 0
        while True:
            v |= (data[at] & 0x7f) << shift
            shift += 7
            at += 1
            if data[at - 1] < 0x80:
                break
        out.append(v)
    return out, at


def steps(column, ends):
    """A column from its differences, track by track."""
    out = []
    for end in ends:
        v = 0
        for z in column[len(out):end]:
            v = (v + ((z >> 1) ^ -(z & 1))) % (1 << 32)
            out.append(v)
    return out


def decode_tile(data, group, shift, index):
    magic, n_tracks, n, n_names = array.array("I", data[:16])
    assert magic == 0x32545654, hex(magic)
    ends, at, columns = array.array("I", data[16:16 + 4 * n_tracks]), 16 + 4 * n_tracks, []
    for _ in range(6):
        column, at = numbers(data, at, n)
        columns.append(column)
    columns[0], columns[3] = steps(columns[0], ends), steps(columns[3], ends)
    at += sum(count > 1 for count in columns[4])
    heads, at = numbers(data, at, 2 * n_names)
    names = [""]
    for shared, rest in zip(heads[::2], heads[1::2]):
        names.append(names[-1][:shared] + data[at:at + rest].decode())
        at += rest
    assert at == len(data), (at, len(data))
    unit = 1 << max(0, shift - 8)
    out, i = {}, 0
    for k, end in enumerate(ends):
        rows = out.setdefault(group * 16 + k, [])
        for i in range(i, end):
            start = columns[0][i] - (1 << 32 if columns[0][i] >> 31 else 0)
            name = names[columns[2][i] + 1] if columns[2][i] < n_names else None
            rows.append((start * unit + index * (BUCKETS << shift), columns[1][i] * unit, name, columns[3][i], columns[4][i], columns[5][i]))
        i = end
    return out
