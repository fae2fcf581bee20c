# SPDX-License-Identifier: Apache-2.0
"""Annotations in shared memory: of C and Python, with the real nvtx package; of programs that fork, are killed, or live in
namespaces of their own; steps that captures wait for; captures that a program begins."""
import collections
import datetime
import importlib.util
import math
import os
import pathlib
import shutil
import signal
import struct
import sys
import time

from lib import xspace
from lib.cluster import BIN, SLOW, Cluster, main, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
import tutti  # noqa: E402  the package of this tree

STEP_MS = 50
KILLED_AFTER = 50
PAGE, SLOTS = 4096, 8192  # of a ring, and of each thread in it
GROUPS = 1500  # of a user: /proc/PID/status is longer then


def annotator(c, name, *flags, prefix=()):
    """Starts it; the cluster stops it."""
    p = c.start(f"burst-{name}", [*prefix, BIN / "annotator", STEP_MS, *flags])
    wait_until(f"{name} to begin", lambda: c.log(f"burst-{name}"))
    return p


def planes(c, doc, host="host-a"):
    """{pid: plane} of the annotated processes."""
    space = xspace.load(c.logdir / "plugins/profile" / doc["session"] / f"{host}.xplane.pb")
    found = {}
    for p in space.planes:
        stats = xspace.stats(p)
        if "process_id" in stats:
            found[stats["process_id"]] = p
    return found


def by_name(p):
    found = collections.defaultdict(list)
    for name, start, duration, line in xspace.events(p):
        found[name].append((start, start + duration, line))
    return found


def event_stats(p, name):
    return [xspace.stats(p, ev) for line in p.lines for ev in line.events if p.event_metadata[ev.metadata_id].name == name]


def check_nested(p):
    """The events of a thread's line nest, and are in order of time."""
    for line in p.lines:
        if line.name.startswith(("_counters_", "ranges")):
            continue
        ends = []
        last = 0
        for ev in line.events:
            begin, end = ev.offset_ps, ev.offset_ps + ev.duration_ps
            assert begin >= last, (line.name, begin, last)
            last = begin
            while ends and ends[-1] <= begin:
                ends.pop()
            assert not ends or end <= ends[-1], (line.name, begin, end, ends)
            if ev.duration_ps:
                ends.append(end)


def check_program(p, seconds):
    found = by_name(p)
    assert len(found["load"]) >= seconds * 1000 / STEP_MS / 10, {n: len(v) for n, v in found.items()}
    for name in ("train", "compute", "kernel with a name that is longer than a slot", "halfway", "loss", "save"):
        assert abs(len(found[name]) - len(found["load"])) <= 2 or name == "save", {n: len(v) for n, v in found.items()}
    assert {line for _, _, line in found["loss"]} == {"_counters_"}
    assert {line for _, _, line in found["save"]} <= {"ranges 1", "ranges 2"} and found["save"], found["save"]
    assert all("annotator/" in line for _, _, line in found["train"]), found["train"][:3]
    numbers = [s["step_num"] for s in event_stats(p, "train") if "_r" in s]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), numbers
    assert len(event_stats(p, "train")) - 2 <= len(numbers), numbers  # a step that is cut is none
    assert all(0 <= s["value"] < 7 for s in event_stats(p, "load"))
    check_nested(p)


def descendants(pid):
    children = open(f"/proc/{pid}/task/{pid}/children").read().split()
    return [int(k) for k in children] + [d for k in children for d in descendants(int(k))]


def covered_steps(c):
    """A capture of three steps, and the first; False if this machine was too busy to keep to its pace."""
    _, doc = c.tutti("capture", "--at-step", "next", "--steps", 3, "--json", check=0)
    first, seen = doc["at_step"]["step"], doc["hosts"][0]["steps"]
    return (doc, first) if seen["first"] <= first and seen["last"] >= first + 2 else False


def check_steps(c, plain):
    """A capture of whole steps, which nothing but the ring tells of."""
    wait_until("the steps", lambda: c.tutti("capture", "--at-step", 1 << 40, "--json") and any(
        h.get("steps", {}).get("period_ns", 0) > 0 for h in c.hosts().values()))
    doc, first = wait_until("whole steps", lambda: covered_steps(c))
    whole = [s["step_num"] for s in event_stats(planes(c, doc)[plain.pid], "train") if "_r" in s]
    assert set(range(first, first + 3)) <= set(whole), (first, whole)


def check_killed(p):
    assert [s["step_num"] for s in event_stats(p, "train")] == list(range(KILLED_AFTER)), event_stats(p, "train")
    (end, _, _), = by_name(p)["the end"]
    (begin, gone, _), = by_name(p)["the last scope"]
    assert begin <= end <= gone, (begin, end, gone)
    assert event_stats(p, "the last scope")[0]["unfinished"] == 1


def check_python(p, child):
    found = by_name(p)
    for name in ("py train", "a function", "of a thread", "between", "of a thread counter", "span one", "span two"):
        assert found[name], (name, {n: len(v) for n, v in found.items()})
    assert all("helper/" in line for _, _, line in found["of a thread"]), found["of a thread"][:2]
    assert {line for _, _, line in found["span one"] + found["span two"]} == {"ranges 1", "ranges 2"}
    assert event_stats(p, "of a thread")[0]["value"] == 0.5
    assert {line for _, _, line in found["odd: nan"] + found["odd: -inf"]} == {line for _, _, line in found["py train"]}
    assert found["odd: nan"] and found["odd: -inf"] and "odd" not in found, found.keys()
    check_nested(p)
    assert set(by_name(child)) == {"of the child", "a function", "of the child counter"}, set(by_name(child))
    if importlib.util.find_spec("nvtx"):
        assert len(found["job:nvtx range"]) > 3 and found["nvtx mark"], {n: len(v) for n, v in found.items()}
        assert {line for _, _, line in found["job:nvtx range"]} == {line for _, _, line in found["py train"]}
        ranges = sorted(found["job:nvtx range"])
        assert all(a[1] <= b[0] for a, b in zip(ranges, ranges[1:])), "ranges that have not ended"
        check_ended_with(ranges, sorted(found["library:never popped"]), lambda outer, inner: 0 <= outer[1] - inner[1] < 0.5e9)
        check_ended_with(ranges, sorted(found["popped with a payload"]), lambda outer, inner: outer[1] - inner[1] > 0.9e9)
        values = [s["value"] for s in event_stats(p, "job:nvtx range")]
        assert values == sorted(values), values
    else:
        print("     note: no package nvtx; tests/setup.sh installs it")


def check_ended_with(outer, inner, holds):
    """Each range of `outer` has one of `inner` within it, for which that holds, but for those that the window cuts."""
    pairs = [(o, i) for o in outer for i in inner if o[0] <= i[0] < o[1]]
    assert len(pairs) >= len(outer) - 1 and all(holds(o, i) for o, i in pairs[1:-1]), (len(outer), pairs[:3])


def capture_from_python(c):
    """As a program does it, through the agent's local socket."""
    url = c.sockets["host-a"]
    try:
        tutti.capture(hosts="no-such-host", socket_url=url)
        raise AssertionError("a capture of no host")
    except tutti.AgentError as e:
        assert "no-such-host" in str(e), e
    try:
        tutti.capture(socket_url="ipc:///nowhere")
        raise AssertionError("a capture without an agent")
    except tutti.AgentError as e:
        assert "is an agent there" in str(e), e
    with tutti.capture(duration=60, socket_url=url) as capture:
        time.sleep(0.2)
    return capture.session


def test_programs():
    """One tells of steps; one has ended its main thread; one has very many groups, one is in namespaces of its own; one kills itself
    in a scope that nothing ends. All are in a window that was over when it was asked for."""
    with Cluster() as c:
        c.aggregator()
        c.agent("host-a", "--annotations-look", "200ms", tracers="annotations,metrics,marks")
        c.wait_hosts(1)
        plain = annotator(c, "plain")
        check_steps(c, plain)
        threaded = annotator(c, "threaded", 0, "thread")
        many = None
        far = None
        if shutil.which("unshare") and os.geteuid() == 0:
            far = annotator(c, "far", prefix=("unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child"))
            assert c.log("burst-far") == "1\n", c.log("burst-far")
            many = annotator(c, "many", prefix=("setpriv", "--groups", ",".join(map(str, range(100000, 100000 + GROUPS)))))
        c.start("burst-python", [sys.executable, ROOT / "tests/e2e/annotated_job.py"], env={
            "PYTHONPATH": os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]),
            "NVTX_INJECTION64_PATH": str(BIN.resolve() / "libtutti_nvtx.so")})
        python, child = map(int, wait_until("Python", lambda: c.log("burst-python")).split())
        session = capture_from_python(c)
        c.wait_rings(3)
        begun = time.monotonic()
        killed = annotator(c, "killed", KILLED_AFTER)
        assert killed.wait(30 * SLOW) == -9
        _, doc = c.tutti("snapshot", "--last", f"{math.ceil(time.monotonic() - begun) + 1}s", "--json", check=0)
        found = planes(c, doc)
        check_program(found[plain.pid], 2)
        check_program(found[threaded.pid], 2)
        check_killed(found[killed.pid])
        check_python(found[python], found[child])
        assert session in [s["session"] for s in c.get("/api/v1/sessions")["sessions"]], session
        if far:
            pid = max(descendants(far.pid))
            check_program(found[pid], 2)
            check_program(found[many.pid], 2)
            assert pid in [line.id for line in found[pid].lines], [line.id for line in found[pid].lines]
            c.kill("burst-far")  # unshare ends at nothing less
        else:
            print("     note: no namespaces here")


MANY_NAMES = """
import nvtx, time
for i in range(65600):
    with nvtx.annotate(f"step {i}"):
        pass
print("ready", flush=True)
while True:
    with nvtx.annotate("late"):
        time.sleep(0.01)
"""


def test_many_names():
    """Names beyond those that the library for NVTX keeps have one name together."""
    if not importlib.util.find_spec("nvtx"):
        return
    with Cluster() as c:
        c.aggregator()
        c.agent("host-a", "--annotations-look", "200ms", tracers="annotations,metrics,marks")
        c.wait_hosts(1)
        p = c.start("burst-names", [sys.executable, "-c", MANY_NAMES], env={
            "NVTX_INJECTION64_PATH": str(BIN.resolve() / "libtutti_nvtx.so")})
        wait_until("the program", lambda: "ready" in c.log("burst-names"), 60)
        _, doc = c.tutti("capture", "--duration", "500ms", "--json", check=0)
        found = by_name(planes(c, doc)[p.pid])
        assert len(found["(other names)"]) > 3 and "" not in found, {n: len(v) for n, v in found.items()}


def written(pid):
    """How many slots the thread of a program that writes most has written (include/tutti/tutti.h)."""
    line = next(x for x in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines() if "/memfd:tutti-annotations" in x)
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(int(line.split("-")[0], 16))
        head = memory.read(PAGE)
        lanes = struct.unpack_from("<I", head, 12)[0]
        return max(struct.unpack_from("<Q", memory.read(64))[0] for _ in range(lanes))


def test_agent_is_stopped():
    """A program overwrites what a stopped agent does not read: a window of that time says so."""
    with Cluster() as c:
        c.aggregator()
        c.agent("host-a", "--annotations-look", "200ms", tracers="annotations,metrics,marks")
        c.wait_hosts(1)
        fast = c.start("burst-fast", [BIN / "annotator", 1])
        c.wait_rings(1)
        c.kill("host-a", signal.SIGSTOP)
        begun, before = time.monotonic(), written(fast.pid)
        wait_until("a window of records", lambda: written(fast.pid) - before > 4096 and time.monotonic() - begun > 1.5)
        window_s = time.monotonic() - begun - 0.5
        end = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        before = written(fast.pid)
        wait_until("its ring to be overwritten", lambda: written(fast.pid) - before > 2 * SLOTS, 60)
        c.kill("host-a", signal.SIGCONT)
        _, doc = c.tutti("snapshot", "--last", f"{window_s * 1000:.0f}ms", "--ending-at", end, "--tracer", "annotations", "--json", check=3)
        [host] = doc["hosts"]
        [tracer] = host["tracers"]
        assert (host["state"], host["reason"], tracer["state"]) == ("partial", "window-cut", "degraded"), doc
        # The window's share of what was overwritten; a record has one slot or a few.
        assert tracer["lost"] > 512 and "most or all annotations" in tracer["detail"], tracer
        space = xspace.load(c.logdir / "plugins/profile" / doc["session"] / "host-a.xplane.pb")
        [plane] = [p for p in space.planes if p.name == "/host:CPU lost annotations"]
        [(name, start, duration, _)] = xspace.events(plane)
        assert name == f"{tracer['lost']} annotations lost" and start < 0.1e12 and start + duration > (window_s - 0.01) * 1e12, (start, duration)


main(test_programs, test_many_names, test_agent_is_stopped)
