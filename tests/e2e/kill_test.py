# SPDX-License-Identifier: Apache-2.0
"""SIGKILL of the aggregator and of agents at random points of captures, early stops, cancels and retries.

kill_test.py [KILLS [SEED [CLUSTERS [TERM]]]]: so many kills, by so many clusters at a time; a few as part of the test run.
With TERM it is SIGTERM, which must lose nothing that SIGKILL keeps.
After each: no session is visible that is torn, every capture has come to a known end, what an agent was told is stored
is there, and no host is missing because of the aggregator alone.
"""
import collections
import random
import signal
import sys
import threading
import time

from lib.cluster import Cluster, main, wait_until
from lib.promises import Promises
from lib.waits import join

KILLS = int(sys.argv[1]) if len(sys.argv) > 1 else 10
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 32)
CLUSTERS = int(sys.argv[3]) if len(sys.argv) > 3 else 1
SIGNAL = signal.SIGTERM if sys.argv[4:] == ["TERM"] else signal.SIGKILL
HOSTS = ("a", "b", "c")
WINDOW_S, LEAD_S, GRACE_S = 0.3, 0.1, 20
AFTER_S = 0.3  # kills go on until so long after the window: gathering, uploads, the commit
STOP_S = 30  # the aggregator's limit for a stop is 10 s
CAMPAIGN_S = 3600
END_S = 90  # an aggregator waits 35 s for agents that do not come back, and as long as the grace for files


class Campaign(Promises):
    def __init__(self, cluster, seed):
        super().__init__(cluster, HOSTS)
        self.rng = random.Random(seed)

    # ---- processes ----

    def start(self, name):
        if name == "aggregator":
            self.c.aggregator("--grace", f"{GRACE_S}s", "--lead", f"{int(1000 * LEAD_S)}ms")
        else:
            self.c.agent(name, "--reconnect-max", "300ms")

    def all_connected(self):
        return sum(h["state"] == "connected" for h in self.c.hosts().values()) == len(HOSTS)

    def kill(self, victim):
        self.c.kill(victim, SIGNAL)
        self.c.processes[victim].wait(STOP_S)
        self.victims.add(victim)
        self.tally["kills"] += 1
        self.tally["of the aggregator" if victim == "aggregator" else "of an agent"] += 1
        self.check_visible()
        self.start(victim)

    def ask(self, what, stop_after):
        if what == "retry":
            self.retry(self.lacking())
            return
        session = self.begin({"duration_ns": int(WINDOW_S * 1e9)}, may_end_anyhow=what == "cancel")
        if not session or what == "capture":
            return
        time.sleep(stop_after)
        if what == "stop":
            self.stop(session)
        else:
            self.cancel(session)

    # ---- rounds ----

    def round(self):
        wait_until("the agents", self.all_connected, 60)
        what = self.rng.choice(["capture", "capture", "stop", "cancel", "retry", "retry"])
        if what == "retry" and not self.lacking():
            what = "capture"
        self.victims.clear()
        stop_after = self.rng.uniform(0, WINDOW_S)
        asking = threading.Thread(target=self.ask, args=(what, stop_after), daemon=True)
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
        join(asking, END_S)
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
    threads = [threading.Thread(target=run_one, args=(i, tallies, failures), daemon=True) for i in range(CLUSTERS)]
    for t in threads:
        t.start()
    for t in threads:
        join(t, CAMPAIGN_S)
    for what, n in sorted(sum(tallies, collections.Counter()).items()):
        print(f"     {what:<20}{n:>6}")
    print(f"     {'violations':<20}{len(failures):>6}   {time.monotonic() - start:.0f} s")
    assert not failures, "\n".join(failures)


main(test_kills)
