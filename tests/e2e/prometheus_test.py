# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus scrapes an aggregator, with the alert rules of deploy/monitoring: each rule is loaded and evaluated, each query of the
dashboard has an answer, and a capture without any file raises its alert."""
import json
import pathlib
import subprocess
import urllib.error
import urllib.parse
import urllib.request

from lib.cluster import SLOW, Cluster, free_port, main, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy/monitoring"
CONFIG = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs: [{{job_name: tutti, static_configs: [{{targets: ["127.0.0.1:{port}"]}}]}}]
"""
INTERVAL = "15s"  # what Grafana puts in the place of $__rate_interval
# Of an hour of an idle fleet, without quotas, and before the first look for old sessions: no series is an answer.
MAY_BE_EMPTY = ("quota", "tutti_sessions")


class Prometheus:
    def __init__(self, c):
        program = subprocess.run([ROOT / "tests/servers.sh", "command", "prometheus"], capture_output=True, text=True, check=True, timeout=100).stdout.strip()
        self.port, self.tool = free_port(), pathlib.Path(program).with_name("promtool")
        config = c.dir / "prometheus.yml"
        config.write_text(CONFIG.format(rules=FOLDER / "alerts.yaml", port=c.http))
        for words in (["check", "config", config], ["check", "rules", FOLDER / "alerts.yaml"]):
            p = subprocess.run([self.tool, *words], capture_output=True, text=True, timeout=60)
            assert p.returncode == 0, p.stdout + p.stderr
        c.start("prometheus", [program, "--config.file", config, "--storage.tsdb.path", c.dir / "tsdb", "--web.listen-address", f"127.0.0.1:{self.port}"])
        wait_until("Prometheus", self.is_ready, 60)
        wait_until("Prometheus to have scraped", lambda: [t for t in self.targets() if t["health"] == "up"], 60)

    def get(self, path, **query):
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=20 * SLOW) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as e:
            raise AssertionError(f"{url}: {e.read().decode()}") from None

    def is_ready(self):
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=20 * SLOW).status == 200
        except OSError:
            return False

    def targets(self):
        return self.get("targets")["activeTargets"]

    def rules(self):
        return [r for g in self.get("rules")["groups"] for r in g["rules"]]

    def query(self, expression):
        return self.get("query", query=expression)["result"]


def check_metrics_text(p, c):
    """promtool knows Prometheus's own conventions."""
    out = subprocess.run([p.tool, "check", "metrics"], input="\n".join(c.metrics()) + "\n", capture_output=True, text=True, timeout=60)
    assert out.returncode == 0, out.stdout + out.stderr


def check_dashboard(p):
    panels = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
    asked = [t["expr"].replace("$__rate_interval", INTERVAL) for panel in panels for t in panel["targets"]]
    for expression in asked:
        if any(word in expression for word in MAY_BE_EMPTY):
            p.query(expression)
        else:
            wait_until(f"an answer to {expression}", lambda: p.query(expression), 30)
    return len(asked)


def test_rules_and_dashboard():
    with Cluster() as c:
        c.aggregator()
        agent = c.agent("host-a", tracers="metrics")
        c.wait_hosts(1)
        p = Prometheus(c)
        check_metrics_text(p, c)
        c.tutti("capture", "-d", "200ms", check=0)
        n = check_dashboard(p)
        wait_until("each rule's first evaluation", lambda: all(r["health"] == "ok" for r in p.rules()), 60)
        rules = p.rules()
        firing = [r["name"] for r in rules if r["state"] != "inactive"]
        assert not firing, firing
        for sample in ('tutti_hosts{state="connected"}', 'tutti_captures_total{result="committed"}'):
            wait_until(f"{sample} to be 1", lambda: p.query(sample)[0]["value"][1] == "1", 30)

        agent.kill()
        agent.wait(20 * SLOW)
        agent.expected = False
        code, _ = c.tutti("capture", "-d", "200ms")
        assert code == 4, code
        wait_until("the alert", lambda: {r["name"]: r["state"] for r in p.rules()}["TuttiCapturesFail"] == "firing", 60)
        wait_until("the lost host", lambda: {r["name"]: r["state"] for r in p.rules()}["TuttiHostsLost"] == "pending", 60)
        alert = next(a for a in p.get("alerts")["alerts"] if a["labels"]["alertname"] == "TuttiCapturesFail")
        assert alert["labels"]["severity"] == "warning" and "have no file of any host" in alert["annotations"]["summary"], alert
        print(f"     {len(rules)} rules evaluated, {n} queries of the dashboard answered", flush=True)


main(test_rules_and_dashboard)
