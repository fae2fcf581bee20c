# SPDX-License-Identifier: Apache-2.0
"""An open session, asked as a viewer asks."""
import array
import gzip
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
        if answer.headers["Content-Encoding"] == "gzip":
            data = gzip.decompress(data)
        words = array.array("I", data[:len(data) // 4 * 4])
        magic, n_tracks, n, n_names = words[:4]
        assert magic == 0x31545654, hex(magic)
        ends = words[4:4 + n_tracks]
        at = 4 + n_tracks
        columns = [words[at + c * n:at + (c + 1) * n] for c in range(6)]
        at += 6 * n
        text = data[4 * (at + n_names):]
        names, begin = [], 0
        for end in words[at:at + n_names]:
            names.append(text[begin:end].decode())
            begin = end
        unit = 1 << max(0, shift - 8)
        out, i = {}, 0
        for k, end in enumerate(ends):
            rows = out.setdefault(group * 16 + k, [])
            for i in range(i, end):
                start = columns[0][i] - (1 << 32 if columns[0][i] >> 31 else 0)
                name = names[columns[2][i]] if columns[2][i] < len(names) else None
                rows.append((start * unit + index * (BUCKETS << shift), columns[1][i] * unit, name, columns[3][i], columns[4][i],
                             columns[5][i] & 0xffff))
            i = end
        return out
