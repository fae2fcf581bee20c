# SPDX-License-Identifier: Apache-2.0
"""A folder that an agent watches: a profile that a program writes there becomes a session on the session clock, with what the
host's rings have of that time beside it."""
import pathlib
import time

from lib import xspace
from lib.cluster import Cluster, main, wait_until

OFFSET_S = 5


def profile(begin_ns, end_ns):
    """As a program writes it, on its wall clock: an event of the whole time."""
    space = xspace.message_class("tensorflow/xplane.proto", "tensorflow.profiler.XSpace")()
    env = space.planes.add(name="Task Environment")
    for i, (name, value) in enumerate({"profile_start_time": begin_ns, "profile_stop_time": end_ns}.items(), 1):
        env.stat_metadata[i].id = i
        env.stat_metadata[i].name = name
        env.stats.add(metadata_id=i, uint64_value=value)
    p = space.planes.add(id=1, name="/host:CPU")
    p.event_metadata[1].id = 1
    p.event_metadata[1].name = "recorded by itself"
    p.lines.add(id=1, name="main").events.add(metadata_id=1, offset_ps=10**9, duration_ps=(end_ns - begin_ns - 2 * 10**6) * 1000)
    return space.SerializeToString()


def sessions(c):
    return c.get("/api/v1/sessions")["sessions"]


def committed(c):
    """The manifest of the first session; it is written after the session is listed."""
    for s in sessions(c):
        status, doc = c.call("GET", f"/api/v1/sessions/{s['session']}")
        return doc if status == 200 else None


def test_a_profile_becomes_a_session():
    with Cluster() as c:
        c.aggregator()
        folder = c.dir / "traces"
        runs = folder / "plugins/profile"
        (runs / "before").mkdir(parents=True)
        old = runs / "before/host.xplane.pb"
        old.write_bytes(profile(time.time_ns() - 10**9, time.time_ns()))
        time.sleep(0.02)  # file systems keep times in steps of a tick
        c.agent("host-a", "--watch", folder, "--test-clock-offset", f"{OFFSET_S}s", tracers="watch,metrics,marks")
        c.wait_hosts(1)
        begin = time.time_ns()
        c.tutti("mark", "--local-socket", c.sockets["host-a"], "while it records", check=0)
        time.sleep(0.5)
        end = time.time_ns()
        data = profile(begin, end)
        (runs / "mine").mkdir()
        (runs / "mine/link.xplane.pb").symlink_to(old)
        new = runs / "mine/host.xplane.pb"
        new.write_bytes(data[:100])
        time.sleep(0.2)
        new.write_bytes(data)
        doc = wait_until("the session", lambda: committed(c), 30)
        assert doc["run"] == "mine" and doc["origin"] == "watch host-a" and doc["snapshot"], doc
        assert doc["complete"] == 1, doc
        assert abs(doc["duration_ns"] - (end - begin)) < 10**6, doc
        [host] = doc["hosts"]
        space = xspace.load(pathlib.Path(doc["path"]) / host["file"])
        events = {name: (at, length) for p in space.planes for name, at, length, _ in xspace.events(p)}
        at, length = events["recorded by itself"]
        assert abs(at - 10**9) < 10**9 and length == (end - begin - 2 * 10**6) * 1000, (at, length)
        assert 0 <= events["while it records"][0] < (end - begin) * 1000, events["while it records"]
        assert any(p.name.startswith("/host:CPU metrics") or "metrics" in p.name for p in space.planes), [p.name for p in space.planes]
        assert new.read_bytes() == data  # it stays the program's
        assert len(sessions(c)) == 1


main(test_a_profile_becomes_a_session)
