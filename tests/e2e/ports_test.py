# SPDX-License-Identifier: Apache-2.0
"""Every port of docs/security.md: the programs listen where its table says and nowhere else, and without credentials each port gives what
the table says and no more. tests/cluster.sh does the same on Kubernetes."""
import pathlib
import re
import socket
import ssl
import subprocess

from lib.certs import make_ca, make_cert, tls_flags
from lib.cluster import BIN, SLOW, Cluster, free_port, main, wait_until
from lib.listeners import listeners, reachable

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs/security.md"
UDP_SILENCE_S = 0.5
CHANGES = (("POST", "/api/v1/captures", {}), ("POST", "/api/v1/snapshots", {}), ("DELETE", "/api/v1/sessions/2026_01_01_00_00_00_aaaaaa", None))


def table():
    """{setting: (port, kind)} of the aggregator, from the lines "| 7400/tcp | `--http` |"."""
    rows = re.findall(r"^\| (\d+)/(tcp|udp) \| `--([a-z]+)` ", DOCS.read_text(), flags=re.M)
    assert len(rows) == 3, rows
    return {setting: (int(port), kind) for port, kind, setting in rows}


def test_defaults():
    """The ports of the table are the defaults, on loopback; an agent listens at none."""
    out = subprocess.run([BIN / "tutti-aggregator", "--print-config"], capture_output=True, text=True, check=True, timeout=60).stdout
    for setting, (port, _) in table().items():
        assert f"\n{setting} = 127.0.0.1:{port}\n" in out, out
    with Cluster() as c:
        aggregator = c.aggregator()
        agent = c.agent("host-a", tracers="all")
        c.wait_hosts(1)
        assert listeners(aggregator.pid) == {("tcp", "127.0.0.1", c.http), ("tcp", "127.0.0.1", c.grpc), ("udp", "127.0.0.1", c.probe)}
        assert not [x for x in listeners(agent.pid) if x[0] == "tcp"], listeners(agent.pid)
        assert not reachable(agent.pid), reachable(agent.pid)


def curl(c, method, path, body):
    """The HTTP status of a request without credentials."""
    words = ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "--cacert", c.dir / "ca.crt", "-X", method, f"https://127.0.0.1:{c.http}{path}"]
    if body is not None:
        words += ["-H", "Content-Type: application/json", "-d", "{}"]
    p = subprocess.run(words, capture_output=True, text=True, timeout=20 * SLOW)
    assert p.returncode == 0, p.stderr
    return int(p.stdout)


def answer_to(port, greeting, context=None):
    """What a TCP port answers to these bytes, or the reason why there is no answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=20 * SLOW) as plain:
        try:
            s = context.wrap_socket(plain, server_hostname="localhost") if context else plain
            s.sendall(greeting)
            return s.recv(4096)
        except (ssl.SSLError, ConnectionError) as e:
            return e


def make_secrets(c, *names):
    make_ca(c.dir, "ca")
    for name in names:
        make_cert(c.dir, "ca", name)
    (c.dir / "token").write_text("correct-horse-battery\n")
    (c.dir / "token").chmod(0o600)


def check_needs_certificate(c, port):
    """A gRPC port refuses a peer without a certificate before it has said anything."""
    context = ssl.create_default_context(cafile=c.dir / "ca.crt")
    context.set_alpn_protocols(["h2"])
    answer = answer_to(port, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0", context)
    assert isinstance(answer, ssl.SSLError) or isinstance(answer, ConnectionError) or answer == b"", f"gRPC answered a peer without a certificate: {answer}"


def test_fleet_with_tls():
    """docs/operations.md, TLS: all three ports at every address, with a token; the caller has no certificate."""
    with Cluster() as c:
        make_secrets(c, "aggregator")
        p = c.start("aggregator", [BIN / "tutti-aggregator", "--store", f"file://{c.store}", "--http", f"0.0.0.0:{c.http}", "--grpc",
                                   f"0.0.0.0:{c.grpc}", "--probe", f"0.0.0.0:{c.probe}", "--spool", c.dir / "agg-spool",
                                   "--token-file", c.dir / "token", *tls_flags(c.dir, "aggregator")])
        wait_until("the aggregator", lambda: "AGG-UP" in c.log("aggregator"))
        assert {(kind, port) for kind, _, port in reachable(p.pid)} == {("tcp", c.http), ("tcp", c.grpc), ("udp", c.probe)}
        assert len(listeners(p.pid)) == 3, listeners(p.pid)

        for path in ("/healthz", "/readyz", "/"):  # health, and the page, which says nothing of the fleet
            wait_until(path, lambda: curl(c, "GET", path, None) == 200)
        for path in ("/api/v1/sessions", "/api/v1/hosts", "/api/v1/events", "/api/v1/settings", "/api/v1/pods", "/metrics"):
            assert curl(c, "GET", path, None) == 401, path
        for method, path, body in CHANGES:
            assert curl(c, method, path, body) in (401, 403), (method, path)
        answer = answer_to(c.http, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert not isinstance(answer, bytes) or b"HTTP/1" not in answer or b" 400 " in answer, answer

        check_needs_certificate(c, c.grpc)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(UDP_SILENCE_S)
            s.connect(("127.0.0.1", c.probe))
            for n in (0, 1, 16, 64, 512):
                s.send(b"\1" * n)
            try:
                raise AssertionError(f"the probe port answered an unknown sender: {s.recv(4096)}")
            except TimeoutError:
                pass


def test_two_aggregators():
    """docs/replicas.md: of the one that stands by, the HTTP port alone listens. Without a token it gives health and the page."""
    with Cluster() as c:
        make_secrets(c, "one", "two")
        ports = {name: (free_port(), free_port(), free_port(socket.SOCK_DGRAM)) for name in ("one", "two")}
        for name, (http, grpc, probe) in ports.items():
            p = c.start(name, [BIN / "tutti-aggregator", "--store", f"file://{c.store}", "--http", f"0.0.0.0:{http}", "--grpc", f"0.0.0.0:{grpc}",
                               "--probe", f"0.0.0.0:{probe}", "--spool", c.dir / f"{name}-spool", "--token-file", c.dir / "token", "--replica", name,
                               "--replica-url", f"https://127.0.0.1:{http}", *tls_flags(c.dir, name)])
            wait_until("its HTTP port", lambda: ("tcp", http) in {(kind, port) for kind, _, port in reachable(p.pid)})
            c.http = http
            if name == "one":
                wait_until("the leader", lambda: "AGG-UP" in c.log("one"))
        assert {(kind, port) for kind, _, port in reachable(p.pid)} == {("tcp", c.http)}, reachable(p.pid)
        assert len(listeners(p.pid)) == 1, listeners(p.pid)
        assert curl(c, "GET", "/healthz", None) == 200 and curl(c, "GET", "/", None) == 200
        for method, path, body in (("GET", "/metrics", None), ("GET", "/api/v1/sessions", None), ("GET", "/api/v1/hosts", None), *CHANGES):
            assert curl(c, method, path, body) in (307, 401, 403, 503), (method, path)  # 307: where the leader is


def test_job_of_slurm():
    """docs/install.md, Slurm without rights: --insecure opens the two ports for agents, and HTTP stays on loopback."""
    with Cluster() as c:
        p = c.start("aggregator", [BIN / "tutti-aggregator", "--store", f"file://{c.store}", "--spool", c.dir / "agg-spool", "--grpc", f"0.0.0.0:{c.grpc}",
                                   "--probe", f"0.0.0.0:{c.probe}", "--http", f"127.0.0.1:{c.http}", "--insecure"])
        wait_until("the aggregator", lambda: "AGG-UP" in c.log("aggregator"))
        assert {(kind, port) for kind, _, port in reachable(p.pid)} == {("tcp", c.grpc), ("udp", c.probe)}, reachable(p.pid)
        agent = c.agent("host-a", "--local-socket", "", tracers="all")
        c.wait_hosts(1)
        assert not reachable(agent.pid), reachable(agent.pid)


def test_profiler_service_of_an_agent():
    """--listen beyond loopback: one port, for callers with a certificate."""
    with Cluster() as c:
        make_secrets(c, "host-a")
        c.aggregator()
        port = free_port()
        agent = c.agent("host-a", "--listen", f"0.0.0.0:{port}", *tls_flags(c.dir, "host-a"), tracers="all")
        wait_until("its port", lambda: {(kind, port) for kind, _, port in reachable(agent.pid)} == {("tcp", port)})
        check_needs_certificate(c, port)


main(test_defaults, test_fleet_with_tls, test_two_aggregators, test_job_of_slurm, test_profiler_service_of_an_agent)
