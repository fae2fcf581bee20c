# SPDX-License-Identifier: Apache-2.0
"""The overlay enrol: the agent's pod gets a certificate of its node by its projected token (a real TokenReview), captures go over TLS, tokens of
others are refused, and a host that is revoked stays out until that is lifted."""
import json
import shutil
import subprocess
import time

from bed import NODE_FOLDER, OVERLAYS, ROOT, WORK, Forward, connected, give_volume, kubectl, person, remove, remove_volume, say, tutti, wait_ready, wait_until

OVERLAY = OVERLAYS / "enrol"
IDENTITY = NODE_FOLDER / "spool/identity/agent.pem"
NAME = "tutti-aggregator.tutti.svc"


def openssl(*words):
    p = subprocess.run(["openssl", *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=30)
    assert p.returncode == 0, f"openssl {words[0]}: {p.stdout}{p.stderr}"
    return p.stdout


def make_authority():
    """As docs/install.md has it; returns its certificate."""
    crt, key = WORK / "ca.crt", WORK / "ca.key"
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "3650", "-subj", "/CN=tutti-authority",
            "-keyout", key, "-out", crt, "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign")
    kubectl("apply", "-f", ROOT / "deploy/kubernetes/base/namespace.yaml")
    kubectl("create", "secret", "tls", "tutti-authority", "-n", "tutti", "--cert", crt, "--key", key)
    return crt


def capture(server):
    done = json.loads(tutti(server, "capture", "--hosts", "node=localhost", "--duration", "1s", "--json"))
    assert (done["state"], done["complete"], done["failed"]) == ("committed", 1, 0), done
    return done["session"]


def check_tls(ca, aggregator):
    """The aggregator has a certificate of the authority, and the agent one of its node, in a file for root alone."""
    address = f"{aggregator['status']['podIP']}:7401"
    openssl("s_client", "-connect", address, "-CAfile", ca, "-verify_hostname", NAME, "-verify_return_error", "-alpn", "h2")
    openssl("verify", "-CAfile", ca, IDENTITY)
    assert "URI:tutti://host/localhost/epoch/" in openssl("x509", "-in", IDENTITY, "-noout", "-ext", "subjectAltName")
    assert IDENTITY.stat().st_mode & 0o777 == 0o600
    return address


def show_token(ca, address, token, host):
    """What becomes of an agent on this machine that says it is `host` and shows this token: its log's first line of it."""
    folder = WORK / "other-agent"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "token").write_text(token)
    (folder / "token").chmod(0o600)
    (folder / "hosts").write_text(f"{address.split(':')[0]} {NAME}\n")
    agent = [ROOT / "build/release/bin/tutti-agent", "--aggregator", f"{NAME}:7401", "--host", host, "--spool", folder / "spool", "--tracers", "marks",
             "--local-socket", "", "--pytorch-socket", "", "--ca", ca, "--enrol-token", folder / "token"]
    with open(folder / "log", "w") as log:
        p = subprocess.Popen(["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', folder / "hosts", *agent],
                             stdout=log, stderr=subprocess.STDOUT)
    try:
        return wait_until("an answer to the token", lambda: next(
            (line for line in (folder / "log").read_text().splitlines() if "AGT-ENROL" in line), None), 30)
    finally:
        p.kill()
        p.wait(20)


def check_tokens(ca, address, agent):
    """What is not the token of an agent's pod on that node is refused, with the reason."""
    def create(account, *words):
        return kubectl("create", "token", account, "-n", "tutti", *words)
    for_us = ("--audience", "tutti-agents")
    of_pod = ("--bound-object-kind", "Pod", "--bound-object-name", agent["metadata"]["name"])
    good = create("tutti-agent", *for_us, *of_pod)
    cases = ((create("tutti-agent", *for_us), "localhost", "of no pod on a node"),
             (create("edna", *for_us), "localhost", "not of the service account 'tutti:tutti-agent'"),
             (create("tutti-agent", *of_pod), "localhost", "the cluster does not know this token"),
             (good[:-8] + "AAAAAAAA", "localhost", "the cluster does not know this token"),
             (good, "node-2", "of a pod on the node 'localhost', not on 'node-2'"))
    for token, host, reason in cases:
        line = show_token(ca, address, token, host)
        assert "state=refused" in line and reason in line, (reason, line)
    say(f"{len(cases)} tokens that are not of the agent's pod, or for another audience or node, are refused")


def check_revoked(server, agent):
    def log():
        return kubectl("logs", "-n", "tutti", agent["metadata"]["name"])
    tutti(server, "revoke", "localhost")
    wait_until("the end of its link", lambda: not connected(server), 20)
    wait_until("the refusal of its pod's token", lambda: "the host 'localhost' is revoked" in log(), 60)
    assert not connected(server) and "the host is revoked" in log(), log()
    begin = time.monotonic()
    tutti(server, "revoke", "--lift", "localhost")
    wait_until("the host again", lambda: connected(server), 60)
    say(f"revoked, the host lost its link and got no other certificate; it was back {time.monotonic() - begin:.1f} s after --lift: captured {capture(server)}")


def check():
    give_volume()
    ca = make_authority()
    begin = time.monotonic()
    kubectl("apply", "-k", OVERLAY)
    agent, aggregator = wait_ready()
    with Forward(person("edna", "admin")) as server:
        wait_until("the agent", lambda: connected(server))
        say(f"enrolled by its pod's token {time.monotonic() - begin:.1f} s after kubectl apply -k")
        address = check_tls(ca, aggregator)
        session = capture(server)
        say(f"captured {session} over TLS; the identity of the node is tutti://host/localhost, mode 0600")
        check_tokens(ca, address, agent)
        check_revoked(server, agent)
    remove(OVERLAY)
    remove_volume()
