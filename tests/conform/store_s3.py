# SPDX-License-Identifier: Apache-2.0
"""The suite of stores for s3://, against the strict server of tests/lib: as it should be, and failing all the time."""
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from fake_s3 import FakeS3, Object, env, KEYS  # noqa: E402

PROGRAM = sys.argv[1]
FAULTS = {29: "503", 31: "lost", 37: "reset", 41: "500", 397: "slow"}


def run(what, server, *args, keys="AKIDTEST", **more):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    start = time.monotonic()
    p = subprocess.run([PROGRAM, *args], env={**clean, "HOME": "/nonexistent", **env(keys), **more}, capture_output=True, text=True, timeout=100)
    output = p.stdout + p.stderr
    assert p.returncode == 0, f"{what}: status {p.returncode}\n{output}\n{server.refusals[-5:]}"
    assert not any(secret in output for secret, _ in KEYS.values()), f"{what}: a secret in the output"
    print(f"{what}: {time.monotonic() - start:.1f} s, {server.requests} requests on {server.connections} connections, faults {server.hit}")


with FakeS3() as s3:
    run("suite", s3, "suite", s3.url())
    assert s3.connections < 60, "connections are not reused"
    assert not s3.buckets["bucket"], list(s3.buckets["bucket"])
    assert s3.batches == [30], s3.batches
    assert all(status in (404, 412, 416) for _, _, status, _ in s3.refusals), s3.refusals
with FakeS3(faults=FAULTS) as s3:
    s3.no_reset = "/version"  # it is replaced all the time: the rest of what was read is gone, and that is an error
    run("suite, with faults", s3, "suite", s3.url())
    assert set(s3.hit) == set(FAULTS.values()), s3.hit
    assert not s3.buckets["bucket"], list(s3.buckets["bucket"])

with FakeS3() as s3:
    bucket = s3.buckets["bucket"]
    for key in ("other/a", "my/pre", "my/prefix", "my/prefixed/a", "my/prefix/odd name", "my/prefix/tab\t", "my/prefix/folder/", "z"):
        bucket[key] = Object(b"foreign", {})
    run("own", s3, "own", s3.url("bucket/my/prefix"))
    assert len(bucket) == 8, list(bucket)
    run("grants", s3, "grants", s3.url("bucket/my/prefix"))
    run("grants, session token", s3, "grants", s3.url("bucket/my/prefix"), keys="AKIDSESSION")
    run("session token", s3, "own", s3.url("bucket/my/prefix/"), keys="AKIDSESSION")
    run("wrong secret", s3, "refused", s3.url(), "SignatureDoesNotMatch", AWS_SECRET_ACCESS_KEY="wrong")
    run("unknown key", s3, "refused", s3.url(), "InvalidAccessKeyId", AWS_ACCESS_KEY_ID="AKIDNOBODY")
    run("no keys", s3, "refused", s3.url(), "no keys", AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="")
    run("no bucket", s3, "refused", s3.url("missing"), "bucket does not exist")
    s3.quota = 10
    run("full", s3, "refused", s3.url(), "QuotaExceeded")
    s3.quota = 1 << 40
    run("another region", s3, "refused", s3.url().replace("us-east-1", "eu-west-9"), "add ?region=us-east-1")
    for what, bytes_ in (("a page to sign in", b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n<html></html>"), ("no HTTP", b"SSH-2.0-x\r\n")):
        s3.gateway = bytes_
        run(what, s3, "gateway", s3.url())
    s3.gateway = b"HTTP/1.1 404 Not Found\r\nContent-Length: 18\r\n\r\n404 page not found"
    run("a gateway without a route", s3, "not-removed", s3.url())
    s3.gateway = None
    s3.skew_s = 7200  # the host's clock is wrong: the server's is used
    run("two hours off", s3, "own", s3.url("bucket/my/prefix"))
