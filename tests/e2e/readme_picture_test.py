# SPDX-License-Identifier: Apache-2.0
"""Takes the picture of the README's first screen: three hosts whose clocks are wrong on purpose, on one time axis, and which of them is
late. It is looked at here, too; with --write it is kept.

    tests/e2e/python.sh tests/e2e/readme_picture_test.py [--write docs/img/page.png]
"""
import argparse
import base64
import os
import pathlib
import re
import shutil
import signal
import socket
import sys
import threading

from lib import traces
from lib.browser import Browser
from lib.cluster import SLOW, Cluster, SkipTest, main, wait_until
from lib.viewer import Page, need_browser

ROOT = pathlib.Path(__file__).resolve().parents[2]
LATE_MS = 20
HOSTS = {"host-a": ("0s", 0), "host-b": ("5s", 0), "host-c": ("-3s", LATE_MS)}  # how wrong their clocks are; how late their jobs, in ms
WIDTH, HEIGHT, SCALE = 1320, 680, 2
STEPS = 2  # that are shown
BYTES_MAX = 300_000

arguments = argparse.ArgumentParser()
arguments.add_argument("--write", type=pathlib.Path, help="a PNG file")
arguments = arguments.parse_args()


class Barrier(threading.Thread):
    """Lets its peers go on when each has sent a byte, again and again until one is gone."""

    def __init__(self, peers):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.peers = peers

    def run(self):
        self.listener.settimeout(30 * SLOW)
        peers = [self.listener.accept()[0] for _ in range(self.peers)]
        for p in peers:
            p.settimeout(30 * SLOW)
        try:
            while all([p.recv(1) for p in peers]):
                for p in peers:
                    p.sendall(b"x")
        except OSError:
            pass  # one of them ended
        for p in peers:
            p.close()


def start_host(c, host, port):
    """A machine with a job and an agent, which sees no process of the others. Its first process is the agent: all end with it."""
    offset, late_ms = HOSTS[host]
    job = f"PYTHONPATH={ROOT}/python {sys.executable} {ROOT}/tests/e2e/late_job.py {port} {late_ms} &"
    unshare = c.agent(host, "--tracers=annotations", "--annotations-look=200ms", f"--test-clock-offset={offset}",
                      prefix=("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", f'{job} exec "$@"', "sh"))
    children = pathlib.Path(f"/proc/{unshare.pid}/task/{unshare.pid}/children")
    pid = int(wait_until("the agent", lambda: children.read_text().split())[0])
    c.closing.append(lambda: os.kill(pid, signal.SIGTERM))  # unshare hands no signal on


def capture(c):
    c.aggregator()
    barrier = Barrier(len(HOSTS))
    barrier.start()
    for host in HOSTS:
        start_host(c, host, barrier.port)
    c.wait_hosts(len(HOSTS))
    wait_until("the jobs", lambda: all("AGT-ANNOTATIONS" in c.log(host) for host in HOSTS))
    doc = c.tutti("capture", "--duration", "2s", "--run", "train", "--json")[1]
    assert [(h["host"], h["state"]) for h in doc["hosts"]] == [(h, "complete") for h in HOSTS], doc["hosts"]
    return doc


def starts_of(doc, host, name):
    return sorted(at for _, _, n, at, _ in traces.events(pathlib.Path(doc["path"]) / f"{host}.xplane.pb") if n == name)


def arrange(p, doc):
    """Two steps, with how much later than host-a's host-c's collective begins as a mark, and as a table. It is the two that other programs of
    this machine disturbed least: neither is long, and in both host-c is as late as it was told to be."""
    steps, early, late = starts_of(doc, "host-a", "train"), starts_of(doc, "host-a", "all-reduce"), starts_of(doc, "host-c", "all-reduce")
    marks = [(at, min(late, key=lambda ps: abs(ps - at))) for at in early]

    def disturbance(i):
        wrong = [abs(end - begin - LATE_MS * 1e9) for begin, end in marks if steps[i] < begin < steps[i + STEPS]]
        return steps[i + STEPS] - steps[i] + sum(wrong)
    at = min(range(1, len(steps) - STEPS - 1), key=disturbance)
    begin, end = next(m for m in marks if m[0] > steps[at])
    margin = (steps[at + STEPS] - steps[at]) * 0.03
    p.show(doc["session"], f"t={round(steps[at] - margin)}_{round(steps[at + STEPS] + margin)}&m={begin}_{end}")
    p.b.press("l")
    wait_until("the hosts", lambda: "All of this name" in p.b.text("#v-panel"))
    p.b.run("document.activeElement.blur()")
    return p.ready()


def check_state(p, state):
    """All of it is there to be seen: three hosts, their steps, the mark, the late one."""
    assert state["shown"] and state["complete"] and not state["coarse"] and not state["missing"] and not state["failure"], state
    _, _, _, height = p.box()
    seen = [r["label"] for r in state["rows"] if r["kind"] == "host" and r["y"] + r["height"] <= height]
    assert seen == list(HOSTS), (seen, height)
    (mark,) = state["marks"]
    assert 10e9 < mark["toPs"] - mark["fromPs"] < 40e9 and state["onScreen"] >= len(HOSTS) * STEPS * 14, state
    rows = p.b.text("#v-late tbody").split("\n")
    assert len(rows) == 3 and re.match(r"host-c\s+(1[5-9]|2\d)[.\d]* ms later", rows[0]), rows
    assert state["find"] == "" and "live" in p.b.text("#link"), p.b.text("#link")


def shares(b, png, bands):
    """How much of each band of the picture, as parts of its height, is of another colour than its most frequent one."""
    b.open("about:blank")
    return b.run(f"""
        const image = new Image();
        image.src = "data:image/png;base64,{base64.b64encode(png).decode()}";
        return image.decode().then(() => {{
            const c = Object.assign(document.createElement("canvas"), {{ width: image.width, height: image.height }}).getContext("2d");
            c.drawImage(image, 0, 0);
            return {bands}.map(([from, to]) => {{
                const words = new Uint32Array(c.getImageData(0, from * image.height, image.width, (to - from) * image.height).data.buffer), counts = new Map();
                for (const w of words) counts.set(w, (counts.get(w) ?? 0) + 1);
                return 1 - Math.max(...counts.values()) / words.length;
            }});
        }});""")


def check_picture(b, p, state, png):
    """No part of it is blank: not the tracks of a host, and not what is above and below them."""
    _, top, _, height = p.box()
    tracks = [(top + r["y"], top + r["y"] + r["height"]) for r in state["rows"] if r["kind"] == "track"]
    assert len(tracks) == len(HOSTS), state["rows"]
    bands = [[y0 / HEIGHT, y1 / HEIGHT] for y0, y1 in [(0, top), *tracks, (top + height, HEIGHT)]]
    parts = shares(b, png, bands)
    assert parts[0] > 0.05 and all(s > 0.4 for s in parts[1:-1]) and parts[-1] > 0.02, parts
    assert len(png) <= BYTES_MAX, len(png)


def test_picture():
    need_browser()
    if os.geteuid() or not shutil.which("unshare"):
        raise SkipTest("machines of their own need root and util-linux")
    with Cluster() as c:
        doc = capture(c)
        b = Browser(c)
        b.cdp("Emulation.setDeviceMetricsOverride", width=WIDTH, height=HEIGHT, deviceScaleFactor=SCALE, mobile=False)
        b.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
        p = Page(c, b)
        state = arrange(p, doc)
        check_state(p, state)
        png = b.picture()
        check_picture(b, p, state, png)
        if arguments.write:
            arguments.write.write_bytes(png)
        print(f"     {len(png)} bytes{f' in {arguments.write}' if arguments.write else ''}")


main(test_picture)
