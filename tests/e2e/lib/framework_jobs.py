# SPDX-License-Identifier: Apache-2.0
"""Jobs of frameworks for tests that capture them, the checks of their sessions, and the table of what came of it."""
import pathlib
import statistics
import time

from lib import xspace
from lib.cluster import wait_until

E2E = pathlib.Path(__file__).resolve().parents[1]
POLL_S = 5  # a PyTorch process asks its daemon so often


class Table:
    """Rows are printed as they are made."""
    def __init__(self):
        self.failed = 0

    def check(self, framework, what, fn):
        try:
            result = fn() or "ok"
        except Exception as e:  # every check of the table is made
            result = f"FAILED: {type(e).__name__}: {str(e)[:1000]}"
            self.failed += 1
        print(f"{framework:20} {what:34} {result}", flush=True)


def launch_job(c, python, job, *flags, name="job", env=None):
    c.start(name, [python, E2E / job, "--port-file", c.dir / f"{name}.port", "--seconds", "600", *flags], env=env)


def wait_job(c, name="job"):
    """What it published when it was ready."""
    port_file = c.dir / f"{name}.port"
    wait_until("the job", port_file.exists, 180)
    return port_file.read_text().strip()


def start_job(c, *job, name="job", **more):
    launch_job(c, *job, name=name, **more)
    return wait_job(c, name)


def check_complete(h):
    assert (h["state"], h["reason"]) == ("complete", ""), (h["state"], h["reason"], h["detail"])


def capture_as_is(c, *flags, seconds=2):
    """(session, host's result, file)"""
    _, doc = c.tutti("capture", "--duration", f"{seconds}s", "--json", *flags, timeout=600)
    assert isinstance(doc, dict) and doc.get("hosts"), c.stderr
    (h,) = doc["hosts"]
    return doc, h, c.logdir / "plugins/profile" / doc["session"] / h["file"]


def capture(c, *flags, seconds=2):
    doc, h, file = capture_as_is(c, *flags, seconds=seconds)
    check_complete(h)
    return doc, h, file


def logged(c, name):
    """{step: (begin, end)} of a job's own log, Unix ns."""
    rows = [line.split() for line in (c.dir / f"{name}.steps").read_text().splitlines()]
    return {int(r[0]): (int(r[1]), int(r[2])) for r in rows if len(r) == 3}


def annotated(space, pid):
    """{step: begin} of the PyTorch job's annotations, ns since T0."""
    return {int(name.split()[1]): at / 1000 for p in space.planes if xspace.stats(p).get("process_id") == pid
            for name, at, _, _ in xspace.events(p) if name.startswith("train ")}


def check_times(doc, truth, found):
    """Events begin after the log's stamp; half of them less than 1 ms after it."""
    off = [doc["t0_ns"] + at - truth[step][0] for step, at in found.items()]
    assert len(off) >= 5, len(off)
    assert 0 < statistics.median(off) < 1e6 and min(off) > -1e6, [o / 1e6 for o in sorted(off)]
    return f"{len(off)} steps, {statistics.median(off) / 1e3:.0f} us after their log, {max(off) / 1e3:.0f} us at most"


def step_to_come(c, seconds):
    """The number of a step that comes in so many seconds, as fast as the last ones were."""
    log = logged(c, "torch")
    last = max(log)
    a, b = log[max(0, last - 200)][0], log[last][0]
    return last + round(seconds * min(last, 200) / ((b - a) / 1e9))


def check_begin(doc, truth, found):
    """Each step that began 5 ms after T0 or later, and ended in the window, is there."""
    wanted = {n for n, (begin, end) in truth.items()
              if begin >= doc["t0_ns"] + 5_000_000 and end < doc["t0_ns"] + doc["duration_ns"]}
    assert wanted and wanted <= set(found), f"{len(wanted - set(found))} of {len(wanted)} steps are missing"
    return f"all {len(wanted)} steps from T0 + 5 ms on"


def check_operators(space):
    names = [e[0] for p in space.planes for e in xspace.events(p) if e[0].startswith("aten::")]
    assert {"aten::linear", "aten::mm", "aten::cross_entropy_loss"} <= set(names), set(names)
    return f"{len(names)} operators"


def check_steps(c, p, first):
    doc, h, file = capture(c, "--at-step", first, "--steps", 5)
    found = sorted(annotated(xspace.load(file), p.pid))
    begin = found[0] if first == "next" else first
    assert found == list(range(begin, begin + 5)), (first, found)
    assert h["steps"]["last"] - h["steps"]["first"] == 4, h["steps"]
    assert first == "next" or h["steps"]["first"] == first, h["steps"]
    return f"steps {found[0]} to {found[-1]}, window {doc['duration_ns'] / 1e9:.1f} s"


def wait_known(c, p, seconds):
    """The agent has heard of the process; how long that took."""
    begin = time.monotonic()
    wait_until("the process to ask", lambda: f"pid={p.pid} comm" in c.log("host-a"), seconds)
    took = time.monotonic() - begin
    wait_until("the lead", lambda: any(t.get("lead_ms") for t in c.hosts().get("host-a", {}).get("tracers", [])))
    return took


def check_jax_times(doc, space, truth):
    found = {xspace.stats(p, ev)["step_num"]: (line.timestamp_ns * 1000 + ev.offset_ps) / 1000 for p in space.planes
             for line in p.lines for ev in line.events
             if p.event_metadata[ev.metadata_id].name == "train" and "step_num" in xspace.stats(p, ev)}
    return check_times(doc, truth, found)
