# SPDX-License-Identifier: Apache-2.0
"""What a cluster was asked for and has answered, and what must hold of that whatever is killed."""
import collections
import json
import time

from lib import xspace
from lib.cluster import wait_until


class Clash(Exception):
    """What must not be."""


class Promises:
    def __init__(self, cluster, hosts):
        self.c, self.hosts = cluster, hosts
        self.tally = collections.Counter()
        self.sessions = {}  # name: how it ended
        self.stopped = {}  # name: the duration that an early stop was answered with
        self.cancelled = set()  # sessions whose cancelling was answered
        self.deleted = set()  # sessions whose deletion was asked for: they may be gone
        self.victims = set()  # of this round
        self.seen = {h: 0 for h in hosts}  # bytes of the agents' logs
        self.stored = set()  # (session, host) of which an agent was told that it is stored
        self.loaded = set()

    # ---- what is asked for ----

    def post(self, path, body=None, method="POST"):
        """None: there was no answer, or the store refused, so nothing was promised."""
        try:
            status, doc = self.c.call(method, path, body or {}, timeout=10)
        except OSError:
            return None
        if 400 <= status < 500 and status != 409:
            self.clash(f"{path}: {status} {doc}")
        return doc if status < 400 else None

    def begin(self, body, may_end_anyhow=False):
        """The session's name, or None."""
        doc = self.post("/api/v1/captures", body)
        if doc and not may_end_anyhow:
            self.sessions[doc["session"]] = None
        return doc and doc["session"]

    def stop(self, session):
        doc = self.post(f"/api/v1/captures/{session}/stop")
        if doc:
            self.stopped[session] = doc["duration_ns"]

    def cancel(self, session):
        if self.post(f"/api/v1/captures/{session}", method="DELETE"):
            self.cancelled.add(session)

    def delete(self, session):
        self.deleted.add(session)
        self.sessions.pop(session, None)
        self.stored = {(s, h) for s, h in self.stored if s != session}
        return self.post(f"/api/v1/sessions/{session}", method="DELETE")

    def retry(self, session):
        return self.post(f"/api/v1/sessions/{session}/retry")

    def lacking(self):
        """A session that lacks a host's file, or None."""
        found = [s for s, m in self.manifests().items() if any(not h["file"] for h in m["hosts"])]
        return found[-1] if found else None

    # ---- what must hold ----

    def clash(self, text):
        raise Clash(text)

    def manifests(self):
        return {p.parent.name: json.loads(p.read_text()) for p in sorted(self.c.store.glob("tutti/sessions/*/manifest.json"))}

    def file(self, session, host):
        return self.c.logdir / "plugins/profile" / session / f"{host}.xplane.pb"

    def check_visible(self):
        """A session that can be seen is whole, at any time."""
        for session, manifest in self.manifests().items():
            for h in manifest["hosts"]:
                path = self.file(session, h["host"])
                if not h["file"]:
                    if not h["reason"]:
                        self.clash(f"{session}: {h['host']} has neither file nor reason")
                    continue
                if path.stat().st_size != h["bytes"]:
                    self.clash(f"{path}: {path.stat().st_size} bytes, {h['bytes']} in the manifest")
                if path not in self.loaded:
                    xspace.load(path)
                    self.loaded.add(path)

    def settled(self):
        return all(c["state"] in ("committed", "failed") for c in self.c.get("/api/v1/captures")["captures"])

    def listed(self):
        return {s["session"]: s for s in self.c.get("/api/v1/sessions?limit=10000")["sessions"]}

    def is_listed_as_committed(self):
        differ = set(self.listed()) ^ set(self.manifests())
        return not differ - self.deleted  # a removal that the store broke off is finished by the next start

    def note_ends(self):
        # an aggregator that started while its store was away looks for lines that lack every 15 s
        wait_until("a listing of what is committed", self.is_listed_as_committed, 20)
        ended = {c["session"]: c for c in self.c.get("/api/v1/captures")["captures"]}
        listed = self.listed()
        for session, end in self.sessions.items():
            if end and (end == "committed") == (session in listed):
                continue
            if session not in listed and ended.get(session, {}).get("state") != "failed":
                self.clash(f"{session} was promised, and is neither committed nor failed (was {end})")
            self.sessions[session] = end = "committed" if session in listed else "failed"
            whole = end == "committed" and listed[session]["complete"] == len(self.hosts)
            self.tally[end] += 1
            self.tally["with all hosts"] += whole
            if self.victims == {"aggregator"} and not whole:
                doc = self.manifests().get(session, ended.get(session))
                self.clash(f"{session}: {end}: {[(h['host'], h['reason'], h['detail']) for h in doc['hosts']]}")

    def check_stops(self):
        manifests = self.manifests()
        for session, duration in self.stopped.items():
            if session in manifests and manifests[session]["duration_ns"] != duration:
                self.clash(f"{session}: stopped after {duration} ns, the manifest says {manifests[session]['duration_ns']}")

        if self.cancelled & set(manifests):
            self.clash(f"cancelled, and there: {self.cancelled & set(manifests)}")

    def note_stored(self):
        for host in self.hosts:
            log = self.c.log(host)
            for line in log[self.seen[host]:].splitlines():
                if "AGT-CAPTURE" in line and " state=stored" in line:
                    self.stored.add((line.split("session=")[1].split()[0], host))
            self.seen[host] = log.rfind("\n") + 1
        manifests = self.manifests()
        for session, host in self.stored:
            if session in self.deleted:
                continue
            named = {h["host"] for h in manifests.get(session, {"hosts": []})["hosts"] if h["file"]}
            if host not in named:
                self.clash(f"{session}: {host} was told that its file is stored, and it is not")

    def check_leftovers(self):
        manifests = self.manifests()
        there = {(p.parent.name, p.name) for p in self.c.logdir.glob("plugins/profile/*/*.xplane.pb")}
        named = {(s, h["file"]) for s, m in manifests.items() for h in m["hosts"] if h["file"]}
        ledgers = list(self.c.store.glob("tutti/ledger/*.json"))
        parts = list((self.c.dir / "agg-spool").glob("*.part"))
        if there != named or ledgers or parts:
            self.clash(f"left over: {there ^ named} {ledgers} {parts}")
