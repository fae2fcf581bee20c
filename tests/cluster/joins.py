# SPDX-License-Identifier: Apache-2.0
"""A thousand agents enrol at once, each with the token of its pod on its node: the API server and its TokenReviews are real; the nodes and their
pods are records that no kubelet runs."""
import concurrent.futures
import json
import os
import ssl
import subprocess
import sys
import urllib.request

from bed import ADMIN, KUBECTL, ROOT, WORK, apply, kubectl, say

HOSTS = 1000
SPACE, ACCOUNT, LABEL = "tutti", "tutti-agent", "tests.tutti.dev/joins"
CA = WORK / "run/certs/apiserver.crt"


class Api:
    """The API server, as its administrator."""

    def __init__(self):
        self.url = json.loads(subprocess.run([KUBECTL, "--kubeconfig", ADMIN, "config", "view", "--raw", "-o", "json"], check=True,
                                             capture_output=True, timeout=60).stdout)["clusters"][0]["cluster"]["server"]
        self.tls = ssl.create_default_context(cafile=CA)

    def create(self, path, doc):
        request = urllib.request.Request(self.url + path, json.dumps(doc).encode(), method="POST")
        request.add_header("Authorization", "Bearer admintoken")
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=60, context=self.tls) as answer:
            return json.loads(answer.read())


def enter(api, node):
    """A node with an agent's pod; returns the token that its kubelet would project."""
    api.create("/api/v1/nodes", {"metadata": {"name": node, "labels": {LABEL: ""}}, "spec": {"unschedulable": True}})
    pod = api.create(f"/api/v1/namespaces/{SPACE}/pods", {
        "metadata": {"name": f"tutti-agent-{node}"},
        "spec": {"nodeName": node, "serviceAccountName": ACCOUNT, "tolerations": [{"operator": "Exists"}],
                 "containers": [{"name": "agent", "image": "localhost/none:1"}]}})
    review = api.create(f"/api/v1/namespaces/{SPACE}/serviceaccounts/{ACCOUNT}/token", {
        "spec": {"audiences": ["tutti-agents"], "expirationSeconds": 3600,
                 "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}}})
    return review["status"]["token"]


def remove():
    kubectl("delete", "pods", "-n", SPACE, "--all", "--force", "--grace-period=0", "--wait=false")
    kubectl("delete", "nodes", "-l", LABEL, "--wait=false")
    kubectl("delete", "namespace", SPACE, "--wait=true", "--timeout=120s")
    kubectl("delete", "clusterrolebinding", "tutti-joins")


def check():
    # the aggregator's account may ask for TokenReviews, and nothing else
    apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}},
          {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": SPACE}},
          {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "tutti-aggregator", "namespace": SPACE}},
          {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "tutti-joins"},
           "subjects": [{"kind": "ServiceAccount", "name": "tutti-aggregator", "namespace": SPACE}],
           "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:auth-delegator"}})
    api = Api()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        nodes = [f"node-{i:05}" for i in range(HOSTS)]
        tokens = list(pool.map(lambda node: enter(api, node), nodes))
    own, of_agents = WORK / "aggregator.token", WORK / "agents.tokens"
    own.write_text(kubectl("create", "token", "tutti-aggregator", "-n", SPACE))
    of_agents.write_text("".join(f"{n} {t}\n" for n, t in zip(nodes, tokens)))
    p = subprocess.run([sys.executable, ROOT / "tests/scale/joins", "--server", api.url, own, CA, of_agents], capture_output=True, text=True,
                       env={**os.environ, "TUTTI_BIN": str(ROOT / "build/release/bin")}, timeout=1800)
    say("joins: " + p.stdout.strip())
    assert p.returncode == 0, p.stdout + p.stderr
    remove()
