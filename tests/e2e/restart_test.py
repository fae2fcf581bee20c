# SPDX-License-Identifier: Apache-2.0
"""The aggregator killed at random instants of captures: no session is torn, none is forgotten.

restart_test.py [POINTS [SEED]]: so many kills; a few as part of the test run.
"""
import json
import random
import sys
import time
import urllib.request

from lib import xspace
from lib.cluster import SLOW, Cluster, main, wait_until

POINTS = int(sys.argv[1]) if len(sys.argv) > 1 else 4
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 32)
WINDOW_S, GRACE_S, BACK_S = 0.3, 4, 20
HOSTS = ("a", "b", "c")


def post(c, path, body):
    request = urllib.request.Request(c.url + path, json.dumps(body).encode(), method="POST")
    with urllib.request.urlopen(request, timeout=5) as answer:
        return json.load(answer)


def restart(c):
    c.kill("aggregator")
    c.aggregator("--grace", f"{GRACE_S}s", "--lead", "200ms")


def fate(c, session):
    """"committed", "failed" or None: not over yet. Asked of what anybody can see."""
    for cap in c.get("/api/v1/captures")["captures"]:
        if cap["session"] == session:
            return cap["state"] if cap["state"] in ("committed", "failed") else None
    listed = [s["session"] for s in c.get("/api/v1/sessions?limit=10000")["sessions"]]
    return "committed" if session in listed else "forgotten"


def check_store(c):
    """What is torn: files that no manifest names or that it names in vain, plans of nothing."""
    torn = []
    manifests = {p.parent.name: json.loads(p.read_text()) for p in c.store.glob("tutti/sessions/*/manifest.json")}
    for plan in c.store.glob("tutti/sessions/*/plan.json"):
        if plan.parent.name not in manifests:
            torn.append(f"{plan}: a plan without a manifest")
    there = {(p.parent.name, p.name): p for p in c.logdir.glob("plugins/profile/*/*.xplane.pb")}
    named = {(s, h["file"]): h for s, m in manifests.items() for h in m["hosts"] if h["file"]}
    torn += [f"{k}: no manifest names it" for k in there.keys() - named.keys()]
    torn += [f"{k}: it is not there" for k in named.keys() - there.keys()]
    for key in there.keys() & named.keys():
        if there[key].stat().st_size != named[key]["bytes"]:
            torn.append(f"{key}: {there[key].stat().st_size} bytes, {named[key]['bytes']} in the manifest")
        xspace.load(there[key])
    # A put that was killed leaves a hidden file, which no listing shows and the store removes in time.
    indexed = {p.name.split("-", 1)[1] for p in c.store.glob("tutti/index/*") if p.name[0].isdigit()}
    if indexed != set(manifests):
        torn.append(f"the index differs from the manifests: {indexed ^ set(manifests)}")
    return torn


def test_killed_at_random():
    rng = random.Random(SEED)
    fates = {"committed": 0, "failed": 0, "forgotten": 0, "never begun": 0}
    whole = 0
    print(f"     seed {SEED}")
    with Cluster() as c:
        c.aggregator("--grace", f"{GRACE_S}s", "--lead", "200ms")
        for host in HOSTS:
            c.agent(host)
        c.wait_hosts(len(HOSTS))
        for _ in range(POINTS):
            wait_until("the agents", lambda: sum(h["state"] == "connected" for h in c.hosts().values()) == len(HOSTS), 60)
            pause = rng.uniform(0, 0.2 + WINDOW_S + 0.4)
            session = post(c, "/api/v1/captures", {"duration_ns": int(WINDOW_S * 1e9)})["session"]
            time.sleep(pause)
            restart(c)
            end = wait_until(f"the end of {session}", lambda: fate(c, session), WINDOW_S + GRACE_S + BACK_S + 5)
            # Killed before the plan was stored: nobody was armed, nothing is there of it.
            if end == "forgotten" and not list(c.store.rglob(f"*{session}*")) and session not in c.log("a"):
                end = "never begun"
            fates[end] += 1
            if end == "committed":
                whole += c.get(f"/api/v1/sessions/{session}")["complete"] == len(HOSTS)
        # Nothing is under way any more, so whatever lies about is a leftover.
        torn = check_store(c)
        print(f"     {POINTS} kills: {fates}, {whole} of the committed ones whole; torn {len(torn)}")
        assert not torn, "\n".join(torn)
        assert not fates["forgotten"], fates


main(test_killed_at_random)
