# SPDX-License-Identifier: Apache-2.0
"""Sessions in a bucket: captured, listed, shown, exported and deleted through the aggregator; what is kept where, and what is not said."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from fake_s3 import KEYS, FakeS3, env  # noqa: E402
from lib import xspace  # noqa: E402
from lib.cluster import Cluster, main, wait_until  # noqa: E402


def check_no_secret(c, *texts):
    for text in (c.logs_text(), *texts):
        assert not any(secret in text for secret, _ in KEYS.values()), "a secret in a log"


def test_sessions_in_a_bucket():
    with FakeS3(faults={31: "503", 53: "lost"}) as s3, Cluster() as c:
        s3.short_pages = False
        c.aggregator("--store", s3.url("bucket/fleet-1"), env=env())
        for host in ("host-a", "host-b"):
            c.agent(host, tracers="metrics")
        c.wait_hosts(2)
        _, doc = c.tutti("capture", "--duration", "300ms", "--json", check=0)
        session, bucket = doc["session"], s3.buckets["bucket"]
        files = [k for k in bucket if k.endswith(".xplane.pb")]
        assert len(files) == 2 and all(k.startswith("fleet-1/profiles/") for k in bucket if session in k and "profiles" in k), list(bucket)
        assert [s["session"] for s in c.get("/api/v1/sessions")["sessions"]] == [session]
        c.tutti("show", session, "--json", check=0)
        out = c.dir / "out"
        c.tutti("export", session, "-o", out, check=0)
        exported = {p.name: p.read_bytes() for p in out.rglob("*.xplane.pb")}
        assert exported == {k.rsplit("/", 1)[1]: bucket[k].body for k in files}
        assert sorted(h for p in out.rglob("*.xplane.pb") for h in xspace.load(p).hostnames) == ["host-a", "host-b"]
        c.tutti("delete", session, check=0)
        wait_until("the objects to be gone", lambda: not any(session in k for k in bucket))
        assert c.get("/api/v1/sessions")["sessions"] == []
        assert s3.hit, "no fault was met"
        check_no_secret(c)


def test_store_check():
    with FakeS3() as s3, Cluster() as c:
        _, doc = c.tutti("store", "check", s3.url("bucket/here"), "--json", check=0, env=env())
        assert doc["ok"] and [f["name"] for f in doc["findings"]] == ["put", "create-only", "get", "range", "list", "replace", "race", "grant", "grant-once", "remove"], doc
        assert not s3.buckets["bucket"], list(s3.buckets["bucket"])
        s3.no_conditions = True
        _, text = c.tutti("store", "check", s3.url(), check=1, env=env())
        assert "FAIL   create-only" in text and "one aggregator only" in text, text
        _, text = c.tutti("store", "check", s3.url("missing"), check=1, env=env())
        assert "bucket does not exist" in text, text
        _, text = c.tutti("store", "check", s3.url(), check=1, env={**env(), "AWS_SECRET_ACCESS_KEY": "wrong"})
        assert "SignatureDoesNotMatch" in text, text
        c.tutti("store", "check", "s3://b", check=2, env=env())
        c.tutti("store", "check", f"file://{c.dir}/files", check=0)
        check_no_secret(c, text)


main(test_sessions_in_a_bucket, test_store_check)
