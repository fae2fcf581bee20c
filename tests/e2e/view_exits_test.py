# SPDX-License-Identifier: Apache-2.0
"""From the page to other viewers: a window handed to Perfetto (check 17; a stand-in that speaks its protocol), or the middle of one
that is too large; a link to XProf."""
import base64
import http.server
import json
import subprocess
import threading
import urllib.parse

from lib import traces, xspace
from lib.browser import Browser
from lib.cluster import BIN, Cluster, main, wait_until
from lib.pftrace import Trace
from lib.view import View
from lib.viewer import Page, capture, need_browser

LARGE = 28_000  # events

# As Perfetto's page does: PING is answered with PONG once it is ready, then a trace is taken.
STAND_IN = b"""<!doctype html><title>stand-in</title><script>
window.pings = 0; window.got = null;
window.addEventListener('message', (ev) => {
  if (ev.data === 'PING') { if (++window.pings >= 3) ev.source.postMessage('PONG', ev.origin); return; }
  const p = ev.data.perfetto; if (!p) return;
  let text = ''; if (p.buffer.byteLength < 10e6) for (const b of new Uint8Array(p.buffer)) text += String.fromCharCode(b);
  window.got = { title: p.title, fileName: p.fileName, localOnly: p.localOnly, data: btoa(text), size: p.buffer.byteLength, origin: ev.origin };
});
</script>"""


class StandIn(http.server.ThreadingHTTPServer):
    def __init__(self):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(STAND_IN)))
                self.end_headers()
                self.wfile.write(STAND_IN)

            def log_message(self, *args):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_port}"


def got(c, b, page):
    """What the window that opened was given; then it is closed."""
    handle = wait_until("the window", lambda: next((h for h in b.call("GET", "/window/handles") if h != page), None))
    b.call("POST", "/window", {"handle": handle})
    doc = wait_until("the trace", lambda: b.run("return window.got"))
    where = b.run("return location.href")
    b.call("DELETE", "/window")
    b.call("POST", "/window", {"handle": page})
    return doc, where


def sums(trace):
    """Slices without their numbers of flows, which have no order."""
    return sorted((path, name, begin, end) for path, name, begin, end, *_ in trace.slices)


def exported(c, session, *flags):
    c.tutti("export", session, "--format", "pftrace", "-o", c.dir / "out", *flags, check=0)
    return Trace((c.dir / f"out/{session}.pftrace").read_bytes())


def test_perfetto():
    need_browser()
    ui = StandIn()
    with Cluster() as c:
        session = capture(c, flags=[f"--perfetto-url={ui.url}/"])
        v = View(c, session)
        b = Browser(c, "1400,900")
        page = b.call("GET", "/window")
        p = Page(c, b)
        p.show(session)
        low, high = 200_000_000_000, 400_000_000_000
        p.window(low, high)
        b.run("window.said = []; const note = document.getElementById('v-note'); new MutationObserver(() => window.said.push(note.textContent)).observe(note, {childList: true})")
        b.run("document.getElementById('v-perfetto').click()")
        doc, where = got(c, b, page)
        assert doc["localOnly"] and doc["title"] == session and doc["fileName"] == f"{session}.pftrace", doc
        assert f"visStart={v.doc['t0_ns'] + low // 1000}" in where or "visStart=" in where, where
        ours, theirs = Trace(base64.b64decode(doc["data"])), exported(c, session, "--from", "200ms", "--to", "400ms")
        assert sums(ours) == sums(theirs) and len(ours.slices) > 100, (len(ours.slices), len(theirs.slices))
        assert {k: sorted(x) for k, x in ours.counters.items()} == {k: sorted(x) for k, x in theirs.counters.items()}
        wait_until("the note", lambda: any("Perfetto has the window" in text for text in b.run("return window.said")))

        # The link of a colleague wants one click, and is done then.
        p.show(session, f"t={low}_{high}&perfetto=1")
        wait_until("the offer", lambda: "opens the window in Perfetto" in b.text("#v-notices"))
        b.run("[...document.querySelectorAll('#v-notices button')].find(x => x.textContent === 'Open it').click()")
        again, _ = got(c, b, page)
        assert again["data"] == doc["data"]
        assert "opens the window in Perfetto" not in b.text("#v-notices")
        wait_until("an address without it", lambda: "perfetto" not in b.run("return location.hash"))

        # The same window as JSON has the same events.
        _, data = v.fetch(f"/trace?build={v.doc['build']}&from_ps={low}&to_ps={high}&format=json")
        assert sum(e["ph"] == "X" and e.get("dur", 0) > 0 for e in json.loads(data)["traceEvents"]) == sum(end > begin for _, _, begin, end in sums(ours))
        for bad in ("format=xspace", "from_ps=x"):
            status, why = c.call("GET", f"/api/v1/sessions/{session}/view/trace?build={v.doc['build']}&to_ps=1&{bad}")
            assert status == 400 and why["error"], (bad, status, why)
        b.close()
    ui.shutdown()


def large(path):
    """An XSpace whose events have 4 kB of text each: with them Perfetto's file is larger than what the page hands over."""
    space = xspace.message_class("tensorflow/xplane.proto", "tensorflow.profiler.XSpace")()
    plane = traces.Plane(space.planes.add(id=1, name="/host:CPU"))
    line, text = plane.line("python3"), plane.id(plane.plane.stat_metadata, "long")
    for i in range(LARGE):
        plane.event(line, "call", i * 10_000_000, 9_000_000)
        line.events[-1].stats.add(metadata_id=text, str_value=f"{i:4000}")
    path.parent.mkdir(parents=True)
    path.write_bytes(space.SerializeToString())


def test_too_large():
    """Of a window that is too large for Perfetto the page offers the middle, which fits."""
    need_browser()
    ui = StandIn()
    with Cluster() as c:
        c.aggregator(f"--perfetto-url={ui.url}/")
        large(c.dir / "in/plugins/profile/2025_11_01/host-0.xplane.pb")
        c.tutti("import", str(c.dir / "in"), check=0)
        session = c.get("/api/v1/sessions")["sessions"][0]["session"]
        b = Browser(c, "1400,900")
        page = b.call("GET", "/window")
        p = Page(c, b)
        s = p.show(session)
        b.run("document.getElementById('v-perfetto').click()")
        wait_until("the offer", lambda: f"{LARGE:,} events are too much for Perfetto: it is given 100 MB at most" in b.text("#v-notices"), 60)
        wait_until("one window", lambda: b.call("GET", "/window/handles") == [page])
        b.run("[...document.querySelectorAll('#v-notices button')].find(x => x.textContent.startsWith('Open the ')).click()")
        doc, where = got(c, b, page)
        now = p.ready()
        assert 40e6 < doc["size"] <= 100e6 and doc["title"] == session, (doc["size"], doc["title"])
        assert abs((now["t0"] + now["t1"]) - (s["t0"] + s["t1"])) < 1e6 and now["t1"] - now["t0"] < 0.51 * (s["t1"] - s["t0"]), (s["t0"], s["t1"], now["t0"], now["t1"])
        assert "visStart=" in where and "too much" not in b.text("#v-notices")
        b.close()
    ui.shutdown()


def test_no_viewer():
    """What answers is no Perfetto, or there is none."""
    need_browser()
    with Cluster() as c:
        session = capture(c, flags=["--perfetto-url="])
        b = Browser(c, "1400,900")
        p = Page(c, b)
        p.show(session, "perfetto=1")
        assert b.run("return document.getElementById('v-perfetto')") is None and "Perfetto" not in b.text("#v-notices")
        assert b.run("return document.getElementById('v-xprof')") is None
        b.close()
    for flag in ("--xprof-url=javascript:alert(1)", "--perfetto-url=//host"):
        done = subprocess.run([BIN / "tutti-aggregator", flag], capture_output=True, text=True, timeout=60)
        assert done.returncode and "use http" in done.stderr, done


def check_graph(c, b, p):
    """An operation of XLA has a link to its place in XProf's graph; its name is text."""
    space = xspace.message_class("tensorflow/xplane.proto", "tensorflow.profiler.XSpace")()
    plane = traces.Plane(space.planes.add(id=1, name="/device:GPU:0"))
    line = plane.line("XLA Ops")
    plane.event(line, "fusion", 1_000_000, 900_000_000)
    for key, text in (("hlo_op", "fusion.1&tag=<b>"), ("hlo_module", "jit_step")):
        line.events[0].stats.add(metadata_id=plane.id(plane.plane.stat_metadata, key), str_value=text)
    folder = c.dir / "graph/plugins/profile/2025_11_02"
    folder.mkdir(parents=True)
    (folder / "host-0.xplane.pb").write_bytes(space.SerializeToString())
    session = c.tutti("import", str(c.dir / "graph"), "--json", check=0)[1]["sessions"][0]["session"]
    p.show(session)
    x, y, _ = p.events_of(p.row("XLA Ops", "host-0"))[0]
    b.drag(x, y, x, y)
    href = wait_until("the link", lambda: b.run("return [...document.querySelectorAll('#v-panel a')].find(a => a.textContent === 'its graph in XProf')?.href"))
    base, query = href.split("?")
    assert base == "http://127.0.0.1:1/xprof/" and dict(urllib.parse.parse_qsl(query)) == {
        "run": session, "tag": "graph_viewer", "host": "host-0", "node_name": "fusion.1&tag=<b>", "module_name": "jit_step"}, href


def test_xprof():
    """The link names the run as XProf does, also that of a run."""
    need_browser()
    with Cluster() as c:
        session = capture(c, flags=["--xprof-url=http://127.0.0.1:1/xprof/"])
        named = c.tutti("capture", "--duration", "200ms", "--run", "nightly", "--tracer", "profiler", "--json")[1]["session"]
        b = Browser(c, "1400,900")
        p = Page(c, b)
        want = {session: f"http://127.0.0.1:1/xprof/?run={session}&tag=trace_viewer%40", named: f"http://127.0.0.1:1/xprof/?run=nightly%2F{named}&tag=trace_viewer%40"}
        b.open(f"{c.url}/#/")
        for s, address in want.items():
            wait_until("the link", lambda: b.run(f"return document.querySelector('[data-session=\"{s}\"] td.verbs a')?.href") == address)
            p.show(s)
            wait_until("the link", lambda: b.run("return document.getElementById('v-xprof')?.href") == address)
            assert b.run("return document.getElementById('v-xprof').rel") == "noopener"
            b.open(f"{c.url}/#/")
        check_graph(c, b, p)
        b.close()


main(test_perfetto, test_too_large, test_no_viewer, test_xprof)
