# SPDX-License-Identifier: Apache-2.0
"""Logs on the timeline: of files, containers and the journal while a capture runs; exported cloud logs beside its files."""
import datetime
import json
import os
import subprocess
import threading
import time

from lib import xspace
from lib.cluster import BIN, SLOW, Cluster, main, wait_until
from lib.waits import join

SPAN_MS = 80  # how far a line may be from where it was written: the clocks' readings, and a busy machine between two of them

JOURNALCTL = """#!/usr/bin/env python3
import json, time
while True:
    print(json.dumps({"MESSAGE": f"tick {time.time_ns()}", "PRIORITY": "4", "_SYSTEMD_UNIT": "tick.service",
                      "__MONOTONIC_TIMESTAMP": str(time.monotonic_ns() // 1000)}), flush=True)
    time.sleep(0.05)
"""


def iso(ns):
    return datetime.datetime.fromtimestamp(ns // 10**9, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S") + f".{ns % 10**9:09d}Z"


class Writer(threading.Thread):
    """Logs to a file and as a container, each line with the time at which it is written, until it is stopped."""

    def __init__(self, app, container):
        super().__init__(daemon=True)
        self.app, self.container, self.over = app, container, threading.Event()

    def run(self):
        while not self.over.wait(0.05):
            ns = time.time_ns()
            with open(self.app, "a") as f:
                f.write(f"{iso(ns)[:-7]}Z ERROR app {ns}\n")
            with open(self.container, "a") as f:
                f.write(f"{iso(ns)} stderr P half \n{iso(ns + 1)} stderr F and half {ns}\n")


def check_times(p, line_name, doc, expected):
    """Each event of the line is where its last word says. Returns the stats of the last one."""
    line = next(line for line in p.lines if line.name == line_name)
    assert len(line.events) >= 5, (line_name, len(line.events))
    for ev in line.events:
        name = p.event_metadata[ev.metadata_id].name
        at_ns = doc["t0_ns"] + line.timestamp_ns + ev.offset_ps // 1000
        off_ms = (at_ns - int(name.split()[-1])) / 1e6
        assert abs(off_ms) < SPAN_MS * SLOW, (line_name, name, off_ms)
    found = xspace.stats(p, ev)
    assert {k: found.get(k) for k in expected} == expected, found


def tracer(c, host):
    return next(t for t in c.hosts()[host]["tracers"] if t["name"] == "logs")


def check_import(c, doc):
    """Entries of the session's middle, of before it, and one without a time."""
    out, file = c.dir / "exported", c.dir / "cloud.json"
    middle = doc["t0_ns"] + doc["duration_ns"] // 2
    entries = [{"timestamp": iso(ns), "severity": "CRITICAL", "textPayload": text,
                "resource": {"labels": {"pod_name": "train-0", "namespace_name": "ml"}},
                "labels": {"k8s-pod/jobset_sigs_k8s_io/jobset-name": "train"}}
               for ns, text in ((middle, "it stood still"), (middle - 3600 * 10**9, "long before"))]
    file.write_text("".join(json.dumps(e) + "\n" for e in entries) + '{"textPayload": "when?"}\n')
    c.tutti("export", doc["session"], "-o", out, check=0)
    _, result = c.tutti("import", "--logs", file, "--session", doc["session"], "-o", out, "--json", check=0)
    counts = {k: result[k] for k in ("entries", "outside", "skipped", "skipped_line", "jobs", "lines")}
    assert counts == {"entries": 1, "outside": 1, "skipped": 1, "skipped_line": 3, "jobs": 1, "lines": 1}, result
    assert (out / "plugins/profile" / doc["session"] / "host-a.xplane.pb").exists()
    (event,) = xspace.events(xspace.plane(xspace.load(result["file"]), "/host:CPU logs train"))
    assert event[0] == "it stood still" and abs(event[1] - (middle - doc["t0_ns"]) * 1000) < 10**9, event
    # alone: a profile of its own, from the first entry on
    _, result = c.tutti("import", "--logs", file, "-o", out, "--json", check=0)
    assert result["entries"] == 2 and result["t0_ns"] == middle - 3600 * 10**9, result
    assert xspace.protoc_decodes(result["file"])
    file.write_text("{}\nnonsense\n")
    c.tutti("import", "--logs", file, "-o", out, check=2)
    assert "line 2" in c.stderr, c.stderr
    c.tutti("import", "--logs", "/dev/null", check=2)
    assert "regular file" in c.stderr, c.stderr


def test_logs():
    with Cluster() as c:
        pod = c.dir / "pods/ml_train-0_1a2b/main"
        pod.mkdir(parents=True)
        app = c.dir / "app.log"
        app.write_text("of before\n")
        (pod / "0.log").write_text("")
        (c.dir / "bin").mkdir()
        (c.dir / "bin/journalctl").write_text(JOURNALCTL)
        (c.dir / "bin/journalctl").chmod(0o755)
        c.aggregator()
        path = os.environ["PATH"]
        os.environ["PATH"] = f"{c.dir / 'bin'}:{path}"
        c.agent("host-a", "--logs", f"{app},{c.dir}/pods/*/*/*.log,journal", tracers="logs")
        os.environ["PATH"] = path
        c.agent("host-b", tracers="logs,marks")
        refused = subprocess.run([BIN / "tutti-agent", "--spool", c.dir / "spool", "--logs", "containers,app.log"], capture_output=True,
                                 text=True, timeout=20 * SLOW)
        assert refused.returncode and "'app.log'" in refused.stderr, (refused.returncode, refused.stderr)
        c.wait_hosts(2)
        wait_until("the logs", lambda: tracer(c, "host-a")["state"] == "ok")
        off = tracer(c, "host-b")
        assert off["state"] == "off" and "--logs" in off["reason"], off
        writer = Writer(app, pod / "0.log")
        writer.start()
        time.sleep(0.3)
        _, doc = c.tutti("capture", "--duration", "1s", "--json", check=0)
        writer.over.set()
        join(writer)
        p = xspace.plane(xspace.load(c.logdir / "plugins/profile" / doc["session"] / "host-a.xplane.pb"), "/host:CPU logs")
        check_times(p, str(app), doc, {"severity": "ERROR", "source": "file", "time": "text"})
        check_times(p, "train-0/main", doc, {"severity": "DEFAULT", "source": "container", "time": "runtime", "pod": "train-0",
                                             "namespace": "ml", "container": "main"})
        check_times(p, "tick.service", doc, {"severity": "WARNING", "source": "journal", "time": "journal"})
        assert "of before" not in [e[0] for e in xspace.events(p)]
        check_import(c, doc)


main(test_logs)
