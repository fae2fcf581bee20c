# SPDX-License-Identifier: Apache-2.0
"""A kill of the aggregator, or an outage of its store, at each single operation of the store in a capture's life.

crash_test.py [LIVES [VARIANTS [CLUSTERS [EVERY [STORE]]]]], LIVES and VARIANTS with commas, "all" for all; so many
CLUSTERS at a time. As part of the test run: the life of a plain capture, a kill before and after every third operation.
With real processes; the simulation does the same in virtual time (tests/sim/campaign.sh). Afterwards no acknowledged
byte is lost, no answer, no session is torn, and every end is known once the store is back. STORE "s3": versitygw with
grants, behind a proxy that fails all the time (tests/servers.sh installs it).
"""
import concurrent.futures
import contextlib
import itertools
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from fault_proxy import FaultProxy
from lib.cluster import SLOW, Cluster, main, wait_until
from lib.promises import Promises
from lib.waits import join
from servers import Versitygw

ARGS = sys.argv[1:] + ["capture", "kill-before,kill-after", "1", "3", "file"][len(sys.argv) - 1:]
STORE = ARGS[4]
HOSTS = ("a", "b")
WINDOW_S, LEAD_S, GRACE_S = 0.2, 0.1, 20
END_S = 120
PLAY_S = 3600  # all faults of a life
LIFE_S = 6  # an operation that has not come by then is none of this life
OPERATIONS = "*/[!r]*"  # all keys but that of the readiness probe, which comes every 2 s

# name: the rule's action at the operation, how long the store is away from then on, whether the kill comes with it
VARIANTS = {
    "kill-before": ("crash", 0), "kill-after": ("crash-after", 0),
    **{f"fail-{s}s": ("fail", s) for s in (1, 10, 60, 600)},
    **{f"hang-{s}s": ("hang", s) for s in (1, 10, 60, 600)},
    **{f"kill-away-{s}s": ("crash-after", s) for s in (1, 10, 60, 600)},
}


# ---- lives of a capture: what its caller does ----

def live_capture(p):
    p.begin({"duration_ns": int(WINDOW_S * 1e9)})


def live_stop(p):
    session = p.begin({"duration_ns": 3 * 10 ** 9})
    time.sleep(0.6)
    if session:
        p.stop(session)


def live_cancel(p):
    session = p.begin({"duration_ns": 3 * 10 ** 9}, may_end_anyhow=True)
    time.sleep(0.6)
    if session:
        p.cancel(session)


def live_delete(p):
    session = p.begin({"duration_ns": int(WINDOW_S * 1e9)})
    end = time.monotonic() + 3 * SLOW
    while session and session not in p.manifests() and time.monotonic() < end:
        time.sleep(0.05)
    if session in p.manifests():
        p.delete(session)


LIVES = {"capture": live_capture, "stop": live_stop, "cancel": live_cancel, "delete": live_delete}


# of the server behind the proxy, by the number of requests between two of a kind
FAULTS = {7: "503", 11: "lost", 13: "cut", 17: "reset", 19: "500"}


class Files:
    """A folder."""

    def __init__(self, cluster):
        self.url, self.env = f"file://{cluster.store}", {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class FailingS3(contextlib.ExitStack):
    """A bucket whose objects are files of the cluster's store."""

    def __init__(self, cluster):
        super().__init__()
        self.cluster = cluster

    def __enter__(self):
        server = self.enter_context(Versitygw(self.cluster.dir))
        self.cluster.store.symlink_to(self.cluster.dir / "bucket/fleet")
        proxy = self.enter_context(FaultProxy(server.endpoint, FAULTS))
        self.url, self.env = server.url("fleet").replace(server.endpoint, proxy.endpoint), server.env
        return self


STORES = {"file": Files, "s3": FailingS3}


class Campaign(Promises):
    def __init__(self, cluster, store):
        super().__init__(cluster, HOSTS)
        self.store = store
        self.rules = cluster.dir / "rules"
        self.argv = None  # of the aggregator

    def set_rules(self, text=""):
        self.rules.write_text(text and text + "\n")

    def begin_cluster(self):
        self.set_rules()
        p = self.c.aggregator(f"--store=fault://{self.rules}!{self.store.url}", "--grace", f"{GRACE_S}s",
                              "--lead", f"{int(1000 * LEAD_S)}ms", env=self.store.env)
        self.argv = p.args
        for host in HOSTS:
            self.c.agent(host, "--reconnect-max", "300ms")

    def is_down(self):
        return self.c.processes["aggregator"].poll() is not None

    def is_well(self):
        try:
            status = [h["state"] for h in self.c.hosts().values()]
            return self.c.is_ready(self.c.processes["aggregator"]) and status.count("connected") == len(HOSTS)
        except OSError:
            return False

    def has_settled(self):
        """Nothing is under way, and every capture that was promised has an end."""
        try:
            known = {s["session"] for s in self.c.get("/api/v1/sessions?limit=10000")["sessions"]}
            known |= {c["session"] for c in self.c.get("/api/v1/captures")["captures"] if c["state"] == "failed"}
            return self.settled() and set(self.sessions) <= known
        except (OSError, AssertionError):
            return False

    def bring_back(self, away_s):
        """The store is away for so long, then it is back. The aggregator is started at once if it was killed."""
        if self.is_down():
            self.check_visible()
            self.set_rules("* * fail" if away_s else "")
            self.c.processes["aggregator"].expected = False
            self.c.start("aggregator", self.argv, self.store.env)
        time.sleep(away_s)
        self.set_rules()

    def restart(self):
        self.c.kill("aggregator")
        self.c.start("aggregator", self.argv, self.store.env)
        wait_until("a whole cluster", self.is_well, 60)
        wait_until("the end of what is left", lambda: not self.unfinished_removals())

    def unfinished_removals(self):
        there = {p.name.split(".")[0] for p in self.c.store.glob("tutti/ledger/*.json")}
        return (self.deleted & there) - set(self.manifests())

    def play(self, life, variant, nth):
        """One life with one fault at its n-th operation; False if it has no such operation."""
        action, away_s = VARIANTS[variant]
        wait_until("a whole cluster", self.is_well, 60)
        self.set_rules(f"* {OPERATIONS} {action} skip={nth}" + (" times=1" if "crash" in action else ""))
        caller = threading.Thread(target=LIVES[life], args=(self,), daemon=True)
        caller.start()
        end = time.monotonic() + LIFE_S * SLOW
        if "crash" in action:
            while not self.is_down() and time.monotonic() < end:
                time.sleep(0.02)
            hit = self.is_down()
        else:
            caller.join(LIFE_S * SLOW)
            hit = True
        self.bring_back(away_s)
        join(caller, END_S)
        wait_until("a whole cluster", self.is_well, 60)
        wait_until(f"all ends, after {life} {variant} {nth}", self.has_settled, END_S)
        self.victims = {"aggregator"} if not away_s else {"the store"}
        self.note_ends()
        self.note_stored()
        self.check_stops()
        self.check_visible()
        return hit


def play_row(life, variant, operations):
    """One variant at each of these operations; returns how many of them the life has."""
    played = 0
    with Cluster() as c, STORES[STORE](c) as store:
        p = Campaign(c, store)
        p.begin_cluster()
        for nth in operations:
            if not p.play(life, variant, nth):
                break
            played += 1
        p.restart()
        p.check_leftovers()
    return played


class Rows:
    """What was played of each life and variant, by several clusters."""

    def __init__(self):
        self.rows, self.failures, self.lock = {}, [], threading.Lock()

    def play(self, life, variant, operations):
        """Returns the number of operations played; None after a failure."""
        start, played, failed = time.monotonic(), None, 0
        try:
            played = play_row(life, variant, operations)
        except BaseException as e:
            failed = 1
            self.failures.append(f"{life} {variant}: {type(e).__name__}: {e}")
        with self.lock:
            row = self.rows.setdefault((life, variant), [0, 0, 0])
            row[0] += played or 0
            row[1] += failed
            row[2] = max(row[2], time.monotonic() - start)
        return played

    def show(self):
        print(f"     {'life':<10}{'at the operation':<18}{'played':>7}{'failed':>7}{'s':>7}")
        for (life, variant), (played, failed, took) in self.rows.items():
            print(f"     {life:<10}{variant:<18}{played:>7}{failed:>7}{took:>7.0f}")


def split(operations, away_s):
    """Parts for several clusters: long outages have one each."""
    size = 1 if away_s >= 60 else len(operations)
    return [operations[i:i + size] for i in range(0, len(operations), size)]


def choose(text, names):
    chosen = list(names) if text == "all" else text.split(",")
    assert set(chosen) <= set(names), f"{text}: use {', '.join(names)}"
    return chosen


def test_operations():
    variants, every, rows = choose(ARGS[1], VARIANTS), int(ARGS[3]), Rows()
    lives = choose(ARGS[0], LIVES)
    kills = [v for v in variants if v.startswith("kill-") and not VARIANTS[v][1]] or ["kill-after"]

    def count(life):  # a kill shows how many operations there are
        played = rows.play(life, kills[0], itertools.count(0, every))
        return life, (played or 0) * every

    with concurrent.futures.ThreadPoolExecutor(int(ARGS[2])) as clusters:
        parts = [(life, v, part) for life, n in clusters.map(count, lives) for v in variants if v != kills[0]
                 for part in split(range(0, n, every), VARIANTS[v][1])]
        for future in [clusters.submit(rows.play, *part) for part in parts]:
            future.result(PLAY_S)
    rows.show()
    assert not rows.failures, "\n".join(rows.failures)


main(test_operations)
