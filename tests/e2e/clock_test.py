# SPDX-License-Identifier: Apache-2.0
"""Clocks over a bad network: what happened at one instant stands at that instant in every host's file, within
the bound that is published.

The aggregator and the agents live in two network namespaces (on loopback where those are not permitted). Probes
go through a relay that delays, reorders, loses, forges and replays them; agents' clocks are off by seconds
and drift. The truth is known: all read one physical clock, and the aggregator's session clock is that plus a
constant, which it keeps in a file. `TUTTI_CLOCK_CAPTURES=50` makes a campaign of it, `TUTTI_CLOCK_AGENTS=16` a
crowd.
"""
import contextlib
import http.server
import json
import os
import threading

from lib import xspace
from lib.cluster import BIN, SLOW, Cluster, SkipTest, main
from lib.netns import Pair

CAPTURES = int(os.environ.get("TUTTI_CLOCK_CAPTURES", "2"))
AGENTS = int(os.environ.get("TUTTI_CLOCK_AGENTS", "4"))
TOLD_LATE_NS = 500_000_000  # a busy machine tells agents of a burst that much later
BAD_NETWORK = ("--there-delay=1ms", "--there-jitter=200us", "--back-delay=300us", "--back-jitter=200us",
               "--loss=10", "--evil=20")


@contextlib.contextmanager
def two_machines(c):
    """Where the relay is found. Agents and bursts begin on the far machine, all else is on the near one."""
    try:
        with Pair() as net:
            net.enter(net.near)
            c.away = net.entrance(net.far)
            try:
                yield net.NEAR
            finally:
                c.stop_all()
    except SkipTest as why:
        print(f"     on loopback: {why}", flush=True)
        yield "127.0.0.2"


def start(c, there, agents):
    """Everything talks to `there`; the probes' port there is the relay's."""
    c.aggregator("--grpc", f"{there}:{c.grpc}", "--insecure")
    c.start("burst-relay", [BIN / "udp_relay", "--listen", f"{there}:{c.probe}", "--server",
                            f"127.0.0.1:{c.probe}", *BAD_NETWORK])
    for i in range(agents):
        c.agent(f"host-{i}", "--aggregator", f"{there}:{c.grpc}", f"--test-clock-offset={(i * 7) % 11 - 5}s",
                f"--test-clock-drift-ppm={(i * 37) % 199 - 99}")
    c.wait_hosts(agents)
    c.burst(*(f"host-{i}" for i in range(agents)), flags=("--period=100ms", "--work=1ms"))


def instants(c):
    """{name of a burst: when it was, in ns of the session clock}: the truth."""
    shift = json.loads((c.dir / "agg-spool" / "session-clock.json").read_text())["shift_ns"]
    lines = (line.rsplit(" ", 1) for line in c.log("burst").splitlines())
    return {text: int(raw) + shift for text, raw in lines}


def file_of(c, doc, h):
    """One host's marks, in ns of the session clock, and its bound."""
    space = xspace.load(c.logdir / "plugins" / "profile" / doc["session"] / h["file"])
    env = xspace.stats(xspace.plane(space, "Task Environment"))
    assert env["clock_calibrated"] == 1 and env["clock_bound_ns"] == h["clock_bound_ns"], (env, h)
    assert env["clock_method"] == h["clock"]["method"] and env["clock_grade"] in "ABCD", env
    assert h["clock"]["steps"] == [], h
    return {text: doc["t0_ns"] + at // 1000 for text, at in xspace.marks(space).items()}, h["clock_bound_ns"]


def check_capture(c, agents):
    """One capture of all hosts: how far off they were, how much that was of what bounds allow, the largest bound."""
    # A busy machine tells of a burst late, the more so the more agents are to be told.
    _, doc = c.tutti("capture", "--duration", f"{int((600 + 50 * agents) * SLOW)}ms", "--json", check=0)
    truth = instants(c)
    files = {h["host"]: file_of(c, doc, h) for h in doc["hosts"]}
    assert len(files) == agents, doc
    common = set.intersection(*(set(marks) for marks, _ in files.values()))
    assert len(common) >= 3, {host: sorted(marks) for host, (marks, _) in files.items()}
    off, share = 0, 0
    t0, t1 = doc["t0_ns"], doc["t0_ns"] + doc["duration_ns"]
    for host, (marks, bound) in files.items():
        assert all(t0 <= at < t1 for at in marks.values()), f"{host} has events outside of the window"
        missing = {text for text, at in truth.items() if t0 + bound < at < t1 - TOLD_LATE_NS} - set(marks)
        assert not missing, f"{host} lacks {missing} of the window"
        for text, at in marks.items():
            wrong = abs(at - truth[text])
            assert wrong <= bound + 1, f"{text} on {host} is {wrong} ns off, its bound is {bound}"
            off, share = max(off, wrong), max(share, wrong / bound)
    return off, share, max(bound for _, bound in files.values())


def test_bad_network():
    with Cluster() as c, two_machines(c) as there:
        start(c, there, AGENTS)
        worst = [max(figure) for figure in zip(*(check_capture(c, AGENTS) for _ in range(CAPTURES)))]
        print(f"     {CAPTURES} captures of {AGENTS} agents: at most {worst[0] / 1e3:.1f} us off the truth "
              f"({worst[1]:.2f} of the bound), largest bound {worst[2] / 1e3:.1f} us")
        dropped = int(next(line.split()[1] for line in c.metrics() if line.startswith("tutti_probes_dropped_total ")))
        assert dropped > 0, "the relay's forged and old packets were not noticed"


def test_clock_verb():
    with Cluster() as c:
        c.aggregator()
        c.agent("host-0", "--test-clock-offset=3s")
        c.agent("host-1")
        c.wait_hosts(2)
        _, doc = c.tutti("clock", "host-0", "--json", check=0)
        clock, = (h["clock"] for h in doc["hosts"])
        assert clock["grade"] in "ABCD" and clock["rtt_min_ns"] > 0, clock
        assert clock["method"] in ("udp-kernel", "udp-user"), clock
        _, text = c.tutti("clock", check=0)
        head, *rows = text.splitlines()
        assert head.split() == ["HOST", "OFFSET", "BOUND", "GRADE", "RATE", "JITTER", "RTT", "METHOD", "PROBES"], head
        assert [r.split()[0] for r in rows] == ["host-0", "host-1"] and all(r[head.index("METHOD"):].startswith("udp-") for r in rows), text
        assert c.tutti("clock", "-o", "name", check=0)[1].split() == ["host-0", "host-1"]
        assert c.tutti("clock", "-o", "wide", check=0)[1].count("wall clock") == 2
        c.tutti("clock", "--warn-above", "1ns", check=3)
        assert c.stderr.count("warning: host-") == 2, c.stderr
        c.tutti("clock", "no-such-host", check=1)


SUSPECTED_NS = 1_790_000_000_000_000_000
UNKNOWN = {"calibrated": False, "offset_ns": 0, "bound_ns": 0, "rtt_min_ns": 0, "jitter_ns": 0, "probes": 0,
           "method": "", "grade": "X", "steps_seen": 0, "wall_synced": False, "steps": []}


class Hosts(http.server.BaseHTTPRequestHandler):
    """Three hosts: one whose clock may have stepped, one whose rate is unknown, one that nothing is known of."""
    SUSPECTED = {"kind": "step", "from_ns": SUSPECTED_NS, "to_ns": SUSPECTED_NS + 16 * 10**9, "delta_ns": -1_831_000,
                 "known_ns": SUSPECTED_NS + 17 * 10**9}
    CLOCKS = {"stepped": UNKNOWN | {"suspected": SUSPECTED}, "bare": UNKNOWN,
              "young": UNKNOWN | {"calibrated": True, "method": "udp-kernel", "grade": "A", "bound_ns": 900}}

    def do_GET(self):
        hosts = [{"host": name, "state": "connected", "clock": clock} for name, clock in self.CLOCKS.items()]
        body = json.dumps({"hosts": hosts}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_clock_verb_says_what_is_not_known():
    with Cluster() as c, http.server.HTTPServer(("127.0.0.1", 0), Hosts) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        _, text = c.tutti("clock", "--server", f"http://127.0.0.1:{server.server_port}", check=3)
        server.shutdown()
        young = [line for line in text.splitlines() if line.startswith("young")]
        assert "may have broken" in text and "step suspected at 2026-09-21" in text, text
        assert "(within 16.0 s): -1.83 ms or more" in text and "1.00 s later" in text, text
        assert "unknown" in young[0], text
        assert "bare" in text and "no program is known to steer its wall clock" in text, text


main(test_bad_network, test_clock_verb, test_clock_verb_says_what_is_not_known)
