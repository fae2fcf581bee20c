# SPDX-License-Identifier: Apache-2.0
"""A one-node Ceph with its S3 gateway and STS, in memory: `with Ceph() as server` (tests/setup.sh ceph installs it)."""
import hashlib
import hmac
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time
import urllib.request
from urllib.parse import quote, urlencode

from servers import SECRET, free_port

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


class Ceph:
    env = {"AWS_ACCESS_KEY_ID": ID, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_EC2_METADATA_DISABLED": "true"}

    def __init__(self, bytes_=2 << 30):
        self.bytes = bytes_

    def free_range(self):
        """A port that has the 60 above it for the daemons."""
        while (port := free_port()) > 60000:
            pass
        return port

    def __enter__(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="tutti-ceph-")
        self.folder = pathlib.Path(self.temporary.name) / "ceph"
        self.host = f"127.0.0.1:{self.free_range()}"
        self.endpoint = f"http://{self.host}"
        try:
            subprocess.run([HERE / "ceph_up.sh", self.folder, self.host.split(":")[1]], check=True, stdout=subprocess.DEVNULL, env={**os.environ, "CEPH_BYTES": str(self.bytes)})
            self.ask("PUT", "/bucket", b"", "s3")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        subprocess.run([HERE / "ceph_up.sh", "--down", self.folder], check=False)
        self.temporary.cleanup()

    def ask(self, method, path, body, service):
        with urllib.request.urlopen(urllib.request.Request(self.endpoint + path, data=body or None, method=method, headers=sign(method, self.host, path, "", body, service))) as answer:
            return answer.read().decode()

    def admin(self, *arguments):
        subprocess.run(["radosgw-admin", *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "CEPH_CONF": str(self.folder / "ceph.conf")})

    def role_env(self, prefix):
        """Keys of a session whose role may use what is below `prefix`, and nothing else."""
        compact = lambda statement: json.dumps({"Version": "2012-10-17", "Statement": statement}, separators=(",", ":"))
        self.admin("role", "create", "--role-name=tutti", "--assume-role-policy-doc=" + compact([{"Effect": "Allow", "Principal": {"AWS": ["arn:aws:iam:::user/t"]}, "Action": ["sts:AssumeRole"]}]))
        self.admin("role-policy", "put", "--role-name=tutti", "--policy-name=p", "--policy-doc=" + compact([
            {"Effect": "Allow", "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"], "Resource": f"arn:aws:s3:::bucket/{prefix}*"},
            {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::bucket"}]))
        form = urlencode({"Action": "AssumeRole", "Version": "2011-06-15", "RoleArn": "arn:aws:iam:::role/tutti", "RoleSessionName": "tutti"}, quote_via=quote)
        answer = self.ask("POST", "/", form.encode(), "sts")
        value = lambda name: re.search(f"<{name}>(.*?)</{name}>", answer)[1]
        return {**self.env, "AWS_ACCESS_KEY_ID": value("AccessKeyId"), "AWS_SECRET_ACCESS_KEY": value("SecretAccessKey"), "AWS_SESSION_TOKEN": value("SessionToken")}

    def url(self, prefix=""):
        return f"s3://bucket/{prefix}?endpoint={self.endpoint}&region=us-east-1"
