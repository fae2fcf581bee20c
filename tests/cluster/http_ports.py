# SPDX-License-Identifier: Apache-2.0
"""The overlays that open HTTP in the aggregator's pod: monitor, oidc. Every port of the pod is tried without credentials; Prometheus' token reads
the metrics and starts nothing."""
import hashlib
import http.client
import secrets
import socket
import sys

from bed import OVERLAYS, ROOT, WORK, ask, give_volume, kubectl, process_of, remove, remove_volume, say, wait_ready

sys.path.insert(0, str(ROOT / "tests/e2e"))
from lib.listeners import reachable  # noqa: E402

NAMESPACE = ROOT / "deploy/kubernetes/base/namespace.yaml"
MONITORS = ROOT / "tests/data/servicemonitors.yaml"
REQUESTS = [("GET", path) for path in ("/metrics", "/api/v1/hosts", "/api/v1/pods", "/api/v1/jobs", "/api/v1/sessions", "/api/v1/captures", "/api/v1/events",
                                       "/api/v1/settings", "/api/v1/viewers", "/api/v1/whoami", "/api/v1/sessions/2026_01_01_00_00_00_aaaaaa")]
REQUESTS += [("POST", path) for path in ("/api/v1/captures", "/api/v1/snapshots", "/api/v1/join-tokens", "/api/v1/revocations", "/api/v1/imports")]
REQUESTS += [("DELETE", "/api/v1/sessions/2026_01_01_00_00_00_aaaaaa")]


def open_ports(address):
    """TCP ports of an address that take connections, all of them tried."""
    found = set()
    for port in range(1, 65536):
        with socket.socket() as s:
            s.settimeout(5)
            if s.connect_ex((address, port)) == 0:
                found.add(f"tcp/{port}")
    return found


def status_of(address, method, path):
    """Without credentials."""
    c = http.client.HTTPConnection(address, 7400, timeout=20)
    c.request(method, path, "{}" if method == "POST" else None)
    status = c.getresponse().status
    c.close()
    return status


def check_closed(pod, ports, leads=True):
    """`ports` are open and no others; HTTP gives health and the page, and nothing else; one that stands by says who leads."""
    name, address = pod["metadata"]["name"], pod["status"]["podIP"]
    assert {f"{kind}/{port}" for kind, _, port in reachable(process_of(pod))} == ports, reachable(process_of(pod))
    found = open_ports(address)
    assert found == {p for p in ports if p.startswith("tcp")}, found
    given = {path: status_of(address, "GET", path) for path in ("/healthz", "/")}
    assert set(given.values()) == {200}, given
    for method, path in REQUESTS:
        status = status_of(address, method, path)
        assert status in ((401, 403) if leads else (307, 401, 403)), (method, path, status)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(0.5)
        s.connect((address, 7403))
        try:
            for n in (0, 1, 16, 64, 128, 512):
                s.send(b"\1" * n)
            raise AssertionError(f"the probe port answered: {s.recv(4096)}")
        except (TimeoutError, ConnectionRefusedError):
            pass
    say(f"{name}: of 65,535 TCP ports {sorted(found)} are open; without credentials health and the page, {len(REQUESTS)} other requests refused")


def check():
    kubectl("apply", "-f", NAMESPACE, "-f", MONITORS)
    kubectl("wait", "--for=condition=Established", "crd/servicemonitors.monitoring.coreos.com", "--timeout=60s")
    token = WORK / "prometheus.token"
    token.write_text(secrets.token_hex(32))
    line = f"prometheus viewer {hashlib.sha256(token.read_bytes()).hexdigest()}"
    for overlay in ("monitor", "oidc"):
        give_volume()
        kubectl("apply", "-f", NAMESPACE)
        kubectl("create", "secret", "generic", "tutti-metrics", "-n", "tutti", f"--from-literal=token={token.read_text()}", f"--from-literal=tokens={line}")
        kubectl("apply", "-k", OVERLAYS / overlay)
        _, aggregator = wait_ready()
        check_closed(aggregator, {"tcp/7400", "tcp/7401", "udp/7403"})
        if overlay == "monitor":
            server = f"http://{aggregator['status']['podIP']}:7400"
            assert "tutti_hosts" in ask(server, token, "GET", "/metrics")[1]["error"]
            assert ask(server, token, "POST", "/api/v1/captures", {})[0] == 403
            say("Prometheus' token reads the metrics, and starts no capture")
        remove(OVERLAYS / overlay)
        remove_volume()
    kubectl("delete", "-f", MONITORS, "--timeout=60s")
