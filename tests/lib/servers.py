# SPDX-License-Identifier: Apache-2.0
"""Real object stores on 127.0.0.1, with an empty bucket each: tests/servers.sh installs them.

    with Versitygw() as server:           # Azurite(), FakeGcs(), or SERVERS["versitygw"]()
        server.url("prefix"), server.env  # what tutti takes

What they do otherwise than the clouds: versitygw has no STS, and its create-only check is not one step with the put. fake-gcs-server says that
a key is there after the put and not when the session is opened, lists every member of an object, and forgets a session that is complete.
Azurite has no known fault here: like Azure's own server it does not hold a grant to its size.
"""
import base64
import hashlib
import hmac
import json
import pathlib
import shlex
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from email.utils import formatdate

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/e2e"))
from lib.leftovers import die_with_parent  # noqa: E402

START_S = 120
SECRET = "secretsecret/+test"
ACCOUNT = "devstoreaccount1"  # Azurite's own
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A program on a free port; `self.folder` is its own, `self.scheme` http."""
    program, scheme, address = "", "http", "127.0.0.1"
    secrets = []  # that must not be in any output

    def arguments(self):
        raise NotImplementedError

    def more_environment(self):
        return {}

    def make_bucket(self):
        raise NotImplementedError

    def __enter__(self):
        command = subprocess.run([ROOT / "tests/servers.sh", "command", self.program], capture_output=True, text=True, timeout=100)
        if command.returncode:
            raise SystemExit(command.stderr)
        self.temporary = tempfile.TemporaryDirectory(prefix="tutti-server-")
        self.folder = pathlib.Path(self.temporary.name)
        self.port = free_port()
        self.endpoint = f"{self.scheme}://{self.address}:{self.port}"
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen([*shlex.split(command.stdout), *self.arguments()], env={"HOME": str(self.folder), "PATH": "/usr/bin:/bin", **self.more_environment()},
                                            stdout=log, stderr=log, stdin=subprocess.DEVNULL, preexec_fn=die_with_parent)
        try:
            self.wait_ready()
            self.make_bucket()
        except BaseException:
            self.__exit__()
            raise
        return self

    def wait_ready(self):
        end = time.monotonic() + START_S
        while True:
            try:
                socket.create_connection((self.address, self.port), 1).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    raise SystemExit(f"{self.program} does not start:\n{(self.folder / 'log').read_text()[-2000:]}")
                time.sleep(0.05)

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(20)
        self.temporary.cleanup()


class Versitygw(Server):
    program = "versitygw"
    secrets = [SECRET]
    env = {"AWS_ACCESS_KEY_ID": "AKIDTEST", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_EC2_METADATA_DISABLED": "true"}

    def __init__(self, data=None):
        self.data = data  # the folder of the objects; None = below `self.folder`

    def arguments(self):
        data = self.data or self.folder / "data"
        (data / "bucket").mkdir(parents=True)
        (self.folder / "iam").mkdir()
        return ["--port", f"{self.address}:{self.port}", "--region", "us-east-1", "--iam-dir", str(self.folder / "iam"), "posix", str(data)]

    def more_environment(self):
        return {"ROOT_ACCESS_KEY": "AKIDTEST", "ROOT_SECRET_KEY": SECRET}

    def make_bucket(self):
        pass  # a folder is one

    def url(self, prefix=""):
        return f"s3://bucket/{prefix}?endpoint={self.endpoint}&region=us-east-1"


class FakeGcs(Server):
    program = "fake-gcs-server"

    def arguments(self):
        self.env = {"STORAGE_EMULATOR_HOST": self.endpoint}
        return ["-scheme", "http", "-host", "127.0.0.1", "-port", str(self.port), "-backend", "memory", "-external-url", self.endpoint, "-public-host", f"127.0.0.1:{self.port}"]

    def make_bucket(self):
        urllib.request.urlopen(urllib.request.Request(f"{self.endpoint}/storage/v1/b?project=p", json.dumps({"name": "bucket"}).encode(), {"Content-Type": "application/json"}), timeout=60).close()

    def url(self, prefix=""):
        return f"gs://bucket/{prefix}"


def account_mac(text):
    return base64.b64encode(hmac.digest(base64.b64decode(ACCOUNT_KEY), text.encode(), hashlib.sha256)).decode()


def account_sas(permissions, seconds):
    """A SAS for Azurite's container "container"."""
    end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
    mac = account_mac("\n".join([permissions, "", end, f"/blob/{ACCOUNT}/container", "", "", "", "2021-12-02", "c", "", "", "", "", "", "", ""]))
    return urllib.parse.urlencode(dict(sp=permissions, se=end, sv="2021-12-02", sr="c", sig=mac))


class Azurite(Server):
    """With `tls`, tokens of OAuth are taken, too; the certificate is in `self.folder`."""
    program = "azurite"
    secrets = [ACCOUNT_KEY]
    env = {"AZURE_STORAGE_KEY": ACCOUNT_KEY}

    def __init__(self, tls=False):
        self.scheme = "https" if tls else "http"

    def arguments(self):
        arguments = ["--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck", "--silent", "--blobHost", "127.0.0.1", "--blobPort", str(self.port)]
        if self.scheme == "http":
            return arguments
        cert, key = self.folder / "cert.pem", self.folder / "key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert], check=True, stderr=subprocess.DEVNULL, timeout=60)
        return [*arguments, "--cert", str(cert), "--key", str(key), "--oauth", "basic"]

    def make_bucket(self):
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
        text = "PUT" + "\n" * 12 + "".join(f"{k}:{v}\n" for k, v in headers.items()) + f"/{ACCOUNT}/{ACCOUNT}/container\nrestype:container"
        context = ssl.create_default_context(cafile=self.folder / "cert.pem") if self.scheme == "https" else None
        urllib.request.urlopen(urllib.request.Request(f"{self.endpoint}/{ACCOUNT}/container?restype=container", method="PUT",
                                                      headers={**headers, "Authorization": f"SharedKey {ACCOUNT}:{account_mac(text)}"}), context=context, timeout=60).close()

    def url(self, prefix=""):
        ca = f"&ca={self.folder / 'cert.pem'}" if self.scheme == "https" else ""
        return f"az://{ACCOUNT}/container/{prefix}?endpoint={self.endpoint}{ca}"


SERVERS = {"versitygw": Versitygw, "gcs": FakeGcs, "azurite": Azurite}
