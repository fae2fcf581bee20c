# SPDX-License-Identifier: Apache-2.0
"""Agents that get their certificates from the aggregator: by a join token, a newer one by that; and each refusal, with its reason on both
sides."""
import contextlib
import json
import secrets
import subprocess
import threading
import time

import grpc

from lib.certs import make_ca
from lib.cluster import BIN, SLOW, Cluster, main, wait_until
from lib.fake_reviews import FakeReviews


def start(c, *flags):
    """An aggregator with an authority of its own, and an audit log."""
    c.aggregator("--enrol", c.dir / "authority", "--audit", c.dir / "audit", *flags)
    return c.dir / "authority/ca.crt"


def join_token(c, *flags, name="join", code=0):
    _, doc = c.tutti("token", "create", "--json", *flags, check=code)
    return write_token(c, doc["token"], name) if not code else doc


def write_token(c, token, name):
    file = c.dir / name
    file.write_text(token + "\n")
    file.chmod(0o600)
    return file


def agent(c, host, token, *flags, ca=None):
    return c.agent(host, "--ca", ca or c.dir / "authority/ca.crt", "--enrol-token", token, *flags)


def connected(c):
    return sorted(h["host"] for h in c.hosts().values() if h["state"] == "connected")


def refused(c, host, *words, by_agent=True):
    """Both sides name the reason."""
    def lines(name):
        return [line for line in c.log(name).splitlines() if any(w in line for w in (" AGG-ENROL ", " NET-CALLS ", " AGG-PEER ", " AGG-HOST-GONE ", " AGT-ENROL ", " AGT-LINK "))]
    for name in ("aggregator", *([host] if by_agent else [])):
        wait_until(f"'{words}' in the log of {name}", lambda: any(all(w in line for w in words) for line in lines(name)), 30)


def audit(c, **members):
    entries = [json.loads(line) for line in (c.dir / "audit").read_text().splitlines()]
    return [e for e in entries if all(e.get(k) == v for k, v in members.items())]


def test_join():
    with Cluster() as c:
        ca = start(c)
        assert (ca.parent.stat().st_mode & 0o777, (ca.parent / "ca.key").stat().st_mode & 0o777) == (0o700, 0o600)
        token = join_token(c, "--uses", "2")
        agent(c, "host-a", token)
        agent(c, "host-b", token)
        c.wait_hosts(2)
        assert connected(c) == ["host-a", "host-b"]
        _, doc = c.tutti("capture", "--duration", "300ms", "--json", check=0)
        assert doc["complete"] == 2, doc
        for host in ("host-a", "host-b"):
            file = c.dir / f"{host}-spool/identity/agent.pem"
            assert file.stat().st_mode & 0o777 == 0o600
            text = subprocess.run(["openssl", "x509", "-in", file, "-noout", "-ext", "subjectAltName,extendedKeyUsage", "-enddate"], capture_output=True, text=True, timeout=60).stdout
            assert f"URI:tutti://host/{host}/epoch/1" in text and "TLS Web Client Authentication" in text, text
            assert len(audit(c, verb="enrol", who=host, how="join-token", outcome="granted")) == 1
        secret = token.read_text().strip()
        assert secret not in c.logs_text() + (c.dir / "audit").read_text() + (ca.parent / "records.json").read_text()
        # a restart of both keeps the certificate: no token is needed again
        token.unlink()
        c.kill("host-a")
        c.kill("aggregator")
        start(c)
        agent(c, "host-a", token)
        wait_until("both again", lambda: connected(c) == ["host-a", "host-b"], 30)
        assert not audit(c, verb="enrol", outcome="refused"), audit(c, verb="enrol")


def test_refused_tokens():
    with Cluster() as c:
        start(c)
        agent(c, "host-a", join_token(c, name="used"))
        c.wait_hosts(1, calibrated=False)
        agent(c, "host-b", c.dir / "used")
        refused(c, "host-b", "this join token is used up")
        agent(c, "host-c", join_token(c, "--host", "rack-*", name="rack"))
        refused(c, "host-c", "this join token is for hosts 'rack-*', not for 'host-c'")
        agent(c, "rack-1", c.dir / "rack")
        wait_until("rack-1", lambda: connected(c) == ["host-a", "rack-1"])
        old = join_token(c, "--for", "1s", name="old")
        time.sleep(2.1)
        agent(c, "host-d", old)
        refused(c, "host-d", "this join token has expired")
        agent(c, "host-e", write_token(c, "tutti-join-" + "0" * 64, "unknown"))
        refused(c, "host-e", "this join token is not known here")
        agent(c, "host-f", write_token(c, "not-a-join-token-at-all", "odd"))
        refused(c, "host-f", "takes no tokens of a cluster")
        make_ca(c.dir, "evil")  # who is not this aggregator is shown no token
        agent(c, "host-g", join_token(c, name="good"), ca=c.dir / "evil.crt")
        wait_until("a refusal of the aggregator", lambda: "AGT-ENROL state=refused by=token" in c.log("host-g"))
        assert "host=host-g" not in c.log("aggregator")
        (c.dir / "good").chmod(0o644)
        agent(c, "host-h", c.dir / "good")
        wait_until("a token that everybody can read", lambda: "chmod o=" in c.log("host-h"))
        assert connected(c) == ["host-a", "rack-1"]
        for e in audit(c, verb="enrol", outcome="refused"):
            assert e["who"] in ("host-b", "host-c", "host-d", "host-e", "host-f") and e["reason"] and e["peer"].startswith("ipv4:127."), e
        code, doc = c.tutti("token", "create", "--for", "0s")
        assert code == 2, doc
        assert c.call("POST", "/api/v1/join-tokens", {"life_ns": 10**9, "odd": 1})[0] == 400
        assert c.call("POST", "/api/v1/join-tokens", {"life_ns": 1})[0] == 400
        once = c.call("POST", "/api/v1/join-tokens", {"life_ns": 10**12})[1]["token"]  # without `uses`: one
        assert enrol(c, "host-i", make_request(c, "i", "URI:tutti://host/host-i"), once) == ("OK", "")
        assert enrol(c, "host-j", make_request(c, "j", "URI:tutti://host/host-j"), once)[1] == "this join token is used up"


def test_settings_alone():
    """What is said of an authority that there is not is refused, not passed over."""
    for flags, word in ((("--enrol-cert", "x", "--enrol-key", "y"), "enrol-cert and enrol-key"), (("--enrol-name", "agg.example"), "enrol-name"),
                        (("--enrol-audience", "tutti-agents"), "enrol-audience"), (("--enrol-account", "a:b"), "enrol-account"),
                        (("--enrol-life", "1h"), "enrol-life")):
        p = subprocess.run([BIN / "tutti-aggregator", "--store", "mem://", *flags], capture_output=True, text=True, timeout=20 * SLOW)
        assert p.returncode and f"{word}: give --enrol, too" in p.stderr, (flags, p.returncode, p.stderr)


# ---- certificates of the test's own ----

def make_key(c, name):
    file = c.dir / f"{name}.key"
    subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", file], check=True, capture_output=True, timeout=60)
    return file


def make_request(c, name, san, key=None):
    """A request for a certificate, DER."""
    p = subprocess.run(["openssl", "req", "-new", "-key", key or make_key(c, name), "-subj", "/", "-addext", f"subjectAltName={san}", "-outform", "DER"],
                       check=True, capture_output=True, timeout=60)
    return p.stdout


def sign(c, name, host, begin=-60, end=3600, epoch=1, ca="authority/ca"):
    """A certificate by the aggregator's own authority, or another one, of any life. (certificate, key) as bytes."""
    key, der, ext, conf, crt = make_key(c, name), c.dir / f"{name}.csr", c.dir / f"{name}.ext", c.dir / f"{name}.conf", c.dir / f"{name}.crt"
    der.write_bytes(make_request(c, name, f"URI:tutti://host/{host}", key))
    ext.write_text(f"subjectAltName=URI:tutti://host/{host}/epoch/{epoch}\nextendedKeyUsage=clientAuth\nbasicConstraints=CA:FALSE\n")
    (c.dir / f"{name}.index").write_text("")
    conf.write_text(f"[ca]\ndefault_ca=a\n[a]\ndatabase={c.dir}/{name}.index\nnew_certs_dir={c.dir}\npolicy=p\ndefault_md=sha256\nrand_serial=yes\n[p]\ncommonName=optional\n")
    stamp = [time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + s)) for s in (begin, end)]
    subprocess.run(["openssl", "ca", "-batch", "-notext", "-config", conf, "-extfile", ext, "-inform", "DER", "-in", der, "-cert", c.dir / f"{ca}.crt", "-keyfile",
                    c.dir / f"{ca}.key", "-startdate", stamp[0], "-enddate", stamp[1], "-out", crt, "-subj", "/CN=tutti host"], check=True, capture_output=True, timeout=60)
    return crt.read_bytes(), key.read_bytes()


def field(number, data):
    data, size = data.encode() if isinstance(data, str) else data, b""
    n = len(data)
    while n >= 128:
        size, n = size + bytes([n & 127 | 128]), n >> 7
    return bytes([number << 3 | 2]) + size + bytes([n]) + data


def enrol(c, host, request, token="", cert=(None, None)):
    """One call of tutti.v1.Enrol: (status code, its text), without an agent."""
    body = field(1, host) + field(2, request) + field(3, token)
    return call(c, "/tutti.v1.Enrol/Enrol", body, cert)


def call(c, path, body, cert=(None, None)):
    creds = grpc.ssl_channel_credentials((c.dir / "authority/ca.crt").read_bytes(), cert[1], cert[0])
    with grpc.secure_channel(f"127.0.0.1:{c.grpc}", creds, [("grpc.max_send_message_length", -1)]) as channel:
        try:
            channel.unary_unary(path)(body, timeout=20 * SLOW)
        except grpc.RpcError as e:
            return e.code().name, e.details()
    return "OK", ""


@contextlib.contextmanager
def opened(c, path, message, cert):
    """A call whose first message waits for what it yields, which gives the code and the text of its end."""
    creds = grpc.ssl_channel_credentials((c.dir / "authority/ca.crt").read_bytes(), cert[1], cert[0])
    go = threading.Event()

    def messages():
        go.wait(60 * SLOW)
        yield message

    with grpc.secure_channel(f"127.0.0.1:{c.grpc}", creds) as channel:
        grpc.channel_ready_future(channel).result(20 * SLOW)
        replies = channel.stream_stream(path)(messages(), timeout=60 * SLOW)

        def end():
            go.set()
            return replies.code().name, replies.details()
        yield end


def put_identity(c, host, cert):
    """As if the agent had got this certificate before."""
    folder = c.dir / f"{host}-spool/identity"
    folder.mkdir(parents=True)
    (folder / "agent.pem").write_bytes(cert[0] + cert[1])


def test_callers_that_go():
    """Without an audit log, callers that go while their token's use is being saved: the aggregator lives, and no use is given twice."""
    with Cluster() as c:
        c.aggregator("--enrol", c.dir / "authority")
        token = c.tutti("token", "create", "--json", "--uses", "40")[1]["token"]
        body = field(1, "host-a") + field(2, make_request(c, "r", "URI:tutti://host/host-a")) + field(3, token)
        creds = grpc.ssl_channel_credentials((c.dir / "authority/ca.crt").read_bytes())
        with grpc.secure_channel(f"127.0.0.1:{c.grpc}", creds) as channel:
            grpc.channel_ready_future(channel).result(20 * SLOW)
            for i in range(300):
                one = channel.unary_unary("/tutti.v1.Enrol/Enrol").future(body, timeout=20 * SLOW)
                time.sleep(i % 30 / 5000)
                one.cancel()
            wait_until("the uses to end", lambda: enrol(c, "host-a", make_request(c, "r2", "URI:tutti://host/host-a"), token)[0] == "PERMISSION_DENIED", 20)
        assert c.call("GET", "/api/v1/hosts")[0] == 200


def test_refused_certificates():
    """Each with its reason, in the answer to a Hello and in the aggregator's log; then an agent that has one like it falls back to its token."""
    with Cluster() as c:
        start(c)
        make_ca(c.dir, "evil")
        cases = {
            "expired": (sign(c, "expired", "host-a", begin=-7200, end=-5), "the certificate of host 'host-a' has expired at"),
            "early": (sign(c, "early", "host-a", begin=3600, end=7200), "the certificate of host 'host-a' is not valid yet: it begins at"),
            "other-authority": (sign(c, "forged", "host-a", ca="evil"), "the certificate is of another authority"),
            "old-epoch": (sign(c, "old", "host-a", epoch=0), "the certificate of host 'host-a' is of epoch 0, which is revoked"),
            "no-host": (sign(c, "odd", "host-a/x"), "the certificate names no host"),
            "server": (((c.dir / "authority/server.crt").read_bytes(), (c.dir / "authority/server.key").read_bytes()), "purpose"),
            "none": ((None, None), "no certificate was shown"),
        }
        for name, (cert, reason) in cases.items():
            for path in ("/tutti.v1.Control/Connect", "/tutti.v1.Ingest/Upload", "/tensorflow.ProfilerService/Monitor", "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"):
                code, text = call(c, path, b"", cert)
                assert code == "UNAUTHENTICATED" and reason in text, (name, path, code, text)

            def is_logged():  # not each refusal is: the log has a limit
                call(c, path, b"", cert)
                return f'reason="{reason}' in c.log("aggregator") or reason == "purpose"
            wait_until(f"the log: {name}", is_logged, 30)
            assert call(c, "/grpc.health.v1.Health/Check", b"", cert)[0] == "OK", name
        good = sign(c, "good", "host-a")
        request = make_request(c, "r", "URI:tutti://host/host-a")
        assert enrol(c, "host-a", request, cert=good)[0] == "OK"
        upload = field(1, field(1, "a-session") + field(2, "host-b"))
        assert call(c, "/tutti.v1.Ingest/Upload", upload, good) == ("PERMISSION_DENIED", "the certificate is for 'host-a', not for host 'host-b'")
        token = join_token(c, "--uses", "0").read_text().strip()
        broken = bytearray(request)
        broken[-1] ^= 1
        for host, body, shown, cert, code, reason in (
                ("host-b", make_request(c, "b", "URI:tutti://host/host-b"), "", good, "PERMISSION_DENIED", "the certificate is for 'host-a', not for host 'host-b'"),
                ("host-b", request, token, (None, None), "PERMISSION_DENIED", "the request is for the host 'host-a', not for 'host-b'"),
                ("host-a", bytes(broken), token, (None, None), "INVALID_ARGUMENT", "the request's signature is wrong"),
                ("host-a", bytes(4096), token, (None, None), "INVALID_ARGUMENT", "a request of 4096 bytes"),
                ("host-a", b"", token, (None, None), "INVALID_ARGUMENT", "a request of 0 bytes"),
                ("host-a", make_request(c, "d", "DNS:host-a"), token, (None, None), "INVALID_ARGUMENT", "the request names no host"),
                ("host-a", request, "", cases["expired"][0], "PERMISSION_DENIED", "has expired at"),
                ("host-a", request, "", (None, None), "PERMISSION_DENIED", "no certificate was shown"),
                ("../a", request, token, (None, None), "INVALID_ARGUMENT", "host name '../a'"),
                ("host-a", request, "x" * 20000, (None, None), "PERMISSION_DENIED", "no join token"),
                ("host-a", request, "x" * 40000, (None, None), "RESOURCE_EXHAUSTED", "")):
            got = enrol(c, host, body, shown, cert)
            assert got[0] == code and reason in got[1], (host, reason, got)
            assert reason in c.log("aggregator"), reason
        put_identity(c, "host-a", cases["old-epoch"][0])
        put_identity(c, "host-e", sign(c, "e", "host-e", begin=-7200, end=-5))
        put_identity(c, "host-o", sign(c, "o", "host-p"))
        for host in ("host-a", "host-e", "host-o"):
            agent(c, host, c.dir / "join")
        wait_until("all by their tokens", lambda: connected(c) == ["host-a", "host-e", "host-o"], 30)
        assert "which is revoked" in c.log("host-a") and "it is for host 'host-p'" in c.log("host-o")
        # as long as it is told to: refused by its length, or cut off as one that sends without end
        code, text = enrol(c, "host-a", bytes(1 << 20), token)
        assert code == "RESOURCE_EXHAUSTED" or (code == "UNAVAILABLE" and "NET-BANNED" in c.log("aggregator")), (code, text)


def links_of(c, host):
    return c.log("aggregator").count(f"AGG-HOST host={host} ")


def test_renewal():
    """Certificates of 8 s: captures one after the other, over some of them, lose no host, no link and no restart; what has ended is cut."""
    with Cluster() as c:
        start(c, "--enrol-life", f"{int(8 * SLOW)}s")
        token = join_token(c, "--uses", "2")
        for host in ("host-a", "host-b"):
            agent(c, host, token)
        c.wait_hosts(2)
        token.unlink()
        end, captures = time.monotonic() + 18 * SLOW, 0
        while time.monotonic() < end:
            _, doc = c.tutti("capture", "--duration", "300ms", "--json", check=0)
            assert doc["complete"] == 2, doc
            captures += 1
            time.sleep(0.5)
        renewed = [c.log(h).count("AGT-ENROL state=enrolled by=certificate") for h in ("host-a", "host-b")]
        assert min(renewed) >= 2 and min(links_of(c, "host-a"), links_of(c, "host-b")) >= 3, (renewed, c.logs_text())
        assert "AGG-HOST-LOST" not in c.log("aggregator"), "a link was missing for a moment"
        assert "AGT-LINK state=down" not in c.log("host-a") + c.log("host-b")
        print(f"renewal: {captures} captures over {renewed} renewals")


def test_revoked():
    with Cluster() as c:
        start(c)
        token = join_token(c, "--uses", "0")
        for host in ("host-a", "host-b"):
            agent(c, host, token)
        c.wait_hosts(2)
        mine = sign(c, "mine", "host-a", begin=-300)  # as the aggregator would now
        assert call(c, "/tutti.v1.Ingest/Upload", b"", mine)[0] != "UNAUTHENTICATED"
        hello = field(1, field(1, "host-c") + b"\x20\x01")
        with opened(c, "/tutti.v1.Control/Connect", hello, sign(c, "late", "host-c")) as end:
            c.tutti("revoke", "host-c", "--json", check=0)
            assert end() == ("UNAUTHENTICATED", "the host 'host-c' is revoked")
        assert connected(c) == ["host-a", "host-b"]
        c.tutti("revoke", "host-a", "--json", check=0)
        wait_until("the end of host-a", lambda: connected(c) == ["host-b"])
        refused(c, "host-a", "the host 'host-a' is revoked")
        assert call(c, "/tutti.v1.Ingest/Upload", b"", mine) == ("UNAUTHENTICATED", "the host 'host-a' is revoked")
        assert enrol(c, "host-a", make_request(c, "r", "URI:tutti://host/host-a"), token.read_text().strip())[0] == "PERMISSION_DENIED"
        c.kill("aggregator")
        start(c)
        wait_until("host-b again", lambda: connected(c) == ["host-b"], 30)
        assert call(c, "/tutti.v1.Control/Connect", b"", mine)[1] == "the host 'host-a' is revoked", "it was forgotten over a restart"
        time.sleep(1.1)
        c.tutti("revoke", "host-a", "--lift", "--json", check=0)
        wait_until("host-a by its token", lambda: connected(c) == ["host-a", "host-b"], 40)
        assert "from before it was revoked" in call(c, "/tutti.v1.Control/Connect", b"", mine)[1]
        before = sign(c, "b", "host-b")
        _, doc = c.tutti("revoke", "--epoch", "--json", check=0)
        assert doc == {"epoch": 2}, doc
        assert "of epoch 1, which is revoked: now is 2" in call(c, "/tutti.v1.Control/Connect", b"", before)[1]
        refused(c, "host-b", "of epoch 1, which is revoked")
        wait_until("both by their tokens", lambda: connected(c) == ["host-a", "host-b"] and links_of(c, "host-b") >= 3, 40)
        assert len(audit(c, verb="revoke", outcome="granted")) == 4
        for args in ((), ("host-a", "--epoch"), ("--lift",), ("host-a", "host-b")):
            assert c.tutti("revoke", *args)[0] == 2, args
        assert c.tutti("revoke", "--lift", "host-b")[0] == 1 and "is not revoked" in c.stderr
        assert c.call("POST", "/api/v1/revocations", {"host": "../x"})[0] == 400


def test_lifted():
    """What a host had before it was revoked stays refused when that is lifted, also where the authority has just begun."""
    with Cluster() as c:
        folder = c.dir / "authority"
        folder.mkdir(0o700)
        make_ca(folder, "ca")
        (folder / "ca.key").chmod(0o600)
        start(c)
        agent(c, "host-a", join_token(c))
        c.wait_hosts(1, calibrated=False)
        pem = (c.dir / "host-a-spool/identity/agent.pem").read_bytes()
        mine = (pem, pem)  # certificate and key
        c.kill("host-a")
        assert call(c, "/tutti.v1.Ingest/Upload", b"", mine)[0] != "UNAUTHENTICATED"
        time.sleep(1.1)  # certificates count in seconds
        c.tutti("revoke", "host-a", "--json", check=0)
        c.tutti("revoke", "host-a", "--lift", "--json", check=0)
        assert "from before it was revoked" in call(c, "/tutti.v1.Control/Connect", b"", mine)[1]
        time.sleep(1.1)
        agent(c, "host-a", join_token(c, name="again"))
        wait_until("host-a by a new token", lambda: connected(c) == ["host-a"], 40)


AGENT = "system:serviceaccount:tutti:tutti-agent"


def pod(api, node, name=AGENT, audiences=("tutti-agents",), pod_name="tutti-agent-x", **members):
    values = {"node-name": node, "pod-name": pod_name}
    extra = {f"authentication.kubernetes.io/{key}": [value] for key, value in values.items() if value is not None}
    return api.person(name, set(), audiences, user={"username": name, "uid": "u", "groups": ["g"], "extra": extra}, **members)


def test_cluster():
    api = FakeReviews(set())
    with Cluster() as c:
        (c.dir / "api-token").write_text(api.token)
        start(c, "--kubernetes", api.url, "--kubernetes-token-file", c.dir / "api-token", "--enrol-audience", "tutti-agents")
        agent(c, "node-1", write_token(c, pod(api, "node-1"), "t1"))
        c.wait_hosts(1)
        assert c.tutti("capture", "--duration", "300ms", "--json", check=0)[1]["complete"] == 1
        assert len(audit(c, verb="enrol", who="node-1", how="service-account", outcome="granted")) == 1
        cases = {
            "other-node": (pod(api, "node-1"), "the token is of a pod on the node 'node-1', not on 'other-node'"),
            "other-audience": (pod(api, "other-audience", audiences=("api",)), "audiences"),
            "no-audience": (pod(api, "no-audience", audiences=()), "not for the audience 'tutti-agents'"),
            "other-account": (pod(api, "other-account", "system:serviceaccount:tutti:default"), "not of the service account 'tutti:tutti-agent'"),
            "no-node": (pod(api, None), "the token is of no pod on a node"),
            "bound-to-node": (pod(api, "bound-to-node", pod_name=None), "the token is of no pod on a node"),
            "old-token": (pod(api, "old-token", error="token has expired"), "token has expired"),
            "invented": (secrets.token_urlsafe(40), "invalid bearer token"),
        }
        for host, (token, reason) in cases.items():
            agent(c, host, write_token(c, token, f"{host}.token"))
        for host, (token, reason) in cases.items():
            refused(c, host, reason)
            assert token not in c.logs_text() + (c.dir / "audit").read_text()
        api.faults["tokenreviews"] = "error-500"
        agent(c, "node-2", write_token(c, pod(api, "node-2"), "t2"))
        refused(c, "node-2", "answers 500")
        api.faults.clear()
        wait_until("node-2", lambda: connected(c) == ["node-1", "node-2"], 40)
    api.close()


def test_cluster_callers_that_go():
    """The cluster is asked about few tokens at a time: those of callers that have gone take no place."""
    api = FakeReviews(set())
    with Cluster() as c:
        (c.dir / "api-token").write_text(api.token)
        start(c, "--kubernetes", api.url, "--kubernetes-token-file", c.dir / "api-token", "--enrol-audience", "tutti-agents")
        request = make_request(c, "r", "URI:tutti://host/node-1")
        creds = grpc.ssl_channel_credentials((c.dir / "authority/ca.crt").read_bytes())
        api.faults["tokenreviews"] = "hang"
        with grpc.secure_channel(f"127.0.0.1:{c.grpc}", creds) as channel:
            calls = [channel.unary_unary("/tutti.v1.Enrol/Enrol").future(field(1, "node-1") + field(2, request) + field(3, secrets.token_urlsafe(40)), timeout=60 * SLOW)
                     for _ in range(12)]
            wait_until("four questions", lambda: api.count("tokenreviews") == 4)
            time.sleep(SLOW)
            for one in calls:
                one.cancel()
            time.sleep(SLOW)
        api.faults.clear()
        good = pod(api, "node-1")
        wait_until("a place", lambda: enrol(c, "node-1", request, good) == ("OK", ""), 40)
        assert api.count("tokenreviews") == 5, api.asked
    api.close()


if __name__ == "__main__":
    main(test_join, test_refused_tokens, test_settings_alone, test_callers_that_go, test_refused_certificates, test_renewal, test_revoked, test_lifted, test_cluster, test_cluster_callers_that_go)
