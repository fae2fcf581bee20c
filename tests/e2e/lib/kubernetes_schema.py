# SPDX-License-Identifier: Apache-2.0
"""The part of a Kubernetes API's schema that our manifests use, as a JSON schema that refuses unknown fields. tests/cluster.sh compares it
with a real API server's, and writes it where they differ."""
import json
import pathlib

FILE = pathlib.Path(__file__).resolve().parents[2] / "data/kubernetes.schema.json"
KINDS = (("", "v1", "Namespace"), ("", "v1", "ServiceAccount"), ("", "v1", "Service"), ("apps", "v1", "StatefulSet"), ("apps", "v1", "DaemonSet"),
         ("policy", "v1", "PodDisruptionBudget"), ("networking.k8s.io", "v1", "NetworkPolicy"), ("networking.k8s.io", "v1", "Ingress"),
         ("rbac.authorization.k8s.io", "v1", "Role"), ("rbac.authorization.k8s.io", "v1", "ClusterRole"),
         ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding"))
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
PREFIX = "#/definitions/"


def strict(node):
    """Without texts; objects with named fields have no others."""
    if isinstance(node, list):
        return [strict(n) for n in node]
    if not isinstance(node, dict):
        return node
    if node.get("format") == "int-or-string":
        return {"type": ["integer", "string"]}
    out = {}
    for key, value in node.items():
        if key == "properties":
            out[key] = {name: strict(v) for name, v in value.items()}
            out["additionalProperties"] = False
        elif key in ("type", "$ref", "items", "required", "enum", "additionalProperties"):
            out[key] = strict(value)
    return out


def references(node):
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref":
                yield value.removeprefix(PREFIX)
            else:
                yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def extract(openapi):
    """From what /openapi/v2 answers."""
    named = {tuple(kind.get(k, "") for k in ("group", "version", "kind")): name for name, d in openapi["definitions"].items()
             for kind in d.get("x-kubernetes-group-version-kind", [])}
    kinds = {"/".join(filter(None, kind)): named[kind] for kind in KINDS}
    definitions, wanted = {}, list(kinds.values())
    while wanted:
        name = wanted.pop()
        if name not in definitions:
            definitions[name] = {"type": ["string", "number"]} if name == QUANTITY else strict(openapi["definitions"][name])
            wanted += references(definitions[name])
    return {"kinds": kinds, "definitions": dict(sorted(definitions.items()))}


def store(schema):
    text = ",\n".join(f" {json.dumps(name)}: {json.dumps(d, separators=(',', ':'))}" for name, d in schema["definitions"].items())
    FILE.write_text(f'{{"kinds": {json.dumps(schema["kinds"], indent=1)},\n"definitions": {{\n{text}\n}}}}\n')


def load():
    return json.loads(FILE.read_text())
