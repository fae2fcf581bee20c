# SPDX-License-Identifier: Apache-2.0
"""Agents put their files into a bucket by grants, and the bucket fails, forgets, is away, or has what it should not have: nothing gets lost."""
import threading

from lib.grants import HOSTS, capture, check_files, files_of, start
from fake_s3 import FakeS3, Object, Refusal
from lib.cluster import SLOW, Cluster, main, wait_until


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


def test_listing_that_comes_late():
    """A bucket whose listings lack what is younger than a minute: the files are asked for by their keys, and all are in the session."""
    with FakeS3() as s3, Cluster() as c:
        s3.short_pages = False
        start(c, s3)
        s3.list_lag_s = 60
        doc = capture(c)
        assert doc["complete"] == len(HOSTS) and doc["failed"] == 0, doc
        check_files(c, s3, doc)


def test_listing_that_lacks_some():
    """It has the file of a host that failed, and lacks as many others: that file is removed all the same."""
    with FakeS3() as s3, Cluster() as c:
        s3.short_pages = False
        start(c, s3, hosts=HOSTS[:2])
        s3.list_lag_s = 60
        killed = []

        def kill(method, path):
            if method == "PUT" and path.endswith("host-b.xplane.pb") and not killed:
                killed.append(path.split("/", 2)[2])
                c.kill("host-b")
            for key in killed:
                if key in s3.buckets["bucket"]:
                    s3.buckets["bucket"][key].modified = 0
        s3.before = kill
        doc = capture(c, check=3)
        assert killed and doc["complete"] == doc["failed"] == 1, doc
        wait_until("its file to be removed", lambda: list(files_of(s3, doc["session"])) == ["host-a.xplane.pb"])


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
        start(c, s3, "--grace", f"{8 * SLOW:g}s")

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


def test_credit():
    """The grant comes with the upload credit: no host asks for one. One whose put is refused asks, and its file arrives."""
    with FakeS3() as s3, Cluster() as c:
        s3.short_pages = False
        start(c, s3)
        check_files(c, s3, capture(c))
        assert "state=asking" not in c.logs_text()
        refused = []

        def refuse(method, path):
            if method == "PUT" and path.endswith("host-b.xplane.pb") and not refused:
                refused.append(path)
                raise Refusal(403, "AccessDenied")
        s3.before = refuse
        check_files(c, s3, capture(c))
        assert refused and c.log("host-b").count("state=asking") == c.logs_text().count("state=asking") == 1


def test_agent_killed_after_its_put():
    """The file is in the store, and no agent says so: a retry gets it from the next agent, whatever lies at its key."""
    with FakeS3() as s3, Cluster() as c:
        s3.short_pages = False
        start(c, s3)
        killed = []

        def kill(method, path):
            if method == "PUT" and path.endswith("host-b.xplane.pb") and not killed:
                killed.append(path)
                c.kill("host-b")
        s3.before = kill
        doc = capture(c, check=3)
        assert killed and doc["failed"] == 1, doc
        c.agent("host-b", tracers="metrics")
        c.wait_hosts(len(HOSTS))
        check_files(c, s3, c.tutti("retry", doc["session"], "--json", check=0)[1])


main(test_failing_store, test_store_that_forgets, test_listing_that_comes_late, test_listing_that_lacks_some, test_foreign_file_under_the_key, test_bucket_away,
     test_object_of_another_owner, test_credit, test_agent_killed_after_its_put)
