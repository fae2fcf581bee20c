# SPDX-License-Identifier: Apache-2.0
"""Where keys for az:// come from: each source against services of our own, which check what they are asked, and a real server with TLS, which
checks audience, issuer and times of a token."""
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
from servers import ACCOUNT_KEY, Azurite, account_sas  # noqa: E402

PROGRAM = sys.argv[1]
SECRETS = [ACCOUNT_KEY, "federated.token", "sig="]
encode = lambda o: base64.urlsafe_b64encode(json.dumps(o).encode()).rstrip(b"=").decode()


def token(seconds=3600):
    now = int(time.time())
    claims = dict(iss="https://sts.windows.net/tenant/", aud="https://storage.azure.com", iat=now, nbf=now - 5, exp=now + seconds, oid="o", tid="t", sub="s", ver="1.0")
    made = f"{encode({'alg': 'HS256', 'typ': 'JWT'})}.{encode(claims)}.c2lnbmF0dXJl"
    SECRETS.append(made)
    return made


class Services(BaseHTTPRequestHandler):
    """Entra ID and the metadata service."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def say(self, status, document):
        text = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def take(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
        asked = f"{self.command} {self.path}"
        self.server.asked.append(asked)
        if asked == "POST /my-tenant/oauth2/v2.0/token":
            form = {k: v[0] for k, v in parse_qs(body).items()}
            if form != {"grant_type": "client_credentials", "client_id": "my-client", "scope": "https://storage.azure.com/.default",
                        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer", "client_assertion": "federated.token"}:
                return self.say(401, {"error": "invalid_client", "error_description": "AADSTS700016: not you"})
            return self.say(200, {"access_token": token(), "expires_in": 3599})
        if asked == "GET /metadata/identity/oauth2/token?api-version=2018-02-01&resource=https%3A%2F%2Fstorage.azure.com%2F" and self.headers["metadata"] == "true":
            self.server.turns += 1
            return self.say(200, {"access_token": token(3 if self.server.turns == 1 and self.server.first_is_short else 3600), "expires_in": "3599"})
        self.say(404, {})

    do_GET = do_POST = take


def run(what, args, env):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("AZURE_")}
    p = subprocess.run([PROGRAM, *args], env={**clean, "HOME": str(azurite.folder), **env}, capture_output=True, text=True, timeout=100)
    output = p.stdout + p.stderr
    assert p.returncode == 0, f"{what}: status {p.returncode}\n{output}\n{services.asked[-5:]}\n{(azurite.folder / 'log').read_text()[-1000:]}"
    assert not any(secret in output for secret in SECRETS), f"{what}: a secret in the output"
    print(f"{what}: ok", flush=True)


def works(what, **env):
    run(what, ["own", azurite.url("some/prefix")], env)


def refused(what, text, **env):
    run(what, ["refused", azurite.url(), text], env)


with Azurite(tls=True) as azurite, ThreadingHTTPServer(("127.0.0.1", 0), Services) as services:
    threading.Thread(target=services.serve_forever, args=(0.05,), daemon=True).start()
    services.asked, services.turns, services.first_is_short = [], 0, False
    base = f"http://127.0.0.1:{services.server_address[1]}"
    none = dict(AZURE_POD_IDENTITY_AUTHORITY_HOST="http://127.0.0.1:1")
    works("account's key", AZURE_STORAGE_KEY=ACCOUNT_KEY)
    works("SAS", AZURE_STORAGE_SAS_TOKEN="?" + account_sas("rwdlc", 3600))
    refused("SAS for reading alone", "403", AZURE_STORAGE_SAS_TOKEN=account_sas("rl", 3600))
    refused("SAS that has ended", "403", AZURE_STORAGE_SAS_TOKEN=account_sas("rwdlc", -60))
    refused("a key that is none", "not base64", AZURE_STORAGE_KEY="not base64!".replace(" ", "_"))
    refused("nothing", "no keys: neither the environment", **none)
    (azurite.folder / "token").write_text("federated.token\n")
    web = dict(AZURE_FEDERATED_TOKEN_FILE=str(azurite.folder / "token"), AZURE_CLIENT_ID="my-client", AZURE_TENANT_ID="my-tenant", AZURE_AUTHORITY_HOST=base + "/")
    works("workload identity", **web)
    refused("workload identity of another client", "Entra ID answers 401 invalid_client: AADSTS700016", **{**web, "AZURE_CLIENT_ID": "other"})
    refused("a tenant that leads elsewhere", "no name of a tenant", **{**web, "AZURE_TENANT_ID": "a/../b"})
    refused("a token service without TLS", "only https and loopback", **{**web, "AZURE_AUTHORITY_HOST": "http://example.com"})
    refused("a token file that is missing", "no such file", **{**web, "AZURE_FEDERATED_TOKEN_FILE": "/nonexistent"})
    machine = dict(AZURE_POD_IDENTITY_AUTHORITY_HOST=base)
    works("managed identity", **machine)
    run("grants by a delegated key", ["once", azurite.url("some/prefix"), str(azurite.folder / "cert.pem")], machine)
    services.turns, services.first_is_short = 0, True
    run("a token that ends too soon", ["for", azurite.url(), "6000"], machine)
    assert services.turns == 2, services.turns
    run("a token over plain HTTP", ["refused", "az://devstoreaccount1/container?endpoint=http://192.0.2.1:1", "only https and loopback"], machine)
