# SPDX-License-Identifier: Apache-2.0
"""Exports in the real Perfetto: its own page with its trace processor, in a real browser, from $TUTTI_PERFETTO (tests/perfetto.sh)."""
import collections
import http.server
import json
import os
import pathlib
import shutil
import sys
import threading

import export_test
from lib import viewer
from lib.browser import Browser
from lib.cluster import Cluster, SkipTest, main, wait_until
from lib.pftrace import Trace

HERE = pathlib.Path(__file__).resolve().parent
KINETO = HERE.parent / "data/kineto"
TORCH = pathlib.Path(os.environ.get("TUTTI_TORCH", "") or "none")
UI = pathlib.Path(os.environ.get("TUTTI_PERFETTO", ""))
TYPES = {".js": "text/javascript", ".wasm": "application/wasm", ".html": "text/html", ".css": "text/css", ".json": "application/json"}
ROWS = """const r = await window.app.trace.engine.query(arguments[0]); const out = []; const names = r.columns();
    for (const it = r.iter({}); it.valid(); it.next()) out.push(names.map(n => { const v = it.get(n); return v === null ? null : String(v); }));
    return out;"""


class Page(http.server.ThreadingHTTPServer):
    """Serves Perfetto's page, which opens the trace by itself where the server answers as this one does; without a trace it waits."""

    def __init__(self, trace=None):
        page = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                path = self.path.split("?")[0]
                file = page.trace if path == "/localtrace" else UI / (path.lstrip("/") or "index.html")
                body = b"{}" if page.trace and path in ("/vizviewer_info", "/file_info") else file.read_bytes() if file and file.is_file() else None
                self.send_response(200 if body is not None else 404)
                self.send_header("Content-Type", TYPES.get(pathlib.Path(path).suffix or ".html", "application/octet-stream"))
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *args):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.trace = trace
        threading.Thread(target=self.serve_forever, daemon=True).start()


def query(b, sql):
    return b.call("POST", "/execute/sync", {"script": f"return (async () => {{{ROWS.replace('arguments[0]', json.dumps(sql))}}})()", "args": []})


def load(b, trace):
    page = Page(trace)
    b.open(f"http://127.0.0.1:{page.server_port}/")
    wait_until("Perfetto to load the trace", lambda: b.run("return window.app?.trace?.engine !== undefined"), 300)
    errors = query(b, "select name, value from stats where severity in ('error', 'data_loss') and value > 0")
    assert not errors, errors
    return page


def check_pftrace(b, file):
    """Slices, counters and flows as an independent reader of the same file has them."""
    want = Trace(file.read_bytes())
    page = load(b, file)
    tracks = {int(i): (name, parent) for i, name, parent in query(b, "select id, name, parent_id from track")}

    def path(track):
        name, parent = tracks[int(track)]
        return (*path(parent), name) if parent else (name,)

    got = collections.Counter((path(t), name, int(ts), int(ts) + int(dur)) for t, name, ts, dur in query(b, "select track_id, name, ts, dur from slice"))
    slices = collections.Counter((p, name, start, end) for p, name, start, end, *_ in want.slices)
    assert got == slices, (list((got - slices).items())[:3], list((slices - got).items())[:3])
    counters = collections.defaultdict(list)
    for t, ts, value in query(b, "select track_id, ts, value from counter order by ts"):
        counters[path(t)].append((int(ts), float(value)))
    assert {k: sorted(v) for k, v in counters.items()} == {k: sorted(v) for k, v in want.counters.items()}
    ends = collections.Counter(f for *_, flows in want.slices for f in flows)
    arrows = int(query(b, "select count(*) from flow")[0][0])
    assert arrows == sum(n - 1 for n in ends.values()), (arrows, ends.most_common(3))
    page.shutdown()
    return sum(slices.values()), sum(map(len, counters.values())), arrows


def check_json(b, file):
    page = load(b, file)
    dropped = query(b, "select value from stats where name = 'slice_drop_overlapping_complete_event'")
    assert not dropped or dropped[0][0] == "0", dropped
    want = sum(e["ph"] == "X" for e in json.loads(file.read_text())["traceEvents"])
    got = int(query(b, "select count(*) from slice")[0][0])
    assert got == want, (got, want)
    page.shutdown()
    return got


def need_perfetto():
    if not (UI / "index.html").is_file() or not shutil.which("chromedriver"):
        raise SkipTest("needs Perfetto's page in $TUTTI_PERFETTO (tests/perfetto.sh) and chromedriver")


def test_perfetto():
    need_perfetto()
    with Cluster() as c:
        sessions = [export_test.capture(c)["session"]]
        files = [KINETO / f"kineto-2.15-{name}.json" for name in ("stack", "steps")]  # of a real PyTorch
        sessions.append(c.tutti("import", files[0], "--json", check=0)[1]["sessions"][0]["session"])
        sessions.append(c.tutti("import", files[1], "--json", check=0)[1]["sessions"][0]["session"])
        b = Browser(c, "1600,900")
        for session in sessions:
            for kind, suffix, check in (("pftrace", "pftrace", check_pftrace), ("json", "trace.json", check_json)):
                c.tutti("export", session, "--format", kind, "-o", c.dir / "out", check=0)
                print(session, kind, "slices, samples, flows:" if kind == "pftrace" else "slices:", check(b, c.dir / f"out/{session}.{suffix}"), flush=True)


def test_jobs():
    """One session of a real JAX job and a real PyTorch job on one host, with what the host itself records."""
    need_perfetto()
    if not TORCH.exists():
        raise SkipTest("needs PyTorch in $TUTTI_FRAMEWORKS (tests/perfetto.sh)")
    with Cluster() as c:
        c.aggregator()

        def job(name, python, env=None):
            c.start(name, [python, HERE / f"{name}_job.py", "--port-file", c.dir / f"{name}.port", "--log", c.dir / f"{name}.steps", "--seconds", "600"], env=env)
            return wait_until("the job", lambda: (f := c.dir / f"{name}.port").exists() and f.read_text().strip(), 180)

        torch = job("torch", TORCH, {"KINETO_USE_DAEMON": "1"})
        jax = job("jax", sys.executable)
        c.agent("host-a", f"--profiler=127.0.0.1:{jax}", tracers="all")
        c.wait_hosts(1)
        wait_until("PyTorch to ask", lambda: any(t.get("lead_ms") for t in c.hosts()["host-a"]["tracers"]), 60)
        doc = c.tutti("capture", "--duration", "2s", "--json", check=0, timeout=600)[1]
        session, b = doc["session"], Browser(c, "1600,900")
        c.tutti("export", session, "--format", "pftrace", "-o", c.dir / "out", check=0)
        c.tutti("export", session, "--format", "json", "-o", c.dir / "out", check=0)
        names = {name for _, name, *_ in Trace((c.dir / f"out/{session}.pftrace").read_bytes()).slices}
        assert any(n.startswith("PjitFunction(") for n in names) and "aten::linear" in names, sorted(names)[:50]
        print(f"JAX and PyTorch {torch}: slices, samples, flows:", check_pftrace(b, c.dir / f"out/{session}.pftrace"),
              "as JSON, slices:", check_json(b, c.dir / f"out/{session}.trace.json"), flush=True)


def test_handed_over():
    """The page's button: Perfetto itself takes the window that is shown, and reads each slice of it."""
    need_perfetto()
    ui = Page()
    with Cluster() as c:
        session = viewer.capture(c, flags=[f"--perfetto-url=http://127.0.0.1:{ui.server_port}"])
        b = Browser(c, "1600,900")
        mine = b.call("GET", "/window")
        p = viewer.Page(c, b)
        p.show(session)
        p.window(200_000_000_000, 400_000_000_000)
        b.run("document.getElementById('v-perfetto').click()")
        handle = wait_until("Perfetto's window", lambda: next((h for h in b.call("GET", "/window/handles") if h != mine), None))
        b.call("POST", "/window", {"handle": handle})
        wait_until("Perfetto to load the window", lambda: b.run("return window.app?.trace?.engine !== undefined"), 300)
        c.tutti("export", session, "--format", "pftrace", "--from", "200ms", "--to", "400ms", "-o", c.dir / "out", check=0)
        want = len(Trace((c.dir / f"out/{session}.pftrace").read_bytes()).slices)
        got = int(query(b, "select count(*) from slice")[0][0])
        assert got == want > 100, (got, want)
        assert not query(b, "select name, value from stats where severity in ('error', 'data_loss') and value > 0")
        print(session, "handed over by the page, slices:", got)
    ui.shutdown()


main(test_perfetto, test_jobs, test_handed_over)
