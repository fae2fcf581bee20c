# SPDX-License-Identifier: Apache-2.0
"""A strict S3 server for tests, in memory: it recomputes every signature, checks sizes and conditions, and fails on purpose.

    with FakeS3(faults={7: "503"}) as s3: ...        # s3.url("bucket"); every 7th request fails
    python3 tests/lib/fake_s3.py --port 9000 --bucket bucket   # until it is killed

Faults, by the number of requests between two of a kind: "503" (nothing done), "slow" (0.3 s later), "lost" (done, then the connection is
closed without an answer), "reset" (half of the answer's body, then the connection is reset), "cut" (half of the request's body is read,
then the connection is reset), "500". `before(method, path)`, if set, is called before a request is carried out, and may wait.
`list_lag_s`: listings lack what is younger.
`gateway`: these bytes answer each request, as of something in front of the server that has lost it.
`no_links`: requests by signed URL are refused ("403") or their connection closed ("closed"), as where the bucket cannot be reached.
`traffic` has the requests and bytes of those who have keys, and of those who have a grant: (with grant, path): [requests, bytes].
"""
import argparse
import base64
import bisect
import hashlib
import hmac
import itertools
import json
import re
import socket
import struct
import threading
import time
from datetime import datetime, timezone
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, unquote_to_bytes
from xml.sax.saxutils import escape

KEYS = {"AKIDTEST": ("secretsecret/+test", None), "AKIDSESSION": ("session/secret+", "to/ken+==")}
PAGE = 7  # keys in a page of a listing, so that short listings have several
encode = lambda raw, safe="": quote(raw, safe=safe + "-_.~")
mac = lambda key, text: hmac.new(key, text.encode(), hashlib.sha256).digest()


class Refusal(Exception):
    def __init__(self, status, code, message=""):
        super().__init__(code)
        self.status, self.code, self.message = status, code, message


class Object:
    def __init__(self, body, meta):
        self.body, self.meta = body, meta
        self.etag = '"' + hashlib.md5(body).hexdigest() + '"'
        self.modified = time.time()


class Bucket(dict):
    """Keys to objects. What a put or a listing costs does not grow with the objects that are there."""

    def __init__(self):
        super().__init__()
        self.bytes = 0
        self.order, self.known, self.new = [], set(), []  # keys in order, with removed ones; which these are; not in order yet

    def __setitem__(self, key, o):
        self.bytes += len(o.body) - (len(self[key].body) if key in self else 0)
        super().__setitem__(key, o)
        if key not in self.known:
            self.known.add(key)
            self.new.append(key)

    def __delitem__(self, key):
        self.bytes -= len(self[key].body)
        super().__delitem__(key)

    def pop(self, key, default=None):
        o = self.get(key, default)
        if key in self:
            del self[key]
        return o

    def clear(self):
        super().clear()
        self.__init__()

    def after(self, prefix, after):
        """Those with this prefix that follow `after`, in byte order, which is also that of the characters."""
        new, self.new = self.new, []
        if len(new) > 100:
            self.order = sorted(self.order + new)
        else:
            for key in new:
                bisect.insort(self.order, key)
        at = max(bisect.bisect_left(self.order, prefix), bisect.bisect_right(self.order, after))
        return (k for k in itertools.takewhile(lambda k: k.startswith(prefix), itertools.islice(self.order, at, None)) if k in self)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16

    def log_message(self, *args):
        pass

    def date_time_string(self, timestamp=None):
        return formatdate((timestamp or time.time()) + self.server.skew_s, usegmt=True)

    def setup(self):
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self.server.lock:
            self.server.connections += 1

    # ---- signatures ----

    def canonical(self, pairs, signed, payload):
        headers = ""
        for name in signed:
            values = self.headers.get_all(name)
            if values is None:
                raise Refusal(403, "SignatureDoesNotMatch", f"signed header is missing: {name}")
            headers += name + ":" + ",".join(" ".join(v.split()) for v in values) + "\n"
        query = "&".join(f"{k}={v}" for k, v in sorted(pairs))
        return "\n".join([self.command, encode(unquote_to_bytes(self.raw_path), "/"), query, headers, ";".join(signed), payload])

    def check_signature(self, body):
        pairs = [(encode(unquote_to_bytes(k)), encode(unquote_to_bytes(v))) for k, _, v in (p.partition("=") for p in self.raw_query.split("&") if p)]
        given = dict(pairs)
        if "X-Amz-Signature" in given:
            scope = unquote_to_bytes(given["X-Amz-Credential"]).decode()
            signed = unquote_to_bytes(given["X-Amz-SignedHeaders"]).decode().split(";")
            signature, date, payload = given["X-Amz-Signature"], given["X-Amz-Date"], "UNSIGNED-PAYLOAD"
            token = unquote_to_bytes(given.get("X-Amz-Security-Token", "")).decode() or None
            pairs = [p for p in pairs if p[0] != "X-Amz-Signature"]
            life = int(given["X-Amz-Expires"])
        else:
            found = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^,]+), SignedHeaders=([^,]+), Signature=([0-9a-f]{64})", self.headers.get("authorization", ""))
            if not found:
                raise Refusal(403, "AccessDenied", "no signature")
            scope, signed, signature = found[1], found[2].split(";"), found[3]
            date, payload, token, life = self.headers.get("x-amz-date", ""), self.headers.get("x-amz-content-sha256", ""), self.headers.get("x-amz-security-token"), 900
            if payload != "UNSIGNED-PAYLOAD" and payload != hashlib.sha256(body).hexdigest():
                raise Refusal(400, "XAmzContentSHA256Mismatch")
        for name in self.headers:
            if (name.lower().startswith("x-amz-") or name.lower() == "host") and name.lower() not in signed:
                raise Refusal(403, "AccessDenied", f"header not signed: {name}")
        if signed != sorted(signed):
            raise Refusal(403, "SignatureDoesNotMatch", "SignedHeaders are not sorted")
        key, day, region, service, end = scope.split("/")
        if key not in KEYS or KEYS[key][1] != token:
            raise Refusal(403, "InvalidAccessKeyId")
        if region != self.server.region:
            raise Refusal(400, "AuthorizationHeaderMalformed", f"expecting {self.server.region}")
        at = datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc).timestamp()
        if abs(time.time() + self.server.skew_s - at) > life:
            raise Refusal(403, "RequestTimeTooSkewed")
        text = "\n".join(["AWS4-HMAC-SHA256", date, f"{day}/{region}/{service}/{end}", hashlib.sha256(self.canonical(pairs, signed, payload).encode()).hexdigest()])
        derived = ("AWS4" + KEYS[key][0]).encode()
        for part in (day, region, service, "aws4_request"):
            derived = mac(derived, part)
        if not hmac.compare_digest(mac(derived, text).hex(), signature):
            raise Refusal(403, "SignatureDoesNotMatch")

    # ---- answers ----

    def count(self, n, requests=0):
        key = ("X-Amz-Signature=" in self.raw_query, self.raw_path)
        with self.server.lock:
            counted = self.server.traffic.setdefault(key, [0, 0])
            counted[0] += requests
            counted[1] += n

    def answer(self, status, body=b"", headers=(), length=None):
        self.count(len(body) + sum(len(f"{n}: {v}\r\n") for n, v in headers) + 120)
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if self.fault == "reset" and len(body) > 1:
            self.wfile.write(body[:len(body) // 2])
            self.wfile.flush()
            raise ConnectionAbortedError
        self.wfile.write(body)

    def refuse(self, why):
        text = f"<?xml version='1.0'?><Error><Code>{why.code}</Code><Message>{escape(why.message or why.code)}</Message></Error>"
        self.answer(why.status, text.encode(), [("Content-Type", "application/xml"), *([("x-amz-bucket-region", self.server.region)] if why.status == 400 else [])])

    def hang_up(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        try:  # the reset goes out at the close, which comes after this
            self.connection.shutdown(socket.SHUT_RD)
        except OSError:
            pass

    def take_body(self):
        if "transfer-encoding" in self.headers:
            raise Refusal(411, "MissingContentLength")
        if self.command in ("PUT", "POST") and self.headers.get("content-length") is None:
            raise Refusal(411, "MissingContentLength")
        length = int(self.headers.get("content-length") or 0)
        if self.fault == "cut" and length > 1:
            self.rfile.read(length // 2)
            raise ConnectionAbortedError
        return self.rfile.read(length)

    def serve(self):
        server = self.server
        self.raw_path, _, self.raw_query = self.path.partition("?")
        self.fault = None
        if server.gateway:
            self.close_connection = True
            self.wfile.write(server.gateway)
            return
        if self.path == "/-/traffic":
            with server.lock:
                sums = {name: sum(n for (granted, _), (_, n) in server.traffic.items() if granted == (name == "grants")) for name in ("keys", "grants")}
                sums["requests"] = sum(n for (granted, path), (n, _) in server.traffic.items() if not granted and not path.endswith("tutti/ready"))
            return self.answer(200, json.dumps(sums).encode())
        self.fault = server.next_fault(self.raw_path)
        try:
            body = self.take_body()
            self.count(len(self.raw_requestline) + len(str(self.headers)) + len(body), 1)
            if self.fault in ("503", "500"):
                raise Refusal(int(self.fault), "SlowDown" if self.fault == "503" else "InternalError")
            if self.fault == "slow":
                time.sleep(0.3)
            self.check_signature(body)
            if server.no_links and self.command == "GET" and "X-Amz-Signature=" in self.raw_query:
                raise Refusal(403, "AccessDenied", "not from there") if server.no_links == "403" else ConnectionAbortedError
            if server.before:
                server.before(self.command, self.raw_path)
            if self.fault == "lost":
                self.send_response = self.send_header = lambda *a: None
                self.end_headers = lambda: None
                out, self.wfile = self.wfile, open("/dev/null", "wb")
                self.do(body)
                self.wfile.close()
                self.wfile = out
                del self.send_response, self.send_header, self.end_headers
                return self.hang_up()
            self.do(body)
        except Refusal as why:
            if self.fault == "lost":
                return self.hang_up()
            with server.lock:
                server.refusals.append((self.command, self.raw_path, why.status, why.code))
            self.refuse(why)
        except ConnectionAbortedError:
            self.hang_up()

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = serve

    # ---- objects ----

    def do(self, body):
        path = unquote_to_bytes(self.raw_path).decode()
        _, bucket, *rest = path.split("/", 2)
        query = {k: unquote_to_bytes(v).decode() for k, _, v in (p.partition("=") for p in self.raw_query.split("&") if p)}
        if bucket not in self.server.buckets:
            raise Refusal(404, "NoSuchBucket")
        objects, key = self.server.buckets[bucket], rest[0] if rest else ""
        if len(key.encode()) > 1024:
            raise Refusal(400, "KeyTooLongError")
        if not key and self.command == "POST" and "delete" in query:
            return self.delete_all(objects, body)
        if not key:
            return self.list(objects, query)
        getattr(self, "object_" + self.command)(objects, key, body)

    def object_PUT(self, objects, key, body):
        made = Object(body, {k.lower(): v for k, v in self.headers.items() if k.lower().startswith("x-amz-meta-")})
        condition = self.headers.get("if-none-match")
        with self.server.lock:
            if condition not in (None, "*"):
                raise Refusal(501, "NotImplemented")
            if condition and key in objects and not self.server.no_conditions:
                raise Refusal(412, "PreconditionFailed")
            if objects.bytes + len(body) > self.server.quota:
                raise Refusal(403, "QuotaExceeded")
            objects[key] = made
            if condition:
                self.server.created.append(key)
        self.answer(200, b"", [("ETag", made.etag)])

    def headers_of(self, o):
        return [("ETag", o.etag), ("Last-Modified", formatdate(o.modified, usegmt=True)), *o.meta.items()]

    def object_GET(self, objects, key, _):
        o = objects.get(key)
        if not o:
            raise Refusal(404, "NoSuchKey")
        if self.headers.get("if-match") not in (None, o.etag):
            raise Refusal(412, "PreconditionFailed")
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range", ""))
        if not wanted:
            return self.answer(200, o.body, self.headers_of(o))
        first, last = int(wanted[1]), int(wanted[2] or 1 << 63)
        if first >= len(o.body):
            raise Refusal(416, "InvalidRange")
        part = o.body[first:last + 1]
        self.answer(206, part, [("Content-Range", f"bytes {first}-{first + len(part) - 1}/{len(o.body)}"), *self.headers_of(o)])

    def object_HEAD(self, objects, key, _):
        o = objects.get(key)
        if not o:
            raise Refusal(404, "NoSuchKey")
        self.answer(200, b"", self.headers_of(o), len(o.body))

    def object_DELETE(self, objects, key, _):
        with self.server.lock:
            objects.pop(key, None)
        self.answer(204)

    def delete_all(self, objects, body):
        if self.headers.get("content-md5") != base64.b64encode(hashlib.md5(body).digest()).decode():
            raise Refusal(400, "InvalidDigest")
        keys = re.findall(r"<Object><Key>([^<]+)</Key></Object>", body.decode())
        if len(keys) > 1000 or not body.startswith(b"<Delete><Quiet>true</Quiet><Object>"):
            raise Refusal(400, "MalformedXML")
        with self.server.lock:
            self.server.batches.append(len(keys))
            for key in keys:
                objects.pop(key, None)
        self.answer(200, b"<DeleteResult xmlns='http://s3.amazonaws.com/doc/2006-03-01/'></DeleteResult>")

    def list(self, objects, query):
        if self.command != "GET" or query.get("list-type") != "2" or query.get("encoding-type") != "url":
            raise Refusal(501, "NotImplemented")
        prefix, after = query.get("prefix", ""), query.get("continuation-token", query.get("start-after", ""))
        with self.server.lock:
            self.server.listed[prefix] = self.server.listed.get(prefix, 0) + 1
            most = min(int(query.get("max-keys", 1000)), PAGE if self.server.short_pages else 1000)
            until = time.time() - self.server.list_lag_s
            keys = list(itertools.islice((k for k in objects.after(prefix, after) if objects[k].modified <= until), most + 1))
            page = [(k, objects[k]) for k in keys[:most]]
        more = len(keys) > len(page)
        rows = "".join(f"<Contents><Key>{quote(k)}</Key><LastModified>{datetime.fromtimestamp(o.modified, timezone.utc):%Y-%m-%dT%H:%M:%S.123Z}</LastModified>"
                       f"<ETag>{escape(o.etag, {chr(34): '&quot;'})}</ETag><Size>{len(o.body)}</Size><StorageClass>STANDARD</StorageClass></Contents>" for k, o in page)
        token = f"<NextContinuationToken>{escape(page[-1][0])}</NextContinuationToken>" if more else ""
        self.answer(200, f'<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><EncodingType>url</EncodingType>'
                         f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{rows}</ListBucketResult>".encode(), [("Content-Type", "application/xml")])


class FakeS3(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port=0, buckets=("bucket",), faults=None, region="us-east-1"):
        super().__init__(("127.0.0.1", port), Handler)
        self.buckets = {name: Bucket() for name in buckets}
        self.region, self.faults = region, faults or {}
        self.lock = threading.Lock()
        self.requests = self.connections = 0
        self.hit = {}  # fault: how often
        self.no_reset = "//"  # paths that end so are not reset
        self.refusals, self.created, self.traffic = [], [], {}
        self.listed = {}  # prefix: how often
        self.before = self.no_links = self.gateway = None
        self.list_lag_s = 0
        self.batches = []
        self.quota, self.skew_s, self.no_conditions, self.short_pages = 1 << 40, 0, False, True

    def next_fault(self, path):
        with self.lock:
            self.requests += 1
            for every, fault in self.faults.items():
                if self.requests % every == 0 and not (fault == "reset" and path.endswith(self.no_reset)):
                    self.hit[fault] = self.hit.get(fault, 0) + 1
                    return fault

    def handle_error(self, request, address):
        pass  # a client that has gone

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def url(self, path="bucket", settings=""):
        return f"s3://{path}?endpoint={self.endpoint}&region={self.region}{settings}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


def env(key="AKIDTEST"):
    """What a program needs in its environment to use the server, and only that."""
    secret, token = KEYS[key]
    return {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret, "AWS_EC2_METADATA_DISABLED": "true", **({"AWS_SESSION_TOKEN": token} if token else {})}


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--port", type=int, default=0)
    p.add_argument("--bucket", default="bucket")
    p.add_argument("--pages", type=int, default=PAGE, help="keys in a page of a listing")
    a = p.parse_args()
    server = FakeS3(a.port, (a.bucket,))
    server.short_pages = a.pages < 1000
    print(f"{server.url(a.bucket)}  keys {json.dumps(env())}", flush=True)
    server.serve_forever()
