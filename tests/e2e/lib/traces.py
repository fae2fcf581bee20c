# SPDX-License-Identifier: Apache-2.0
"""An XSpace like a training job's, and what is true of a stored one, for tests of the viewer."""
import random

from lib import xspace

STEP_PS = 40_000_000_000  # 40 ms


def job(seed=1, steps=20, late_ps=0, step_ps=STEP_PS):
    """Python calls within calls, written when they end; kernels on two streams, launched by flows; steps. With late_ps
    the host's device work begins that much later in each step."""
    draw = random.Random(seed)
    space = xspace.message_class("tensorflow/xplane.proto", "tensorflow.profiler.XSpace")()
    host = Plane(space.planes.add(id=1, name="/host:CPU"))
    device = Plane(space.planes.add(id=2, name="/device:GPU:0"))
    steps_line, python = host.line("Steps"), host.line("python3")
    streams = [device.line("Stream #7 (Compute)"), device.line("Stream #13 (Memcpy)")]
    for step in range(steps):
        at = step * step_ps
        host.event(steps_line, f"train {step}", at, step_ps - 1_000_000, step_num=step)
        host.call(python, draw, at + 1_000_000, step_ps // 2, 0)
        for k in range(30):
            flow = (step * 100 + k + 1) << 2
            launch = at + 2_000_000 + k * 500_000_000
            kernel = launch + 3_000_000_000 + late_ps + draw.randrange(1_000_000)
            host.event(python, "cudaLaunchKernel", launch, 5_000_000, flow=flow | 2)
            name = "all-reduce.1" if k == 29 else f"fusion.{draw.randrange(8)}"
            device.event(streams[k % 2], name, kernel, 200_000_000 + draw.randrange(300_000_000), flow=flow | 1, correlation_id=k)
    return space.SerializeToString()


class Plane:
    def __init__(self, plane):
        self.plane = plane
        self.ids = {}

    def line(self, name):
        return self.plane.lines.add(id=len(self.plane.lines) + 1, name=name)

    def id(self, metadata, name):
        if name not in self.ids:
            self.ids[name] = len(self.ids) + 1
            metadata[self.ids[name]].id = self.ids[name]
            metadata[self.ids[name]].name = name
        return self.ids[name]

    def event(self, line, name, offset_ps, duration_ps, **stats):
        ev = line.events.add(metadata_id=self.id(self.plane.event_metadata, name), offset_ps=offset_ps, duration_ps=duration_ps)
        for key, value in stats.items():
            ev.stats.add(metadata_id=self.id(self.plane.stat_metadata, key), uint64_value=value)

    def call(self, line, draw, at, length, depth):
        inner = at + 1_000_000
        while depth < 5 and inner + length // 3 < at + length:
            self.call(line, draw, inner, length // 3, depth + 1)
            inner += length // 3 + 1_000_000
        self.event(line, f"f{depth}_{draw.randrange(3)}", at, length)


def events(path):
    """[(plane, line, name, start_ps, duration_ps)] of a stored file, counters aside."""
    out = []
    for plane in xspace.load(path).planes:
        for name, start, duration, line in xspace.events(plane):
            if line != "_counters_":
                out.append((plane.name, line, name, start, duration))
    return out
