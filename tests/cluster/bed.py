# SPDX-License-Identifier: Apache-2.0
"""What the parts of tests/cluster share: kubectl, people and their tokens, forwarded ports, volumes."""
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
KUBECTL, WORK = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
ADMIN = str(WORK / "run/kubeconfig")
TUTTI = ROOT / "build/release/bin/tutti"
OVERLAYS = ROOT / "deploy/kubernetes/overlays"
NODE_FOLDER = pathlib.Path("/var/lib/tutti-node")  # of the node, which is this machine


def say(text):
    print("cluster:", text, flush=True)


def kubectl(*words, config=ADMIN, text=None, ok=True):
    p = subprocess.run([KUBECTL, "--kubeconfig", config, *map(str, words)], input=text, capture_output=True, text=True, timeout=180)
    assert not ok or p.returncode == 0, f"kubectl {' '.join(map(str, words))}: {p.stdout}{p.stderr}"
    return p.stdout if ok else p


def get(*words):
    return json.loads(kubectl("get", *words, "-o", "json"))


def apply(*objects):
    kubectl("apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))


def wait_until(what, condition, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.2)
    raise AssertionError(f"waited {seconds} s for {what}, without success\n{kubectl('get', 'pods,events', '-A', ok=False).stdout}")


# ---- what is deployed ----

def pod_ready(name, namespace="tutti"):
    pods = [p for p in get("pods", "-n", namespace)["items"] if p["metadata"]["name"].startswith(name) and "deletionTimestamp" not in p["metadata"]]
    ready = [p for p in pods if any(c["type"] == "Ready" and c["status"] == "True" for c in p["status"].get("conditions", []))]
    return ready[0] if len(ready) == len(pods) == 1 else None


def wait_ready():
    """(agent, aggregator): their pods."""
    return tuple(wait_until(name, lambda: pod_ready(name)) for name in ("tutti-agent", "tutti-aggregator"))


def process_of(pod):
    """The pid on this machine of the pod's program."""
    uid = pod["metadata"]["uid"]
    program = pod["spec"]["containers"][0]["image"].split("/")[-1].split(":")[0]
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and uid in (entry / "cgroup").read_text().replace("_", "-") and program in os.readlink(entry / "exe"):
                return int(entry.name)
        except OSError:
            pass
    raise AssertionError(f"no process of {pod['metadata']['name']}")


def give_volume():
    """For the claim of the aggregator's pod: a folder of this machine. The cluster has no storage class."""
    folder = WORK / "store"
    remove_volume()
    folder.mkdir()
    os.chown(folder, 65532, 65532)
    apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "tutti-store"}, "spec": {
        "capacity": {"storage": "100Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": str(folder)},
        "claimRef": {"namespace": "tutti", "name": "store-tutti-aggregator-0"}}})


def remove_volume():
    kubectl("delete", "persistentvolume", "tutti-store", "--ignore-not-found", "--timeout=60s")
    shutil.rmtree(WORK / "store", ignore_errors=True)


def remove(folder):
    begin = time.monotonic()
    kubectl("delete", "-k", folder, "--wait=true", "--timeout=120s")
    assert kubectl("get", "namespace", "tutti", ok=False).returncode, "the namespace is still there"
    shutil.rmtree(NODE_FOLDER)  # which it leaves
    return time.monotonic() - begin


# ---- people ----

def token_of(account, audience=None, namespace="jobs"):
    """A token of an account, in a file."""
    path = WORK / f"{account}-{audience or 'api'}.token"
    path.write_text(kubectl("create", "token", account, "-n", namespace, *(["--audience", audience] if audience else [])))
    path.chmod(0o600)
    return path


def person(name, role, namespace="tutti"):
    """The configuration of a user who may forward the port, and has this role everywhere, and no other right; `tutti` shows his token from now on."""
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": namespace}]
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "subjects": subjects}
    apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}},
          {**rbac, "kind": "RoleBinding", "metadata": {"name": name, "namespace": "tutti"},
           "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tutti-forward"}},
          {**rbac, "kind": "ClusterRoleBinding", "metadata": {"name": name},
           "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"tutti-captures-{role}"}})
    os.environ["TUTTI_TOKEN_FILE"] = str(token_of(name, "tutti", namespace))
    path = WORK / f"{name}.kubeconfig"
    path.write_text(pathlib.Path(ADMIN).read_text().replace("admintoken", token_of(name, None, namespace).read_text().strip()))
    return str(path)


# ---- the aggregator ----

class Forward:
    def __init__(self, config, pod="tutti-aggregator-0"):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.command = [KUBECTL, "--kubeconfig", config, "-n", "tutti", "port-forward", f"pod/{pod}", f"{self.port}:7400"]

    def __enter__(self):
        self.log = WORK / f"forward-{self.port}.log"
        with open(self.log, "w") as log:
            self.p = subprocess.Popen(self.command, stdout=log, stderr=log)
        wait_until("a forwarded port", lambda: self.p.poll() is not None or "Forwarding" in self.log.read_text(), 20)
        assert self.p.poll() is None, self.log.read_text()
        return f"http://127.0.0.1:{self.port}"

    def __exit__(self, *_):
        self.p.terminate()
        self.p.wait(20)


def tutti(server, *words):
    p = subprocess.run([TUTTI, words[0], "--server", server, *words[1:]], capture_output=True, text=True, timeout=180)
    assert p.returncode == 0, f"tutti {' '.join(map(str, words))}: exit {p.returncode}\n{p.stdout}{p.stderr}"
    return p.stdout


def connected(server):
    return [h for h in json.loads(tutti(server, "hosts", "--json"))["hosts"] if h["state"] == "connected"]


def captures(server):
    return ask(server, pathlib.Path(os.environ["TUTTI_TOKEN_FILE"]), "GET", "/api/v1/captures")[1]["captures"]


def ask(server, token, method, path, body=None):
    """(status, document); `token`: its file, or None."""
    request = urllib.request.Request(server + path, None if body is None else json.dumps(body).encode(), method=method)
    if token:
        request.add_header("Authorization", "Bearer " + token.read_text().strip())
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            status, text = answer.status, answer.read()
    except urllib.error.HTTPError as e:
        status, text = e.code, e.read()
    try:
        return status, json.loads(text)
    except ValueError:
        return status, {"error": text.decode(errors="replace")}
