# SPDX-License-Identifier: Apache-2.0
"""Agents put their files into a bucket by grants: what the aggregator's own traffic is, what agents know, and what does not get lost.

    grants_test.py            # the strict server of tests/lib
"""
import pathlib
import signal
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from fake_s3 import KEYS, FakeS3, Object, Refusal, env  # noqa: E402
from lib import xspace  # noqa: E402
from lib.cluster import SLOW, Cluster, main  # noqa: E402
from lib.memory import knows  # noqa: E402

HOSTS = ("host-a", "host-b", "host-c")


def start(c, s3, *flags, hosts=HOSTS):
    c.aggregator("--store", s3.url("bucket/fleet"), *flags, env=env())
    for host in hosts:
        c.agent(host, "--tracers", "metrics")
    c.wait_hosts(len(hosts))


def capture(c, check=0, hosts="all"):
    return c.tutti("capture", "--duration", "200ms", "--hosts", hosts, "--json", check=check)[1]


def files_of(s3, session):
    return {k.rsplit("/", 1)[1]: o.body for k, o in s3.buckets["bucket"].items() if session in k and k.endswith(".xplane.pb")}


def bytes_with_keys(s3, session):
    """What the aggregator sent and received because of this session."""
    return sum(n for (granted, path), (_, n) in s3.traffic.items() if not granted and (session in path or path.endswith("/bucket")))


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


def test_no_byte_through_the_aggregator():
    with FakeS3() as s3, Cluster() as c:
        s3.short_pages = False
        start(c, s3)
        one, three = capture(c, hosts="host-a"), capture(c)
        of_files = [(granted, path) for granted, path in s3.traffic if path.endswith(".xplane.pb")]
        assert len(of_files) == 4 and all(granted for granted, _ in of_files), of_files  # until here no file was read
        per_host = (bytes_with_keys(s3, three["session"]) - bytes_with_keys(s3, one["session"])) / 2
        assert per_host < 2000, per_host
        _, shown = c.tutti("show", three["session"], "--json", check=0)
        assert not shown["causality"]["skipped"], shown["causality"]
        check_files(c, s3, three)
        secrets = [secret.encode() for secret, _ in KEYS.values()]
        for host in HOSTS:
            assert not knows(c.processes[host].pid, secrets), f"{host} has the keys"
        assert knows(c.processes["aggregator"].pid, secrets), "the search finds nothing"
        assert "X-Amz-Signature" not in c.logs_text()
        print(f"the aggregator's own traffic with the store: {per_host:.0f} bytes for each further host")


def test_via_aggregator():
    with FakeS3() as s3, Cluster() as c:
        s3.short_pages = False
        start(c, s3, "--upload", "via-aggregator", hosts=HOSTS[:1])
        check_files(c, s3, capture(c), HOSTS[:1])
        assert not any(granted for granted, _ in s3.traffic), s3.traffic
        assert c.kill("aggregator", signal.SIGTERM) is None
        assert "use auto or via-aggregator" in refused_flag(c)


def refused_flag(c):
    p = c.start("wrong", [c.processes["aggregator"].args[0], "--upload", "around", "--store", "mem://x", "--http", "127.0.0.1:0", "--grpc",
                          "127.0.0.1:0", "--probe", "127.0.0.1:0", "--spool", c.dir / "wrong-spool"])
    p.expected = False
    assert p.wait(20 * SLOW)
    return c.log("wrong")


def test_failing_store():
    """Every kind of failure, also in the middle of bodies: each file arrives once."""
    with FakeS3(faults={5: "503", 7: "lost", 9: "cut", 11: "500", 13: "slow"}) as s3, Cluster() as c:
        s3.short_pages = False
        start(c, s3, "--lead", "2s")
        check_files(c, s3, capture(c))
        assert {"cut", "lost", "503"} <= set(s3.hit), s3.hit
        created = [k for k in s3.created if k.endswith(".xplane.pb")]
        assert len(created) == len(set(created)) == len(HOSTS), created


def test_store_that_forgets():
    """A host whose file the store does not list at the commit has failed; the others are committed."""
    with FakeS3() as s3, Cluster() as c:
        s3.short_pages = False
        start(c, s3)

        def forget(method, path):
            if method == "GET" and path.endswith("/bucket"):
                for key in [k for k in s3.buckets["bucket"] if k.endswith("host-b.xplane.pb")]:
                    s3.buckets["bucket"].pop(key, None)
        s3.before = forget
        doc = capture(c, check=3)
        by_host = {h["host"]: h for h in doc["hosts"]}
        assert by_host["host-b"]["state"] == "failed" and by_host["host-b"]["reason"] == "upload", by_host["host-b"]
        assert "does not list" in by_host["host-b"]["detail"] and not by_host["host-b"]["files"], by_host["host-b"]
        assert doc["complete"] + doc["partial"] == 2 and doc["failed"] == 1, doc
        _, shown = c.tutti("show", doc["session"], "--json", check=0)
        assert [h["state"] for h in shown["hosts"]] == [h["state"] for h in doc["hosts"]]


def test_foreign_file_under_the_key():
    """A key that is there already may be of another file: it is looked at, removed and put again."""
    with FakeS3() as s3, Cluster() as c:
        s3.short_pages = False
        start(c, s3, hosts=HOSTS[:1])
        spoiled = []

        def spoil(method, path):
            if method == "PUT" and path.endswith(".xplane.pb") and not spoiled:
                spoiled.append(key := path.split("/", 2)[2])
                s3.buckets["bucket"][key] = Object(b"foreign", {})
        s3.before = spoil
        check_files(c, s3, capture(c), HOSTS[:1])
        assert spoiled


def test_bucket_away():
    """The bucket is deleted while agents put, and is back a second later: nothing is lost."""
    with FakeS3() as s3, Cluster() as c:
        s3.short_pages = False
        start(c, s3)
        away = []

        def take_away(method, path):
            if method == "PUT" and path.endswith(".xplane.pb") and not away:
                away.append(s3.buckets.pop("bucket"))
                threading.Timer(1, lambda: s3.buckets.update(bucket=away[0])).start()
                raise Refusal(404, "NoSuchBucket")
        s3.before = take_away
        check_files(c, s3, capture(c))
        assert away and "answers 404 NoSuchBucket" in c.logs_text()


def test_object_of_another_owner():
    """An object at a host's key that may be neither read nor removed: that host fails, and says why; the others are committed."""
    with FakeS3() as s3, Cluster() as c:
        s3.short_pages = False
        start(c, s3, "--grace", f"{3 * SLOW:g}s")

        def keep(method, path):
            if path.endswith("host-b.xplane.pb"):
                s3.buckets["bucket"][path.split("/", 2)[2]] = Object(b"foreign", {})
                if method != "PUT":
                    raise Refusal(403, "AccessDenied")
        s3.before = keep
        doc = capture(c, check=3)
        by_host = {h["host"]: h for h in doc["hosts"]}
        assert doc["complete"] == 2 and by_host["host-b"]["reason"] == "upload" and "403" in by_host["host-b"]["detail"], by_host["host-b"]
        assert not by_host["host-b"]["files"] and [o.body for k, o in s3.buckets["bucket"].items() if k.endswith("host-b.xplane.pb")] == [b"foreign"]


main(test_no_byte_through_the_aggregator, test_via_aggregator, test_failing_store, test_store_that_forgets, test_foreign_file_under_the_key,
     test_bucket_away, test_object_of_another_owner)
