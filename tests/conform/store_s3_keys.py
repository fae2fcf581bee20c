# SPDX-License-Identifier: Apache-2.0
"""Where keys come from: each source against services of our own, which check what they are asked; the S3 server checks the signatures."""
import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from fake_s3 import KEYS, FakeS3  # noqa: E402

PROGRAM = sys.argv[1]
ID, SESSION = "AKIDTEST", "AKIDSESSION"
SECRETS = [s for secret, token in KEYS.values() for s in (secret, token) if s] + ["metadata-token", "container-token", "web.identity.token"]


def keys(name, seconds=3600, **more):
    secret, token = KEYS[name]
    return {"AccessKeyId": name, "SecretAccessKey": secret, **({"Token": token} if token else {}),
            "Expiration": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds)), **more}


class Services(BaseHTTPRequestHandler):
    """A container's endpoint, the metadata service and STS."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def say(self, status, text=""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def take(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
        asked, server = f"{self.command} {self.path}", self.server
        server.asked.append(asked)
        if asked == "GET /container":
            if self.headers.get("authorization") != "container-token":
                return self.say(403)
            return self.say(200, json.dumps(keys(SESSION)))
        if asked == "GET /short":  # other keys each time; the first ones end soon
            server.turns += 1
            return self.say(200, json.dumps(keys(ID if server.turns == 1 else SESSION, 2 if server.turns == 1 else 3600)))
        if asked == "PUT /latest/api/token":
            return self.say(200, "metadata-token") if "x-aws-ec2-metadata-token-ttl-seconds" in self.headers else self.say(400)
        if self.path.startswith("/latest/meta-data/iam/security-credentials/"):
            if self.headers.get("x-aws-ec2-metadata-token") != "metadata-token":
                return self.say(401)
            return self.say(200, json.dumps(keys(SESSION, Code="Success")) if self.path.endswith("/the-role") else "the-role\n")
        if asked == "POST /":
            form = {k: v[0] for k, v in parse_qs(body, strict_parsing=True).items()}
            if form != {"Action": "AssumeRoleWithWebIdentity", "Version": "2011-06-15", "RoleArn": "arn:aws:iam::1:role/r", "RoleSessionName": "tutti",
                        "WebIdentityToken": "web.identity.token"}:
                return self.say(403, "<ErrorResponse><Error><Code>AccessDenied</Code><Message>not you</Message></Error></ErrorResponse>")
            k = keys(SESSION)
            return self.say(200, "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>"
                            f"<AccessKeyId>{k['AccessKeyId']}</AccessKeyId><SecretAccessKey>{k['SecretAccessKey']}</SecretAccessKey><SessionToken>{k['Token']}</SessionToken>"
                            f"<Expiration>{k['Expiration']}</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>")
        self.say(404)

    do_GET = do_PUT = do_POST = take


def run(what, s3, args, env):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    p = subprocess.run([PROGRAM, *args], env={**clean, "HOME": str(home), "AWS_EC2_METADATA_DISABLED": "true", **env}, capture_output=True, text=True, timeout=100)
    output = p.stdout + p.stderr
    assert p.returncode == 0, f"{what}: status {p.returncode}\n{output}\n{s3.refusals[-3:]}\n{services.asked[-5:]}"
    assert not any(secret in output for secret in SECRETS), f"{what}: a secret in the output"
    print(f"{what}: ok")


def works(what, **env):
    run(what, s3, ["for", s3.url("bucket/prefix", settings), "0"], env)


def refused(what, text, **env):
    run(what, s3, ["refused", s3.url("bucket", settings), text], env)


with tempfile.TemporaryDirectory() as directory, FakeS3() as s3, ThreadingHTTPServer(("127.0.0.1", 0), Services) as services:
    threading.Thread(target=services.serve_forever, args=(0.05,), daemon=True).start()
    services.asked, services.turns, settings = [], 0, ""
    base = f"http://127.0.0.1:{services.server_address[1]}"
    home = pathlib.Path(directory)
    (home / ".aws").mkdir()
    secret, token = KEYS[SESSION]
    (home / ".aws/credentials").write_text(f"# mine\n[other]\naws_access_key_id = no\n[default]\naws_access_key_id={ID}\naws_secret_access_key = {KEYS[ID][0]}\n"
                                           f"[session]\n aws_access_key_id = nested\naws_access_key_id = {SESSION}\r\naws_secret_access_key = {secret}\r\naws_session_token = {token}\r\n")
    program = home / "give keys"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps({'Version': 1, **keys(SESSION), 'SessionToken': token})}\nEND\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    (home / ".aws/config").write_text(f"[default]\nregion = eu-west-9\n[profile command]\ncredential_process = '{program}' --quick\n[profile fails]\ncredential_process = exit 3\n"
                                      "[profile chatty]\ncredential_process = echo secretsecret/+test\n[profile sso]\nsso_session = s\n")
    works("profile default")
    settings = "&profile=session"
    works("profile in the URL")
    settings = ""
    works("profile in the environment", AWS_PROFILE="session")
    works("credential_process", AWS_PROFILE="command")
    refused("credential_process that fails", "status 3", AWS_PROFILE="fails")
    refused("credential_process that prints no JSON", "no JSON", AWS_PROFILE="chatty")
    refused("SSO", "export-credentials --profile sso", AWS_PROFILE="sso")
    refused("unknown profile", "there is no such profile", AWS_PROFILE="nothing")
    works("environment before profile", AWS_ACCESS_KEY_ID=SESSION, AWS_SECRET_ACCESS_KEY=secret, AWS_SESSION_TOKEN=token)
    refused("half of the environment", "set both", AWS_ACCESS_KEY_ID=SESSION)

    (home / ".aws/credentials").unlink()
    (home / ".aws/config").unlink()
    (home / "token").write_text("container-token\n")
    works("container", AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{base}/container", AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=str(home / "token"))
    works("container, token in the environment", AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{base}/container", AWS_CONTAINER_AUTHORIZATION_TOKEN="container-token")
    refused("container, no token", "the service answers 403", AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{base}/container")
    for url in ("http://example.com/", "http://127.0.0.1@example.com/", "http://[::1].example.com/", "http://169.254.170.2.example.com/", "ftp://127.0.0.1/"):
        refused(f"container at {url}", "only https, loopback", AWS_CONTAINER_CREDENTIALS_FULL_URI=url)
    works("instance", AWS_EC2_METADATA_SERVICE_ENDPOINT=base, AWS_EC2_METADATA_DISABLED="false")
    (home / "token").write_text("web.identity.token\n")
    web = dict(AWS_WEB_IDENTITY_TOKEN_FILE=str(home / "token"), AWS_ROLE_ARN="arn:aws:iam::1:role/r", AWS_ENDPOINT_URL_STS=base)
    works("web identity", **web)
    refused("web identity of another role", "STS answers 403 AccessDenied: not you", **{**web, "AWS_ROLE_ARN": "arn:aws:iam::1:role/other"})

    refused("web identity without its file", "no such file", **{**web, "AWS_WEB_IDENTITY_TOKEN_FILE": "/nonexistent"})
    run("keys that end", s3, ["for", s3.url("bucket"), "2600"], dict(AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{base}/short"))
    assert services.turns == 2, services.turns
    assert all(status == 404 for _, _, status, _ in s3.refusals if status != 412), s3.refusals
