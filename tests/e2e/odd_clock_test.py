# SPDX-License-Identifier: Apache-2.0
"""Hosts with something wrong about their clocks are flagged, each for what it is, and kept apart from the others:
one whose probes get no answer, one whose wall clock is set in mid-capture, one that slept before and sleeps then, one
that has another's name. Hosts with good clocks are never flagged, and one behind a firewall against UDP has a clock, too.

TUTTI_CLEAN_CAPTURES=100 makes as many clean captures, TUTTI_SLEEP_S=60 a longer sleep, for figures by hand.
"""
import os
import signal
import struct
import subprocess
import time

from lib import xspace
from lib.cluster import BIN, SLOW, Cluster, main, wait_until

CLEAN = int(os.environ.get("TUTTI_CLEAN_CAPTURES", "2"))
SLEEP_S = float(os.environ.get("TUTTI_SLEEP_S", "2"))
SET_S = 0.05


class OddHost:
    """An agent whose clocks the test sets and stops."""

    def __init__(self, c, host, *flags, deaf=0):
        self.c, self.host, self.path = c, host, c.dir / f"{host}.clock"
        self.slept = 0
        self.put(0, deaf)
        c.start(host, [BIN / "odd_agent", "--host", host, "--aggregator", f"127.0.0.1:{c.grpc}", "--spool",
                       c.dir / f"{host}-spool", "--listen", "", "--local-socket", "", "--discover=false", "--tracers", "metrics,marks", *flags],
                env={"TUTTI_ODD_CLOCK": str(self.path)})

    def put(self, set_s, deaf=0):
        with open(self.path, "r+b" if self.path.exists() else "wb") as f:
            f.write(struct.pack("qqq", int(set_s * 1e9), int(self.slept * 1e9), deaf))

    def sleep(self, seconds):
        process = self.c.processes[self.host]
        process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.slept += seconds - 0.05  # no clock may go back
        self.put(0)
        process.send_signal(signal.SIGCONT)


def flags_of(doc):
    """{host: what of its clock is out of the ordinary} of a capture."""
    out = {}
    for h in doc["hosts"]:
        flags = {s["kind"] for s in h["clock"]["steps"]} if h["clock"] else set()
        if h["clock_bound_ns"] is None:
            flags.add("uncalibrated")
        out[h["host"]] = flags
    return out


def env_of(c, doc, host):
    file = next(h["file"] for h in doc["hosts"] if h["host"] == host)
    space = xspace.load(c.logdir / "plugins" / "profile" / doc["session"] / file)
    return xspace.stats(xspace.plane(space, "Task Environment"))


def capture_with(c, seconds, *meanwhile):
    """A capture; calls each of `meanwhile` when it runs."""
    p = subprocess.Popen([BIN / "tutti", "capture", "--duration", f"{seconds}s", "--json", "--server", c.url],
                         stdout=subprocess.PIPE, text=True)
    wait_until("the capture to run", lambda: any(x["state"] == "running" for x in c.get("/api/v1/captures")["captures"]))
    for what in meanwhile:
        what()
    p.communicate(timeout=60 * SLOW)
    return c.get(f"/api/v1/sessions/{c.get('/api/v1/sessions')['sessions'][0]['session']}")


def test_odd_hosts():
    with Cluster() as c:
        c.aggregator("--grpc", f"0.0.0.0:{c.grpc}", "--insecure")
        c.agent("good")
        no_udp = "--aggregator", f"127.0.0.2:{c.grpc}"  # packets get no answer there
        c.agent("walled", *no_udp)
        OddHost(c, "mute", *no_udp, deaf=1)
        stepped, sleeper = OddHost(c, "stepped"), OddHost(c, "sleeper")
        c.wait_hosts(4)
        c.wait_hosts(5, calibrated=False)
        second = c.start("second-good", [BIN / "tutti-agent", "--host", "good", "--aggregator", f"127.0.0.1:{c.grpc}", "--spool",
                                c.dir / "second-good-spool", "--listen", "", "--local-socket", "", "--discover=false"])
        wait_until("the second agent to be refused", lambda: "is taken by the agent at" in c.log("second-good"))
        assert "is taken by the agent at" in c.log("aggregator")

        sleeper.sleep(SLEEP_S)
        wait_until("the sleeper to say that it slept", lambda: c.hosts()["sleeper"]["clock"]["steps_seen"])
        c.wait_hosts(4)
        doc = capture_with(c, 2, lambda: stepped.put(SET_S),
                           lambda: wait_until("the sleeper to record", lambda: c.log("sleeper").count("state=armed") == 1),
                           lambda: sleeper.sleep(1))
        assert second.poll() is None
        assert flags_of(doc) == {"good": set(), "walled": set(), "mute": {"uncalibrated"}, "stepped": {"set"},
                                 "sleeper": {"suspend"}}, flags_of(doc)
        hosts = {h["host"]: h for h in doc["hosts"]}
        assert hosts["mute"]["clock"]["grade"] == "X" and (hosts["mute"]["state"], hosts["mute"]["reason"]) == ("partial", "uncalibrated") and env_of(c, doc, "mute")["clock_calibrated"] == 0
        assert hosts["good"]["clock"]["grade"] in "ABCD" and hosts["good"]["state"] == "complete"
        walled = hosts["walled"]["clock"]
        assert walled["method"] == "stream" and walled["grade"] in "BCD", walled
        step, = hosts["stepped"]["clock"]["steps"]
        assert abs(step["delta_ns"] / 1e9 - SET_S) < 1e-3 and env_of(c, doc, "stepped")["clock_calibrated"] == 1, step
        assert hosts["stepped"]["clock_bound_ns"] < SET_S * 1e9 / 10, "a wall clock that is set harms no map"
        naps = [s["delta_ns"] / 1e9 for s in hosts["sleeper"]["clock"]["steps"]]
        assert len(naps) == 2 and abs(naps[0] - SLEEP_S) < 0.2 and abs(naps[1] - 1) < 0.2, naps
        found_ms = (step["to_ns"] - step["from_ns"]) / 1e6
        print(f"     mute X, step of {step['delta_ns'] / 1e6:.1f} ms found within {found_ms:.0f} ms, sleep of "
              f"{naps[0]:.1f} s found, second agent refused, walled within {walled['bound_ns'] / 1e3:.0f} us")


def test_good_hosts():
    with Cluster() as c:
        c.aggregator()
        for i in range(3):
            c.agent(f"host-{i}", f"--test-clock-offset={i - 1}s", f"--test-clock-drift-ppm={50 * (i - 1)}")
        c.wait_hosts(3)
        for _ in range(CLEAN):
            _, doc = c.tutti("capture", "--duration", "300ms", "--json", check=0)
            assert not any(flags_of(doc).values()) and not doc["warnings"], doc
            assert not doc["causality"]["violations"], doc
        print(f"     {CLEAN} clean captures of 3 hosts, 0 flags")


main(test_odd_hosts, test_good_hosts)
