# SPDX-License-Identifier: Apache-2.0
"""People of an OpenID provider: roles by groups; each part of a token wrong once, refused with its reason; new keys."""
import time

from access_test import ask
from lib.cluster import BIN, SLOW, Cluster, main, wait_until
from lib.fake_issuer import FakeIssuer, Key, b64

GRANTS = ("ml=operator:red", "ml=viewer:red,blue", "root=admin")


def start(c, issuer, *flags):
    c.aggregator("--oidc-issuer", issuer.url, "--oidc-audience", "tutti", "--oidc-client", "cli", *(f for g in GRANTS for f in ("--oidc-grant", g)), *flags)


def whoami(c, token):
    status, doc, _ = ask(c, token, "GET", "/api/v1/whoami")
    return status, doc


def test_roles():
    issuer = FakeIssuer()
    with Cluster() as c:
        start(c, issuer, "--audit", c.dir / "audit")
        assert whoami(c, None)[0] == 401 and issuer.fetches == 0
        for key in issuer.keys:
            status, doc = whoami(c, issuer.token(key))
            assert status == 200, doc
            assert doc == {"name": "ada", "how": "oidc", "role": "operator", "namespaces": ["blue", "red"]}, doc
        assert whoami(c, issuer.token(sub="eve", groups=["root"]))[1]["role"] == "admin"
        assert whoami(c, issuer.token(groups="root"))[1]["role"] == "admin", "a single group"
        for groups in (None, [], ["mlx"], [["ml"]], {"ml": 1}, 7):
            status, doc = whoami(c, issuer.token(groups=groups))
            assert status == 403 and "role none" in doc["error"], (groups, status, doc)
        token = issuer.token()
        assert ask(c, token, "GET", "/metrics")[0] == 403 and ask(c, token, "GET", "/api/v1/hosts")[0] == 200
        assert ask(c, None, "POST", "/api/v1/login", {"token": token})[1]["name"] == "ada"
        assert issuer.fetches == 1, "keys are fetched once"
        assert token not in c.logs_text() + (c.dir / "audit").read_text()
    issuer.close()


def test_wrong():
    issuer = FakeIssuer()
    rsa, ecdsa = issuer.keys
    pair, small = [Key("RS256", "same"), Key("RS256", "same")], Key("RS256", "small", 1024)
    encryption = {**Key("RS256", "enc").public(), "use": "enc"}
    issuer.keys += [*pair, small, encryption, {"kty": "oct", "kid": "oct", "k": b64(rsa.pem())}]
    now = int(time.time())
    good = issuer.token()
    head, payload, signature = good.split(".")
    cases = [
        (issuer.token(iss="https://evil.example"), "another issuer"), (issuer.token(iss=issuer.url + "/"), "another issuer"),
        (issuer.token(iss=None), "another issuer"), (issuer.token(aud="other"), "audience"), (issuer.token(aud=None), "audience"),
        (issuer.token(aud=["a", "b"]), "audience"), (issuer.token(aud={"tutti": 1}), "audience"), (issuer.token(azp="other"), "azp"),
        (issuer.token(azp=["cli"]), "azp"), (issuer.token(exp=now - 61), "ended"), (issuer.token(exp=None), "when it ends"),
        (issuer.token(exp=str(now + 300)), "when it ends"), (issuer.token(exp=-1), "when it ends"), (issuer.token(nbf=now + 300), "begins in"),
        (issuer.token(nbf="soon"), "nbf"), (issuer.token(iat=now + 300), "was made"), (issuer.token(iat="now"), "iat"), (issuer.token(sub=None), "sub"),
        (issuer.token(sub="ada\n"), "no name that can be shown"), (issuer.token(sub="a" * 400), "no name that can be shown"),
        (issuer.token(sub="ada\u202e"), "no name that can be shown"), (issuer.token(sub=""), "sub"), (issuer.token(alg="none"), "'none'"), (issuer.token(alg="none", head={"alg": "None"}), "'None'"),
        (f"{head}.{payload}.", "no signed one"), (issuer.token(alg="HS256"), "'HS256'"), (issuer.token(alg="HS256", head={"kid": "oct"}), "'HS256'"),
        (issuer.token(alg="HS256", head={"alg": "RS256"}), "signature"), (issuer.token(head={"alg": "RS512"}), "'RS512'"),
        (issuer.token(head={"alg": ["RS256"]}), "''"), (issuer.token(rsa, head={"alg": "ES256"}), "not for ES256"),
        (issuer.token(ecdsa, head={"alg": "RS256"}), "not for RS256"), (issuer.token(ecdsa, head={"kid": "rsa-1"}), "not for ES256"),
        (issuer.token(head={"kid": "oct"}), "not for RS256"), (issuer.token(head={"kid": "enc"}), "not for RS256"), (issuer.token(small), "not for RS256"),
        (issuer.token(pair[0]), "two keys"), (issuer.token(head={"kid": None}), "several"), (issuer.token(head={"kid": 7}), "kid"),
        (issuer.token(head={"kid": "no-such"}), "no key 'no-such'"), (issuer.token(head={"crit": ["b64"], "b64": False}), "extensions"),
        (issuer.token(Key("RS256", "rsa-1")), "signature"), (f"{head}.{b64(b'{}')}.{signature}", "signature"),
        (f"{head}.{payload}.{signature[:-2]}", "signature"), (f"{head}.{payload}.{b64(bytes(256))}", "signature"),
        (issuer.token(head={"jwk": Key("RS256", "x").public(), "kid": "x"}), "no key 'x'"), (f"{b64(b'[]')}.{payload}.{signature}", "header"),
        (f"{b64(b'x')}.{payload}.{signature}", "header"), (f"{head}.{payload}", "no signed one"), (good + ".x", "no signed one"),
        (good + "=", "no signed one"), (b64(b'{"alg":"RS256","alg":"none"}') + f".{payload}.{signature}", "header"), ("a.b.c", "header"),
        ("." * 3, "no signed one"), (f"{head}.{payload}.{'A' * 17000}", "longest"),
    ]
    with Cluster() as c:
        start(c, issuer)
        for token in (good, issuer.token(aud=["x", "tutti"], azp="cli"), issuer.token(exp=now - 50), issuer.token(nbf=now + 50, iat=now + 50), issuer.token(ecdsa, head={"kid": None})):
            assert whoami(c, token)[0] == 200, whoami(c, token)
        for token, reason in cases:
            status, doc = whoami(c, token)
            assert status == 401 and reason in doc["error"], (reason, status, doc)
        assert issuer.fetches == 1, f"{issuer.fetches} fetches: invented names of keys do not fetch again and again"
        print(f"oidc: {len(cases)} wrong tokens")
    issuer.close()


def test_new_keys_and_absent_provider():
    """A provider that is away or answers nonsense is 503, not 401; a new key is known when a token names it, after --oidc-fetch at the latest."""
    issuer = FakeIssuer()
    with Cluster() as c:
        issuer.documents = {"issuer": "https://evil.example"}
        start(c, issuer, "--oidc-fetch", "2s")
        status, doc = whoami(c, issuer.token())
        assert status == 503 and "calls itself" in doc["error"], (status, doc)
        issuer.documents = {"jwks_uri": "http://example.com/keys"}
        wait_until("another fetch", lambda: "use https" in whoami(c, issuer.token())[1]["error"], 20)
        issuer.documents = {}
        issuer.keys = [Key("RS256", "rsa-2")]

        def checked():
            token = issuer.token()
            return token if whoami(c, token)[0] == 200 else None
        old = wait_until("the keys", checked, 40)
        issuer.keys = [Key("ES256", "ec-3")]
        assert whoami(c, issuer.token())[0] == 401, "keys were fetched a moment ago"
        wait_until("the new key", lambda: whoami(c, issuer.token())[0] == 200, 40)
        assert whoami(c, old)[0] == 200, "it was checked, and holds"
    issuer.close()


def test_key_taken_back():
    """A key that the provider does not list any more makes tokens for --oidc-hold at most; a provider that is away takes none back."""
    issuer = FakeIssuer()
    with Cluster() as c:
        start(c, issuer, "--oidc-fetch", "100ms", "--oidc-hold", "2s")
        old, kept = issuer.keys
        assert whoami(c, issuer.token(old))[0] == 200 and issuer.fetches == 1
        issuer.keys, issuer.documents = [kept], {"issuer": "https://evil.example"}
        time.sleep(2.1)
        assert whoami(c, issuer.token(old, jti="1"))[0] == 200, "its keys could not be fetched"
        assert whoami(c, issuer.token(kept, jti="1"))[0] == 200
        issuer.documents = {}
        time.sleep(0.2)
        status, doc = whoami(c, issuer.token(old, jti="2"))
        assert status == 401 and "no key 'rsa-1'" in doc["error"], (status, doc)
        assert whoami(c, issuer.token(kept, jti="2"))[0] == 200
    issuer.close()


def test_settings():
    with Cluster() as c:
        for flags, complaint in ((["http://example.com"], "use https"), (["https://a.example", "--oidc-audience", "x"], "--oidc-grant"),
                                 (["https://a.example"], "--oidc-audience"),
                                 (["https://a.example", "--oidc-audience", "x", "--oidc-grant", "ml"], "GROUP=ROLE"),
                                 (["https://a.example", "--oidc-audience", "x", "--oidc-grant", "ml=king"], "no role")):
            p = c.start("other", [BIN / "tutti-aggregator", "--store", "mem://", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--probe", "127.0.0.1:0",
                                  "--spool", c.dir / "other", "--oidc-issuer", *flags, *(["--oidc-audience", "x", "--oidc-grant", "a=viewer"] if complaint == "use https" else [])])
            assert p.wait(20 * SLOW) == 1 and complaint in c.log("other"), c.log("other")
            c.processes.pop("other")


if __name__ == "__main__":
    main(test_roles, test_wrong, test_new_keys_and_absent_provider, test_key_taken_back, test_settings)
