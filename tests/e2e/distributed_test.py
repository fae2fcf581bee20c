# SPDX-License-Identifier: Apache-2.0
"""A distributed JAX job of three ranks, each on a host of its own: its collectives check and refine the hosts' clocks."""
import pathlib
import struct
import sys

from lib import xspace
from lib.cluster import BIN, Cluster, SkipTest, free_port, main, wait_until

try:
    import jax  # noqa: F401
except ImportError:
    JAX = False
else:
    JAX = True

JOB = pathlib.Path(__file__).with_name("jax_ranks.py")
OWN = "profiler,metrics,marks"  # other annotated programs of this machine have steps, too
HOSTS = {"host-0": "0s", "host-1": "1s", "host-2": "2s"}


def start(c):
    if not JAX:
        raise SkipTest("jax is not installed")
    c.aggregator("--causality=5s")
    coordinator = f"127.0.0.1:{free_port()}"
    ports = [c.dir / f"{host}.port" for host in HOSTS]
    for rank, port_file in enumerate(ports):
        c.start(f"jax-{rank}", [sys.executable, JOB, "--rank", rank, "--ranks", len(HOSTS), "--coordinator", coordinator,
                                "--port-file", port_file, "--seconds", "600"])
    for (host, offset), port_file in zip(HOSTS.items(), ports):
        wait_until("the JAX rank", port_file.exists, 120)
        c.agent(host, f"--test-clock-offset={offset}", f"--profiler=127.0.0.1:{port_file.read_text().strip()}", tracers=OWN)
    c.wait_hosts(len(HOSTS))


def replace_agent(c, host, wrong_s):
    """By one whose wall clock is not the rank's: the rank's events are off by more than the bound says."""
    c.kill(host)
    clock = c.dir / f"{host}.clock"
    clock.write_bytes(struct.pack("qqq", int(wrong_s * 1e9), 0, 0))
    port = (c.dir / f"{host}.port").read_text().strip()
    c.start(f"odd-{host}", [BIN / "odd_agent", "--host", host, "--aggregator", f"127.0.0.1:{c.grpc}", "--spool",
                            c.dir / f"{host}-odd", "--listen", "", "--local-socket", "", "--discover=false", "--tracers", OWN,
                            f"--profiler=127.0.0.1:{port}"], env={"TUTTI_ODD_CLOCK": str(clock)})
    wait_until("the agent to be replaced", lambda: "state=up" in c.log(f"odd-{host}"))
    c.wait_hosts(len(HOSTS))


def kill_ranks(c):
    """A rank that is stopped waits for the others."""
    for rank in range(len(HOSTS)):
        c.kill(f"jax-{rank}")


def capture(c, *flags):
    _, doc = c.tutti("capture", "--duration", "4s", "--json", *flags, check=0)
    where = c.logdir / "plugins/profile" / doc["session"]
    return doc, {h["host"]: xspace.load(where / h["file"]) for h in doc["hosts"]}


def collectives(space):
    """(operation, run) of each all-reduce in a host's file."""
    cpu = xspace.plane(space, "/host:CPU")
    found = []
    for line in cpu.lines:
        for event in line.events:
            if cpu.event_metadata[event.metadata_id].name.startswith("all-reduce"):
                stats = xspace.stats(cpu, event)
                if "hlo_op" in stats:  # the compiler's passes have such names, too
                    found.append((stats["hlo_op"], stats["run_id"]))
    return found


def steps(space):
    """The numbers of the steps in a host's file, in order of time."""
    cpu = xspace.plane(space, "/host:CPU")
    found = [(line.timestamp_ns * 1000 + event.offset_ps, xspace.stats(cpu, event)["step_num"])
             for line in cpu.lines for event in line.events if cpu.event_metadata[event.metadata_id].name == "train"]
    return [number for _, number in sorted(found)]


def test_collectives_and_steps():
    with Cluster() as c:
        start(c)
        doc, spaces = capture(c, "--refine", "events")
        replace_agent(c, "host-1", 0.05)
        wrong, _ = capture(c)
        kill_ranks(c)
        verdict = doc["causality"]
        recorded = sum(len(collectives(s)) for s in spaces.values())
        assert recorded > 100 and verdict["collectives"]["recorded"] == recorded, (recorded, verdict)
        assert verdict["collectives"]["ambiguous"] == 0 and verdict["ambiguous"] == 0, verdict
        assert verdict["collectives"]["matched"] >= 0.99 * recorded, verdict
        assert verdict["checked"] * 3 >= verdict["collectives"]["matched"], verdict
        assert verdict["violations"] == [] and verdict["guilty"] == "" and not verdict["skipped"], verdict
        refined = doc["refined"]
        assert refined["reason"] in ("", "wander"), refined
        if not refined["reason"]:
            assert refined["hosts"] == 3 and refined["pairs"] >= 0.99 * verdict["checked"], refined
            assert refined["backwards_after"] <= refined["backwards_before"], refined
            for h in doc["hosts"]:
                assert h["refined"]["bound_ns"] <= h["clock_bound_ns"] + abs(h["refined"]["offset_ns"]), h
        for h in doc["hosts"]:
            numbers = steps(spaces[h["host"]])
            assert numbers[0] <= h["steps"]["first"] <= numbers[0] + 1, (numbers, h["steps"])
            assert numbers[-1] - 1 <= h["steps"]["last"] <= numbers[-1], (numbers, h["steps"])
            assert 0 < h["steps"]["first_at_ns"] < h["steps"]["end_at_ns"] < doc["duration_ns"], h["steps"]
        assert wrong["causality"]["violations"] and wrong["causality"]["guilty"] == "host-1", str(wrong["causality"])[:500]
        bounds = [h["clock_bound_ns"] for h in doc["hosts"]]
        print(f"     {recorded} collectives recorded, {verdict['collectives']['matched']} matched in {verdict['checked']}, "
              f"bounds {[b // 1000 for b in bounds]} us, refined {refined}")


main(test_collectives_and_steps)
