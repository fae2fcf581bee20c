# SPDX-License-Identifier: Apache-2.0
"""What a session says of pods: the planes of their processes, the threads of the sampler; pods that opted out, the profiler port of a
pod, a snapshot when a pod fails. Kubernetes is the fake one; cgroups, processes and agents are real."""
import sys

from lib import xspace
from lib.cgroups import PodCgroup
from lib.cluster import BIN, Cluster, is_whole, main, wait_until
from lib.fake_kubernetes import FakeKubernetes, pod
from lib.netns import SkipTest
from pods_test import start

SPIN = "import time\nprint('begun', flush=True)\nwhile True:\n    sum(range(20000))\n    time.sleep(0)\n"


def spin(c, name, cgroup):
    """A Python program that takes a CPU, in the pod's cgroup."""
    p = c.start(f"burst-{name}", ["nice", "-n", "19", sys.executable, "-c", SPIN])
    cgroup.take(p.pid)
    wait_until(f"{name} to begin", lambda: c.log(f"burst-{name}"))
    return p.pid


def needs_cgroups(cgroup):
    if not cgroup.path:
        raise SkipTest("no cgroup can be made here")


def wait_told(c, host, n):
    """The agent has been told of so many pods; it looks at its processes then."""
    wait_until(f"{host} to be told", lambda: f"pods={n} " in c.log(host).rsplit("AGT-PODS", 1)[-1])


def capture(c, *words):
    doc = c.tutti("capture", "--hosts", "host-a", "-d", "1s", "--json", *words)[1]
    assert all(map(is_whole, doc["hosts"])), doc
    return doc, xspace.load(next(c.store.rglob(f"{doc['session']}/host-a.xplane.pb")))


def test_planes():
    api = FakeKubernetes()
    train = pod("train-0", "node-1", space="ml", job="train", rank=3)
    quiet = pod("quiet", "node-1", space="ml", annotations={"tutti.dev/profile": "false"})
    server = pod("server", "node-1", space="ml", job="serve", rank=0, address="127.0.0.1")
    with PodCgroup(train) as in_train, PodCgroup(quiet) as in_quiet, PodCgroup(server) as in_server, Cluster() as c:
        needs_cgroups(in_train)
        c.start("burst-profiler", [BIN / "fake_profiler", "--port-file", c.dir / "port"])
        wait_until("a profiler", (c.dir / "port").exists)
        in_server.take(c.processes["burst-profiler"].pid)
        server["metadata"]["annotations"]["tutti.dev/profiler-port"] = (c.dir / "port").read_text().strip()
        seen, hidden = spin(c, "seen", in_train), spin(c, "hidden", in_quiet)
        for p in (train, quiet, server):
            api.put(p)
        start(c, api)
        c.agent("host-a", "--label", "node=node-1", "--python-hz", "50", tracers="profiler,cpu,sched,python,metrics")
        c.wait_hosts(1)
        wait_told(c, "host-a", 3)
        doc, space = capture(c)

        of = {p.name: xspace.stats(p) for p in space.planes}
        expected = {"pod": "train-0", "container": "main", "namespace": "ml", "job": "train", "rank": 3, "node": "node-1"}
        python = of[f"/host:CPU python [{seen}]"]
        assert expected.items() <= python.items(), python
        assert f"/host:CPU python [{hidden}]" not in of, list(of)
        served = [s for s in of.values() if s.get("pod") == "server"]
        assert served and served[0]["rank"] == 0 and served[0]["process_id"] == c.processes["burst-profiler"].pid, of
        environment = of["Task Environment"]
        assert environment["node"] == "node-1" and "ml/train-0 (job train, rank 3)" in environment["pods"], environment

        c.tutti("export", doc["session"], "--format", "json", "-o", c.dir / "out", check=0)
        assert f"/host:CPU python [{seen}] (train-0 rank 3)" in next((c.dir / "out").iterdir()).read_text()

        lines = [line for p in space.planes if p.name in ("/host:CPU samples", "/host:CPU scheduler") for line in p.lines]
        if lines:  # where perf is allowed
            titles = [line.name for line in lines]
            assert f"python3/{seen} train-0 rank 3" in titles or any(t.endswith(f"/{seen} train-0 rank 3") for t in titles), titles
            assert not [line.name for line in lines if line.id == hidden], "a pod that opted out was recorded"
    api.close()


def test_snapshot_on_failure():
    """A container that begins again, and a pod that fails: one snapshot of the host for both, as a minute has not passed."""
    api = FakeKubernetes()
    asks = {"tutti.dev/snapshot-on-failure": "2s"}
    pods = [pod(f"train-{i}", f"host-{i}", annotations=asks if i < 2 else {"tutti.dev/snapshot-on-failure": "soon"}) for i in range(3)]
    with Cluster() as c:
        for p in pods:
            api.put(p)
        start(c, api)
        for i in range(3):
            c.agent(f"host-{i}", tracers="metrics")
        c.wait_hosts(3)
        wait_until("the pods", lambda: c.get("/api/v1/pods")["discovery"]["pods"] == 3)
        for i in range(3):
            api.put(pod(f"train-{i}", f"host-{i}", restarts=1, annotations=pods[i]["metadata"]["annotations"]))
        api.put(pod("train-0", "host-0", restarts=1, phase="Failed", annotations=asks))

        def sessions():
            return c.get("/api/v1/sessions?run=pod-failures")["sessions"]
        wait_until("a commit", lambda: "AGG-COMMITTED" in c.log("aggregator"))  # the listing has it a moment before its manifest is there
        session = wait_until("a session", lambda: next(iter(sessions()), None))["session"]
        manifest = c.get(f"/api/v1/sessions/{session}")
        assert sorted(h["host"] for h in manifest["hosts"]) == ["host-0", "host-1"], manifest
        assert manifest["duration_ns"] == 2 * 10**9 and manifest["origin"].startswith("pod jobs/train-"), manifest
        wait_until("the second failure", lambda: "within a minute" in c.log("aggregator"))
        assert len(sessions()) == 1, sessions()
    api.close()


if __name__ == "__main__":
    main(test_planes, test_snapshot_on_failure)
