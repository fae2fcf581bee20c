# SPDX-License-Identifier: Apache-2.0
"""Strange screens: a path prefix behind a proxy, 400 % zoom, colours that the system forces; a session with
counters; an event without a length; and a track of many rows."""
import http.client
import http.server
import threading

from lib import traces, xspace
from lib.browser import Browser
from lib.cluster import Cluster, main, wait_until
from lib.viewer import Page, capture, need_browser, record, stored

PREFIX = "/tools/tutti"


class Proxy(http.server.ThreadingHTTPServer):
    """What is below PREFIX is the aggregator's; everything else is another server's."""

    daemon_threads = True

    def __init__(self, port):
        outer = self
        self.strays = []  # requests beside PREFIX

        class Handler(http.server.BaseHTTPRequestHandler):
            def forward(self):
                if not self.path.startswith(PREFIX + "/"):
                    outer.strays.append(self.path)
                    return self.send_error(404)
                conn = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
                headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection", "origin")}
                conn.request(self.command, self.path[len(PREFIX):], self.rfile.read(int(self.headers.get("Content-Length", 0))), headers)
                answer = conn.getresponse()
                self.send_response_only(answer.status)
                for k, v in answer.getheaders():
                    if k.lower() not in ("connection", "transfer-encoding"):
                        self.send_header(k, v)
                self.send_header("Connection", "close")
                self.end_headers()
                while data := answer.read1(65536):  # an event stream has no end
                    self.wfile.write(data)
                    self.wfile.flush()

            def do_GET(self):
                try:
                    self.forward()
                except OSError:
                    pass  # the browser or the aggregator is gone

            do_POST = do_DELETE = do_GET

            def log_message(self, *args):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_port}{PREFIX}"


def check_prefix(c, b, p, session):
    """All parts of the page work below a path, and ask for nothing outside of it."""
    proxy = Proxy(c.http)
    b.open(f"{proxy.url}/")
    wait_until("the list", lambda: session in b.text("#sessions"))
    wait_until("the stream", lambda: "live" in b.text("#link"))
    b.run(f"document.querySelector('[data-session=\"{session}\"] a.id').click()")
    wait_until("the timeline", lambda: b.run("return window.tutti?.state() != null"))
    assert p.ready()["onScreen"] > 100
    b.press("x")
    wait_until("the sums", lambda: "in the box" in b.text("#v-panel"))
    b.open(f"{proxy.url}/#/hosts")
    wait_until("the hosts", lambda: "host-0" in b.text("#hosts"))
    assert [s for s in proxy.strays if s != "/favicon.ico"] == [], proxy.strays
    proxy.shutdown()


def check_zoomed(c, b, session):
    """400 % of 1280 x 1024: no page scrolls sideways, and each has its content."""
    b.cdp("Emulation.setDeviceMetricsOverride", width=320, height=256, deviceScaleFactor=4, mobile=False)
    for address, where, what in (("#/", "#sessions", session), ("#/hosts", "#hosts", "host-0"), (f"#/compare?a={session}&b={session}", "#compare", "copy as CSV"), (f"#/s/{session}", ".status", "drawn")):
        b.open("about:blank")
        b.open(f"{c.url}/{address}")
        wait_until(address, lambda: what in b.text(where))
        assert b.run("return document.documentElement.scrollWidth <= innerWidth"), (address, b.run("return document.documentElement.scrollWidth"))
    b.press("c")
    wait_until("the dialog", lambda: "Hosts" in b.text("#capture"))
    assert b.run("const r = document.querySelector('dialog[open]').getBoundingClientRect(); return r.left >= 0 && r.right <= innerWidth")
    b.press("Esc")
    b.cdp("Emulation.clearDeviceMetricsOverride")


def check_narrow(p, session):
    """A window that is narrower than the names at the left, as one of several beside each other may be, still has a picture and a ruler."""
    for width in (110, 60):
        p.b.cdp("Emulation.setDeviceMetricsOverride", width=width, height=300, deviceScaleFactor=1, mobile=False)
        s = p.show(session)
        assert 0 < s["gutter"] < width and s["onScreen"], s["gutter"]
    p.b.cdp("Emulation.clearDeviceMetricsOverride")


PIXELS = """const c = document.getElementById('v-canvas'), r = devicePixelRatio, at = (x, y, w, h) => c.getContext('2d').getImageData(x * r, y * r, w * r, h * r).data, colors = (d) => {
            const out = {}; for (let i = 0; i < d.length; i += 4) { const k = `rgb(${d[i]}, ${d[i + 1]}, ${d[i + 2]})`; out[k] = (out[k] ?? 0) + 1; } return out; };"""


def check_forced(p, session):
    """The picture has the system's own colours where it had the page's: ground and text."""
    p.show(session)
    for theme in ("light", "dark"):
        p.b.cdp("Emulation.setEmulatedMedia", features=[{"name": "forced-colors", "value": "active"}, {"name": "prefers-color-scheme", "value": theme}])
        wait_until("the system's colours", lambda: p.b.run("return matchMedia('(forced-colors: active)').matches"))
        s = p.ready()
        ground, ink = p.b.run("const e = document.body.appendChild(document.createElement('span')), out = []; e.style.forcedColorAdjust = 'none';"
                                    "for (const c of ['Canvas', 'CanvasText']) { e.style.color = c; out.push(getComputedStyle(e).color); } e.remove(); return out")
        gutter = f"{PIXELS} return colors(at(0, 70, {s['gutter']} - 2, 300))"  # the page's own light ground is the system's, too: the text tells
        wait_until(f"{ground} and {ink}", lambda: (g := p.b.run(gutter)) and max(g, key=g.get) == ground and g.get(ink, 0) > 50)
        events = p.b.run(f"{PIXELS} return colors(at({s['gutter']}, 70, 600, 300))")
        assert len(events) > 8, events  # names keep their colours: they tell events apart
    p.b.cdp("Emulation.setEmulatedMedia", features=[])


def check_overview(p):
    """The strip on top is how busy the tracks are: where no event is it is empty, whatever counters there are."""
    end_of = lambda session: max(start + length for host in ("host-0", "host-1") for *_, start, length in stored(p.c, session, host))
    early = lambda: [s for s in p.c.get("/api/v1/sessions")["sessions"] if s["duration_ns"] == 10**9 and end_of(s["session"]) < 0.9e12]
    if not early():  # what a busy machine lost is an event, too, maybe up to the end
        wait_until("a session of which nothing is lost", lambda: record(p.c) and early(), 60)
    session = early()[0]["session"]
    s = p.show(session)
    end, whole = end_of(session), s["t1"]
    assert end < 0.9 * whole and any(r["label"].startswith("cpu ") for r in s["rows"]), (end, whole)
    seen = lambda low, high: p.b.run(f"{PIXELS} return Object.keys(colors(at({p.at(s, low)}, 8, {p.at(s, high) - p.at(s, low)}, 16)))")
    busy, idle = seen(0.1 * end, 0.9 * end), seen(end + 0.02 * whole, 0.98 * whole)
    assert len(busy) > 1 and len(idle) == 1, (busy, idle)


def imported(c, name, line, events, losses=(), more=()):
    """A session of one host with one track, and the spans in which records of it are missing; events are (name, start_ps, length_ps).
    `more`: further planes, each (name, {line: [(name, start_ps, length_ps, stats)]})."""
    space = xspace.message_class("tensorflow/xplane.proto", "tensorflow.profiler.XSpace")()
    for i, (title, lines) in enumerate((("/host:CPU", {line: events}), ("/host:CPU lost marks", {"lost": losses}), *more)):
        if not any(lines.values()):
            continue
        plane = traces.Plane(space.planes.add(id=i + 1, name=title))
        for track, given in lines.items():
            track = plane.line(track)
            for event in given:
                plane.event(track, *event[:3], **(event[3] if len(event) > 3 else {}))
    folder = c.dir / name / "plugins/profile/2025_11_01"
    folder.mkdir(parents=True)
    (folder / "host-0.xplane.pb").write_bytes(space.SerializeToString())
    before = {s["session"] for s in c.get("/api/v1/sessions")["sessions"]}
    c.tutti("import", str(c.dir / name), check=0)
    return next(s["session"] for s in c.get("/api/v1/sessions")["sessions"] if s["session"] not in before)


def check_instant(c, b, p):
    """`f` on an event without a length shows its surroundings; it keeps its place in the middle."""
    p.show(imported(c, "instants", "marks", [(f"mark {i}", 5_000_000_000 + i * 1_000_000_000, 0) for i in range(40)]))
    row = p.row("marks", "host-0")
    hits = p.events_of(row)
    assert len(hits) >= 38, len(hits)  # those at the edges are not under the pointer
    x, y, hit = hits[7]
    b.drag(x, y, x, y)
    e = p.until("the instant", lambda s: s["selected"])["selected"][0]
    assert (e["durationPs"], e["name"]) == (0, f"mark {e['event']}"), e
    b.press("f")
    s = p.until("its surroundings", lambda s: s["t1"] - s["t0"] < 1e9)
    assert abs((s["t0"] + s["t1"]) / 2 - e["startPs"]) < 1000 and s["t1"] - s["t0"] == 1e8 and s["onScreen"] == 1, (s["t0"], s["t1"], s["onScreen"], e)


def check_losses(c, b, p):
    """Where records are missing there is a hatch: on the track that says so, and on the host's line."""
    lost = 15_000_000_000, 10_000_000_000
    p.show(imported(c, "losses", "marks", [(f"mark {i}", 5_000_000_000 + i * 1_000_000_000, 0) for i in range(40) if not 10 <= i < 20], [("10 marks lost", *lost)]))
    s = p.ready()
    hatched = lambda row, ps: len(p.b.run(f"{PIXELS} return Object.keys(colors(at({p.at(s, ps)}, {row['y'] + 3}, 12, 10)))")) > 1
    for label in ("host-0", "lost"):
        row = next(r for r in s["rows"] if r["label"] == label)
        assert [hatched(row, ps) for ps in (12e9, 16e9, 24e9, 26e9)] == [False, True, True, False], label
    assert not hatched({"y": 5}, 18e9), "in the strip that shows how busy hosts are"


def check_odd_losses(c, b, p):
    """Losses over each other, one on each of many tracks, and without a length; planes that only look like those of losses. A hatch
    stays one; it says what is lost, and a click leads to the track."""
    second = 1_000_000_000_000
    switches = [(f"{i} context switches lost", 2 * second + i * second // 10, 3 * second) for i in range(20)]
    fakes = [("/host:CPU lostandfound", {"a": [("a", 8 * second, second)]}), ("/host:CPU lost counters", {"_counters_": [("n", i * second, 0, {"v": 1000 * i}) for i in range(1, 10)]})]
    more = [("/host:CPU lost context switches", {"lost": switches}), ("/host:CPU lost samples", {f"lost {i}": [("1 samples lost", 4 * second, second)] for i in range(600)}), *fakes]
    p.show(imported(c, "odd", "marks", [(f"mark {i}", i * second // 10, 0) for i in range(101)], [("1 marks lost", second, 0), ("7 marks lost", 3 * second, 4 * second)], more))
    for theme in ("dark", "light"):
        b.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        wait_until("the theme", lambda: b.run("return document.documentElement.dataset.theme") == theme)
        s = p.ready()
        rows = {r["label"]: r for r in s["rows"]}
        seen = lambda label, at: p.b.run(f"{PIXELS} return Object.keys(colors(at({p.at(s, at * second)}, {rows[label]['y'] + 3}, 12, 10))).sort()")
        once = seen("host-0", 6.5)
        assert len(once) > 1 and seen("host-0", 4.2) == once == seen("host-0", 2.5), (theme, once, seen("host-0", 4.2))
        assert len(seen("host-0", 1)) > 1, "a loss without a length"
        assert [len(seen("host-0", at)) for at in (0.5, 1.5, 7.5, 8.5, 9.5)] == [1] * 5, "where nothing is lost"
    left, top, *_ = p.box()
    host = rows["host-0"]
    b.hover(left + p.at(s, 6.5 * second), top + host["y"] + 12)
    wait_until("what is lost", lambda: b.text("#v-tip") == "7 marks lost · 4 s")
    key = host["key"]
    b.run(f"location.hash = location.hash.split('?')[0] + '?open={key}'")
    p.until("a closed host", lambda s: len(s["rows"]) == 1)
    b.drag(left + p.at(s, 6.5 * second), top + host["y"] + 12, left + p.at(s, 6.5 * second), top + host["y"] + 12)
    p.until("the loss", lambda s: s["selected"] and s["selected"][0]["name"] == "7 marks lost" and len(s["rows"]) > 1)
    b.press("p")
    p.until("the loss on top", lambda s: s["pinned"] and s["rows"][0]["kind"] == "track")
    s = p.ready()
    assert len(p.b.run(f"{PIXELS} return Object.keys(colors(at({p.at(s, 6.5 * second)}, {s['rows'][0]['y'] + 3}, 12, 10)))")) > 1
    b.press("p", "Esc")
    p.until("the host's line", lambda s: s["row"] == key, lambda: b.press("k"))
    assert "records are missing, open" in b.text("#v-live"), b.text("#v-live")


def check_deep(c, b, p):
    """A track that is opened whole shows rows that no tile had before; closed and opened again, the same."""
    rows, shown = 20, 12
    p.show(imported(c, "deep", "calls", [(f"call {i}", i * 1_000_000_000, (2 * rows - 2 * i) * 1_000_000_000) for i in range(rows)]))
    p.until("the first rows", lambda s: s["onScreen"] == shown)
    row = p.row("calls", "host-0")
    left, top, *_ = p.box()
    for want in (rows, shown, rows):
        b.drag(left + 60, top + row["y"] + 8, left + 60, top + row["y"] + 8)
        p.until(f"{want} rows", lambda s, want=want: s["onScreen"] == want and p.row("calls", "host-0")["shown"] == want)


def test_screens():
    need_browser()
    with Cluster() as c:
        session = capture(c)
        b = Browser(c, size="1280,900")
        p = Page(c, b)
        check_prefix(c, b, p, session)
        check_zoomed(c, b, session)
        check_narrow(p, session)
        check_forced(p, session)
        check_overview(p)
        check_instant(c, b, p)
        check_losses(c, b, p)
        check_odd_losses(c, b, p)
        check_deep(c, b, p)
        b.close()


if __name__ == "__main__":
    main(test_screens)
