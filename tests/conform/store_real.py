# SPDX-License-Identifier: Apache-2.0
"""The suite of stores against a real server, as it is and failing all the time: store_real.py PROGRAM versitygw|gcs|azurite."""
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from fault_proxy import FaultProxy  # noqa: E402
from servers import SERVERS  # noqa: E402

PROGRAM, NAME = sys.argv[1:3]
FAULTS = {29: "503", 31: "lost", 37: "reset", 41: "500", 43: "cut", 397: "slow"}
CLOUDS = ("AWS_", "AZURE_", "GOOGLE_", "GCE_", "STORAGE_")


def run(what, *args, **env):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(CLOUDS)}
    start = time.monotonic()
    p = subprocess.run([PROGRAM, *args], env={**clean, "HOME": str(server.folder), **env}, capture_output=True, text=True, timeout=100)
    output = p.stdout + p.stderr
    assert p.returncode == 0, f"{what}: status {p.returncode}\n{output}"
    assert not any(secret in output for secret in server.secrets), f"{what}: a secret in the output"
    print(f"{what}: {time.monotonic() - start:.1f} s", flush=True)


with SERVERS[NAME]() as server:
    run("suite", "suite", server.url(), **server.env)
    run("below a prefix", "own", server.url("some/prefix"), **server.env)
    run("no server", "away", server.url().replace(server.endpoint, "http://127.0.0.1:1"), **{k: v.replace(server.endpoint, "http://127.0.0.1:1") for k, v in server.env.items()})
    run("grants", "grants" if NAME == "versitygw" else "once", server.url("some/prefix"), **server.env)
    missing = server.url().replace("://bucket", "://missing").replace("/container", "/missing")
    run("a bucket that is missing", "refused", missing, "does not exist", **server.env)
    if NAME == "versitygw":
        run("wrong secret", "refused", server.url(), "SignatureDoesNotMatch", **{**server.env, "AWS_SECRET_ACCESS_KEY": "wrong"})
    if NAME == "azurite":
        wrong = "A" * 86 + "=="
        run("wrong secret", "refused", server.url(), "AuthorizationFailure", **{**server.env, "AZURE_STORAGE_KEY": wrong})
    with FaultProxy(server.endpoint, FAULTS) as proxy:
        proxy.no_reset = "version"  # it is replaced all the time: the rest of what was read is gone, and that is an error
        through = lambda text: text.replace(server.endpoint, proxy.endpoint)
        run("suite, with faults", "suite", through(server.url()), **{k: through(v) for k, v in server.env.items()})
        assert set(proxy.hit) >= set(FAULTS.values()), proxy.hit
        print(f"{proxy.requests} requests, faults {proxy.hit}")
