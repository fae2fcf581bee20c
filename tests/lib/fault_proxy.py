# SPDX-License-Identifier: Apache-2.0
"""An HTTP proxy in front of a store, which fails on purpose and can demand a bearer token.

    with FaultProxy("http://127.0.0.1:9000", faults={7: "503"}) as proxy: ...   # every 7th request fails; proxy.endpoint

Faults, by the number of requests between two of a kind: "503", "500" (nothing done), "slow" (`slow_s` later), "lost" (done, then the
connection is closed without an answer), "reset" (half of the answer's body, then the connection is reset), "cut" (half of the request's
body is read, then the connection is reset; nothing done). In a storm, of `storm_s` after each `calm_s`, every answer is 503.
"""
import http.client
import socket
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

HOP = {"connection", "keep-alive", "transfer-encoding", "te", "upgrade", "proxy-connection"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16

    def log_message(self, *args):
        pass

    def send_error(self, *args):
        self.close_connection = True

    def hang_up(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        try:
            self.connection.shutdown(socket.SHUT_RD)
        except OSError:
            pass

    def say(self, status, headers, body, part=None):
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body if part is None else body[:part])
        self.wfile.flush()

    def forward(self, body):
        upstream = http.client.HTTPConnection(self.server.upstream, timeout=120)
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in HOP:
                upstream.putheader(name, value)
        upstream.endheaders(body)
        answer = upstream.getresponse()
        data = answer.read()
        headers = [(k, v) for k, v in answer.getheaders() if k.lower() not in HOP]
        if not any(k.lower() == "content-length" for k, _ in headers):
            headers.append(("Content-Length", str(len(data))))
        upstream.close()
        return answer.status, headers, data

    def serve(self):
        server = self.server
        length = int(self.headers.get("content-length") or 0)
        fault = server.next_fault(self.command, self.path)
        if fault == "cut" and length > 1:
            self.rfile.read(length // 2)
            return self.hang_up()
        body = self.rfile.read(length)
        if fault in ("503", "500"):
            return self.say(int(fault), [("Content-Length", "0")], b"")
        if fault == "slow":
            time.sleep(server.slow_s)
        if not server.is_welcome(self.command, self.path, self.headers):
            return self.say(401, [("Content-Length", "0")], b"")
        status, headers, data = self.forward(body)
        if fault == "lost":
            return self.hang_up()
        if fault == "reset" and len(data) > 1 and self.command == "GET" and not self.path.split("?")[0].endswith(server.no_reset):
            self.say(status, headers, data, len(data) // 2)
            return self.hang_up()
        self.say(status, headers, data)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = serve


class FaultProxy(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, upstream, faults=None, slow_s=0.3, tokens=None, storm_s=0, calm_s=0):
        super().__init__(("127.0.0.1", 0), Handler)
        self.upstream, self.faults, self.slow_s = urlsplit(upstream).netloc, faults or {}, slow_s
        self.tokens = tokens  # a set of those that are good; None = no token is needed
        self.storm_s, self.calm_s, self.start = storm_s, calm_s, time.monotonic()
        self.lock = threading.Lock()
        self.requests, self.hit, self.refused = 0, {}, 0
        self.no_reset = "//"  # paths that end so are not reset

    def next_fault(self, command, path):
        with self.lock:
            self.requests += 1
            if self.storm_s and (time.monotonic() - self.start) % (self.calm_s + self.storm_s) > self.calm_s:
                self.hit["503"] = self.hit.get("503", 0) + 1
                return "503"
            for every, fault in self.faults.items():
                if self.requests % every == 0:
                    self.hit[fault] = self.hit.get(fault, 0) + 1
                    return fault

    def is_welcome(self, command, path, headers):
        with self.lock:
            if self.tokens is None or (command == "PUT" and "upload_id=" in path):  # a session is a permission of its own
                return True
            good = headers.get("authorization", "").removeprefix("Bearer ") in self.tokens
            self.refused += not good
            return good

    def handle_error(self, request, address):
        pass  # a client that has gone

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()
