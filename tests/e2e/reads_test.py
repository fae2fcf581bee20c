# SPDX-License-Identifier: Apache-2.0
"""Files of sessions in a bucket, read through the aggregator: ranges, versions, breaks, readers that do not read, links."""
import http.client
import os
import pathlib
import socket
import sys
import time
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from fake_s3 import FakeS3, Object, env  # noqa: E402
from lib.cluster import SLOW, Cluster, main, wait_until  # noqa: E402

BIG = 24 << 20  # more than two pieces and what the kernel buffers
NAME = "host-a.xplane.pb"


class Bucket:
    """A cluster on a bucket with one session, whose file is replaced by BIG random bytes."""

    def __init__(self):
        self.s3, self.c = FakeS3(), Cluster()
        self.s3.short_pages = False

    def __enter__(self):
        self.s3.__enter__()
        self.c.__enter__()
        self.c.aggregator("--store", self.s3.url("bucket/fleet"), env=env())
        self.c.agent("host-a", tracers="metrics")
        self.c.wait_hosts(1)
        self.session = self.c.tutti("capture", "--duration", "200ms", "--json", check=0)[1]["session"]
        self.c.kill("host-a")
        self.key = next(k for k in self.s3.buckets["bucket"] if k.endswith(NAME))
        self.path = f"/api/v1/sessions/{self.session}/files/{NAME}"
        self.captured = self.s3.buckets["bucket"][self.key].body
        self.bytes = os.urandom(BIG)
        self.put(self.bytes)
        return self

    def __exit__(self, *why):
        self.s3.faults = {}
        self.c.__exit__(*why)
        self.s3.__exit__(*why)

    def put(self, data):
        self.s3.buckets["bucket"][self.key] = Object(data, {})

    def ask(self, method="GET", path=None, **headers):
        """(status, headers, body); the body is None where it ended early."""
        conn = http.client.HTTPConnection("127.0.0.1", self.c.http, timeout=60 * SLOW)
        conn.request(method, path or self.path, headers={k.replace("_", "-"): v for k, v in headers.items()})
        answer = conn.getresponse()
        try:
            body = answer.read()
        except http.client.IncompleteRead:
            body = None
        conn.close()
        return answer.status, answer.headers, body


def check_ranges(b):
    status, headers, body = b.ask()
    etag = headers["ETag"]
    assert (status, body, headers["Accept-Ranges"]) == (200, b.bytes, "bytes") and etag.strip('"') in b.s3.buckets["bucket"][b.key].etag, headers
    status, headers, body = b.ask("HEAD")
    assert (status, headers["Content-Length"], headers["ETag"], body) == (200, str(BIG), etag, b""), headers
    for text, part in (("0-0", slice(0, 1)), ("5000000-17000000", slice(5000000, 17000001)), (f"{BIG - 5}-", slice(BIG - 5, BIG)), ("-7", slice(-7, None)),
                       (f"0-{1 << 62}", slice(0, None)), (f"-{1 << 62}", slice(0, None))):
        status, headers, body = b.ask(Range=f"bytes={text}")
        assert (status, body) == (206, b.bytes[part]), (text, status)
        assert headers["Content-Range"].endswith(f"/{BIG}"), headers
    assert b.ask(Range="bytes=3-5", If_Range=etag)[0] == 206
    assert b.ask(Range="bytes=3-5", If_Range='"another"')[::2] == (200, b.bytes)
    for text in (f"{BIG}-", "-0", f"{BIG + 5}-{BIG + 9}"):
        status, headers, _ = b.ask(Range=f"bytes={text}")
        assert (status, headers["Content-Range"]) == (416, f"bytes */{BIG}"), (text, status)
    for text in ("bytes=5-3", "bytes=-", "bytes=a-b", "bytes=0-1,4-5", "bytes=99999999999999999999-", "chars=0-1", "bytes=0x1-2", "bytes= 1-2", ""):
        status, _, body = b.ask(Range=text)
        assert (status, len(body)) == (200, BIG), (text, status)


def check_names(b):
    """No name leads to another object."""
    b.s3.buckets["bucket"]["fleet/tutti/secret.xplane.pb"] = Object(b"secret", {})
    files = f"/api/v1/sessions/{b.session}/files/"
    for name in ("..%2F..%2F..%2F..%2Ftutti%2Fsecret.xplane.pb", "%2e%2e/secret.xplane.pb", "host-a%2Fx.xplane.pb", "%C3%BC.xplane.pb", "a" * 300 + ".xplane.pb",
                 ".xplane.pb", "host-a.xplane.pb%20", "host-a.xplane.pb.", "HOST-A.xplane.pb", "host-a%0d%0a.xplane.pb", "%ff.xplane.pb", "host-b.xplane.pb"):
        for method in ("GET", "HEAD"):
            status, _, body = b.ask(method, files + name)
            assert status in (400, 404) and b"secret" != body, (name, status, body)
    assert b.ask(path=files.replace(b.session, "..%2F" + b.session) + NAME)[0] == 404


def test_ranges_and_names():
    with Bucket() as b:
        check_ranges(b)
        check_names(b)


def test_breaks():
    """The store's connections break in the middle of bodies: each answer is whole. It fails for good: no answer, or no end."""
    with Bucket() as b:
        b.s3.faults = {3: "reset", 5: "503"}
        for _ in range(3):
            assert b.ask()[::2] == (200, b.bytes)
        assert b.s3.hit.get("reset", 0) > 2 and b.s3.hit.get("503"), b.s3.hit
        b.s3.faults = {}
        for change in (lambda: b.s3.buckets["bucket"].pop(b.key), lambda: b.put(os.urandom(BIG))):
            parts = []

            def before(method, path):
                if method == "GET" and path.endswith(NAME):
                    parts.append(path)
                    if len(parts) == 2:  # after the first bytes
                        change()
            b.s3.before = before
            status, headers, body = b.ask()
            assert (status, headers["Content-Length"], body) == (200, str(BIG), None), (status, len(body or b""))
            b.s3.before = None
            b.put(b.bytes)
        wait_until("the log lines", lambda: b.c.log("aggregator").count("AGG-FILE") == 2)
        b.s3.before = lambda method, path: b.s3.buckets["bucket"].pop(b.key, None) if method == "GET" and path.endswith(NAME) else None
        assert b.ask()[0] == 404  # gone between the look and the first byte
        assert b.ask("HEAD")[0] == 404


def test_slow_readers():
    """Readers that do not read hold no worker and little of the file; when one goes on it gets all. The one that goes on is a later
    one: the aggregator ends a connection that took nothing for 60 s, and on a slow machine the first ones may wait that long."""
    with Bucket() as b:
        fds = []

        def begin():
            fd = socket.create_connection(("127.0.0.1", b.c.http), timeout=60 * SLOW)
            fd.sendall(f"GET {b.path} HTTP/1.1\r\nHost: 127.0.0.1:{b.c.http}\r\n\r\n".encode())
            fds.append(fd)
        gets = lambda: sum(n for (_, path), (n, _) in b.s3.traffic.items() if path.endswith(NAME))
        steady = [0, -1]

        def is_steady(least):
            steady[:] = [gets(), steady[0]]
            time.sleep(0.5)
            return steady[0] == steady[1] >= least
        for _ in range(12):
            begin()
        wait_until("no more reading", lambda: is_steady(36))  # of each reader: the look, the first bytes, and what it takes until it is full
        assert b.ask(Range="bytes=0-9")[0] == 206  # while all of them are held
        assert b.c.get("/api/v1/sessions")["sessions"]
        before = gets()
        begin()
        wait_until("no more reading of the last one", lambda: is_steady(before + 3))
        got = bytearray()
        while len(got) < BIG + 10_000 and (data := fds[-1].recv(1 << 20)):  # the file and its headers
            got += data
            if got.endswith(b.bytes[-64:]):
                break
        assert got.endswith(b.bytes)
        for fd in fds:
            fd.close()


def test_redirect():
    """302 to the store itself, for those who ask for it: one file, reading only, ranges as one likes."""
    with Bucket() as b:
        status, headers, _ = b.ask(path=b.path + "?redirect=1")
        assert (status, headers["Cache-Control"]) == (302, "no-store"), (status, headers)
        link = headers["Location"]
        with urllib.request.urlopen(urllib.request.Request(link, headers={"Range": "bytes=10-19"}), timeout=20 * SLOW) as answer:
            assert (answer.status, answer.read()) == (206, b.bytes[10:20])
        assert b.ask(path=b.path.replace(NAME, "host-b.xplane.pb") + "?redirect=1")[0] == 404
        for wrong in (link.replace(NAME, "host-b.xplane.pb"), link.replace("X-Amz-Expires=300", "X-Amz-Expires=3000"), link[:-1] + ("0" if link[-1] != "0" else "1")):
            assert wrong != link
            assert status_of(wrong) == 403, wrong
        for method in ("PUT", "DELETE"):
            assert status_of(link, method) == 403
        assert b.key in b.s3.buckets["bucket"]
        assert "X-Amz-Signature" not in b.c.logs_text()


def test_fetch():
    """tutti fetch reads from the bucket itself, and goes on there; through the aggregator where that is wanted, or the bucket is away."""
    with Bucket() as b:
        b.put(b.captured)
        there = b.c.dir / "fetched/plugins/profile" / b.session
        there.mkdir(parents=True)

        def fetch(*flags, part=b""):
            """Requests for the file: by links, and by the aggregator; what tutti says."""
            gets = lambda granted: b.s3.traffic.get((granted, f"/bucket/{b.key}"), (0, 0))[0]
            (there / NAME).unlink(missing_ok=True)
            (there / f"{NAME}.part").write_bytes(part)
            before = gets(True), gets(False)
            b.c.tutti("fetch", b.session, b.c.dir / "fetched", *flags, check=0)
            assert (there / NAME).read_bytes() == b.captured and "X-Amz" not in b.c.stderr, b.c.stderr
            return gets(True) - before[0], gets(False) - before[1], b.c.stderr

        links, looks, text = fetch()
        assert links == 1 and "through" not in text, text
        half = len(b.captured) // 2
        for part in (b.captured[:half], b.captured, b"x" * half):
            assert fetch(part=part)[0] == (2 if part[:1] == b"x" else 1), part[:1]  # a wrong part is fetched anew
        links, read, text = fetch("--via-aggregator")
        assert links == 0 and read > looks and "through" not in text, (links, read, looks)
        for why in ("403", "closed"):
            b.s3.no_links = why
            links, read, text = fetch()
            assert links >= 1 and read > looks and text.count("reading through the aggregator") == 1, (links, read, text)
        b.s3.no_links, b.s3.faults = None, {5: "reset"}
        for _ in range(6):
            fetch()
        assert b.s3.hit.get("reset", 0) > 1, b.s3.hit


def test_no_links():
    """--reads via-aggregator: no link leads to the bucket."""
    with Bucket() as b:
        args = b.c.processes["aggregator"].args
        b.c.kill("aggregator")
        b.c.start("aggregator", [*args, "--reads", "via-aggregator"], env=env())
        wait_until("the aggregator", lambda: b.c.is_ready(b.c.processes["aggregator"]))
        assert b.ask(path=b.path + "?redirect=1")[::2] == (200, b.bytes)
        assert share(b.c, b.session)[1].startswith(b.c.url + "/shared/")


def share(c, session, *flags, check=0):
    doc = c.tutti("share", session, *flags, "--json", check=check)[1]
    return doc, doc["files"][0]["url"]


def test_share_of_a_bucket():
    """Links of the store; the page of the session."""
    with Bucket() as b:
        doc, link = share(b.c, b.session, "--for", "1h")
        assert link.startswith(b.s3.endpoint) and doc["files"][0]["file"] == NAME, doc
        assert abs(doc["until_ns"] / 1e9 - time.time() - 3600) < 60 * SLOW, doc
        with urllib.request.urlopen(link, timeout=20 * SLOW) as answer:
            assert answer.read() == b.bytes
        assert doc["page"] == f"{b.c.url}/s/{b.session}"
        status, headers, _ = b.ask(path=f"/s/{b.session}")
        assert (status, headers["Location"]) == (302, f"/#/s/{b.session}"), headers
        assert b.ask(path="/s/%22%3E%3Cscript%3E")[0] == 404
        for wrong in ({"for_ns": 0}, {"for_ns": 8 * 24 * 3600 * 10 ** 9}, {"for_ns": "1h"}, {"for_s": 1}, []):
            assert b.c.call("POST", f"/api/v1/sessions/{b.session}/links", wrong)[0] == 400, wrong
        assert b.c.call("POST", "/api/v1/sessions/2026_01_01_00_00_00_aaaaaa/links", {})[0] == 404
        assert "X-Amz-Signature" not in b.c.logs_text()


def test_share_of_a_folder():
    """Links of the aggregator: they end, lead to one file, and outlive its restart."""
    with Cluster() as c:
        c.aggregator()
        for host in ("host-a", "host-b"):
            c.agent(host, tracers="metrics")
        c.wait_hosts(2)
        session = c.tutti("capture", "--duration", "200ms", "--run", "a/b", "--json", check=0)[1]["session"]
        link = share(c, session)[1]
        short = share(c, session, "--for", "1s")[1]
        stored = next(c.store.rglob(NAME)).read_bytes()
        read = lambda url: urllib.request.urlopen(url, timeout=20 * SLOW).read()
        assert read(link) == stored and link.startswith(c.url + "/shared/"), link
        wait_until("the end of the link", lambda: status_of(short) == 403)
        other = session[:-1] + ("a" if session[-1] != "a" else "b")
        sig = link.split("sig=")[1]
        for wrong in (link.replace("host-a", "host-b"), link.replace(session, other), link.replace("until=", "until=9"), link.replace("sig=", "sig=A"), link[:-1],
                      link.split("?")[0], link.split("&")[0], link.replace(sig, ""), link.replace("until=", "until=%0a"), link + "A",
                      link.replace(NAME, NAME + "%0a"), short.split("?")[0] + "?" + link.split("?")[1].replace("until=", "until=-")):
            assert status_of(wrong) == 403, wrong
        key = c.dir / "agg-spool/link-key"
        assert key.stat().st_mode & 0o777 == 0o600
        c.kill("aggregator")
        c.start("aggregator", c.processes["aggregator"].args)
        wait_until("the aggregator", lambda: c.is_ready(c.processes["aggregator"]))
        assert read(link) == stored
        c.tutti("delete", session, check=0)
        assert status_of(link) == 404
        assert sig not in c.logs_text() and key.read_text().strip() not in c.logs_text()


def status_of(url, method="GET"):
    u = urllib.parse.urlsplit(url)
    conn = http.client.HTTPConnection(u.netloc, timeout=20 * SLOW)
    conn.request(method, f"{u.path}?{u.query}")
    status = conn.getresponse().status
    conn.close()
    return status


if __name__ == "__main__":
    main(test_ranges_and_names, test_breaks, test_slow_readers, test_redirect, test_fetch, test_no_links, test_share_of_a_bucket, test_share_of_a_folder)
