# SPDX-License-Identifier: Apache-2.0
"""The part of a Kubernetes API server that lists and watches pods, with its faults.

    api = FakeKubernetes()
    api.put(pod("train-0", "node-a", job="train", rank=0))
    c.aggregator("--kubernetes", api.url, "--kubernetes-token-file", token_file)
    api.faults.append("gone")      # the next watch begins with an event ERROR 410

Faults, one each for the next request that it concerns: "forbidden", "error-500", "cut" (a watch ends within an event), "gone" (a
watch), "gone-page" (the second page), "garbage" (a watch), "hang" (any), "other-version" (a listing without a version), "no-events" (an event).
"""
import hashlib
import http.server
import json
import threading
import time
import urllib.parse


def pod(name, node, space="jobs", job=None, rank=None, phase="Running", uid=None, restarts=0, labels=None, annotations=None, filler=0,
        address="10.0.0.9"):
    labels = dict(labels or {})
    if job:
        labels["batch.kubernetes.io/job-name"] = job
    if rank is not None:
        labels["batch.kubernetes.io/job-completion-index"] = str(rank)
    if not uid:
        digits = hashlib.sha256(f"{space}/{name}".encode()).hexdigest()
        uid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))
    return {"metadata": {"name": name, "namespace": space, "uid": uid, "labels": labels,
                         "annotations": {**(annotations or {}), **({"filler": "x" * filler} if filler else {})}},
            "spec": {"nodeName": node, "containers": [{"name": "main"}]},
            "status": {"phase": phase, "podIP": address, "containerStatuses": [
                {"name": "main", "containerID": "containerd://" + (uid.replace("-", "") * 2)[:64].ljust(64, "0"), "restartCount": restarts}]}}


class FakeKubernetes:
    def __init__(self, token="a-token-of-the-aggregator", bookmark_s=0.05, watch_s=1):
        self.token, self.bookmark_s, self.watch_s = token, bookmark_s, watch_s
        self.lock = threading.Condition()
        self.pods, self.log, self.version = {}, [], 100
        self.oldest = 0  # what changed before this version is forgotten
        self.faults, self.requests, self.events = [], [], []
        self.snapshots = {}  # listings that were begun, by their version
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                api.handle(self)

            def do_POST(self):
                api.take_event(self, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    # ---- what happens in the cluster ----

    def _change(self, kind, doc):
        with self.lock:
            self.version += 1
            doc["metadata"]["resourceVersion"] = str(self.version)
            uid = doc["metadata"]["uid"]
            if kind == "DELETED":
                self.pods.pop(uid, None)
            else:
                kind = "MODIFIED" if uid in self.pods else "ADDED"
                self.pods[uid] = doc
            self.log.append((self.version, kind, json.loads(json.dumps(doc))))
            self.lock.notify_all()

    def put(self, doc):
        self._change("ADDED", doc)

    def delete(self, doc):
        self._change("DELETED", doc)

    def pass_by(self, n):
        """So many changes of other things than pods."""
        with self.lock:
            self.version += n
            self.lock.notify_all()

    def watches(self):
        return [q for q in self.requests if "watch" in q]

    # ---- answers ----

    def take_fault(self, *names):
        with self.lock:
            for name in names:
                if name in self.faults:
                    self.faults.remove(name)
                    return name
        return None

    def handle(self, h):
        url = urllib.parse.urlsplit(h.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        self.requests.append(query)
        if h.headers.get("Authorization") != f"Bearer {self.token}":
            return self.refuse(h, 401, "Unauthorized")
        if url.path != "/api/v1/pods":
            return self.refuse(h, 404, "not found")
        fault = self.take_fault("forbidden", "error-500", "hang")
        if fault == "hang":
            time.sleep(60)
        if fault:
            return self.refuse(h, 403 if fault == "forbidden" else 500, f"the fault {fault}")
        return self.watch(h, query) if "watch" in query else self.list(h, query)

    def take_event(self, h, doc):
        assert h.path == f"/api/v1/namespaces/{doc['metadata']['namespace']}/events", h.path
        if self.take_fault("no-events"):
            return self.refuse(h, 403, "events is forbidden")
        self.events.append(doc)
        return self.send(h, 201, doc)

    def refuse(self, h, code, message):
        self.send(h, code, {"kind": "Status", "status": "Failure", "message": message, "code": code})

    def send(self, h, code, doc):
        body = json.dumps(doc).encode()
        h.send_response(code)
        h.send_header("Content-Type", "application/json")
        h.send_header("Content-Length", str(len(body)))
        h.end_headers()
        h.wfile.write(body)

    def list(self, h, query):
        limit = int(query.get("limit", 1 << 30))
        _, version, begin = query["continue"].split(":") if "continue" in query else (None, None, 0)
        begin = int(begin)
        if begin and self.take_fault("gone-page"):
            return self.refuse(h, 410, "The provided continue parameter is too old")
        with self.lock:  # all pages are of the instant of the first one
            version = version or str(self.version)
            if version not in self.snapshots:
                self.snapshots[version] = [self.pods[uid] for uid in sorted(self.pods)]
            pods = self.snapshots[version]
        metadata = {} if self.take_fault("other-version") else {"resourceVersion": version}
        if begin + limit < len(pods):
            metadata["continue"] = f"next:{version}:{begin + limit}"
        return self.send(h, 200, {"kind": "PodList", "metadata": metadata, "items": pods[begin:begin + limit]})

    def watch(self, h, query):
        since, end = int(query["resourceVersion"]), time.monotonic() + self.watch_s
        if since < self.oldest:
            return self.refuse(h, 410, "too old resource version")
        h.send_response(200)
        h.send_header("Content-Type", "application/json")
        h.send_header("Connection", "close")
        h.end_headers()
        h.close_connection = True
        try:
            fault = self.take_fault("gone", "cut", "garbage")
            if fault == "gone":
                h.wfile.write(json.dumps({"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old resource version"}}).encode() + b"\n")
                return None
            if fault:
                h.wfile.write(b'{"type":"ADDED","object":{"meta' + (b"" if fault == "cut" else b'\n{}[\n'))
                return None
            while time.monotonic() < end:
                with self.lock:
                    self.lock.wait(self.bookmark_s)
                    new = [(v, kind, doc) for v, kind, doc in self.log if v > since]
                    version = self.version
                for v, kind, doc in new:
                    h.wfile.write(json.dumps({"type": kind, "object": doc}).encode() + b"\n")
                    since = v
                if not new and query.get("allowWatchBookmarks") == "true":
                    since = max(since, version)
                    h.wfile.write(json.dumps({"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": str(since)}}}).encode() + b"\n")
                h.wfile.flush()
        except OSError:
            pass  # the client has gone
        return None
