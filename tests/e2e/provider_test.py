# SPDX-License-Identifier: Apache-2.0
"""A real OpenID provider. tutti login: sign-in, refusal, refreshing with tokens that are used once, revoking, new keys. And its tokens with each
part wrong once: changed on the way, and as it signs them itself once it is told to."""
import base64
import hashlib
import hmac
import json
import os
import re
import subprocess
import sys
import time
import urllib.parse
import urllib.request

from access_test import ask
from lib.cluster import BIN, Cluster, free_port, main, wait_until
from lib.waits import read_line
from manifests_test import ROOT


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def part(text):
    return json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def start_provider(c):
    p = subprocess.run([ROOT / "tests/servers.sh", "command", "oidc-provider"], capture_output=True, text=True, timeout=100)
    if p.returncode:
        sys.exit(p.stderr)
    node, module = p.stdout.split()
    port = free_port()
    c.start("provider", [node, ROOT / "tests/lib/oidc_provider.mjs", port, module])
    url = f"http://127.0.0.1:{port}"

    def is_up():
        try:
            return get(f"{url}/.well-known/openid-configuration")
        except OSError:
            return None
    wait_until("the provider", is_up, 60)
    return url


def get(url):
    with urllib.request.urlopen(url, timeout=20) as answer:
        return json.load(answer)


def post(url, body=None):
    with urllib.request.urlopen(urllib.request.Request(url, body, method="POST"), timeout=20) as answer:
        return answer.read()


class Person:
    def __init__(self, c, url):
        self.c, self.url = c, url
        self.env = {**{k: v for k, v in os.environ.items() if not k.startswith("TUTTI_S") and k != "XDG_CONFIG_HOME"}, "HOME": str(c.dir)}
        self("context", "add", "lab", c.url)

    def __call__(self, *words, code=0):
        p = subprocess.run([BIN / "tutti", *words], env=self.env, capture_output=True, text=True, timeout=120)
        assert p.returncode == code, (words, p.returncode, p.stdout, p.stderr)
        return p.stdout if not code else p.stderr

    def login(self, action, code=0):
        p = subprocess.Popen([BIN / "tutti", "login", "--issuer", self.url], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        said = ""
        while not (m := re.search(r"type the code (\S+)", said)):
            line = read_line(p.stderr)
            assert line, said
            said += line
        verb, _, query = action.partition("?")
        post(f"{self.url}/test/{verb}/{m[1]}?{query}")
        out, err = p.communicate(timeout=120)
        assert p.returncode == code, (out, err)
        return out if not code else err

    @property
    def file(self):
        return self.c.dir / ".config/tutti/logins/lab.json"

    def stored(self):
        return json.loads(self.file.read_text())

    def age(self):
        doc = self.stored()
        doc["ends_s"] = 0
        self.file.write_text(json.dumps(doc))
        return doc


def check_wrong(c, url, token):
    head, claims, signature = token.split(".")
    said = part(claims)
    key = next(k for k in get(f"{url}/jwks")["keys"] if k["kid"] == part(head)["kid"])
    changed = [f"{head}.{b64(json.dumps({**said, k: v}).encode())}.{signature}" for k, v in
               (("iss", "https://evil.example"), ("aud", "other"), ("exp", said["exp"] + 9999), ("iat", 1), ("sub", "root"), ("groups", ["root"]))]
    none = b64(json.dumps({"alg": "none", "kid": key["kid"]}).encode())
    signed = b64(json.dumps({"alg": "HS256", "kid": key["kid"]}).encode()) + "." + claims
    secret = hmac.new(json.dumps(key).encode(), signed.encode(), hashlib.sha256).digest()
    for wrong, reason in [(t, "signature") for t in changed] + [(f"{none}.{claims}.{signature}", "'none'"), (f"{signed}.{b64(secret)}", "'HS256'")]:
        status, doc, _ = ask(c, wrong, "GET", "/api/v1/whoami")
        assert status == 401 and reason in doc["error"], (reason, status, doc)


def sign(url, **change):
    """A token of the provider, signed as it was told."""
    post(f"{url}/test/sign", json.dumps(change).encode())
    body = {"grant_type": "client_credentials", "client_id": "machine", "client_secret": "of-a-machine", "resource": "urn:tutti"}
    return json.loads(post(f"{url}/token", urllib.parse.urlencode(body).encode()))["access_token"]


def check_signed(c, url):
    """Tokens whose signature is the provider's: one claim wrong in each."""
    now = int(time.time())
    keys = {key["alg"]: key for key in get(f"{url}/jwks")["keys"]}

    def claims(reason, **payload):
        return {"payload": payload}, reason

    good = ({}, {"alg": "RS256"}, {"payload": {"aud": ["x", "tutti"], "azp": "cli"}}, {"payload": {"exp": now - 40}}, {"payload": {"nbf": now + 40, "iat": now + 40}},
            {"header": {"kid": None}})
    cases = (claims("another issuer", iss="https://evil.example"), claims("another issuer", iss=url + "/"), claims("another issuer", iss=None),
             claims("not for the audience", aud="other"), claims("not for the audience", aud=["a", "b"]), claims("azp", azp="other"), claims("(sub)", sub=""),
             claims("ended", exp=now - 70), claims("when it ends", exp=None), claims("when it ends", exp=str(now + 300)), claims("begins in", nbf=now + 300),
             claims("nbf", nbf="soon"), claims("was made", iat=now + 300), claims("iat", iat="now"),
             ({"header": {"kid": "no-such"}}, "no key 'no-such'"), ({"header": {"kid": keys["RS256"]["kid"]}}, "not for ES256"),
             ({"alg": "RS256", "header": {"kid": keys["ES256"]["kid"]}}, "not for RS256"), ({"alg": "HS256"}, "'HS256'"))
    for change in good:
        status, doc, _ = ask(c, sign(url, **change), "GET", "/api/v1/whoami")
        assert (status, doc.get("name"), doc.get("role")) == (200, "machine", "operator"), (change, status, doc)
    for change, reason in cases:
        status, doc, _ = ask(c, sign(url, **change), "GET", "/api/v1/whoami")
        assert status == 401 and reason in doc["error"], (change, status, doc)
    hidden = sign(url, alg="HS256")
    secret = subprocess.run(["openssl", "pkey", "-pubin", "-inform", "DER", "-pubout"], input=ec_spki(keys["ES256"]), capture_output=True, check=True, timeout=60).stdout
    head, payload, signature = hidden.split(".")
    assert b64(hmac.new(secret, f"{head}.{payload}".encode(), hashlib.sha256).digest()) == signature, "the public key is the secret"
    print(f"     {len(good)} tokens of the provider are taken, {len(cases)} refused, each with its reason", flush=True)


def ec_spki(key):
    """A P-256 key of a JWKS, in DER."""
    point = b"".join(base64.urlsafe_b64decode(key[name] + "=") for name in ("x", "y"))
    return bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200") + b"\4" + point


def check_keys(c, url):
    """After new keys a token of the former ones is refused; so is one whose kid two keys have."""
    former, taken = sign(url), sign(url)
    assert ask(c, taken, "GET", "/api/v1/whoami")[0] == 200
    post(f"{url}/test/rotate")
    time.sleep(1.1)  # --oidc-fetch
    new = sign(url)
    assert ask(c, new, "GET", "/api/v1/whoami")[0] == 200
    status, doc, _ = ask(c, former, "GET", "/api/v1/whoami")
    assert status == 401 and "no key" in doc["error"], (status, doc)
    assert ask(c, taken, "GET", "/api/v1/whoami")[0] == 200, "it was checked, and holds until it ends"
    post(f"{url}/test/namesake")
    time.sleep(1.1)
    ask(c, sign(url, header={"kid": "unknown"}), "GET", "/api/v1/whoami")  # has the keys fetched again
    status, doc, _ = ask(c, sign(url), "GET", "/api/v1/whoami")
    assert status == 401 and "two keys with the token's kid" in doc["error"], (status, doc)


def test_signed():
    with Cluster() as c:
        url = start_provider(c)
        c.aggregator("--oidc-issuer", url, "--oidc-audience", "tutti", "--oidc-client", "cli", "--oidc-grant", "ml=operator", "--anonymous", "none",
                     "--oidc-fetch", "1s")
        check_signed(c, url)
        check_keys(c, url)


def test_provider():
    with Cluster() as c:
        url = start_provider(c)
        c.aggregator("--oidc-issuer", url, "--oidc-audience", "tutti", "--oidc-grant", "ml=operator", "--anonymous", "none", "--oidc-fetch", "1s")
        tutti = Person(c, url)
        assert "was refused at the OpenID provider" in tutti.login("deny", code=1)
        assert tutti.login("approve?sub=ada&groups=ml") == "signed in to lab as ada, operator\n"
        check_wrong(c, url, tutti.stored()["token"])
        tutti("sessions")
        # The provider takes each refresh token once, and takes all back where one comes twice: three programs use one, once.
        for _ in range(2):
            old = tutti.age()
            programs = [subprocess.Popen([BIN / "tutti", "sessions"], env=tutti.env, stdout=subprocess.DEVNULL) for _ in range(3)]
            assert [p.wait(120) for p in programs] == [0, 0, 0]
            new = tutti.stored()
            assert new["token"] != old["token"] and new["refresh_token"] != old["refresh_token"]
        kept = tutti.age()
        assert tutti("logout") == "signed out of lab\n"
        tutti.file.write_text(json.dumps(kept))
        tutti.file.chmod(0o600)
        assert "has ended" in tutti("sessions", code=1), "the provider was told"
        post(f"{url}/test/rotate")
        time.sleep(1)  # --oidc-fetch
        assert tutti.login("approve?sub=eve&groups=ml") == "signed in to lab as eve, operator\n"
        assert "role none" in tutti.login("approve?sub=bob&groups=other", code=1)


if __name__ == "__main__":
    main(test_provider, test_signed)
