# SPDX-License-Identifier: Apache-2.0
"""SIGKILL of the aggregator and of agents at random points of captures, early stops, cancels and retries.

kill_test.py [KILLS [SEED [CLUSTERS]]]: so many kills, by so many clusters at a time; a few as part of the test run.
After each: no session is visible that is torn, every capture has come to a known end, what an agent was told is stored
is there, and no host is missing because of the aggregator alone.
"""
import collections
import json
import pathlib
import random
import sys
import threading
import time

from lib import xspace
from lib.cluster import SLOW, Cluster, main, wait_until

KILLS = int(sys.argv[1]) if len(sys.argv) > 1 else 10
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 32)
CLUSTERS = int(sys.argv[3]) if len(sys.argv) > 3 else 1
HOSTS = ("a", "b", "c")
WINDOW_S, LEAD_S, GRACE_S = 0.3, 0.1, 20
AFTER_S = 0.3  # kills go on until so long after the window: gathering, uploads, the commit
END_S = 90  # an aggregator waits 35 s for agents that do not come back, and as long as the grace for files


class Clash(Exception):
    """What must not be."""


class Campaign:
    def __init__(self, cluster, seed):
        self.c, self.rng = cluster, random.Random(seed)
        self.tally = collections.Counter()
        self.sessions = {}  # name: how it ended
        self.stopped = {}  # name: the duration that an early stop was answered with
        self.cancelled = set()  # sessions whose cancelling was answered
        self.victims = set()  # of this round
        self.seen = {h: 0 for h in HOSTS}  # bytes of the agents' logs
        self.stored = set()  # (session, host) of which an agent was told that it is stored
        self.loaded = set()

    # ---- processes ----

    def start(self, name):
        if name == "aggregator":
            self.c.aggregator("--grace", f"{GRACE_S}s", "--lead", f"{int(1000 * LEAD_S)}ms")
        else:
            self.c.agent(name, "--tracers", "metrics,marks", "--reconnect-max", "300ms")

    def all_connected(self):
        return sum(h["state"] == "connected" for h in self.c.hosts().values()) == len(HOSTS)

    def kill(self, victim):
        self.c.kill(victim)
        self.victims.add(victim)
        self.tally["kills"] += 1
        self.tally["of the aggregator" if victim == "aggregator" else "of an agent"] += 1
        self.check_visible()
        self.start(victim)

    # ---- what is asked for ----

    def post(self, path, body=None, method="POST"):
        """None: there was no answer, so nothing was promised."""
        try:
            status, doc = self.c.call(method, path, body or {}, timeout=10)
        except OSError:
            return None
        if status >= 400 and status != 409:
            self.clash(f"{path}: {status} {doc}")
        return doc if status < 400 else None

    def ask(self, what, stop_after):
        if what == "retry":
            self.post(f"/api/v1/sessions/{self.lacking()}/retry")
            return
        doc = self.post("/api/v1/captures", {"duration_ns": int(WINDOW_S * 1e9)})
        if not doc:
            return
        session = doc["session"]
        if what != "cancel":  # else it may end in any way, but for one
            self.sessions[session] = None
        if what in ("stop", "cancel"):
            time.sleep(stop_after)
        if what == "stop":
            doc = self.post(f"/api/v1/captures/{session}/stop")
            if doc:
                self.stopped[session] = doc["duration_ns"]
        if what == "cancel" and self.post(f"/api/v1/captures/{session}", method="DELETE"):
            self.cancelled.add(session)

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

    def note_ends(self):
        ended = {c["session"]: c for c in self.c.get("/api/v1/captures")["captures"]}
        listed = {s["session"]: s for s in self.c.get("/api/v1/sessions?limit=10000")["sessions"]}
        if set(listed) != set(self.manifests()):
            self.clash(f"listed and committed differ: {set(listed) ^ set(self.manifests())}")
        for session, end in self.sessions.items():
            if end and (end == "committed") == (session in listed):
                continue
            if session not in listed and ended.get(session, {}).get("state") != "failed":
                self.clash(f"{session} was promised, and is neither committed nor failed (was {end})")
            self.sessions[session] = end = "committed" if session in listed else "failed"
            whole = end == "committed" and listed[session]["complete"] == len(HOSTS)
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
        for host in HOSTS:
            log = self.c.log(host)
            for line in log[self.seen[host]:].splitlines():
                if "AGT-CAPTURE" in line and " state=stored" in line:
                    self.stored.add((line.split("session=")[1].split()[0], host))
            self.seen[host] = log.rfind("\n") + 1
        manifests = self.manifests()
        for session, host in self.stored:
            named = {h["host"] for h in manifests.get(session, {"hosts": []})["hosts"] if h["file"]}
            if host not in named:
                self.clash(f"{session}: {host} was told that its file is stored, and it is not")

    def check_leftovers(self):
        manifests = self.manifests()
        there = {(p.parent.name, p.name) for p in self.c.logdir.glob("plugins/profile/*/*.xplane.pb")}
        named = {(s, h["file"]) for s, m in manifests.items() for h in m["hosts"] if h["file"]}
        plans = {p.parent.name for p in self.c.store.glob("tutti/sessions/*/plan.json")}
        retries = list(self.c.store.glob("tutti/sessions/*/retry.json"))
        parts = list((self.c.dir / "agg-spool").glob("*.part"))
        if there != named or plans != set(manifests) or retries or parts:
            self.clash(f"left over: {there ^ named} {plans ^ set(manifests)} {retries} {parts}")

    # ---- rounds ----

    def round(self):
        wait_until("the agents", self.all_connected, 60)
        what = self.rng.choice(["capture", "capture", "stop", "cancel", "retry", "retry"])
        if what == "retry" and not self.lacking():
            what = "capture"
        self.victims.clear()
        stop_after = self.rng.uniform(0, WINDOW_S)
        asking = threading.Thread(target=self.ask, args=(what, stop_after))
        asking.start()
        # Where most happens in the least time is tried most: at the beginning, and around an early end.
        if what in ("stop", "cancel"):
            time.sleep(stop_after + self.rng.uniform(0, 0.1))
        else:
            time.sleep(self.rng.uniform(0, self.rng.choice((0.03, LEAD_S + WINDOW_S + AFTER_S))))
        self.kill(self.rng.choice(("aggregator", "aggregator", "aggregator", *HOSTS)))
        if self.rng.random() < 0.2:  # and again, while all are finding each other
            time.sleep(self.rng.uniform(0, 1))
            self.kill(self.rng.choice(("aggregator", *HOSTS)))
        asking.join()
        wait_until("the end of what is under way", self.settled, END_S)
        self.tally[what] += 1
        self.note_ends()
        self.note_stored()
        self.check_stops()
        self.check_visible()

    def run(self, kills):
        self.start("aggregator")
        for host in HOSTS:
            self.start(host)
        while self.tally["kills"] < kills:
            self.round()
        self.check_leftovers()
        wait_until("the agents", self.all_connected, 60)
        self.tally["acknowledged files"] = len(self.stored)


def run_one(i, tallies, failures):
    try:
        with Cluster() as c:
            campaign = Campaign(c, SEED + i)
            tallies.append(campaign.tally)
            campaign.run(-(-KILLS // CLUSTERS))
    except BaseException as e:
        failures.append(f"cluster {i}: {type(e).__name__}: {e}")


def test_kills():
    print(f"     seed {SEED}, {CLUSTERS} clusters", flush=True)
    tallies, failures, start = [], [], time.monotonic()
    threads = [threading.Thread(target=run_one, args=(i, tallies, failures)) for i in range(CLUSTERS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for what, n in sorted(sum(tallies, collections.Counter()).items()):
        print(f"     {what:<20}{n:>6}")
    print(f"     {'violations':<20}{len(failures):>6}   {time.monotonic() - start:.0f} s")
    assert not failures, "\n".join(failures)


main(test_kills)
