# SPDX-License-Identifier: Apache-2.0
"""XProf's web server, or one that answers like it, over a log directory."""
import gzip
import json
import sys
import urllib.error
import urllib.parse
import urllib.request

from lib.cluster import SLOW, free_port, wait_until


class XProf:
    def __init__(self, start, logdir, argv=None):
        """`start(name, argv)` starts a process; `argv` replaces stock XProf. `logdir` is a path, or a URL."""
        self.port = free_port()
        if not isinstance(logdir, str):  # a URL
            logdir.mkdir(parents=True, exist_ok=True)
        argv = argv or [sys.executable, "-m", "xprof.server", "--grpc_port", free_port()]
        start(f"xprof-{self.port}", [*argv, "--logdir", logdir, "--port", self.port])
        wait_until("XProf", self.is_up, 120)

    def is_up(self):
        try:
            return self.get("runs") is not None
        except OSError:
            return False

    def get(self, route, **params):
        url = f"http://127.0.0.1:{self.port}/data/plugin/profile/{route}?{urllib.parse.urlencode(params)}"
        with urllib.request.urlopen(url, timeout=120 * SLOW) as answer:
            data = answer.read()
            if answer.headers.get("Content-Encoding") == "gzip":
                data = gzip.decompress(data)
        try:
            return json.loads(data)
        except ValueError:
            return data

    def steps(self, run, host):
        """The rows of the overview page's table of steps."""
        for part in self.get("data", run=run, tag="overview_page", host=host):
            if any(col["id"] == "stepnum" for col in part.get("cols", [])):
                return part["rows"]
        return []

    def modules(self, run, host):
        """The names of the HLO modules."""
        data = self.get("module_list", run=run, host=host)
        return data.decode().split(",") if isinstance(data, bytes) else data
