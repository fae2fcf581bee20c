# SPDX-License-Identifier: Apache-2.0
"""The overlay dev: it comes up; programs have the rights that it declares and no others; a pod of a job is captured through a forwarded
port, by a user whose only right is to forward it; PodSecurity admits our namespace and refuses the same pod elsewhere.
"""
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

from bed import (ADMIN, OVERLAYS, ROOT, TUTTI, WORK, Forward, apply, ask, captures, connected, get, kubectl, person, process_of, remove, say, token_of,
                 tutti, wait_ready, wait_until)

sys.path.insert(0, str(ROOT / "tests/e2e"))
from lib import kubernetes_schema, xspace  # noqa: E402
from lib.listeners import reachable  # noqa: E402

AGENT_CAPABILITIES = "000000c400080004"  # PERFMON BPF SYS_PTRACE SYSLOG DAC_READ_SEARCH
AGGREGATOR_MAY = {("get", "pods"), ("list", "pods"), ("watch", "pods"), ("list", "namespaces"), ("create", "events"), ("create", "tokenreviews.authentication.k8s.io"),
                  ("create", "subjectaccessreviews.authorization.k8s.io")}
IMAGE_LIMIT = 40 << 20
JOB = {
    "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": "jobs"},
    "spec": {"completions": 3, "parallelism": 3, "completionMode": "Indexed", "template": {"metadata": {"labels": {"app": "train"}}, "spec": {
        "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 4711, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "main", "image": "localhost/job:1", "imagePullPolicy": "Never", "securityContext": {
            "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}]}}},
}


# ---- images ----

def check_images():
    """Twice built, the same bytes; small; every file is on the list."""
    again = WORK / "images-again"
    subprocess.run([ROOT / "deploy/images/build.sh", "--out", again, "tutti-agent", "tutti-aggregator"], check=True, stdout=subprocess.DEVNULL, timeout=1800)
    for program in ("tutti-agent", "tutti-aggregator"):
        one, two = ((folder / f"{program}.tar").read_bytes() for folder in (WORK / "images", again))
        assert one == two, f"{program}.tar differs when it is built again"
        files = {str(p.relative_to(WORK / "roots" / program)): p for p in (WORK / "roots" / program).rglob("*") if p.is_file() and not p.is_symlink()}
        unpacked = sum(p.stat().st_size for p in files.values())
        assert unpacked < IMAGE_LIMIT, unpacked
        listed = {f["fileName"][2:]: f["checksums"][0]["checksumValue"] for f in json.loads((WORK / f"images/{program}.spdx.json").read_text())["files"]}
        here = {name: hashlib.sha256(p.read_bytes()).hexdigest() for name, p in files.items()}
        assert here == listed, here.keys() ^ listed.keys()
        assert not [name for name in files if name.endswith(("/sh", "/bash", "/busybox"))]
        say(f"{program}: the same bytes twice, {len(one) >> 10} kB, unpacked {unpacked >> 10} kB, {len(listed)} files on its list")


# ---- the cluster ----

def check_schema():
    """The schema that e2e/manifests uses without a cluster is this API server's."""
    schema = kubernetes_schema.extract(json.loads(kubectl("get", "--raw", "/openapi/v2")))
    if not kubernetes_schema.FILE.exists() or kubernetes_schema.load() != schema:
        kubernetes_schema.store(schema)
        raise AssertionError(f"{kubernetes_schema.FILE} was not this API server's schema; now it is: look at the difference, and commit it")
    say(f"the stored schema of {len(schema['definitions'])} types is the API server's")


def check_pod_security():
    labels = get("namespace", "tutti")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "privileged", labels
    template = get("daemonset", "tutti-agent", "-n", "tutti")["spec"]["template"]
    kubectl("create", "namespace", "strict")
    kubectl("label", "namespace", "strict", "pod-security.kubernetes.io/enforce=restricted")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "agent", "namespace": "strict"}, "spec": {**template["spec"], "serviceAccountName": "default"}}
    wait_until("the account of the new namespace", lambda: kubectl("get", "serviceaccount", "default", "-n", "strict", ok=False).returncode == 0)
    p = kubectl("create", "-f", "-", "--dry-run=server", text=json.dumps(pod), ok=False)
    assert p.returncode and "violates PodSecurity" in p.stderr and "hostPID" in p.stderr, p.stdout + p.stderr
    aggregator = get("statefulset", "tutti-aggregator", "-n", "tutti")["spec"]["template"]["spec"]
    pod["metadata"]["name"], pod["spec"] = "aggregator", {**aggregator, "serviceAccountName": "default"}
    kubectl("create", "-f", "-", "--dry-run=server", text=json.dumps(pod))
    say("PodSecurity: our namespace admits the agent; `restricted` refuses it, and admits the aggregator")


def status_of(pid):
    return dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)


def check_rights(agent, aggregator):
    for pod, capabilities, uid, ports in ((agent, AGENT_CAPABILITIES, "0", set()), (aggregator, "0" * 16, "65532", {"tcp/7401", "udp/7403"})):
        name = pod["metadata"]["name"]
        pid = process_of(pod)
        status = status_of(pid)
        for field in ("CapEff", "CapPrm", "CapBnd"):
            assert status[field] == capabilities, f"{name}: {field} {status[field]}"
        assert (status["NoNewPrivs"], status["Seccomp"], status["Uid"].split()[0]) == ("1", "2", uid), status
        root = next(line.split() for line in pathlib.Path(f"/proc/{pid}/mountinfo").read_text().splitlines() if line.split()[4] == "/")
        assert "ro" in root[5].split(","), root
        has_token = pathlib.Path(f"/proc/{pid}/root/var/run/secrets/kubernetes.io").exists()
        assert has_token == (pod is aggregator), f"{name}: token {has_token}"
        found = {f"{kind}/{port}" for kind, _, port in reachable(pid)}
        assert found == ports, f"{name} listens at {found}"
        say(f"{name}: CapEff {capabilities}, uid {uid}, no new privileges, seccomp, root read-only, {'a' if has_token else 'no'} token, listens at {sorted(ports) or 'nothing'}")


def can_i(verb, what, *words, config=ADMIN):
    """Whether an account may do it; `what` is "pods", "pods/log" or "pods/NAME/log". kubectl itself reads "pods/log" as a pod called log."""
    kind, *rest = what.split("/")
    words = ["/".join([kind, *rest[:-1]]), *(["--subresource", rest[-1]] if rest else []), *words]
    answer = kubectl("auth", "can-i", verb, *words, config=config, ok=False).stdout.strip()
    assert answer in ("yes", "no"), (verb, what, answer)
    return answer == "yes"


def check_accounts():
    """The aggregator reads pods and asks about people's tokens; neither account may do anything else."""
    for account in ("tutti-agent", "tutti-aggregator"):
        for verb, what in (("get", "pods"), ("list", "pods"), ("watch", "pods"), ("delete", "pods"), ("get", "secrets"), ("create", "pods/exec"),
                           ("get", "pods/log"), ("get", "nodes"), ("list", "namespaces"), ("get", "namespaces"), ("create", "events"), ("get", "events"),
                           ("create", "tokenreviews.authentication.k8s.io"), ("create", "subjectaccessreviews.authorization.k8s.io"),
                           ("create", "serviceaccounts/token"), ("impersonate", "users"), ("get", "captures.tutti.dev")):
            may = account == "tutti-aggregator" and (verb, what) in AGGREGATOR_MAY
            assert can_i(verb, what, "-A", "--as", f"system:serviceaccount:tutti:{account}") == may, (account, verb, what)


def operator():
    """The configuration of a user who may forward the port, and capture everywhere, and has no other right."""
    config = person("ada", "operator", "jobs")
    for verb, what, namespace, may in (("create", "pods/tutti-aggregator-0/portforward", "tutti", True), ("create", "pods/portforward", "tutti", False),
                                       ("get", "secrets", "tutti", False), ("create", "pods/exec", "tutti", False),
                                       ("list", "pods", "tutti", True), ("list", "pods", "jobs", False)):
        assert can_i(verb, what, "-n", namespace, config=config) == may, (verb, what, namespace)
    return config


def fetch(server, session):
    out = WORK / "session"
    shutil.rmtree(out, ignore_errors=True)
    tutti(server, "fetch", session, out)
    return xspace.load(next(out.rglob("*.xplane.pb")))


def check_capture(config, job):
    with Forward(config) as server:
        hosts = wait_until("the agent", lambda: connected(server))
        assert [(h["host"], h["labels"]) for h in hosts] == [("localhost", {"node": "localhost"})], hosts
        states = {t["name"]: (t["state"], t["reason"]) for t in hosts[0]["tracers"]}
        for name in ("cpu", "sched", "python", "metrics", "annotations", "marks"):
            assert states[name][0] == "ok", f"tracer {name}: {states[name]}"
        capture = json.loads(tutti(server, "capture", "--hosts", "node=localhost", "--duration", "2s", "--json"))
        assert (capture["state"], capture["complete"], capture["failed"]) == ("committed", 1, 0), capture
        space = fetch(server, capture["session"])
    planes = [p for p in space.planes if xspace.stats(p).get("process_id") == process_of(job)]
    names = {name for p in planes for name, *_ in xspace.events(p)}
    assert {"train", "load", "compute"} <= names, names
    say(f"captured {capture['session']} through the forwarded port: the job's process {process_of(job)} has {len(planes)} plane, with its steps")


def check_job(config, pods):
    """A job captured by its name: the manifest says which pods, and which one was deleted meanwhile."""
    with Forward(config) as server:
        def listed():
            return json.loads(tutti(server, "pods", "job=train", "--json"))
        wait_until("the pods of the job", lambda: len([p for p in listed()["pods"] if p["connected"] and p["phase"] == "Running"]) == 3)
        [job] = [j for j in json.loads(tutti(server, "jobs", "--json"))["jobs"] if j["job"] == "train"]
        assert (job["job_kind"], job["namespace"], job["running"], job["connected"]) == ("Job", "jobs", 3, 3), job
        names = {p["metadata"]["uid"]: p["metadata"]["name"] for p in pods}
        begin = time.monotonic()
        words = ("capture", "--job", "train", "--namespace", "jobs", "--ranks", "0-2", "--duration", "5s", "--json")
        running = subprocess.Popen([TUTTI, words[0], "--server", server, *words[1:]], stdout=subprocess.PIPE, text=True)
        wait_until("the window", lambda: any(c["state"] == "running" for c in captures(server)))
        gone = pods[1]["metadata"]
        kubectl("delete", "pod", gone["name"], "-n", "jobs", "--wait=false")
        out, _ = running.communicate(timeout=120)
        capture = json.loads(out)
        found = {p["uid"]: (p["pod"], p["job"], p["rank"], p["node"], p["host"], p["reason"]) for p in capture["pods"]}
        expected = {uid: (name, "train", name.split("-")[1], "localhost", "localhost", "pod-gone" if uid == gone["uid"] else "") for uid, name in names.items()}
        assert found == expected, (found, expected)
        assert (capture["state"], capture["complete"]) == ("committed", 1), capture
        space = fetch(server, capture["session"])
    check_planes(space, [p["metadata"]["name"] for p in pods if p["metadata"] is not gone])
    session = capture["session"]
    [event] = wait_until("the event of the pod", lambda: [e for e in get("events", "-n", "jobs")["items"] if e["reason"] == "CaptureFailed"])
    assert event["involvedObject"]["uid"] == gone["uid"] and "pod-gone" in event["message"] and session in event["message"], event
    say(f"kubectl describe pod has it: {event['message']}")
    say(f"captured job train by its name in {time.monotonic() - begin:.1f} s (window 5 s): ranks 0 to 2; {gone['name']}, deleted meanwhile, is pod-gone")
    return session


def check_planes(space, names):
    """The planes of the job's processes say which pod, and which rank, they are of; so do the threads that were sampled."""
    planes = {s["pod"]: s for s in map(xspace.stats, space.planes) if "pod" in s}
    for name in names:
        expected = {"pod": name, "container": "main", "namespace": "jobs", "job": "train", "rank": int(name.split("-")[1]), "node": "localhost"}
        assert expected.items() <= planes[name].items(), (name, planes)
        titles = [line.name for p in space.planes if p.name == "/host:CPU scheduler" for line in p.lines]
        assert any(t.endswith(f" {name} rank {expected['rank']}") for t in titles), titles
    say(f"its planes carry pod, container, namespace, job, rank and node; the scheduler's threads are named by pod and rank: {names}")


def check_people(config, session):
    """Each role, in the job's namespace, in another one and in all, tries each verb with the session of the job."""
    lowest = {"read": 1, "pin": 2, "share": 2, "retry": 2, "start": 2, "delete": 3}
    requests = {"read": ("GET", f"sessions/{session}"), "pin": ("PUT", f"sessions/{session}/pin"), "share": ("POST", f"sessions/{session}/links"),
                "retry": ("POST", f"sessions/{session}/retry"), "start": ("POST", "captures"), "delete": ("DELETE", f"sessions/{session}")}
    bodies = {"share": {}, "retry": {}, "start": {"hosts": "job=no-such-job"}}
    callers, cells = [], 0
    for level, role in enumerate(("viewer", "operator", "admin"), 1):
        for scope in ("jobs", "other", "all"):
            name = f"{role}-{scope}"
            kubectl("create", "serviceaccount", name, "-n", "jobs")
            words = ["clusterrolebinding", name] if scope == "all" else ["rolebinding", name, "-n", scope]
            kubectl("create", *words, "--clusterrole", f"tutti-captures-{role}", "--serviceaccount", f"jobs:{name}")
            callers.append((level, scope, token_of(name, "tutti")))
    callers.sort(key=lambda c: (c[1] != "other", c[0]))  # who may delete the session does it last
    kubectl("create", "serviceaccount", "bare", "-n", "jobs")
    with Forward(config) as server:
        for token, status, reason in ((None, 401, ""), (token_of("viewer-all"), 401, "audience"), (token_of("viewer-all", "other"), 401, "audience"),
                                      (token_of("bare", "tutti"), 403, "role none")):
            got, doc = ask(server, token, "GET", "/api/v1/sessions")
            assert got == status and reason in doc["error"], (status, got, doc)
        begin = time.monotonic()
        for level, scope, token in callers:
            for verb, (method, path) in requests.items():
                status, doc = ask(server, token, method, "/api/v1/" + path, bodies.get(verb))
                may = level >= lowest[verb]
                if verb == "start":
                    good = status in (400, 404) if may else status == 403  # there is no such job
                elif scope == "other":
                    good = status == 404
                elif verb == "delete" and may and (level, scope) != (3, "jobs"):
                    good = status in (404, 409, 200, 202, 204)  # another one has removed it
                else:
                    good = status < 300 or status == 409 if may else status == 403
                assert good, (token.name, verb, status, doc)
                cells += 1
                if verb == "delete" and may and status < 300:
                    requests = {v: r for v, r in requests.items() if v == "start"}
    say(f"people by their rights to captures.tutti.dev: {cells} cells of role x namespace x verb, four wrong tokens, in {time.monotonic() - begin:.1f} s")


def check_killed_agent(config, agent):
    """A second agent, as of another node; the node's own is killed in a window: the other host has a whole file, this one says what it lacks."""
    template = get("daemonset", "tutti-agent", "-n", "tutti")["spec"]["template"]
    container = template["spec"]["containers"][0]
    words = {"host": "other", "label": "node=other", "spool": "/var/lib/tutti/other", "local-socket": ""}
    container["args"] = [a for a in container["args"] if a.split("=")[0][2:] not in words] + [f"--{k}={v}" for k, v in words.items()]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):  # they ask at the local socket
        del container[probe]
    apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "other", "namespace": "tutti"}, "spec": template["spec"]})
    with Forward(config) as server:
        wait_until("both agents", lambda: len(connected(server)) == 2)
        running = subprocess.Popen([TUTTI, "capture", "--server", server, "--hosts", "all", "--duration", "4s", "--json"], stdout=subprocess.PIPE, text=True)
        wait_until("the window", lambda: any(c["state"] == "running" for c in captures(server)))
        os.kill(process_of(agent), signal.SIGKILL)
        out, _ = running.communicate(timeout=120)
        capture = json.loads(out)
        states = {h["host"]: (h["state"], h["reason"]) for h in capture["hosts"]}
        assert capture["state"] == "committed" and states["other"] == ("complete", "") and states["localhost"][1], capture["hosts"]
        wait_until("the agent's next process", lambda: len(connected(server)) == 2)
    kubectl("delete", "pod", "other", "-n", "tutti", "--timeout=60s")
    say(f"the node's agent got SIGKILL in a window: {states}, exit {running.returncode}; it is back")


def pods_of_job():
    pods = [p for p in get("pods", "-n", "jobs")["items"] if "deletionTimestamp" not in p["metadata"]]
    ready = [p for p in pods if any(c["type"] == "Ready" and c["status"] == "True" for c in p["status"].get("conditions", []))]
    return sorted(ready, key=lambda p: p["metadata"]["name"]) if len(ready) == 3 else None


def check():
    check_images()
    check_schema()
    begin = time.monotonic()
    kubectl("apply", "-k", OVERLAYS / "dev")
    agent, aggregator = wait_ready()
    say(f"kubectl apply -k: agent and aggregator Ready after {time.monotonic() - begin:.1f} s")

    kubectl("create", "namespace", "jobs")
    kubectl("create", "namespace", "other")
    kubectl("label", "namespace", "jobs", "pod-security.kubernetes.io/enforce=restricted")
    kubectl("apply", "-f", "-", text=json.dumps(JOB))
    jobs = wait_until("the pods of the job", pods_of_job)
    for job in jobs:
        job["spec"]["containers"][0]["image"] = "localhost/annotator:1"  # the program in localhost/job:1

    check_rights(agent, aggregator)
    check_accounts()
    check_pod_security()
    config = operator()
    check_capture(config, jobs[0])
    check_people(config, check_job(config, jobs))
    check_killed_agent(config, agent)
    say(f"all of it removed by kubectl delete -k after {remove(OVERLAYS / 'dev'):.1f} s")
