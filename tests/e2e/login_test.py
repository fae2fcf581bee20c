# SPDX-License-Identifier: Apache-2.0
"""tutti login: a person signs in by a code, the command line sends and refreshes the token of each context by itself, and a provider that
refuses, dawdles or answers nonsense is named."""
import json
import os
import stat
import subprocess
import time

from lib.cluster import BIN, Cluster, main
from lib.fake_issuer import FakeIssuer

FLAGS = ("--oidc-audience", "tutti", "--oidc-client", "tutti", "--oidc-grant", "ml=operator")


class Person:
    """A home folder with a context `lab`, and the command line in it."""

    def __init__(self, c, issuer):
        self.dir, self.issuer = c.dir, issuer
        c.aggregator("--oidc-issuer", issuer.url, *FLAGS, "--anonymous", "none")
        self.env = {**{k: v for k, v in os.environ.items() if not k.startswith("TUTTI_S") and k != "XDG_CONFIG_HOME"}, "HOME": str(c.dir)}
        self("context", "add", "lab", c.url)

    def __call__(self, *words, code=0):
        p = subprocess.run([BIN / "tutti", *map(str, words)], env=self.env, capture_output=True, text=True, timeout=120)
        assert p.returncode == code, (words, p.returncode, p.stdout, p.stderr)
        return p.stdout if not code else p.stderr

    @property
    def file(self):
        return self.dir / ".config/tutti/logins/lab.json"

    def login(self, *words, code=0):
        return self("login", "--issuer", self.issuer.url, *words, code=code)

    def age(self, seconds):
        """Makes the token that old."""
        doc = json.loads(self.file.read_text())
        doc["ends_s"] -= seconds
        self.file.write_text(json.dumps(doc))


def test_life():
    issuer = FakeIssuer()
    with Cluster() as c:
        tutti = Person(c, issuer)
        c.agent("host-a", tracers="metrics")
        assert "needs the aggregator's token" in tutti("hosts", code=1)
        issuer.answers = ["authorization_pending", "slow_down"]
        began = time.monotonic()
        doc = json.loads(tutti.login("--json"))
        assert (doc["name"], doc["role"], doc["context"], doc["issuer"], doc["is_refreshed"]) == ("ada", "operator", "lab", issuer.url, True), doc
        assert len(issuer.asked) == 3 and time.monotonic() - began >= 8, "one second, one, and five more after slow_down"
        assert all(f["client_id"] == "tutti" and f["device_code"] == "device-1" for f in issuer.asked)
        assert stat.S_IMODE(tutti.file.stat().st_mode) == 0o600 and stat.S_IMODE(tutti.file.parent.stat().st_mode) == 0o700
        # Each kind of call: a request, an event stream, a download.
        session = json.loads(tutti("capture", "-d", "200ms", "--json"))["session"]
        tutti("fetch", session, c.dir / "fetched")
        assert len(issuer.asked) == 3, "a token that holds is not refreshed"

        # Refreshed before it ends, once, though three ask at the same time.
        tutti.age(280)
        before = tutti.file.read_text()
        processes = [subprocess.Popen([BIN / "tutti", "hosts"], env=tutti.env, stdout=subprocess.DEVNULL) for _ in range(3)]
        assert [p.wait(60) for p in processes] == [0, 0, 0]
        assert [f["grant_type"] for f in issuer.asked[3:]] == ["refresh_token"] and issuer.asked[3]["refresh_token"] == "refresh-3"
        assert tutti.file.read_text() != before
        # The provider is away: the token that still holds is used; one that has ended is not.
        tutti.age(280)
        issuer.answers = [b"nonsense"]
        tutti("hosts")
        tutti.age(30)
        issuer.answers = ["invalid_grant"]
        said = tutti("hosts", code=1)
        assert "has ended" in said and "because: invalid_grant" in said and "tutti login --context lab" in said, said
        # What --server names gets no token, nor a context of that name with another server.
        assert "needs the aggregator's token" in tutti("hosts", "--server", c.url, code=1)
        tutti("login")  # as the last time
        assert issuer.asked[-1]["device_code"] == "device-1"
        tutti("context", "add", "lab", c.url + "/")
        assert "needs the aggregator's token" in tutti("hosts", code=1)
        tutti("context", "add", "lab", c.url)
        tutti("hosts")

        secret = json.loads(tutti.file.read_text())
        assert tutti("logout") == "signed out of lab\n" and not tutti.file.exists() and issuer.revoked == [secret["refresh_token"]]
        assert tutti("logout") == "there was no sign-in to lab\n"
        assert "needs the aggregator's token" in tutti("hosts", code=1)
        tutti.login()
        tutti("context", "remove", "lab")
        assert not tutti.file.exists(), "its tokens go with a context"
        assert "tutti context add" in tutti("login", "--issuer", issuer.url, code=2)
        assert secret["token"] not in c.logs_text() and secret["refresh_token"] not in c.logs_text()
    issuer.close()


def test_tokens():
    """An access token for a resource instead of the ID token; no refresh token; what the aggregator refuses."""
    issuer = FakeIssuer()
    with Cluster() as c:
        tutti = Person(c, issuer)
        issuer.answers = [lambda: {**issuer.tokens(), "access_token": issuer.token(sub="bob"), "id_token": "no"}]
        assert "as bob, operator" in tutti.login("--resource", "tutti")
        assert issuer.asked[0]["resource"] == "tutti"
        issuer.answers = [lambda: issuer.tokens(groups=["other"])]
        said = tutti.login("--resource", "", code=1)
        assert "signed in at the provider, but the aggregator says" in said and "role none" in said, said
        issuer.has_refresh = False
        assert ", until 2" in tutti.login("--resource", "")
        tutti.age(200)
        tutti("hosts")  # nothing to refresh it with, and it holds for a while
        tutti.age(101)
        assert "cannot be refreshed" in tutti("hosts", code=1)
        tutti.file.chmod(0o640)
        assert "chmod 600" in tutti("hosts", code=1)
        other = c.dir / "other"
        tutti.file.rename(other)
        other.chmod(0o600)
        tutti.file.symlink_to(other)
        assert "is a link" in tutti("hosts", code=1)
    issuer.close()


def test_refusals():
    huge = b'{"access_token": "' + b"x" * 100_000_000 + b'"}'
    issuer = FakeIssuer()
    with Cluster() as c:
        tutti = Person(c, issuer)
        for answer, reason in (("access_denied", "refused at the OpenID provider"), ("expired_token", "the code has ended"), ("invalid_client", "because: invalid_client"),
                               ("\x1b[31mred", "[31mred"), (b"[]", "has no token"), (b"", "has no token"), ({}, "has no token"), ({"access_token": ["a"]}, "has no token"),
                               ({"access_token": "a"}, "gives no ID token"), ({"access_token": "a", "id_token": "a\r\nX-Evil: 1"}, "what is no token"),
                               ({"access_token": "a", "id_token": "é"}, "what is no token"), ({"access_token": "a", "id_token": "x" * 17000}, "what is no token"),
                               (huge, "beyond")):
            issuer.answers = [answer]
            said = tutti.login(code=1)
            assert reason in said and "\x1b" not in said, (reason, said)
            assert not tutti.file.exists()
        for device, reason in (({"device_code": ""}, "has no code"), ({"verification_uri": None}, "has no code"), ({"verification_uri": "http://example.com"}, "use https"),
                               ({"verification_uri": "http://127.0.0.1:1@example.com/"}, "use https"), ({"verification_uri": "javascript:1"}, "use https"),
                               ({"expires_in": 1, "interval": 1e30}, "the code has ended"), ({"x": "y" * 300_000}, "beyond")):
            issuer.device = device
            issuer.answers = ["authorization_pending"] * 9
            assert reason in tutti.login(code=1), device
        issuer.device, issuer.answers = {"verification_uri_complete": "file:///etc/passwd", "expires_in": "soon"}, []
        tutti.login()
        tutti("logout")
        for documents, reason in (({"issuer": "https://evil.example"}, "calls itself"), ({"token_endpoint": "http://example.com/t"}, "use https"),
                                  ({"device_authorization_endpoint": None}, "knows no sign-in by a code"), ({"device_authorization_endpoint": "ftp://x"}, "use https"),
                                  ({"revocation_endpoint": "http://example.com"}, "use https"), ({"x": "y" * 300_000}, "beyond")):
            issuer.documents = documents
            assert reason in tutti.login(code=1), documents
        issuer.documents = {}
        assert "use https" in tutti("login", "--issuer", "http://example.com", code=2)
        assert "--issuer URL" in tutti("login", code=2)
        (c.dir / "token").write_text("a-token-for-the-lab\n")
        (c.dir / "token").chmod(0o600)
        assert "comes before a sign-in" in tutti.login("--token-file", c.dir / "token", code=2)
        assert "belongs to a context" in tutti.login("--server", c.url, code=2)
        issuer.close()
        print(f"login: a provider that is away: {tutti.login(code=1).strip()}")


if __name__ == "__main__":
    main(test_life, test_tokens, test_refusals)
