# SPDX-License-Identifier: Apache-2.0
"""A session to look at, and the page that shows it, driven by real keys and a real mouse."""
import shutil

from lib import traces
from lib.cluster import SkipTest, wait_until

def capture(c, hosts=2, flags=(), **job):
    """A session of hosts with a training job each; the last one's devices are late by 20 ms. `flags` are the aggregator's."""
    c.aggregator(*flags)
    files = [c.dir / f"job-{i}.pb" for i in range(hosts)]
    for i, file in enumerate(files):
        file.write_bytes(traces.job(seed=i, late_ps=20_000_000_000 if i == hosts - 1 else 0, **job))
    for i, flag in enumerate(c.profilers_of(*files, mode="good")):
        c.agent(f"host-{i}", flag, tracers="profiler,metrics")
    c.wait_hosts(hosts)
    return record(c)


def record(c):
    """One more session of these hosts."""
    doc = c.tutti("capture", "--duration", "1s", "--tracer", "profiler", "--tracer", "metrics", "--json")[1]
    assert doc["failed"] == 0, doc["hosts"]
    return doc["session"]


def stored(c, session, host):
    return traces.events(c.logdir / "plugins/profile" / session / f"{host}.xplane.pb")


def need_browser():
    if not shutil.which("chromedriver") or not shutil.which("chromium"):
        raise SkipTest("chromium and chromedriver are not installed")


class Page:
    """The timeline in a real browser, driven by real keys and a real mouse."""

    def __init__(self, c, b):
        self.c, self.b = c, b

    def show(self, session, query=""):
        """Opens a session by its address, as if for the first time."""
        self.b.open("about:blank")
        self.b.open(f"{self.c.url}/#/s/{session}{'?' + query if query else ''}")
        wait_until("the timeline", lambda: self.b.run("return window.tutti?.state() != null"))
        return self.ready()

    def state(self):
        """Once it is the state that the picture shows: a worker paints it."""
        def shown():
            s = self.b.run("return window.tutti.state()")
            return [s] if not s or s["shown"] else None
        return wait_until("the picture", shown)[0]

    def idle(self):
        s = self.state()
        return s if s and s["idle"] and not s["coarse"] else None

    def ready(self):
        return wait_until("the tiles", self.idle)

    def until(self, what, condition, act=None):
        """Acts, if need be again and again, until the state is as it should be."""
        def there():
            if act:
                act()
            s = self.idle()
            return s if s and condition(s) else None
        return wait_until(what, there)

    def window(self, t0, t1):
        """Goes to this time, by the address, and to the first row. The page may be about to store its own address, and the one
        that is wanted may still be there from before: it is put there until it holds."""
        def go():
            self.b.run(f"const [path, q] = location.hash.split('?'), p = new URLSearchParams(q); p.set('t', '{round(t0)}_{round(t1)}'); p.delete('y'); location.hash = path + '?' + p")
        return self.until("the window", lambda s: abs(s["t0"] - t0) < 10 and abs(s["t1"] - t1) < 10, go)

    def row(self, label, host, kind="track"):
        return next(r for r in self.state()["rows"] if r["kind"] == kind and r["label"] == label and r["host"] == host)

    def box(self):
        """Left, top, width and height of the picture in the window."""
        return self.b.run("const r = document.getElementById('v-canvas').getBoundingClientRect(); return [r.left, r.top, r.width, r.height]")

    def at(self, s, ps):
        """How far from the picture's left edge a time is."""
        return s["gutter"] + (ps - s["t0"]) / (s["t1"] - s["t0"]) * (self.box()[2] - s["gutter"])

    def hits(self, row, lane=0):
        """[(x, y, hit)] of what the pointer meets in a lane of a row, from left to right; folds, too."""
        left, top, width, _ = self.box()
        y = row["y"] + 8 + 15 * lane
        hits, seen = [], set()
        for x, hit in self.b.run(f"const out = []; for (let x = 250; x < {width - 4}; x += 2) {{ const h = window.tutti.hitAt(x, {y}); if (h) out.push([x, h]); }} return out"):
            if (hit["event"], hit["count"]) not in seen:
                seen.add((hit["event"], hit["count"]))
                hits.append((left + x, top + y, hit))
        return hits

    def events_of(self, row, lane=0):
        return [h for h in self.hits(row, lane) if h[2]["count"] == 1]

    def clear(self, name):
        """Empties a field, and selects nothing."""
        self.b.run(f"const f = document.getElementById('{name}'); f.value = ''; f.dispatchEvent(new Event('input')); f.blur()")
        self.b.press("Esc")

    def whole(self):
        """The whole session, nothing selected."""
        self.b.press("Esc", "0")
        return self.until("the whole session", lambda s: not s["selected"] and s["t0"] <= 0)
