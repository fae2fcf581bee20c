# SPDX-License-Identifier: Apache-2.0
"""The part of a Kubernetes API server that says whose a token is, and what he may do with captures.tutti.dev, with its faults.

    api = FakeReviews({"red", "blue"})
    token = api.person("ada", {("red", "get"), ("red", "list")})    # ("", VERB): in all namespaces
    api.faults["tokenreviews"] = "error-500"                        # until it is removed

Faults, by the resource that they concern: "error-500", "forbidden", "unauthorized", "hang", "huge", "garbage", "empty", "array", "slow".
"""
import http.server
import json
import secrets
import threading
import time


class FakeReviews:
    def __init__(self, spaces, token="a-token-of-the-aggregator"):
        self.token, self.spaces = token, sorted(spaces)
        self.people, self.faults, self.asked = {}, {}, []
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # an answer is one segment: two wait for each other's acknowledgement, 40 ms

            def do_GET(self):
                api.handle(self, None)

            def do_POST(self):
                api.handle(self, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def person(self, name, rights, audiences=("tutti",), user=None, error=None, size=40):
        token = secrets.token_urlsafe(size)
        self.people[token] = {"name": name, "rights": set(rights), "audiences": list(audiences), "error": error,
                              "user": user if user is not None else {"username": name, "uid": "u-" + name, "groups": ["g-" + name], "extra": {"e": ["1"]}}}
        return token

    def count(self, what):
        return sum(1 for a in self.asked if a == what)

    def handle(self, h, body):
        what = h.path.split("?")[0].split("/")[-1]
        self.asked.append(what)
        if h.headers.get("Authorization") != f"Bearer {self.token}":
            return self.send(h, 401, {"kind": "Status", "message": "Unauthorized"})
        fault = self.faults.get(what)
        if fault in ("hang", "slow"):
            time.sleep(60 if fault == "hang" else 0.5)
        if fault in ("error-500", "forbidden", "unauthorized"):
            return self.send(h, {"error-500": 500, "forbidden": 403, "unauthorized": 401}[fault], {"message": f"the fault {fault}\x1b[31m"})
        if fault == "huge":
            return self.send(h, 201, {"status": {"authenticated": True, "allowed": True, "filler": "x" * (8 << 20)}})
        if fault in ("garbage", "empty", "array"):
            return self.send(h, 201, None, {"garbage": b"{]", "empty": b"", "array": b"[1]"}[fault])
        if what == "tokenreviews":
            return self.send(h, 201, {"status": self.review(body["spec"])})
        if what == "subjectaccessreviews":
            return self.send(h, 201, {"status": {"allowed": self.may(body["spec"])}})
        if what == "namespaces":
            return self.send(h, 200, {"items": [{"metadata": {"name": n}} for n in self.spaces]})
        return self.send(h, 200, {"metadata": {"resourceVersion": "1"}, "items": []})  # pods: none

    def review(self, spec):
        p = self.people.get(spec["token"])
        if not p or p["error"]:
            return {"authenticated": False, "error": p["error"] if p else "invalid bearer token"}
        audiences = [a for a in p["audiences"] if a in spec["audiences"]]
        if p["audiences"] and not audiences:
            return {"authenticated": False, "error": "token audiences are invalid for the target audiences"}
        return {"authenticated": True, "user": p["user"], "audiences": audiences}

    def may(self, spec):
        [p] = [p for p in self.people.values() if p["name"] == spec["user"]]
        assert (spec["groups"], spec["uid"], spec["extra"]) == (["g-" + p["name"]], "u-" + p["name"], {"e": ["1"]}), spec
        what = spec["resourceAttributes"]
        assert (what["group"], what["resource"]) == ("tutti.dev", "captures"), what
        return bool({("", what["verb"]), (what.get("namespace", ""), what["verb"])} & p["rights"])

    def send(self, h, code, doc, raw=None):
        body = json.dumps(doc).encode() if raw is None else raw
        try:
            h.send_response(code)
            h.send_header("Content-Type", "application/json")
            h.send_header("Content-Length", str(len(body)))
            h.end_headers()
            h.wfile.write(body)
        except OSError:
            pass  # the client has gone
