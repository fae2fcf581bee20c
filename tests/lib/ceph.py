# SPDX-License-Identifier: Apache-2.0
"""A one-node Ceph with its S3 gateway and STS, in memory: `with Ceph() as server` (tests/setup.sh ceph installs it)."""
import contextlib
import hashlib
import hmac
import json
import os
import pathlib
import random
import re
import socket
import subprocess
import tempfile
import time
import urllib.request
from urllib.parse import quote, urlencode

from servers import SECRET

HERE = pathlib.Path(__file__).resolve().parent
ID = "AKIDTEST"
mac = lambda key, text: hmac.new(key, text.encode(), hashlib.sha256).digest()


def sign(method, host, path, query, body, service):
    """The headers of a signed request (version 4)."""
    date = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    scope, digest = f"{date[:8]}/us-east-1/{service}/aws4_request", hashlib.sha256(body).hexdigest()
    names = "host;x-amz-content-sha256;x-amz-date"
    canonical = f"{method}\n{path}\n{query}\nhost:{host}\nx-amz-content-sha256:{digest}\nx-amz-date:{date}\n\n{names}\n{digest}"
    key = ("AWS4" + SECRET).encode()
    for part in scope.split("/"):
        key = mac(key, part)
    text = f"AWS4-HMAC-SHA256\n{date}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    return {"x-amz-date": date, "x-amz-content-sha256": digest, "Authorization": f"AWS4-HMAC-SHA256 Credential={ID}/{scope}, SignedHeaders={names}, Signature={mac(key, text).hex()}"}


def documented_policy():
    return json.loads(re.search(r"```json\n(.*?)```", (HERE.parents[1] / "docs/storage.md").read_text(), re.S)[1])


def actions_of(statement):
    return statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]


class Ceph:
    env = {"AWS_ACCESS_KEY_ID": ID, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_EC2_METADATA_DISABLED": "true"}

    def __init__(self):
        self.roles = set()

    def free_range(self):
        """A port that has the 60 above it for the daemons; below those that the kernel gives to connections."""
        while True:
            port = random.randrange(10000, 32000)
            with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
                for i in range(61):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port + i))
                return port

    def __enter__(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="tutti-ceph-")
        self.folder = pathlib.Path(self.temporary.name) / "ceph"
        self.host = f"127.0.0.1:{self.free_range()}"
        self.endpoint = f"http://{self.host}"
        try:
            subprocess.run([HERE / "ceph_up.sh", self.folder, self.host.split(":")[1]], check=True, stdout=subprocess.DEVNULL, timeout=600)
            self.make_bucket("bucket")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        subprocess.run([HERE / "ceph_up.sh", "--down", self.folder], check=False, timeout=100)
        self.temporary.cleanup()

    def ask(self, method, path, body, service):
        with urllib.request.urlopen(urllib.request.Request(self.endpoint + path, data=body or None, method=method, headers=sign(method, self.host, path, "", body, service)), timeout=60) as answer:
            return answer.read().decode()

    def admin(self, *arguments):
        subprocess.run(["radosgw-admin", *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "CEPH_CONF": str(self.folder / "ceph.conf")}, timeout=60)

    def make_bucket(self, name):
        self.ask("PUT", f"/{name}", b"", "s3")

    def role_env(self, prefix, bucket="bucket", without=None):
        """Keys of a session whose role may do what the policy of docs/storage.md allows, below `prefix`; but not the action `without`."""
        policy = documented_policy()
        for statement in policy["Statement"]:
            statement["Action"] = [a for a in actions_of(statement) if a != without]
        policy["Statement"] = [s for s in policy["Statement"] if s["Action"]]
        text = json.dumps(policy, separators=(",", ":")).replace("profiles/fleet-1", f"{bucket}/{prefix}").replace(':::profiles"', f':::{bucket}"').replace('"fleet-1', f'"{prefix}')
        role = f"tutti-{without.split(':')[1] if without else 'all'}"
        trust = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"AWS": ["arn:aws:iam:::user/t"]}, "Action": ["sts:AssumeRole"]}]}
        if role not in self.roles:
            self.roles.add(role)
            self.admin("role", "create", f"--role-name={role}", "--assume-role-policy-doc=" + json.dumps(trust, separators=(",", ":")))
        self.admin("role-policy", "put", f"--role-name={role}", "--policy-name=p", "--policy-doc=" + text)
        form = urlencode({"Action": "AssumeRole", "Version": "2011-06-15", "RoleArn": f"arn:aws:iam:::role/{role}", "RoleSessionName": "tutti"}, quote_via=quote)
        answer = self.ask("POST", "/", form.encode(), "sts")
        value = lambda name: re.search(f"<{name}>(.*?)</{name}>", answer)[1]
        return {**self.env, "AWS_ACCESS_KEY_ID": value("AccessKeyId"), "AWS_SECRET_ACCESS_KEY": value("SecretAccessKey"), "AWS_SESSION_TOKEN": value("SessionToken")}

    @contextlib.contextmanager
    def quota(self, bytes_):
        """The bucket may have so many bytes. (A disk of this size would not do: Ceph takes more than it has, and then hangs.)"""
        self.admin("quota", "set", "--quota-scope=bucket", "--bucket=bucket", f"--max-size={bytes_}")
        self.admin("quota", "enable", "--quota-scope=bucket", "--bucket=bucket")
        yield
        self.admin("quota", "disable", "--quota-scope=bucket", "--bucket=bucket")

    def url(self, prefix="", bucket="bucket"):
        return f"s3://{bucket}/{prefix}?endpoint={self.endpoint}&region=us-east-1"
