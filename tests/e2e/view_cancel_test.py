# SPDX-License-Identifier: Apache-2.0
"""A question whose reader is gone stops working: its CPU time is a part of what the whole answer takes."""
import os
import pathlib
import socket
import time

from lib import traces, xspace
from lib.cluster import Cluster, main, wait_until
from lib.siege import SANITIZED
from lib.view import View

EVENTS, COPIES = 100_000, 40 if SANITIZED else 100  # of a line; lines


def calls():
    """A line of calls in calls, of many names."""
    space = xspace.message_class("tensorflow/xplane.proto", "tensorflow.profiler.XSpace")()
    plane = traces.Plane(space.planes.add(id=1, name="/host:CPU"))
    line = plane.line("python3")
    for i in range(EVENTS // 4):
        for depth in range(4):
            plane.event(line, f"f{(i * 7 + depth) % 500}", i * 1_000_000 + depth * 1000, 900_000 - depth * 2000)
    return space.SerializeToString()


def used(c):
    fields = pathlib.Path(f"/proc/{c.processes['aggregator'].pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def settled(c):
    """CPU seconds of the aggregator, once it has nothing to do."""
    seen = [used(c) - 1, used(c)]

    def is_idle():
        time.sleep(0.4)
        seen[:] = seen[1], used(c)
        return seen[1] - seen[0] <= 0.02
    wait_until("nothing to do", is_idle, 60)
    return seen[1]


def test_cancel():
    with Cluster() as c:
        c.aggregator()
        (c.dir / "host-0.xplane.pb").write_bytes(calls() * COPIES)
        c.tutti("import", str(c.dir / "host-0.xplane.pb"), check=0)
        session = c.get("/api/v1/sessions")["sessions"][0]["session"]
        v = wait_until("the view", lambda: View(c, session), 60)
        tracks = ",".join(f"{f}.{t}" for _, f, _, t, _ in v.tracks)
        path = f"/api/v1/sessions/{session}/view/flame?build={v.doc['build']}&from_ps=0&to_ps={1 << 50}&tracks={tracks}&group=none"
        begin = settled(c)
        v.fetch(path.split("/view", 1)[1])
        whole = settled(c) - begin
        for how in ("close", "shutdown"):  # of the sending side only: no answer comes then either
            begin = settled(c)
            s = socket.create_connection(("127.0.0.1", c.http), 20)
            s.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            s.shutdown(socket.SHUT_WR)
            if how == "close":
                s.close()
            cancelled = settled(c) - begin
            s.close()
            assert cancelled < whole / 2 and whole > 0.25, (how, cancelled, whole)
            print(f"     {how}: {cancelled:.2f} of {whole:.2f} CPU s")
        assert v.ask("search", text="f1")["matches"] > 0  # and it answers others


main(test_cancel)
