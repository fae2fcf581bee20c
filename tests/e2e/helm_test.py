# SPDX-License-Identifier: Apache-2.0
"""The Helm chart without a cluster: with its values it is what kustomize makes of the base and of each overlay, and values that nothing
reads are refused."""
import subprocess
import sys

import yaml

from lib.cluster import main
from manifests_test import ROOT, render

CHART = ROOT / "deploy/helm"
VALUES = {  # of the base and of each overlay
    "base": {},
    "overlays/bucket": {"store.url": "s3://BUCKET/tutti", "store.secret": "tutti-store", "store.volume": ""},
    "overlays/dev": {"store.volume": "", "store.emptyDir": "4Gi", "images.pullPolicy": "Never"},
    "overlays/enrol": {"enrol.secret": "tutti-authority"},
    "overlays/gpu": {"gpu": "true"},
    "overlays/monitor": {"metrics.secret": "tutti-metrics"},
    "overlays/oidc": {"oidc.issuer": "https://id.example.com", "oidc.grants[0]": "tutti-admins=admin"},
    "overlays/replicas": {"replicas": "2", "store.url": "s3://BUCKET/tutti", "store.secret": "tutti-store", "store.volume": ""},
}


def helm(*words):
    p = subprocess.run([ROOT / "tests/servers.sh", "command", "helm"], capture_output=True, text=True, timeout=100)
    if p.returncode:
        sys.exit(p.stderr)
    return subprocess.run([p.stdout.strip(), *map(str, words)], capture_output=True, text=True, timeout=60)


def template(values, namespace="tutti"):
    return helm("template", "tutti", CHART, "--namespace", namespace, *(f"--set={k}={v}" for k, v in values.items()))


def objects(values, namespace="tutti"):
    p = template({"createNamespace": "true", **values}, namespace)
    assert p.returncode == 0, p.stderr
    found = [o for o in yaml.safe_load_all(p.stdout) if o]
    by_name = {(o["kind"], o["metadata"]["name"]): o for o in found}
    assert len(by_name) == len(found)
    return by_name


def test_same():
    overlays = {str(p.relative_to(ROOT / "deploy/kubernetes")) for p in (ROOT / "deploy/kubernetes/overlays").iterdir()}
    assert overlays == set(VALUES) - {"base"}, "each overlay has its values here"
    for overlay, values in VALUES.items():
        wanted, got = render(overlay), objects(values)
        assert wanted.keys() == got.keys(), (overlay, wanted.keys() ^ got.keys())
        for name, o in wanted.items():
            assert o == got[name], f"{overlay}, {name}:\n{o}\n{got[name]}"
    print(f"helm: {len(VALUES)} renderings are those of kustomize")


def test_values():
    assert ("Namespace", "tutti") not in objects({"createNamespace": "false"})
    both = objects({"enrol.secret": "a", "metrics.secret": "b", "oidc.issuer": "https://id"})["StatefulSet", "tutti-aggregator"]
    args = both["spec"]["template"]["spec"]["containers"][0]["args"]
    assert {"--insecure", "--enrol=/var/lib/tutti/authority", "--http=0.0.0.0:7400", "--anonymous=none"} <= set(args), args
    pair = objects({**VALUES["overlays/replicas"], "enrol.secret": "a"})
    container = pair["StatefulSet", "tutti-aggregator"]["spec"]["template"]["spec"]["containers"][0]
    assert "--enrol-name=$(POD_NAME).tutti-aggregator.tutti.svc" in container["args"] and "httpGet" in container["readinessProbe"], container
    other = objects({}, "profiling")
    spaces = {o["metadata"].get("namespace", "profiling") for o in other.values()}
    assert spaces == {"profiling"} and ("Namespace", "profiling") in other, spaces
    assert other["ClusterRoleBinding", "tutti-aggregator"]["subjects"][0]["namespace"] == "profiling"
    assert "--aggregator=tutti-aggregator.profiling.svc:7401" in other["DaemonSet", "tutti-agent"]["spec"]["template"]["spec"]["containers"][0]["args"]
    for key, value in (("image", "x"), ("images.pullPolicy", "Sometimes"), ("store.url", "ftp://x"), ("store.volume", "much"), ("gpu", "2"), ("agent.cpu", "1"), ("oidc.grants[0]", "all=root"), ("oidc.issuer", "http://x"), ("replicas", "0"),
                       ("replicas", "2")):  # without a bucket
        p = template({key: value})
        assert p.returncode and "values don't meet the specifications" in p.stderr, (key, p.stdout, p.stderr)
    p = template({**VALUES["overlays/replicas"], "oidc.issuer": "https://id"})
    assert p.returncode and "values don't meet the specifications" in p.stderr, (p.stdout, p.stderr)


if __name__ == "__main__":
    main(test_same, test_values)
