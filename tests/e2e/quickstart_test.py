# SPDX-License-Identifier: Apache-2.0
"""The README's first command: three hosts complete, wrong clocks put right, files that others decode; its link, and two
keys that lead to the late host."""
import json
import pathlib
import re
import signal
import subprocess
import tempfile

from lib import xspace
from lib.browser import Browser
from lib.cluster import Cluster, main, wait_until
from lib.viewer import Page, need_browser
from lib.xprof import XProf

ROOT = pathlib.Path(__file__).resolve().parents[2]


def quickstart(d, *flags):
    p = subprocess.run([ROOT / "deploy/quickstart.sh", "--once", "--json", "--dir", d, *flags], stdout=subprocess.PIPE,
                       text=True, timeout=900)
    assert p.returncode == 0, p.returncode
    return json.loads(p.stdout)


def test_once_json():
    with tempfile.TemporaryDirectory(prefix="tutti-quickstart-") as d:
        doc = quickstart(d)
        assert set(doc) == {"session", "run", "path", "hosts"}, doc
        assert {h["host"]: h["state"] for h in doc["hosts"]} == dict.fromkeys(("host-a", "host-b", "host-c"), "complete")
        marks = []
        for h in doc["hosts"]:
            assert h["events"] > 0 and h["bytes"] > 0 and h["clock_bound_ns"] > 0, h
            path = pathlib.Path(doc["path"]) / f"{h['host']}.xplane.pb"
            assert path.stat().st_size == h["bytes"]
            assert xspace.protoc_decodes(path)
            space = xspace.load(path)
            assert sum(len(line.events) for line in xspace.plane(space, "/host:CPU").lines) > 0
            assert any(line.name == "_counters_" for pl in space.planes for line in pl.lines)
            xspace.plane(space, "Task Environment")
            marks.append({text: at for text, at in xspace.marks(space).items() if text.startswith("burst ")})
        common = set.intersection(*map(set, marks))
        assert len(common) >= 2, marks
        spread_us = max(max(m[t] for m in marks) - min(m[t] for m in marks) for t in common) / 1e6
        assert spread_us < 1000, spread_us
        print(f"     {json.dumps(doc)}\n     {len(common)} bursts, largest spread {spread_us:.1f} us")


def test_first_five_minutes():
    need_browser()
    with Cluster() as c:
        script = c.start("burst-quickstart", [ROOT / "deploy/quickstart.sh", "--dir", c.dir / "quickstart"])
        link = wait_until("the link", lambda: re.search(r"open (http\S+) in a browser", c.log("burst-quickstart")), 300)[1]
        b = Browser(c)
        b.open(link)
        page = Page(c, b)
        wait_until("the timeline", lambda: b.run("return window.tutti?.state() != null"))
        page.ready()
        b.press("l")
        wait_until("the hosts", lambda: "All of this name" in b.text("#v-panel"))
        late = b.text("#v-late tbody tr")
        assert re.match(r"host-c\s+(1[5-9]|2\d)[.\d]* ms later", late), late
        b.press("Enter")
        state = page.until("its step", lambda s: s["selected"])
        assert state["selected"][0]["name"] == "train", state["selected"]
        print(f"     {' '.join(late.split())}")
        script.send_signal(signal.SIGINT)
        script.wait(60)


def test_on_a_bucket():
    with tempfile.TemporaryDirectory(prefix="tutti-quickstart-") as d:
        doc = quickstart(d, "--store", "s3")
        stored = {p.name: p.read_bytes() for p in (pathlib.Path(d) / "s3/bucket/quickstart/profiles").rglob("*.xplane.pb")}
        fetched = {p.name: p.read_bytes() for p in pathlib.Path(doc["path"]).iterdir()}
        assert stored == fetched and sorted(stored) == ["host-a.xplane.pb", "host-b.xplane.pb", "host-c.xplane.pb"], (sorted(stored), sorted(fetched))
        assert {h["host"]: h["state"] for h in doc["hosts"]} == dict.fromkeys(("host-a", "host-b", "host-c"), "complete")
        assert all(h["bytes"] == len(stored[f"{h['host']}.xplane.pb"]) for h in doc["hosts"])


def test_with_jax():
    with tempfile.TemporaryDirectory(prefix="tutti-quickstart-") as d:
        doc = quickstart(d, "--jax")
        for h in doc["hosts"]:
            space = xspace.load(pathlib.Path(doc["path"]) / f"{h['host']}.xplane.pb")
            jax = sum(name.startswith("PjitFunction(") for p in space.planes for name, *_ in xspace.events(p))
            assert (jax > 0) == (h["host"] in ("host-a", "host-b")), (h, jax)
        check_in_xprof(pathlib.Path(d) / "store/profiles", f"{doc['run']}/{doc['session']}")


def check_in_xprof(logdir, run):
    processes = []

    def start(name, argv):
        processes.append(subprocess.Popen([str(a) for a in argv], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    try:
        x = XProf(start, logdir)
        for host in ("host-a", "host-b"):
            assert len(x.steps(run, host)) > 10, (host, x.steps(run, host))
            assert any(m.startswith("jit_train_step") for m in x.modules(run, host)), (host, x.modules(run, host))
    finally:
        for p in processes:
            p.kill()
            p.wait(20)


main(test_once_json, test_first_five_minutes, test_on_a_bucket, test_with_jax, own_network=False, own_pids=False)  # it may install packages
