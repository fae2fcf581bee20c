# SPDX-License-Identifier: Apache-2.0
"""tests/gpu.sh: gpu.py PYTHON [FOLDER]; PYTHON has PyTorch and JAX that compute on this machine's NVIDIA device. Captures jobs of both,
and what the device's driver says of itself; a check that fails is a row of the table, and the exit status is 1. FOLDER gets the
sessions' files."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

import pynvml

from lib import xspace
from lib.cluster import BIN, SLOW, Cluster
from lib.framework_jobs import (E2E, Table, annotated, capture_as_is, check_begin, check_complete, check_jax_times, check_operators,
                                check_times, launch_job, logged, wait_job, wait_known)
from lib.leftovers import temp_dir
from lib.netns import isolate, own_processes
from lib.waits import join

PYTHON = sys.argv[1]
KEEP = pathlib.Path(sys.argv[2]) if sys.argv[2:] else None
JAX = {"JAX_PLATFORMS": "cuda", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
TORCH = {"KINETO_USE_DAEMON": "1", "NVTX_INJECTION64_PATH": str(BIN.resolve() / "libtutti_nvtx.so")}
READINGS_PER_S = 2
LATE_NS = 1e6


def keep(file, name):
    if KEEP:
        shutil.copy(file, KEEP / name)


# ---- what runs on the device ----

def device_events(space):
    """(name, begin, end) of what ran on the device, ns since T0."""
    for p in space.planes:
        if p.name.startswith("/device:GPU"):
            for name, at, took, line in xspace.events(p):
                if "stream" in line.lower():
                    yield name, at / 1000, (at + took) / 1000


def check_device(doc, space, truth):
    """A step of the job ends when the device has done all its work: each event of the device is in a step, by the job's own log."""
    outside, n, begins = [], 0, sorted(truth.values())
    for name, begin, end in device_events(space):
        begin_ns, end_ns = doc["t0_ns"] + begin, doc["t0_ns"] + end
        if begin_ns < begins[0][0] or begin_ns > begins[-1][1]:  # the job makes its model, or ends
            continue
        off = min((max(b - begin_ns, end_ns - e, 0) for b, e in begins if b - 1e9 < begin_ns < e + 1e9), default=1e9)
        n += 1
        if off > 0:
            outside.append((off, name))
    outside.sort()
    assert n > 100, f"{n} events of the device; planes {[(p.name, len(p.lines)) for p in space.planes]}"
    assert not outside or outside[-1][0] < LATE_NS, f"{len(outside)} of {n} are outside of the steps: {outside[-3:]}"
    return f"{n} events in their steps, {len(outside)} of them beyond by {outside[-1][0] / 1000 if outside else 0:.0f} us at most"


def check_nvtx(doc, space, truth):
    """NVTX of the job, and of NCCL within it."""
    found, names = {}, set()
    for p in space.planes:
        if "annotations" in p.name or xspace.stats(p).get("process_id"):
            for name, at, _, _ in xspace.events(p):
                names.add(name)
                if name.startswith("nvtx "):
                    found[int(name.split()[1])] = at / 1000
    late = [n for n, at in found.items() if doc["t0_ns"] + at - truth[n][0] > 1e9]
    assert not late, f"ranges that have not ended: {late}"
    nccl = sorted(n for n in names if "nccl" in n.lower())
    assert nccl, sorted(names)[:50]
    return f"{check_times(doc, truth, found)}; of NCCL: {', '.join(nccl)[:60]}"


# ---- what the driver says ----

class Oracle(threading.Thread):
    """NVIDIA's own binding, read again and again."""
    READERS = {
        "memory used MB": lambda d: pynvml.nvmlDeviceGetMemoryInfo(d, version=pynvml.nvmlMemory_v2).used / 1e6,
        "memory MB": lambda d: pynvml.nvmlDeviceGetMemoryInfo(d).total / 1e6,
        "power W": lambda d: pynvml.nvmlDeviceGetPowerUsage(d) / 1e3,
        "energy J": lambda d: pynvml.nvmlDeviceGetTotalEnergyConsumption(d) / 1e3,
        "temperature C": lambda d: pynvml.nvmlDeviceGetTemperature(d, pynvml.NVML_TEMPERATURE_GPU),
        "SM clock MHz": lambda d: pynvml.nvmlDeviceGetClockInfo(d, pynvml.NVML_CLOCK_SM),
        "memory clock MHz": lambda d: pynvml.nvmlDeviceGetClockInfo(d, pynvml.NVML_CLOCK_MEM),
        "busy %": lambda d: pynvml.nvmlDeviceGetUtilizationRates(d).gpu,
    }

    def __init__(self):
        super().__init__(daemon=True)
        self.rows, self.stop = {name: [] for name in self.READERS}, threading.Event()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        join(self)

    def run(self):
        device = pynvml.nvmlDeviceGetHandleByIndex(0)
        while not self.stop.wait(0.05):
            for name, read in self.READERS.items():
                self.rows[name].append((time.time_ns(), read(device)))


def counters(space):
    """{name: [(ns since T0, value)]}"""
    p, out = xspace.plane(space, "/host:CPU nvml"), {}
    for line in (ln for ln in p.lines if ln.name == "_counters_"):
        for ev in line.events:
            stat = ev.stats[0]
            out.setdefault(p.event_metadata[ev.metadata_id].name, []).append(
                (line.timestamp_ns + ev.offset_ps / 1000, getattr(stat, stat.WhichOneof("value"))))
    return out


def check_values(doc, space, oracle):
    """Each value is among those that the binding read within half a second of it, but for a tenth."""
    ours, compared = counters(space), 0
    for name, truth in oracle.rows.items():
        for at, value in ours.get(f"gpu 0 {name}", []):
            near = [v for at_ns, v in truth if abs(at_ns - doc["t0_ns"] - at) < 5e8]
            if near:
                compared += 1
                low, high = min(near), max(near)
                assert low - 0.1 * abs(low) - 2 <= value <= high + 0.1 * abs(high) + 2, (name, at / 1e9, value, low, high)
    assert compared > 20, compared
    last = {name.removeprefix("gpu 0 "): round(rows[-1][1]) for name, rows in ours.items() if name.startswith("gpu 0 ")}
    return f"{compared} values as NVIDIA's binding has them; {last}"


def check_rate(doc, space):
    """Energy takes milliseconds to read in some drivers, and is read less often then."""
    wanted = doc["duration_ns"] / 1e9 * READINGS_PER_S
    n = {name: len(rows) for name, rows in counters(space).items() if not name.endswith("energy J")}
    assert n and all(abs(k - wanted) <= 1 for k in n.values()), (wanted, n)
    return f"{len(n)} counters, {min(n.values())} to {max(n.values())} readings each, {wanted:.0f} were due"


def cpu_s(pid):
    """CPU time of all threads of a process."""
    return sum(int(f.read_text().split()[0]) for f in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def check_cost(seconds=20):
    """Two agents, one with the tracer, for the same time."""
    with Cluster() as c:
        c.aggregator()
        pids = [c.agent(f"host-{t}", tracers=t).pid for t in ("nvml", "marks")]
        c.wait_hosts(2)
        time.sleep(5)
        before = [cpu_s(pid) for pid in pids]
        time.sleep(seconds)
        with_it, without = [(cpu_s(pid) - b) / seconds * 100 for pid, b in zip(pids, before)]
    each_us = (with_it - without) / 100 / READINGS_PER_S * 1e6
    assert with_it - without < 0.2, (with_it, without)
    return f"{with_it:.2f} % of a core, {without:.2f} without it: {each_us:.0f} us a reading"


# ---- the sessions ----

def check_all(table):
    """A PyTorch job and a JAX job on one device: one session."""
    name = "one device"
    with Cluster() as c:
        c.aggregator()
        launch_job(c, PYTHON, "jax_job.py", "--log", c.dir / "jax.steps", name="jax", env=JAX)
        launch_job(c, PYTHON, "torch_job.py", "--device", "cuda", "--log", c.dir / "torch.steps", name="torch", env=TORCH)
        version, port, p = wait_job(c, "torch"), wait_job(c, "jax"), c.processes["torch"]
        c.agent("host-a", f"--profiler=127.0.0.1:{port}", tracers="all")
        c.wait_hosts(1)
        wait_known(c, p, 60)
        print(f"PyTorch {version}, {pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(0))}, driver "
              f"{pynvml.nvmlSystemGetDriverVersion()}", flush=True)
        for which in ("first", "second"):
            with Oracle() as oracle:
                doc, h, file = capture_as_is(c, seconds=3)
            keep(file, f"{which}.xplane.pb")
            space = xspace.load(file)
            steps, jax_steps = logged(c, "torch"), logged(c, "jax")
            found = annotated(space, p.pid)
            torch_space, jax_space = split(space, p.pid)
            for what, fn in {
                "complete": lambda: check_complete(h),
                "PyTorch: times": lambda: check_times(doc, steps, found),
                "PyTorch: begin": lambda: check_begin(doc, steps, found),
                "PyTorch: operators": lambda: check_operators(space),
                "PyTorch: on the device": lambda: check_device(doc, torch_space, steps),
                "NVTX, NCCL": lambda: check_nvtx(doc, space, steps),
                "JAX: times": lambda: check_jax_times(doc, space, jax_steps),
                "JAX: on the device": lambda: check_device(doc, jax_space, jax_steps),
                "NVML: values": lambda: check_values(doc, space, oracle),
                "NVML: readings": lambda: check_rate(doc, space),
            }.items():
                table.check(name, f"{which}: {what}", fn)
        table.check(name, "snapshot", lambda: check_snapshot(c))


def split(space, pid):
    """Two spaces: the planes of the PyTorch process, and the others."""
    parts = []
    for is_torch in (True, False):
        part = type(space)()
        part.planes.extend(p for p in space.planes if (xspace.stats(p).get("process_id") == pid) == is_torch)
        parts.append(part)
    return parts


def check_snapshot(c):
    c.wait_rings(6)
    _, doc = c.tutti("snapshot", "--last", "5s", "--json", check=0)
    (h,) = doc["hosts"]
    return check_rate(doc, xspace.load(c.logdir / "plugins/profile" / doc["session"] / h["file"]))


def check_inspect():
    folder = temp_dir("tutti-gpu")
    p = subprocess.run([BIN.resolve() / "tutti", "inspect", "--json", "-o", folder / "out", "--", PYTHON, E2E / "torch_job.py", "--device", "cuda",
                        "--port-file", folder / "version", "--seconds", "6", "--log", folder / "torch.steps", "--end", "exit"],
                       capture_output=True, text=True, timeout=200 * SLOW, env={**os.environ, "PYTHONPATH": os.pathsep.join(
                           [str(E2E.parents[1] / "python"), os.environ.get("PYTHONPATH", "")])})
    assert p.returncode == 7, (p.returncode, p.stdout[-300:], p.stderr[-1000:])
    doc = json.loads(p.stdout[p.stdout.index("{\n"):])
    (h,) = doc["hosts"]
    (file,) = (folder / "out").rglob("*.xplane.pb")
    keep(file, "inspect.xplane.pb")
    space = xspace.load(file)
    rows = [r.split() for r in (folder / "torch.steps").read_text().splitlines()]
    shutil.rmtree(folder)
    assert h["state"] == "complete", h
    return check_device(doc, space, {int(r[0]): (int(r[1]), int(r[2])) for r in rows if len(r) == 3})


def main():
    isolate()
    pynvml.nvmlInit()
    table = Table()
    table.check("one device", "captured", lambda: check_all(table))
    table.check("inspect", "to the end", check_inspect)
    table.check("nvml", "cost", check_cost)
    sys.exit(1 if table.failed else 0)


own_processes()  # steps of other programs here would count
main()
