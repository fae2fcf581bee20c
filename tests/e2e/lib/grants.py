# SPDX-License-Identifier: Apache-2.0
"""A cluster whose agents put their files into a strict S3 server by grants."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
from fake_s3 import env  # noqa: E402
from lib import xspace  # noqa: E402

HOSTS = ("host-a", "host-b", "host-c")


def start(c, s3, *flags, hosts=HOSTS):
    c.aggregator("--store", s3.url("bucket/fleet"), *flags, env=env())
    for host in hosts:
        c.agent(host, tracers="metrics")
    c.wait_hosts(len(hosts))


def capture(c, check=0, hosts="all"):
    return c.tutti("capture", "--duration", "200ms", "--hosts", hosts, "--json", check=check)[1]


def files_of(s3, session):
    return {k.rsplit("/", 1)[1]: o.body for k, o in s3.buckets["bucket"].items() if session in k and k.endswith(".xplane.pb")}


def check_files(c, s3, doc, hosts=HOSTS):
    """Each host's file is there once, as the manifest has it, and opens."""
    session = doc["session"]
    stored = files_of(s3, session)
    assert sorted(stored) == sorted(f for h in doc["hosts"] for f in h["files"]) == sorted(f"{h}.xplane.pb" for h in hosts), (list(stored), doc)
    for h in doc["hosts"]:
        assert [len(stored[f]) for f in h["files"]] == [h["bytes"]] and len(h["crc32c"]) == 1, h
    out = c.dir / f"out-{session}"
    c.tutti("export", session, "-o", out, check=0)
    assert sorted(n for p in out.rglob("*.xplane.pb") for n in xspace.load(p).hostnames) == sorted(hosts)
