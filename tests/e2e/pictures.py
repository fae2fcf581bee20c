# SPDX-License-Identifier: Apache-2.0
"""Takes a picture of every screen of the page and of its states, at two sizes, light and dark. Run by tests/viewer.sh screenshots.

    pictures.py DIRECTORY [NAME...]      # only the pictures whose names begin so
"""
import itertools
import pathlib
import sys

from lib import traces
from lib.browser import Browser
from lib.cluster import Cluster, free_port, main, wait_until
from lib.viewer import Page, need_browser

SIZES = {"720": (1280, 720), "1080": (1920, 1080), "zoomed": (320, 256)}  # the last one: 400 % of 1280 x 1024
OUT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "pictures")
WANTED = sys.argv[2:]


class Camera:
    def __init__(self, c, b, p):
        self.c, self.b, self.p = c, b, p

    def take(self, name, prepare=lambda: None):
        """One picture for each size and theme; what is prepared stays."""
        if WANTED and not any(name.startswith(w) for w in WANTED):
            return
        prepare()
        for (size, (width, height)), theme in itertools.product(SIZES.items(), ("light", "dark")):
            self.b.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
            self.b.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
            if self.b.run("return !document.getElementById('viewer').hidden && window.tutti.state() !== null"):
                self.p.ready()
            self.b.run("return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
            (OUT / f"{name}-{size}-{theme}.png").write_bytes(self.b.picture())
        self.b.cdp("Emulation.setDeviceMetricsOverride", width=1280, height=720, deviceScaleFactor=1, mobile=False)
        print(f"     {name}", flush=True)

    def go(self, address, shows, where="body"):
        self.b.open("about:blank")
        self.b.open(f"{self.c.url}/{address}")
        wait_until(shows, lambda: shows in self.b.text(where))


def start(c):
    """A fleet with wrong clocks, one lost host, one whose profiler does not answer, and jobs whose last one is late."""
    files = [c.dir / f"job-{i}.pb" for i in range(3)]
    for i, file in enumerate(files):
        file.write_bytes(traces.job(seed=i, late_ps=20_000_000_000 if i == 2 else 0))
    for i, (flag, offset) in enumerate(zip(c.profilers_of(*files, mode="good"), ("0s", "5s", "-3ms"))):
        c.agent(f"host-{i}", flag, "--label", f"rack=r{i // 2}", "--label", "job=train", "--label", f"rank={i}", "--test-clock-offset", offset, tracers="all")
    c.agent("host-3", f"--profiler=127.0.0.1:{free_port()}", "--label", "rack=r1", tracers="all")
    c.agent("host-lost", "--label", "rack=r9")
    c.wait_hosts(5)
    c.kill("host-lost")
    wait_until("the loss", lambda: c.hosts()["host-lost"]["state"] == "lost", 60)


def sessions(c):
    """All hosts, one of them lost; then two ranks, twice, of two runs."""
    c.tutti("capture", "--duration", "1s", "--run", "nightly", "--json")
    return [c.tutti("capture", "--duration", "1s", "--hosts", "host-0,host-2", "--run", run, "--json")[1]["session"] for run in ("before", "after")] + \
        [s["session"] for s in c.get("/api/v1/sessions")["sessions"] if s["run"] == "nightly"]


def timeline(camera, session):
    b, p = camera.b, camera.p
    camera.go(f"#/s/{session}", "window", ".status")
    p.ready()
    camera.take("timeline-whole")

    def event():
        b.press("/")
        b.press(*"all-reduce", "Enter")
        p.until("an event", lambda s: s["selected"])
        b.press("f")
    camera.take("timeline-event", event)
    camera.take("timeline-flows", lambda: (b.press("0", "v"), p.until("arrows", lambda s: s["links"])))
    camera.take("timeline-late", lambda: (p.clear("v-find"), b.press("v", "0", "l"), wait_until("the hosts", lambda: b.text("#v-late"))))
    camera.take("timeline-search", lambda: (b.press("Esc", "/"), b.press(*"fusion"), wait_until("matches", lambda: "match" in b.text("#v-hits"))))
    camera.take("timeline-nothing-found", lambda: (b.press(*"xyz"), wait_until("no match", lambda: "no match" in b.text("#v-hits"))))
    camera.take("timeline-sums", lambda: (p.clear("v-find"), b.press("x"), wait_until("the sums", lambda: "in the box" in b.text("#v-panel"))))
    camera.take("timeline-flame", lambda: (b.press("Esc", "g"), wait_until("the flame", lambda: "Flame" in b.text("#v-panel"))))
    camera.take("keys", lambda: (b.press("Esc", "?"), wait_until("the keys", lambda: "Everywhere" in b.text("#keys"))))
    b.press("Esc")


def dialogs(camera, c):
    b = camera.b
    camera.go("", "nightly", "#sessions")
    camera.take("capture-now", lambda: (b.press("c"), wait_until("the dialog", lambda: "Hosts" in b.text("#capture")), b.press("Right", ",", "!", "r")))
    camera.take("capture-step", lambda: (b.press("Esc"), b.run("document.querySelector('#k-form [value=step]').click()")))
    camera.take("capture-last", lambda: b.run("document.querySelector('#k-form [value=last]').click()"))

    def running():
        b.run("document.querySelector('#k-form [value=now]').click(); for (const [k, v] of [['hosts', 'all'], ['duration', '600']]) { const f = document.querySelector(`#k-form [name=${k}]`);"
              " f.value = v; f.dispatchEvent(new Event('input')); } document.querySelector('#k-begin').click()")
        wait_until("the capture", lambda: "running" in b.text("#capture .progress"))
    camera.take("capture-running", running)
    camera.take("sessions-running", lambda: b.press("Esc"))
    for capture in (x for x in c.get("/api/v1/captures")["captures"] if x["state"] == "running"):
        c.tutti("stop", capture["session"])
        b.run("document.querySelector('#running button')?.click()")
        wait_until("the end", lambda: c.get(f"/api/v1/captures/{capture['session']}")["state"] == "committed", 60)
    camera.take("capture-ended")
    b.press("Esc")


def test_pictures():
    need_browser()
    OUT.mkdir(parents=True, exist_ok=True)
    with Cluster() as c:
        c.aggregator()
        b = Browser(c, size="1280,860")
        p = Page(c, b)
        camera = Camera(c, b, p)
        camera.go("", "No session yet", "#sessions")
        camera.take("sessions-none")
        camera.go("#/hosts", "No agent has connected", "#hosts")
        camera.take("cluster-none")
        start(c)
        before, after, nightly = sessions(c)
        camera.go("", "nightly", "#sessions")
        camera.take("sessions")
        camera.take("sessions-files", lambda: (b.run("document.querySelectorAll('#sessions td.verbs button')[6].click()"), wait_until("the files", lambda: "xplane.pb" in b.text("#sessions"))))
        camera.take("sessions-deleted", lambda: b.run("document.querySelectorAll('#sessions td.verbs button')[2].click()"))
        b.run("document.querySelector('#s-note button')?.click()")  # Undo
        camera.go("#/hosts", "host-lost", "#hosts")
        camera.take("cluster")
        timeline(camera, nightly)
        camera.go("#/compare", "Choose two sessions", "#compare")
        camera.take("compare-none")
        camera.go(f"#/compare?a={before}&b={after}", "copy as CSV", "#compare")
        camera.take("compare")
        camera.go("#/s/2020_01_01_00_00_00_aaaaaa", "Try again", "#v-notices")
        camera.take("timeline-unknown")
        dialogs(camera, c)
        camera.go(f"#/s/{nightly}", "window", ".status")
        p.ready()
        c.processes["aggregator"].terminate()
        c.processes["aggregator"].wait(20)

        def lost():
            b.press("w", hold_ms=900)
            wait_until("the notice", lambda: "connection lost" in b.text("#v-note"))
        lost()
        (OUT / "timeline-connection-lost.png").write_bytes(b.picture())
        b.close()


main(test_pictures)
