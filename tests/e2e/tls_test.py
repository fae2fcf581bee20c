# SPDX-License-Identifier: Apache-2.0
"""mTLS switched on by configuration; peers without a certificate are refused; plaintext beyond loopback needs a flag."""
import subprocess
import time

from lib.certs import make_ca, make_cert, tls_flags
from lib.cluster import BIN, SLOW, Cluster, main, wait_until


def test_mtls():
    with Cluster() as c:
        make_ca(c.dir, "ca")
        make_ca(c.dir, "evil")
        make_cert(c.dir, "ca", "aggregator")
        make_cert(c.dir, "ca", "host-a")
        make_cert(c.dir, "evil", "host-x")
        make_cert(c.dir, "ca", "nameless", subject="/O=no host name")
        url = f"https://127.0.0.1:{c.http}"
        c.start("aggregator", [BIN / "tutti-aggregator", "--store", f"file://{c.store}", "--http", f"127.0.0.1:{c.http}",
                               "--grpc", f"127.0.0.1:{c.grpc}", "--probe", f"127.0.0.1:{c.probe}", "--spool",
                               c.dir / "agg-spool", *tls_flags(c.dir, "aggregator")])
        c.agent("host-a", *tls_flags(c.dir, "host-a"))
        c.agent("host-x", *tls_flags(c.dir, "host-x"))
        c.agent("host-b", *tls_flags(c.dir, "host-a"))  # a valid certificate, of another host
        c.agent("host-n", *tls_flags(c.dir, "nameless"))
        flags = ["--server", url, "--ca", c.dir / "ca.crt", "--json"]

        def connected():
            code, doc = c.tutti("hosts", *flags)
            return code == 0 and [h for h in doc["hosts"] if h["state"] == "connected" and h["clock"]["calibrated"]]
        up = wait_until("host-a over mTLS", connected, 30)
        assert [h["host"] for h in up] == ["host-a"], up
        _, doc = c.tutti("capture", "--duration", "500ms", *flags, check=0)
        assert doc["complete"] == 1
        time.sleep(1)
        assert [h["host"] for h in connected()] == ["host-a"]
        assert "the certificate is for 'host-a'" in c.log("aggregator")
        wait_until("the refusal of a certificate without a name", lambda: "certificate is for ''" in c.log("aggregator"))
        assert "host-a" in c.log("host-b"), "the agent does not tell why it is refused"
        assert c.tutti("hosts", "--server", url)[0] == 1  # without --ca the signer is unknown


def test_open_ports():
    """The command line of docs/operations.md: what any peer may do is in the log, and deleting is not part of it."""
    with Cluster() as c:
        make_ca(c.dir, "ca")
        make_cert(c.dir, "ca", "aggregator")
        (c.dir / "token").write_text("correct-horse-battery\n")
        (c.dir / "token").chmod(0o600)
        argv = [BIN / "tutti-aggregator", "--store", f"file://{c.store}", "--http", f"0.0.0.0:{c.http}", "--grpc",
                f"0.0.0.0:{c.grpc}", "--probe", f"0.0.0.0:{c.probe}", "--spool", c.dir / "agg-spool",
                *tls_flags(c.dir, "aggregator")]
        flags = ["--server", f"https://127.0.0.1:{c.http}", "--ca", c.dir / "ca.crt"]
        c.start("aggregator", argv)
        wait_until("the aggregator", lambda: "AGG-UP" in c.log("aggregator"), 30)
        assert c.tutti("sessions", *flags)[0] == 1 and "--token-file" in c.stderr, c.stderr
        assert c.tutti("delete", "2026_01_01_00_00_00_aaaaaa", *flags)[0] == 1
        assert "--token-file" in c.stderr, c.stderr
        for part in ("http", "grpc", "probe"):
            assert f"AGG-OPEN part={part} " in c.log("aggregator"), c.log("aggregator")
        c.kill("aggregator")
        c.start("aggregator", [*argv, "--token-file", c.dir / "token"])
        flags += ["--token-file", c.dir / "token"]
        wait_until("the aggregator", lambda: c.tutti("sessions", *flags)[0] == 0, 30)
        c.tutti("delete", "2026_01_01_00_00_00_aaaaaa", *flags)
        assert "no session" in c.stderr or "there is" in c.stderr, c.stderr


def curl(c, *args):
    """The HTTP status, or curl's exit code if there is none."""
    p = subprocess.run(["curl", "-sS", "-o", c.dir / "answer", "-w", "%{http_code}", "--cacert", c.dir / "ca.crt", *args],
                       capture_output=True, text=True, timeout=20 * SLOW)
    c.stderr = p.stderr
    return int(p.stdout) or -p.returncode


def test_client_certificates():
    """HTTP beyond loopback with TLS: all but health needs a token, or a certificate by --ca whose name --http-client lists."""
    with Cluster() as c:
        make_ca(c.dir, "ca")
        make_ca(c.dir, "evil")
        for name in ("aggregator", "operator", "host-a"):
            make_cert(c.dir, "ca", name)
        make_cert(c.dir, "evil", "forged", subject="/CN=operator")
        make_cert(c.dir, "ca", "expired", subject="/CN=operator", days=0)  # until now
        argv = [BIN / "tutti-aggregator", "--store", f"file://{c.store}", "--http", f"0.0.0.0:{c.http}", "--grpc",
                f"127.0.0.1:{c.grpc}", "--probe", f"127.0.0.1:{c.probe}", "--spool", c.dir / "agg-spool", "--http-client", "operator",
                *tls_flags(c.dir, "aggregator")]
        c.start("aggregator", argv)
        url = f"https://127.0.0.1:{c.http}/api/v1"
        wait_until("the aggregator", lambda: curl(c, f"https://127.0.0.1:{c.http}/healthz") == 200, 30)

        def cert(name):
            return ["--cert", c.dir / f"{name}.crt", "--key", c.dir / f"{name}.key"]
        delete = ["-X", "DELETE", f"{url}/sessions/2026_01_01_00_00_00_aaaaaa"]
        assert curl(c, *delete) == 403, "without a certificate"
        assert curl(c, *cert("operator"), *delete) == 404, "there is no such session: the caller may delete"
        assert curl(c, *cert("host-a"), *delete) == 403, "an agent's certificate may not delete"
        time.sleep(1.1)  # the second of its end is over, too
        for name in ("forged", "expired"):
            assert curl(c, *cert(name), *delete) in (403, -56, -35), f"with the certificate '{name}': {c.stderr}"
        assert curl(c, *cert("operator"), "-H", "Origin: https://evil.example", *delete) == 403, "another site's page"
        assert curl(c, f"{url}/hosts") == 403 and curl(c, *cert("operator"), f"{url}/hosts") == 200, "reading needs a certificate, too"
        command_line_shows_its_certificate(c)


def command_line_shows_its_certificate(c):
    """`tutti --cert --key --ca` against the same aggregator; a refusal names its cause and what to do."""
    def delete(*flags):
        code, _ = c.tutti("delete", "2026_01_01_00_00_00_aaaaaa", "--server", f"https://127.0.0.1:{c.http}", "--ca", c.dir / "ca.crt", *flags)
        return code, c.stderr

    def cert(name, key=None):
        return "--cert", c.dir / f"{name}.crt", "--key", c.dir / f"{key or name}.key"
    code, text = delete(*cert("operator"))
    assert code == 1 and "there is no session" in text, text
    for flags, words in (((), "you showed none"), (cert("host-a"), "names 'host-a'"), (cert("forged"), "issuer is unknown"),
                         (cert("expired"), "expired")):
        code, text = delete(*flags)
        assert code == 1 and words in text and "--http-client" in text and "--cert FILE" in text, (flags, text)
    for flags, words in ((cert("operator", "host-a"), "is not the key"), (cert("operator")[:2], "needs its key"),
                         (cert("operator")[2:], "needs its key"), (cert("absent"), "absent.crt"), (cert("operator", "absent"), "absent.key"),
                         (("--cert", c.dir / "operator.key", "--key", c.dir / "operator.key"), "operator.key")):
        code, text = delete(*flags)
        assert code in (1, 2) and words in text, (flags, text)
    code, text = delete(*cert("operator"), "--ca", c.dir / "evil.crt")
    assert code == 1 and "not trusted" in text, text
    c.tutti("sessions", "--server", f"https://127.0.0.1:{c.http}", "--ca", c.dir / "ca.crt", *cert("operator"), check=0)


def test_plaintext_must_be_said_aloud():
    with Cluster() as c:
        argv = [BIN / "tutti-aggregator", "--store", f"file://{c.store}", "--http", "0.0.0.0:0", "--spool", c.dir / "s"]
        p = subprocess.run(argv, capture_output=True, text=True, timeout=20 * SLOW)
        assert p.returncode == 1 and "--insecure" in p.stderr and "--cert" in p.stderr, p
        c.start("aggregator", [*argv, "--grpc", f"0.0.0.0:{c.grpc}", "--probe", f"127.0.0.1:{c.probe}"], env={"TUTTI_INSECURE": "true"})
        wait_until("the aggregator", lambda: "AGG-UP" in c.log("aggregator"))
        warned = [line for line in c.log("aggregator").splitlines() if " AGG-OPEN " in line]
        for part, words in (("http", "any peer may read, capture and delete"), ("grpc", "any peer may join as an agent and capture every host")):
            assert any(f"part={part} " in line and words in line for line in warned), warned
        assert any("TUTTI_INSECURE is set" in line for line in warned) and not any("part=probe" in line for line in warned), warned


main(test_mtls, test_open_ports, test_client_certificates, test_plaintext_must_be_said_aloud)
