# SPDX-License-Identifier: Apache-2.0
"""What Prometheus, Grafana and a collector of logs get: metrics named by Prometheus's conventions, a dashboard and alerts that ask for no
other ones, log lines as JSON."""
import json
import pathlib
import re

import yaml

from lib.cluster import Cluster, main

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "deploy/monitoring"


def read(lines):
    """{family: type} and {sample's name}; each family has its help and type before its samples, and once."""
    types, helps, samples = {}, {}, set()
    for line in lines:
        if line.startswith("# HELP "):
            _, _, name, text = line.split(" ", 3)
            assert name not in helps and text.endswith("."), line
            helps[name] = text
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name in helps and name not in types, line
            types[name] = kind
        elif line:
            m = re.fullmatch(r'([a-z_]+)(\{(?:[a-z_]+="(?:[^"\\]|\\.)*",?)+\})? (\+Inf|-?[0-9.e+-]+)', line)
            assert m, f"no line of Prometheus: {line}"
            family = next((f for f in (m[1], re.sub(r"_(bucket|sum|count)$", "", m[1])) if f in types), None)
            assert family, f"{m[1]} has no type"
            samples.add(m[1])
    return types, samples


def test_metrics():
    with Cluster() as c:
        c.aggregator("--quota-bytes", "1G", "--quota-sessions", "100")
        c.agent("host-a", tracers="metrics")
        c.wait_hosts(1)
        c.tutti("capture", "-d", "200ms", check=0)
        types, samples = read(c.metrics())
        for name, kind in types.items():
            assert (kind == "counter") == name.endswith("_total"), f"{name} is a {kind}"
            assert kind != "histogram" or name.endswith("_seconds"), name
            words = name.split("_")
            assert words[0] == "tutti" and not {"ms", "us", "ns", "kb", "mb", "percent"} & set(words), f"{name}: base units alone"

        dashboard = json.loads((FOLDER / "dashboard.json").read_text())
        asked = [t["expr"] for p in dashboard["panels"] for t in p["targets"]]
        rules = [r for g in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"] for r in g["rules"]]
        optional = {"tutti_sessions", "tutti_sessions_pinned"}  # after the first look for old sessions
        for expression in asked + [r["expr"] for r in rules]:
            metrics = set(re.findall(r"\btutti_[a-z_]+", expression))
            assert metrics and not (missing := metrics - samples - optional), f"{expression}: {missing} is no metric"
        for r in rules:
            assert r["annotations"].keys() == {"summary", "description"} and r["labels"]["severity"] in ("warning", "critical"), r
        assert len({p["id"] for p in dashboard["panels"]}) == len(dashboard["panels"]) and len({r["alert"] for r in rules}) == len(rules)


def test_json_logs():
    with Cluster() as c:
        c.aggregator("--log-format", "json")
        c.agent("host-a", "--log-format", "json", "--label", 'note=a "quoted" word', tracers="metrics")
        c.wait_hosts(1)
        for name, wanted in (("aggregator", "AGG-HOST"), ("host-a", "AGT-LINK")):
            lines = [json.loads(line) for line in c.log(name).splitlines()]
            assert all(set(line) == {"time", "level", "id", "fields"} for line in lines), lines
            assert wanted in {line["id"] for line in lines}, lines
        host = next(json.loads(line) for line in c.log("aggregator").splitlines() if '"AGG-HOST"' in line)
        assert host["level"] == "info" and host["fields"]["host"] == "host-a" and host["fields"]["version"], host


if __name__ == "__main__":
    main(test_metrics, test_json_logs)
