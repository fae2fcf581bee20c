# SPDX-License-Identifier: Apache-2.0
"""Where tokens for gs:// come from: each source against services of our own, which check what they are asked, and a real server behind a
proxy that demands the token."""
import base64
import json
import os
import pathlib
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from fault_proxy import FaultProxy  # noqa: E402
from servers import FakeGcs  # noqa: E402

PROGRAM = sys.argv[1]
SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
TOKENS = ["ya29.account", "ya29.metadata", "ya29.federated", "ya29.impersonated", "ya29.user", "ya29.second"]
SECRETS = [*TOKENS, "subject.token", "refresh-token", "client-secret"]
decode = lambda text: base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def verify(text, signature):
    (home / "text").write_bytes(text.encode())
    (home / "signature").write_bytes(signature)
    subprocess.run(["openssl", "dgst", "-sha256", "-verify", home / "public.pem", "-signature", home / "signature", home / "text"], check=True, stdout=subprocess.DEVNULL, timeout=60)


class Services(BaseHTTPRequestHandler):
    """A token service, the metadata server, IAM."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def say(self, status, document):
        text = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def give(self, token, seconds=3600):
        proxy.tokens.add(token)
        self.say(200, {"access_token": token, "expires_in": seconds, "token_type": "Bearer"})

    def check_assertion(self, assertion):
        head, claims, signature = assertion.split(".")
        verify(f"{head}.{claims}", decode(signature))
        head, claims = json.loads(decode(head)), json.loads(decode(claims))
        assert head == {"alg": "RS256", "typ": "JWT", "kid": "key-1"}, head
        assert claims["iss"] == "tutti@project.test" and claims["scope"] == SCOPE and claims["aud"] == f"{base}/token", claims
        assert abs(claims["iat"] - time.time()) < 120 and claims["exp"] == claims["iat"] + 3600, claims

    def take(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
        asked = f"{self.command} {self.path}"
        self.server.asked.append(asked)
        form = {k: v[0] for k, v in parse_qs(body).items()}
        try:
            if asked == "POST /token" and form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer":
                self.check_assertion(form["assertion"])
                return self.give("ya29.account")
            if asked == "POST /token" and form == {"grant_type": "refresh_token", "client_id": "c", "client_secret": "client-secret", "refresh_token": "refresh-token"}:
                return self.give("ya29.user")
            if asked == "POST /sts":
                account = form.pop("scope") != SCOPE
                assert form == {"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "audience": "//iam/pool", "subject_token": "subject.token",
                                "subject_token_type": "urn:ietf:params:oauth:token-type:jwt", "requested_token_type": "urn:ietf:params:oauth:token-type:access_token"}, form
                return self.say(200, {"access_token": "ya29.federated", "expires_in": 600}) if account else self.give("ya29.federated")
            if asked == "POST /impersonate" and self.headers["authorization"] == "Bearer ya29.federated" and json.loads(body) == {"scope": [SCOPE]}:
                proxy.tokens.add("ya29.impersonated")
                return self.say(200, {"accessToken": "ya29.impersonated", "expireTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))})
            if asked == "GET /computeMetadata/v1/instance/service-accounts/default/token" and self.headers["metadata-flavor"] == "Google":
                self.server.turns += 1
                return self.give(self.server.metadata[min(self.server.turns, len(self.server.metadata)) - 1])
        except (AssertionError, KeyError, ValueError, subprocess.CalledProcessError) as why:
            self.server.asked.append(repr(why))
        self.say(400, {"error": "invalid_grant", "error_description": "not you"})

    do_GET = do_POST = take


def run(what, args, env):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("GOOGLE_", "GCE_", "STORAGE_"))}
    p = subprocess.run([PROGRAM, *args], env={**clean, "HOME": str(home), "NO_GCE_CHECK": "true", **env}, capture_output=True, text=True, timeout=100)
    output = p.stdout + p.stderr
    assert p.returncode == 0, f"{what}: status {p.returncode}\n{output}\n{services.asked[-5:]}"
    assert not any(secret in output for secret in SECRETS), f"{what}: a secret in the output"
    print(f"{what}: ok", flush=True)


def works(what, **env):
    proxy.tokens.clear()
    run(what, ["own", url("some/prefix")], env)


def refused(what, text, **env):
    run(what, ["refused", url(""), text], env)


def file(name, **document):
    (home / name).write_text(json.dumps(document))
    return {"GOOGLE_APPLICATION_CREDENTIALS": str(home / name)}


with FakeGcs() as gcs, FaultProxy(gcs.endpoint, tokens=set()) as proxy, ThreadingHTTPServer(("127.0.0.1", 0), Services) as services:
    threading.Thread(target=services.serve_forever, args=(0.05,), daemon=True).start()
    services.asked, services.turns, services.metadata = [], 0, ["ya29.metadata"]
    base, home = f"http://127.0.0.1:{services.server_address[1]}", gcs.folder
    url = lambda prefix: f"gs://bucket/{prefix}?endpoint={proxy.endpoint}"
    subprocess.run(["openssl", "genrsa", "-out", home / "private.pem", "2048"], check=True, stderr=subprocess.DEVNULL, timeout=60)
    subprocess.run(["openssl", "rsa", "-in", home / "private.pem", "-pubout", "-out", home / "public.pem"], check=True, stderr=subprocess.DEVNULL, timeout=60)
    pem = (home / "private.pem").read_text()
    SECRETS.append(pem.splitlines()[5])
    account = dict(type="service_account", client_email="tutti@project.test", private_key=pem, private_key_id="key-1", token_uri=f"{base}/token")

    works("service account", **file("account.json", **account))
    refused("service account without a key", "private_key", **file("no_key.json", **{**account, "private_key": ""}))
    refused("service account with a broken key", "no RSA key", **file("bad_key.json", **{**account, "private_key": pem[:200]}))
    refused("service account that is unknown", "the token service answers 400 invalid_grant: not you", **file("other.json", **{**account, "client_email": "other@project.test"}))
    refused("token service without TLS", "only https and loopback", **file("plain.json", **{**account, "token_uri": "http://example.com/token"}))
    refused("token service of another user", "only https and loopback", **file("user_part.json", **{**account, "token_uri": "http://127.0.0.1@example.com/token"}))
    refused("another type", "its type is none of", **file("type.json", type="gdch_service_account"))
    refused("no JSON", "no JSON", GOOGLE_APPLICATION_CREDENTIALS=str(home / "public.pem"))
    refused("no file", "missing.json", GOOGLE_APPLICATION_CREDENTIALS=str(home / "missing.json"))
    refused("nothing", "no keys: there is no file")

    (home / ".config/gcloud").mkdir(parents=True)
    user = home / ".config/gcloud/application_default_credentials.json"
    user.write_text(json.dumps(dict(type="authorized_user", client_id="c", client_secret="client-secret", refresh_token="refresh-token", token_uri=f"{base}/token")))
    works("user's own file")
    user.unlink()

    (home / "subject").write_text("subject.token\n")
    (home / "subject.json").write_text(json.dumps({"id_token": "subject.token"}))
    pool = dict(type="external_account", audience="//iam/pool", subject_token_type="urn:ietf:params:oauth:token-type:jwt", token_url=f"{base}/sts")
    works("federation", **file("pool.json", **pool, credential_source={"file": str(home / "subject")}))
    works("federation, the token in JSON", **file("pool2.json", **pool, credential_source={"file": str(home / "subject.json"), "format": {"type": "json", "subject_token_field_name": "id_token"}}))
    works("federation to a service account", **file("pool3.json", **pool, credential_source={"file": str(home / "subject")}, service_account_impersonation_url=f"{base}/impersonate"))
    refused("federation by a URL", "is no file", **file("pool4.json", **pool, credential_source={"url": "http://127.0.0.1/"}))

    metadata = dict(NO_GCE_CHECK="", GCE_METADATA_HOST=base.removeprefix("http://"))
    works("metadata server", **metadata)
    services.metadata, services.turns = ["ya29.metadata", "ya29.second"], 0
    revoke = threading.Timer(1.0, lambda: proxy.tokens.discard("ya29.metadata"))
    revoke.start()
    run("a token that ends too soon", ["for", url(""), "3000"], metadata)
    assert services.turns == 2 and proxy.refused, (services.turns, proxy.refused)
