# SPDX-License-Identifier: Apache-2.0
"""A command of tutti in the background."""
import json
import os
import subprocess

from lib.cluster import BIN, SLOW


class Command:
    """`tutti capture`, or another verb, in the background."""

    def __init__(self, c, name, *flags, verb="capture"):
        self.out, self.err = c.dir / f"{name}.json", c.dir / f"{name}.err"
        self.p = subprocess.Popen([BIN / "tutti", verb, "--json", *flags], stdout=open(self.out, "w"),
                                  stderr=open(self.err, "w"), env={**os.environ, "TUTTI_SERVER": c.url})

    def finish(self):
        code = self.p.wait(100 * SLOW)
        return code, json.loads(self.out.read_text()), self.err.read_text()
