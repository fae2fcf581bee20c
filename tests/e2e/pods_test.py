# SPDX-License-Identifier: Apache-2.0
"""Pods of a cluster: listed in pages, watched, listed anew after each kind of failure; their jobs; captures by job."""
import urllib.parse

from lib.cluster import Cluster, main, wait_until
from lib.fake_kubernetes import FakeKubernetes, pod


def start(c, api, text=None):
    """With a token that the API server accepts, or with this text; returns the token's file."""
    token = c.dir / "token"
    token.write_text(text or api.token + "\n")
    c.aggregator("--kubernetes", api.url, "--kubernetes-token-file", token, "--kubernetes-retry", "20ms")
    return token


def pods_of(c, selector="all"):
    return {p["pod"]: p for p in c.get("/api/v1/pods?selector=" + urllib.parse.quote(selector))["pods"]}


def discovery(c):
    return c.get("/api/v1/pods")["discovery"]


def wait_pods(c, what, names):
    wait_until(what, lambda: set(pods_of(c)) == set(names))


def test_off():
    with Cluster() as c:
        c.aggregator()
        assert discovery(c)["state"] == "off"
        code, text = c.tutti("pods", check=0)
        assert "--kubernetes" in c.stderr and text == "", (text, c.stderr)


def test_pages_and_changes():
    api = FakeKubernetes()
    for i in range(600):
        api.put(pod(f"p{i:03}", f"n{i % 7}"))
    with Cluster() as c:
        start(c, api)
        wait_until("600 pods", lambda: discovery(c)["pods"] == 600)
        assert discovery(c)["state"] == "watching" and not discovery(c)["error"], discovery(c)
        pages = [q for q in api.requests if "limit" in q]
        assert [q.get("continue") for q in pages] == [None, "next:700:250", "next:700:500"], pages
        last = pod("late", "n1", job="train", rank=3)
        api.put(last)
        wait_until("a new pod", lambda: "late" in pods_of(c, "job=train,rank=3"))
        api.put(pod("late", "n2", job="train", rank=3, uid=last["metadata"]["uid"]))
        wait_until("a changed pod", lambda: pods_of(c, "pod=late")["late"]["node"] == "n2")
        api.delete(last)
        wait_until("a pod that is gone", lambda: not pods_of(c, "pod=late"))
        wait_until("a watch from there on", lambda: int(api.watches()[-1]["resourceVersion"]) == 703)
        assert len([q for q in api.requests if "limit" in q]) == 3, "it listed again without a reason"
        status, doc = c.call("GET", "/api/v1/pods?selector=rank%3Dx")
        assert status == 400 and "character 6" in doc["error"], doc
    api.close()


def test_bookmarks():
    """Pods are quiet while all else changes: a watch begins where the last bookmark was, so that nothing is listed again."""
    api = FakeKubernetes(watch_s=0.3)
    api.put(pod("p", "n"))
    with Cluster() as c:
        start(c, api)
        wait_pods(c, "the pod", ["p"])
        for _ in range(3):
            api.pass_by(100)
            wait_until("a watch from a bookmark on", lambda: int(api.watches()[-1]["resourceVersion"]) == api.version)
            api.oldest = api.version
        api.put(pod("later", "n"))
        wait_pods(c, "a new pod", ["p", "later"])
        assert len([q for q in api.requests if "limit" in q]) == 1, api.requests
    api.close()


def test_faults():
    """After each fault, everything that happened meanwhile is known, and what is gone is not."""
    api = FakeKubernetes(watch_s=0.3)
    known = [pod(f"p{i:03}", "n") for i in range(300)]
    for p in known:
        api.put(p)
    with Cluster() as c:
        api.faults += ["error-500", "forbidden"]
        start(c, api)
        wait_until("300 pods", lambda: discovery(c)["pods"] == 300, 30)
        log = c.log("aggregator")
        assert "ClusterRole" in log and "the fault error-500" in log, log
        for fault in ("gone", "cut", "garbage", "error-500", "gone-page"):
            api.faults += ["gone", fault] if fault == "gone-page" else [fault]
            wait_until(f"the fault {fault}", lambda: fault not in api.faults, 30)
            api.delete(known.pop())
            api.put(pod(f"after-{fault}", "n"))
            known.append(api.pods[max(api.pods, key=lambda u: int(api.pods[u]["metadata"]["resourceVersion"]))])
            wait_until(f"the pods after {fault}", lambda: set(pods_of(c)) == {p["metadata"]["name"] for p in known}, 30)
        wait_until("that all is well", lambda: discovery(c)["state"] == "watching" and not discovery(c)["error"], 30)
    api.close()


def test_wrong_token():
    api = FakeKubernetes()
    with Cluster() as c:
        token = start(c, api, "another-token\n")
        wait_until("the refusal", lambda: "token" in discovery(c)["error"])
        token.write_text(api.token)  # it is read again for each request
        api.put(pod("p", "n"))
        wait_pods(c, "the pods", ["p"])
    api.close()


def test_capture_by_job():
    api = FakeKubernetes()
    for rank, node in enumerate(("host-a", "node-b", "host-c")):
        api.put(pod(f"train-{rank}", node, job="train", rank=rank))
    api.put(pod("other", "host-c", job="other", rank=0))
    api.put(pod("quiet", "host-c", job="quiet", annotations={"tutti.dev/profile": "false"}))
    with Cluster() as c:
        start(c, api)
        c.agent("host-a")
        c.agent("host-b", "--label", "node=node-b")
        c.agent("host-c")
        c.wait_hosts(3)
        wait_until("the pods", lambda: discovery(c)["pods"] == 5)
        jobs = {j["job"]: j for j in c.tutti("jobs", "--json", check=0)[1]["jobs"]}
        assert jobs["train"] == {"job": "train", "job_kind": "Job", "namespace": "jobs", "pods": 3, "running": 3, "connected": 3}, jobs
        head, *rows = c.tutti("pods", "job=train", check=0)[1].splitlines()
        assert head.split() == ["NAMESPACE", "POD", "PHASE", "JOB", "RANK", "NODE", "HOST"], head
        assert [r.split()[1::5] for r in rows] == [["train-0", "host-a"], ["train-1", "host-b"], ["train-2", "host-c"]], rows
        assert c.tutti("pods", "job=train", "-o", "name", check=0)[1].split() == ["train-0", "train-1", "train-2"]
        assert "main" in c.tutti("pods", "job=train", "-o", "wide", check=0)[1]
        head, *rows = c.tutti("jobs", check=0)[1].splitlines()
        assert head.split() == ["NAMESPACE", "JOB", "KIND", "PODS", "RUNNING", "CONNECTED"], head
        assert ["jobs", "train", "Job", "3", "3", "3"] in [r.split() for r in rows], rows
        assert {"train", "other"} <= set(c.tutti("jobs", "-o", "name", check=0)[1].split())
        wide = c.tutti("hosts", "-o", "wide", check=0)[1]
        assert "pod jobs/train-1, job train, rank 1" in wide and "pod jobs/quiet" in wide, wide
        doc = c.tutti("capture", "--job", "train", "--ranks", "0-1", "-d", "200ms", "--json", check=0)[1]
        assert sorted(h["host"] for h in doc["hosts"]) == ["host-a", "host-b"], doc
        assert c.tutti("capture", "--job", "quiet", "-d", "200ms")[0] == 4, c.stderr
        assert c.tutti("capture", "--job", "none", "-d", "200ms")[0] == 4 and "no pod matches" in c.stderr, c.stderr
        assert c.tutti("capture", "--ranks", "0")[0] == 2 and "--job" in c.stderr, c.stderr
    api.close()


def test_pods_of_a_session():
    """The manifest says who was expected, and which pods were deleted, began again or had no agent."""
    api = FakeKubernetes()
    pods = [pod(f"train-{rank}", f"host-{rank}", job="train", rank=rank) for rank in range(4)]
    for p in [*pods, pod("other", "host-0", job="other")]:
        api.put(p)
    with Cluster() as c:
        start(c, api)
        for rank in range(3):
            c.agent(f"host-{rank}", tracers="metrics")
        c.wait_hosts(3)
        wait_until("the pods", lambda: discovery(c)["pods"] == 5)
        status, doc = c.call("POST", "/api/v1/captures", {"hosts": "job=train", "duration_ns": 3600 * 10**9})
        assert status == 202, doc
        session = doc["session"]
        wait_until("the window", lambda: c.get(f"/api/v1/captures/{session}")["state"] == "running")
        api.delete(pods[0])
        again = pod("train-1", "host-1", job="train", rank=1, restarts=1)
        assert again["metadata"]["uid"] == pods[1]["metadata"]["uid"]
        api.put(again)
        wait_until("the changes", lambda: "train-0" not in pods_of(c) and pods_of(c)["train-1"]["containers"][0]["restarts"] == 1)
        assert c.call("POST", f"/api/v1/captures/{session}/stop")[0] == 202
        wait_until("the commit", lambda: c.get(f"/api/v1/captures/{session}")["state"] == "committed")
        manifest = c.get(f"/api/v1/sessions/{session}")
        found = [(p["pod"], p["rank"], p["host"], p["reason"]) for p in manifest["pods"]]
        assert found == [("train-0", "0", "host-0", "pod-gone"), ("train-1", "1", "host-1", "pod-gone"), ("train-2", "2", "host-2", ""),
                         ("train-3", "3", "", "no-agent")], found
        assert [h["host"] for h in manifest["hosts"] if h["state"] == "complete"] == ["host-0", "host-1", "host-2"], manifest
        gone, without = manifest["warnings"][-2:]
        assert "2 of 4 pods are gone: train-0 (it was deleted), train-1" in gone and "train-3" in without, manifest["warnings"]
        wait_until("the events", lambda: len(api.events) == 3)
        told = {(v["involvedObject"]["name"], v["involvedObject"]["uid"], v["metadata"]["namespace"], v["reason"], v["type"]) for v in api.events}
        assert told == {(p["metadata"]["name"], p["metadata"]["uid"], "jobs", "CaptureFailed", "Warning") for i, p in enumerate(pods) if i != 2}, told
        assert sorted(v["message"] for v in api.events)[0] == f"session {session}: no-agent: no agent is on its node", api.events
        doc = c.tutti("capture", "-H", "host-2", "-d", "200ms", "--json", check=0)[1]
        assert "pods" not in doc, doc["pods"]
    api.close()


def test_events():
    """A pod gets one event for a reason, however many captures fail; a cluster that refuses them costs a line of the log, and no capture."""
    api = FakeKubernetes()
    api.put(pod("train-0", "host-0", job="train", rank=0))
    api.faults.append("no-events")
    for i in range(600):
        api.put(pod(f"far-{i}", "elsewhere", job="far", rank=i))
    with Cluster() as c:
        start(c, api)
        c.agent("host-0")
        c.wait_hosts(1)
        wait_until("the pods", lambda: discovery(c)["pods"] == 601)
        selectors = ("job in (train,far),rank=0-1", "job in (train,far),rank=0-1", "job in (train,far)", "job in (train,far)")
        for selector in selectors:
            code, text = c.tutti("capture", "-H", selector, "-d", "100ms", "--json")
            assert code == 0, (code, c.stderr)
        wait_until("the events", lambda: len(api.events) >= 256)
        names = [v["involvedObject"]["name"] for v in api.events]
        assert len(set(names)) == len(names) <= 258 and "train-0" not in names, len(names)
        assert c.log("aggregator").count("POD-EVENT") == 1 and "may not create events" in c.log("aggregator"), c.log("aggregator")
    api.close()


if __name__ == "__main__":
    main(test_off, test_pages_and_changes, test_bookmarks, test_faults, test_wrong_token, test_capture_by_job, test_pods_of_a_session, test_events)
