# SPDX-License-Identifier: Apache-2.0
"""The manifests of deploy/kubernetes without a cluster: each overlay renders, fits the API server's schema (unknown fields are refused), names
flags and settings that the programs have, and gives no right that is not listed here. tests/cluster.sh runs them."""
import pathlib
import re
import shutil
import subprocess
import sys

import jsonschema
import yaml

from lib import kubernetes_schema
from lib.cluster import BIN

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy/kubernetes"
OVERLAYS = [".", "base", *(f"overlays/{p.name}" for p in sorted((FOLDER / "overlays").iterdir()))]
HTTP = {"overlays/oidc": "tutti.dev/ingress", "overlays/monitor": "tutti.dev/monitoring"}  # the label of the namespaces that reach HTTP
PAIR = "overlays/replicas"  # HTTP for the kubelet
CAPABILITIES = ["PERFMON", "BPF", "SYS_PTRACE", "SYSLOG", "DAC_READ_SEARCH"]


def kustomize():
    """kubectl has it, and tests/servers.sh where there is no kubectl."""
    if shutil.which("kubectl"):
        return ["kubectl", "kustomize"]
    p = subprocess.run([ROOT / "tests/servers.sh", "command", "kustomize"], capture_output=True, text=True, timeout=100)
    if p.returncode:
        sys.exit(p.stderr)
    return [*p.stdout.split(), "build"]


def render(overlay):
    p = subprocess.run([*kustomize(), FOLDER / overlay], capture_output=True, text=True, timeout=60)
    assert p.returncode == 0, f"{overlay}: {p.stderr}"
    objects = list(yaml.safe_load_all(p.stdout))
    by_name = {(o["kind"], o["metadata"]["name"]): o for o in objects}
    assert len(by_name) == len(objects)
    return by_name


def monitor_schema():
    """Of a ServiceMonitor, which a cluster has of the Prometheus operator: the fields of the spec that the operator knows."""
    crd = yaml.safe_load((ROOT / "tests/data/servicemonitors.yaml").read_text())
    return kubernetes_schema.strict(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"])


def check_schema(schema, objects):
    for (kind, name), o in objects.items():
        if kind == "ServiceMonitor":
            assert o["apiVersion"] == "monitoring.coreos.com/v1"
            jsonschema.Draft7Validator(monitor_schema()).validate(o["spec"])
            continue
        definition = schema["kinds"][f"{o['apiVersion']}/{kind}"]
        jsonschema.Draft7Validator({"$ref": kubernetes_schema.PREFIX + definition, "definitions": schema["definitions"]}).validate(o)
        if kind not in ("Namespace", "ClusterRole", "ClusterRoleBinding"):
            assert o["metadata"]["namespace"] == "tutti", (kind, name)


def help_flags(program):
    out = subprocess.run([BIN / program, "--help"], capture_output=True, text=True, check=True, timeout=60).stdout
    return set(re.findall(r"^  --([a-z0-9-]+)", out, flags=re.M))


def check_settings(container, program):
    """Every flag and TUTTI_ variable is a setting of the program."""
    flags = help_flags(program)
    for argument in container["args"]:
        name = re.fullmatch(r"--([a-z0-9-]+)(=.*)?", argument)
        assert name and name[1] in flags, f"{program} has no {argument}"
    for variable in container.get("env", []):
        if variable["name"].startswith("TUTTI_"):
            name = variable["name"].removeprefix("TUTTI_").lower().replace("_", "-")
            assert name in flags, f"{program} has no setting {variable['name']}"


def pod(o):
    spec = o["spec"]["template"]["spec"]
    assert len(spec["containers"]) == 1 and "initContainers" not in spec
    container = spec["containers"][0]
    assert spec["automountServiceAccountToken"] is False and spec["enableServiceLinks"] is False
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    security = container["securityContext"]
    assert security["allowPrivilegeEscalation"] is False and security["readOnlyRootFilesystem"] is True and not security.get("privileged")
    assert security["capabilities"]["drop"] == ["ALL"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert probe in container, probe
    assert "memory" in container["resources"]["limits"] and set(container["resources"]["requests"]) == {"cpu", "memory"}
    for field in ("hostNetwork", "hostIPC", "shareProcessNamespace"):
        assert field not in spec, field
    assert o["spec"]["selector"]["matchLabels"].items() <= o["spec"]["template"]["metadata"]["labels"].items()
    mounts, volumes = {m["name"] for m in container["volumeMounts"]}, {v["name"] for v in spec["volumes"]}
    volumes |= {c["metadata"]["name"] for c in o["spec"].get("volumeClaimTemplates", [])}
    assert mounts == volumes, (mounts, volumes)
    return spec, container


def check_agent(o, overlay):
    spec, container = pod(o)
    assert container["securityContext"]["capabilities"]["add"] == CAPABILITIES
    assert spec["hostPID"] is True and spec["tolerations"] == [{"operator": "Exists"}]
    assert [v["hostPath"]["path"] for v in spec["volumes"] if "hostPath" in v] == ["/run/tutti", "/var/lib/tutti-node"]
    limit_s = int(next(a for a in container["args"] if a.startswith("--stop-limit=")).split("=")[1][:-1])
    assert spec["terminationGracePeriodSeconds"] > limit_s + 2, "what is recorded when a pod ends is delivered first"
    assert "ports" not in container
    secrets = [v["projected"] for v in spec["volumes"] if "projected" in v or "secret" in v]
    if overlay == "overlays/enrol":
        [volume] = secrets  # its own token for us, and of the authority the certificate only
        assert [s["serviceAccountToken"]["audience"] for s in volume["sources"] if "serviceAccountToken" in s] == ["tutti-agents"]
        assert [s["secret"]["items"] for s in volume["sources"] if "secret" in s] == [[{"key": "tls.crt", "path": "ca.crt"}]]
    else:
        assert not secrets
    assert spec.get("runtimeClassName") == ("nvidia" if overlay == "overlays/gpu" else None)
    check_settings(container, "tutti-agent")


def check_aggregator(objects, overlay):
    o = objects["StatefulSet", "tutti-aggregator"]
    spec, container = pod(o)
    assert o["spec"]["replicas"] == (2 if overlay == PAIR else 1)
    assert ("--replica=$(POD_NAME)" in container["args"]) == (overlay == PAIR), "two aggregators must not use one store, unless one leads"
    assert "add" not in container["securityContext"]["capabilities"] and "hostPID" not in spec
    assert spec["securityContext"]["runAsNonRoot"] is True and spec["securityContext"]["runAsUser"] == 65532
    assert not [v for v in spec["volumes"] if "hostPath" in v]
    [token] = [s["serviceAccountToken"] for v in spec["volumes"] for s in v.get("projected", {}).get("sources", []) if "serviceAccountToken" in s]
    assert token["expirationSeconds"] <= 3600, token
    check_settings(container, "tutti-aggregator")
    assert ("--insecure" in container["args"]) == (overlay != "overlays/enrol")
    # What others reach is what the Service and the NetworkPolicy name; HTTP is the pod's own, except where people or Prometheus reach it.
    ports = {(p["containerPort"], p.get("protocol", "TCP")) for p in container["ports"]}
    assert ports == {(7401, "TCP"), (7403, "UDP"), *({(7400, "TCP")} if overlay in (*HTTP, PAIR) else ())}
    service = objects["Service", "tutti-aggregator"]["spec"]
    assert {(p["port"], p.get("protocol", "TCP")) for p in service["ports"]} == {(7401, "TCP"), (7403, "UDP")}
    assert service["clusterIP"] == "None"
    rule, *more = objects["NetworkPolicy", "tutti-aggregator"]["spec"]["ingress"]
    assert {(p["port"], p["protocol"]) for p in rule["ports"]} == {(7401, "TCP"), (7403, "UDP")}
    if overlay in HTTP:
        assert "--http=0.0.0.0:7400" in container["args"] and "--anonymous=none" in container["args"]
        assert more == [{"from": [{"namespaceSelector": {"matchLabels": {HTTP[overlay]: "true"}}}], "ports": [{"port": 7400, "protocol": "TCP"}]}]
    elif overlay == PAIR:
        assert "--http=0.0.0.0:7400" in container["args"] and "--anonymous=none" in container["args"]
        assert more == [{"from": [{"podSelector": {"matchLabels": o["spec"]["selector"]["matchLabels"]}}], "ports": [{"port": 7403, "protocol": "UDP"}]}]
        pods = [f"tutti-aggregator-{i}" for i in range(2)]
        agent = objects["DaemonSet", "tutti-agent"]["spec"]["template"]["spec"]["containers"][0]
        assert agent["args"][0] == "--aggregator=" + ",".join(f"{p}.tutti-aggregator.tutti.svc:7401" for p in pods)
        assert service["publishNotReadyAddresses"] is True
    else:
        assert "--http=127.0.0.1:7400" in container["args"] and not more
    check_services(objects)
    check_disruptions(objects)
    check_overlay(objects, overlay)
    assert bool(o["spec"].get("volumeClaimTemplates")) == (overlay not in ("overlays/bucket", "overlays/dev", PAIR))


def check_disruptions(objects):
    """A drain moves the aggregator, and never both of two at once."""
    spec = objects["PodDisruptionBudget", "tutti-aggregator"]["spec"]
    labels = objects["StatefulSet", "tutti-aggregator"]["spec"]["template"]["metadata"]["labels"]
    assert spec["maxUnavailable"] == 1 and spec["selector"]["matchLabels"].items() <= labels.items(), spec


def check_overlay(objects, overlay):
    """What each overlay is there for, as far as no other check has it."""
    aggregator, agent = (objects[o]["spec"]["template"]["spec"] for o in (("StatefulSet", "tutti-aggregator"), ("DaemonSet", "tutti-agent")))
    [container], [of_agent] = aggregator["containers"], agent["containers"]
    environment = {v["name"]: v["value"] for v in container["env"] if "value" in v}
    store = next(v for v in [*aggregator["volumes"], {"name": "store", "claim": True}] if v["name"] == "store")
    pull = {c.get("imagePullPolicy") for c in (container, of_agent)}
    assert pull == ({"Never"} if overlay == "overlays/dev" else {None}), pull
    if overlay in ("overlays/bucket", PAIR):  # the URL decides which kind: docs/storage.md
        assert environment["TUTTI_STORE"] == "s3://BUCKET/tutti" and "emptyDir" in store, (environment, store)
        assert container["envFrom"] == [{"secretRef": {"name": "tutti-store", "optional": True}}]
    else:
        assert environment["TUTTI_STORE"] == "file:///var/lib/tutti" and "envFrom" not in container, environment
        assert ("emptyDir" in store) == (overlay == "overlays/dev"), store
    gpu = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "utility"} if overlay == "overlays/gpu" else {}
    assert {v["name"]: v["value"] for v in of_agent["env"] if v["name"].startswith("NVIDIA")} == gpu
    assert agent["nodeSelector"] == {"kubernetes.io/os": "linux", **({"nvidia.com/gpu.present": "true"} if gpu else {})}
    oidc = {a.split("=")[0] for a in container["args"] if a.startswith("--oidc")}
    assert oidc == ({"--oidc-issuer", "--oidc-audience", "--oidc-grant"} if overlay == "overlays/oidc" else set()), oidc
    assert (("ServiceMonitor", "tutti-aggregator") in objects) == (overlay == "overlays/monitor")


def check_services(objects):
    """What names a Service or one of its ports names one that is there."""
    labels = objects["StatefulSet", "tutti-aggregator"]["spec"]["template"]["metadata"]["labels"]
    ports = {p["name"] for p in objects["StatefulSet", "tutti-aggregator"]["spec"]["template"]["spec"]["containers"][0]["ports"]}
    services = {name: o for (kind, name), o in objects.items() if kind == "Service"}
    for o in services.values():
        assert o["spec"]["selector"].items() <= labels.items() and {p["targetPort"] for p in o["spec"]["ports"]} <= ports, o
    for (kind, _), o in objects.items():
        if kind == "Ingress":
            backend = o["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
            assert backend["port"]["name"] in {p["name"] for p in services[backend["name"]]["spec"]["ports"]}
            assert [o["spec"]["rules"][0]["host"]] == o["spec"]["tls"][0]["hosts"]
            assert f"--http-host={o['spec']['rules'][0]['host']}" in objects["StatefulSet", "tutti-aggregator"]["spec"]["template"]["spec"]["containers"][0]["args"]
        if kind == "ServiceMonitor":
            [found] = [s for s in services.values() if o["spec"]["selector"]["matchLabels"].items() <= s["metadata"]["labels"].items()]
            assert o["spec"]["endpoints"][0]["port"] in {p["name"] for p in found["spec"]["ports"]}


def check_rights(objects, overlay):
    """What the aggregator reads and asks, which is all that a program may; the other roles are for people."""
    assert not [k for k in objects if k[0] in ("RoleBinding", "Secret")], objects.keys()
    assert {k[1]: o["rules"] for k, o in objects.items() if k[0] == "ClusterRole"} == dict([
        ("tutti-aggregator", [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
                              {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list"]},
                              {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
                              {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
                              {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]}])] + [
        (f"tutti-captures-{role}", [{"apiGroups": ["tutti.dev"], "resources": ["captures"], "verbs": verbs}])
        for role, verbs in (("viewer", ["get", "list"]), ("operator", ["get", "list", "create"]), ("admin", ["get", "list", "create", "delete"]))])
    [binding] = [o for k, o in objects.items() if k[0] == "ClusterRoleBinding"]
    assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "tutti-aggregator"}
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "tutti-aggregator", "namespace": "tutti"}]
    roles = {k: o["rules"] for k, o in objects.items() if k[0] == "Role"}
    assert roles == {("Role", "tutti-forward"): [
        {"apiGroups": [""], "resources": ["services", "pods"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["pods/portforward"], "verbs": ["create", "get"],
         "resourceNames": ["tutti-aggregator-0", *(["tutti-aggregator-1"] if overlay == PAIR else [])]}]}, roles
    for kind, name in objects:
        if kind == "ServiceAccount":
            assert objects[kind, name]["automountServiceAccountToken"] is False
    assert "ingress" not in objects["NetworkPolicy", "tutti-agent"]["spec"], "nothing has to reach an agent"
    assert objects["Namespace", "tutti"]["metadata"]["labels"].items() >= {f"pod-security.kubernetes.io/{mode}": level for mode, level in
                                                                           (("enforce", "privileged"), ("audit", "restricted"), ("warn", "restricted"))}.items()


def check_refusals(schema, objects):
    """The check itself finds a field that Kubernetes does not know, and a value of a wrong type."""
    for change in ({"hostPid": True}, {"hostPID": "yes"}):
        broken = yaml.safe_load(yaml.safe_dump(objects["DaemonSet", "tutti-agent"]))
        broken["spec"]["template"]["spec"].update(change)
        try:
            check_schema(schema, {("DaemonSet", "tutti-agent"): broken})
        except jsonschema.ValidationError:
            continue
        raise AssertionError(f"{change} is not refused")


def main():
    schema = kubernetes_schema.load()
    version = subprocess.run([BIN / "tutti", "--version"], capture_output=True, text=True, check=True, timeout=60).stdout.split()[1]
    for overlay in OVERLAYS:
        objects = render(overlay)
        check_schema(schema, objects)
        check_rights(objects, overlay)
        check_agent(objects["DaemonSet", "tutti-agent"], overlay)
        check_aggregator(objects, overlay)
        images = {o["spec"]["template"]["spec"]["containers"][0]["image"] for (kind, _), o in objects.items() if kind in ("DaemonSet", "StatefulSet")}
        assert images == {f"localhost/tutti-agent:{version}", f"localhost/tutti-aggregator:{version}"}, images
    check_refusals(schema, render("."))
    print(f"{len(OVERLAYS)} sets of manifests")


if __name__ == "__main__":
    main()
