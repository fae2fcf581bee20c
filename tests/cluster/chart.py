# SPDX-License-Identifier: Apache-2.0
"""The chart, installed by helm as docs/install.md has it; one capture by `tutti`, which forwards the port itself."""
import json
import os
import shutil
import subprocess

from bed import ADMIN, KUBECTL, NODE_FOLDER, ROOT, TUTTI, kubectl, person, say, wait_ready, wait_until


def helm(*words):
    program = subprocess.run([ROOT / "tests/servers.sh", "command", "helm"], check=True, capture_output=True, text=True, timeout=60).stdout.strip()
    p = subprocess.run([program, "--kubeconfig", ADMIN, "--namespace", "tutti", *map(str, words)], capture_output=True, text=True, timeout=180)
    assert p.returncode == 0, f"helm {words[0]}: {p.stdout}{p.stderr}"
    return p.stdout


def check():
    helm("install", "tutti", ROOT / "deploy/helm", "--create-namespace", "--set", "store.volume=")
    kubectl("label", "namespace", "tutti", "pod-security.kubernetes.io/enforce=privileged")
    wait_ready()
    config = person("hal", "operator")
    env = {**os.environ, "KUBECONFIG": config, "PATH": f"{os.path.dirname(KUBECTL)}:{os.environ['PATH']}"}
    p = subprocess.run([TUTTI, "capture", "--server", "k8s://tutti/tutti-aggregator", "--hosts", "node=localhost", "--duration", "1s", "--json"],
                       capture_output=True, text=True, env=env, timeout=120)
    assert p.returncode == 0, p.stdout + p.stderr
    capture = json.loads(p.stdout)
    assert (capture["state"], capture["complete"], capture["failed"]) == ("committed", 1, 0), capture
    helm("uninstall", "tutti", "--wait")
    wait_until("an empty namespace", lambda: not kubectl("get", "all,networkpolicies,roles", "-n", "tutti", "-o", "name"))
    kubectl("delete", "namespace", "tutti", "--timeout=120s")
    shutil.rmtree(NODE_FOLDER)
    say(f"helm install, capture {capture['session']} through k8s://tutti/tutti-aggregator, helm uninstall: nothing is left")
