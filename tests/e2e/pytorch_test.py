# SPDX-License-Identifier: Apache-2.0
"""PyTorch processes that are not touched: they ask the agent, record when they are told, and stand on the session's clock."""
import pathlib
import sys
import threading
import time

from lib import xspace
from lib.cluster import Cluster, main, wait_until
from lib.siege import SANITIZED, memory_mb
from lib.waits import join

FAKE = pathlib.Path(__file__).resolve().parent / "lib/fake_torch.py"


def agent(c, host="host-a", *flags):
    """An agent with a socket of its own; its jobs ask twice a second."""
    (c.dir / f"torch-{host}").mkdir(exist_ok=True)
    return c.agent(host, "--pytorch-socket=", f"--pytorch-dir={c.dir}/torch-{host}",
                   "--pytorch-poll=500ms", *flags, tracers="pytorch,metrics")


def job(c, name, how="", host="host-a"):
    return c.start(name, [sys.executable, FAKE, c.dir / f"torch-{host}", c.dir / f"{name}.json", how])


def known(c, *jobs, host="host-a"):
    """The agent has heard of these processes, and the aggregator knows how early it must arm the host."""
    log = c.dir / f"{host}.log"
    wait_until("the processes to ask", lambda: all(f"pid={p.pid} comm" in log.read_text() for p in jobs), 30)
    wait_until("the lead", lambda: leads(c).get(host, 0) == 4500)


def leads(c):
    return {h["host"]: t.get("lead_ms", 0) for h in c.get("/api/v1/hosts")["hosts"] for t in h["tracers"]
            if t["name"] == "pytorch"}


def steps(c, doc, host="host-a"):
    """{pid: [(step_num, start_ps since T0)]}."""
    [result] = [h for h in doc["hosts"] if h["host"] == host]
    space = xspace.load(c.logdir / "plugins" / "profile" / doc["session"] / result["file"])
    found = {}
    for p in space.planes:
        for line in p.lines:
            for ev in line.events:
                if p.event_metadata[ev.metadata_id].name == "ProfilerStep":
                    at = line.timestamp_ns * 1000 + ev.offset_ps
                    found.setdefault(xspace.stats(p)["process_id"], []).append((xspace.stats(p, ev)["step_num"], at))
    return found


def leftovers(p):
    return list(pathlib.Path("/tmp").glob(f"tutti_*_{p.pid}.json*"))


def capture(c, *flags):
    """A whole one. A process that was asked too late to record, as on a busy machine, is asked again."""
    def whole():
        code, doc = c.tutti("capture", *flags, "--json")
        assert code == 0 or [h["reason"] for h in doc["hosts"]] == ["refused-late"], (code, doc)
        return code == 0 and doc
    return wait_until("a capture in time", whole, 60)


def test_captured_twice():
    """Two processes, two captures, whole windows; in between the agent is killed, and its successor soon knows them."""
    with Cluster() as c:
        c.aggregator()
        agent(c, "host-a", "--test-clock-offset", "5s")
        jobs = [job(c, f"job-{i}") for i in range(2)]
        c.wait_hosts(1)
        for again in (False, True):
            known(c, *jobs)
            doc = capture(c, "--duration", "1s")
            found = steps(c, doc)
            assert set(found) == {p.pid for p in jobs}, (found.keys(), doc)
            for rows in found.values():
                assert 98 <= len(rows) <= 101, len(rows)  # one each 10 ms of the wall clock
                gaps = {round((b[1] - a[1]) / 1e6) for a, b in zip(rows, rows[1:])}
                assert all(abs(gap - 10_000) <= 10 for gap in gaps), gaps  # a wall clock may be slewed by 500 ppm
            assert all(0 <= at < 1e12 for rows in found.values() for _, at in rows)
            if not again:
                c.kill("host-a")
                (c.dir / "host-a.log").unlink()
                agent(c)
        for i, p in enumerate(jobs):
            configs = (c.dir / f"job-{i}.json").read_text().splitlines()
            assert 2 <= len(configs) <= len(c.get("/api/v1/sessions")["sessions"]), configs
            assert not leftovers(p), leftovers(p)


def test_reasons():
    """Each way in which a process does not record is named; the other process's events are there all the same."""
    hosts = {"refuse": "refused-late", "empty": "empty", "broken": "tracer-failed", "link": "tracer-failed", "silent": "no-poll"}
    with Cluster() as c:
        c.aggregator()
        jobs = {}
        for how in hosts:
            agent(c, how)
            jobs[how] = [job(c, f"good-{how}", host=how), job(c, f"bad-{how}", how, how)]
        c.wait_hosts(len(hosts))
        for how in hosts:
            known(c, *jobs[how], host=how)
        code, doc = c.tutti("capture", "--duration", "300ms", "--tracer", "pytorch", "--json")
        assert code == 3, doc
        for host in doc["hosts"]:
            good, bad = jobs[host["host"]]
            assert host["state"] == "partial" and host["reason"] == hosts[host["host"]], host
            assert str(bad.pid) in host["detail"] and set(steps(c, doc, host["host"])) == {good.pid}, host
            assert not leftovers(good), host
            assert not leftovers(bad) or host["host"] == "link", host
            for path in leftovers(bad):
                path.unlink()


def test_answers():
    """A process never takes an answer for that to a later request, but for once where it did not wait for one."""
    jobs = {"again": [], "hasty": [1]}
    with Cluster() as c:
        c.aggregator()
        agent(c)
        c.wait_hosts(1)
        known(c, *[job(c, how, how) for how in jobs])
        for _ in range(2):
            code, doc = c.tutti("capture", "--duration", "300ms", "--tracer", "pytorch", "--json", check=0)
            assert len(steps(c, doc)) == 2, doc
        for how, expected in jobs.items():
            path = c.dir / f"{how}.json.behind"
            found = [int(line) for line in path.read_text().split()] if path.exists() else []
            assert found == expected or how == "hasty" and not found, (how, found)  # a busy agent answers after the hasty one has looked


class OwnMemory(threading.Thread):
    """The most that a process has of memory of its own, in MiB; pages of files that it reads are the system's."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.before, self.most, self.over = pid, memory_mb(pid, "RssAnon"), 0, threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(0.01):
            self.most = max(self.most, memory_mb(self.pid, "RssAnon"))

    def more(self):
        self.over.set()
        join(self)
        return self.most - self.before


def test_traces_that_take_too_much():
    """Two traces are well-formed and need more than the 128 MiB that the agent gives one: it converts one after the other, gives both up,
    and has the third. A sanitizer's memory says nothing: the release part."""
    if SANITIZED:
        return
    with Cluster() as c:
        c.aggregator()
        p = agent(c)
        jobs = [job(c, f"job-{i}", how) for i, how in enumerate(("greedy", "greedy", ""))]
        c.wait_hosts(1)
        known(c, *jobs)
        memory = OwnMemory(p.pid)
        code, doc = c.tutti("capture", "--duration", "300ms", "--tracer", "pytorch", "--json", "--grace", "90s")
        more = memory.more()
        [host] = doc["hosts"]
        assert (code, host["state"]) == (3, "partial"), doc
        assert all(str(p.pid) in host["detail"] for p in jobs[:2]) and set(steps(c, doc)) == {jobs[2].pid}, host
        assert 64 < more < 128 + 16, f"the agent took {more:.0f} MiB for them"
        wait_until("the agent's memory", lambda: memory_mb(p.pid, "VmRSS") <= 80, 10)
        assert not any(leftovers(p) for p in jobs)


def test_nothing_left_behind():
    """A file of a recording that was cancelled, and of one whose agent was killed, is removed when it comes."""
    hosts = ("cancelled", "killed")
    with Cluster() as c:
        c.aggregator()
        jobs = {}
        for host in hosts:
            agent(c, host)
            jobs[host] = job(c, f"job-{host}", host=host)
        c.wait_hosts(len(hosts))
        for host in hosts:
            known(c, jobs[host], host=host)
        _, doc = c.call("POST", "/api/v1/captures", {"duration_ns": 10**9, "tracers": ["pytorch"]})
        wait_until("the processes to be told", lambda: all((c.dir / f"job-{h}.json").exists() for h in hosts), 30)
        c.kill("killed")
        c.tutti("cancel", doc["session"], check=0)
        agent(c, "killed")
        for host in hosts:
            written = c.dir / f"job-{host}.json.written"
            wait_until(f"the file of {host} to be removed",
                       lambda w=written, h=host: w.exists() and not leftovers(jobs[h]), 60)


def calls(c, doc):
    """{pid: the numbers of the calls of optimizer.step() in the file}."""
    [result] = doc["hosts"]
    space = xspace.load(c.logdir / "plugins" / "profile" / doc["session"] / result["file"])
    found = {}
    for p in space.planes:
        for name, at, duration, _ in sorted(xspace.events(p), key=lambda e: e[1]):
            if name.startswith("call "):
                assert at >= 0 and at + duration <= doc["duration_ns"] * 1000, (name, at)
                found.setdefault(xspace.stats(p)["process_id"], []).append(int(name.split()[1]))
    return found


def test_steps():
    """Processes that mark nothing: five steps by their own count, the next ones and numbered ones."""
    with Cluster() as c:
        c.aggregator()
        agent(c)
        jobs = [job(c, f"job-{i}") for i in range(2)]
        c.wait_hosts(1)
        known(c, *jobs)
        doc = capture(c, "--at-step", "next", "--steps", 5)
        found = calls(c, doc)
        assert set(found) == {p.pid for p in jobs}, found
        assert all(numbers == list(range(numbers[0], numbers[0] + 5)) for numbers in found.values()), found
        assert doc["at_step"]["counted_by"] == "pytorch", doc["at_step"]
        [seen] = [h["steps"] for h in doc["hosts"]]
        assert (seen["first"], seen["last"]) == (0, 4) and doc["duration_ns"] < 55e9, (seen, doc["duration_ns"])
        for ahead in (200, 1000, 3000):  # a busy machine needs seconds to tell the processes
            first = (time.time_ns() - int((c.dir / "job-0.json.begin").read_text())) // 10_000_000 + ahead
            _, doc = c.tutti("capture", "--at-step", first, "--steps", 5, "--tracer", "pytorch", "--json")
            if doc["hosts"][0]["reason"] != "refused-late":
                break
        assert calls(c, doc) == {p.pid: list(range(first, first + 5)) for p in jobs}, (first, calls(c, doc))
        [seen] = [h["steps"] for h in doc["hosts"]]
        assert (seen["first"], seen["last"]) == (first, first + 4), seen


def test_no_process():
    with Cluster() as c:
        c.aggregator()
        agent(c)
        c.wait_hosts(1)
        code, doc = c.tutti("capture", "--duration", "200ms", "--tracer", "pytorch", "--json")
        assert code == 3 and doc["hosts"][0]["reason"] == "no-framework", doc
        assert "KINETO_USE_DAEMON" in doc["hosts"][0]["detail"], doc


main(test_captured_twice, test_reasons, test_answers, test_traces_that_take_too_much, test_nothing_left_behind, test_steps, test_no_process)
