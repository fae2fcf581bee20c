# SPDX-License-Identifier: Apache-2.0
"""A Tutti cluster on loopback for end-to-end tests: real processes, free ports, ends with the test.

    with Cluster() as c:
        c.aggregator()
        c.agent("host-a", "--test-clock-offset", "5s")
        c.wait_hosts(1)
        code, session = c.tutti("capture", "--duration", "1s", "--json")

Binaries come from $TUTTI_BIN. Every process gets a log in the cluster's directory; when a test fails, the
ends of all logs are printed, and the directory stays until a later test runs ($TUTTI_TEST_KEEP=1: also that of a test
that passed). A process that ends with a sanitizer's report fails the test.
"""
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback
import urllib.error
import urllib.request

from lib.leftovers import die_with_parent, temp_dir
from lib.netns import SkipTest, isolate, own_processes
from lib.waits import SLOW

from lib import schema

BIN = pathlib.Path(os.environ.get("TUTTI_BIN", "build/dev/bin"))
HEAVY = {"cpu", "sched", "python", "cgroups"}  # tracers that a busy machine slows down
SANITIZER_WORDS = ("ERROR: AddressSanitizer", "runtime error:", "WARNING: ThreadSanitizer", "LeakSanitizer")


ports_given = set()


def free_port(kind=socket.SOCK_STREAM):
    """A port below those that the kernel gives to connections: none of them takes it before the server listens. Each is given once."""
    while True:
        port = random.SystemRandom().randrange(10000, 32768)
        with socket.socket(socket.AF_INET, kind) as s, contextlib.suppress(OSError):
            if port not in ports_given:
                s.bind(("127.0.0.1", port))
                ports_given.add(port)
                return port


def is_whole(host):
    """Is a host of a session complete, or without a part of what the heavy tracers record, as on a busy machine?"""
    if host["state"] == "complete":
        return True
    short = {(t["name"], t["reason"]) for t in host["tracers"] if t["state"] in ("degraded", "failed")}
    return (host["state"], host["reason"]) == ("partial", "window-cut") and short <= {(name, "window-cut") for name in HEAVY}


def wait_until(what, condition, seconds=20):
    """Polls `condition` until it gives something true; returns that."""
    end = time.monotonic() + seconds * SLOW
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds * SLOW:.0f} s for {what}, without success")
        time.sleep(0.05)


class Cluster:
    def __init__(self):
        self.dir = temp_dir("tutti-e2e")
        self.processes = {}
        self.http = free_port()
        self.grpc = free_port()
        self.probe = free_port(socket.SOCK_DGRAM)
        self.sockets = {}
        self.closing = []  # called before the processes are ended, after a failure, too
        self.away = None  # what agents and bursts do before they begin: enter another machine
        self.keep = bool(os.environ.get("TUTTI_TEST_KEEP"))

    def __enter__(self):
        return self

    def __exit__(self, kind, value, tb):
        if kind:
            self.print_logs()
        codes = self.stop_all()
        complaints = self.complaints()
        if not kind:
            self.check_stored()
        if not kind and not self.keep:
            shutil.rmtree(self.dir, ignore_errors=True)
        if not kind:
            assert not complaints, "\n".join(complaints)
            bad = {name: code for name, code in codes.items() if code not in (0, None)}
            assert not bad, f"did not stop cleanly: {bad}\n{self.logs_text()}"

    # ---- processes ----

    def start(self, name, argv, env=None, before=None):
        """Starts a process; it calls `before` first, and is killed when this thread ends."""
        def begin():
            die_with_parent()
            if before:
                before()
        log = open(self.dir / f"{name}.log", "ab")
        p = subprocess.Popen([str(a) for a in argv], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                             env={**os.environ, **(env or {})}, cwd=self.dir, preexec_fn=begin)
        p.expected = True
        self.processes[name] = p
        return p

    def aggregator(self, *flags, env=None):
        p = self.start("aggregator", [
            BIN / "tutti-aggregator", "--store", f"file://{self.store}", "--http", f"127.0.0.1:{self.http}",
            "--grpc", f"127.0.0.1:{self.grpc}", "--probe", f"127.0.0.1:{self.probe}",
            "--spool", self.dir / "agg-spool", "--grace", f"{30 * SLOW:g}s", *flags], env)
        wait_until("the aggregator to be ready", lambda: self.is_ready(p))
        return p

    def agent(self, host, *flags, tracers="metrics,marks", discover=False, prefix=()):
        """`tracers`: those that the test is about, or "all". `prefix`: a command that becomes the agent, as setpriv does."""
        socket_url = f"ipc://{self.dir}/{host}.ipc"
        self.sockets[host] = socket_url
        return self.start(host, [
            *prefix, BIN / "tutti-agent", "--host", host, "--aggregator", f"127.0.0.1:{self.grpc}", "--spool",
            self.dir / f"{host}-spool", "--listen", "", "--local-socket", socket_url,
            f"--discover={'true' if discover else 'false'}", f"--tracers={'' if tracers == 'all' else tracers}",
            "--reconnect-max=1s", *flags], before=self.away)

    def profilers(self, *spaces):
        """Frameworks that each give these bytes whenever they are asked; flags for an agent."""
        files = [self.dir / f"profiler-{i}.pb" for i in range(len(spaces))]
        for file, space in zip(files, spaces):
            file.write_bytes(space)
        return self.profilers_of(*files)

    def profilers_of(self, *files, mode="old"):
        """The same with files, of this cluster's directory: they are linked (old), or sent with a date (good)."""
        flags = []
        for i, file in enumerate(files):
            port = self.dir / f"profiler-{i}.port"
            self.start(f"burst-profiler-{i}", [BIN / "fake_profiler", "--mode", mode, "--file", file, "--port-file", port])
            wait_until("a profiler", port.exists)
            flags.append(f"--profiler=127.0.0.1:{port.read_text().strip()}")
        return flags

    def burst(self, *hosts, name="burst", flags=()):
        """Bursts that these hosts are told of; the first one has begun when this returns."""
        sockets = [f"--local-socket={self.sockets[h]}" for h in hosts]
        p = self.start(name, [BIN / "burst", *sockets, *flags], before=self.away)
        wait_until("the first burst", lambda: self.log(name))
        return p

    def kill(self, name, sig=signal.SIGKILL):
        p = self.processes[name]
        p.send_signal(sig)
        if sig == signal.SIGKILL:
            p.wait(20 * SLOW)
            p.expected = False

    def stop_all(self):
        while self.closing:
            with contextlib.suppress(OSError, AssertionError):
                self.closing.pop()()
        codes = {}
        for name in reversed(list(self.processes)):
            p = self.processes[name]
            if p.poll() is None:
                p.send_signal(signal.SIGCONT)
                p.terminate()
                try:
                    p.wait(20 * SLOW)
                except subprocess.TimeoutExpired:
                    p.kill()
                    p.wait(20 * SLOW)
                    codes[name] = "killed: did not stop"
                    continue
            if p.expected and (BIN / "tutti-agent").parent == pathlib.Path(p.args[0]).parent and name != "burst":
                codes[name] = p.returncode
        return {n: c for n, c in codes.items() if not n.startswith("burst")}

    # ---- the aggregator ----

    @property
    def store(self):
        return self.dir / "store"

    @property
    def logdir(self):
        return self.store / "profiles"

    @property
    def url(self):
        return f"http://127.0.0.1:{self.http}"

    def is_ready(self, p):
        if p.poll() is not None:
            raise AssertionError(f"the aggregator ended with {p.returncode}")
        try:
            return urllib.request.urlopen(f"{self.url}/readyz", timeout=2).status == 200
        except OSError:
            return False

    def call(self, method, path, body=None, timeout=20):
        """One call of the API: (status, document). The document is checked against the schema of the route."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout * SLOW) as answer:
                status, doc = answer.status, json.load(answer)
        except urllib.error.HTTPError as e:
            status, doc = e.code, json.load(e)
        schema.check_answer(method, path, status, doc)
        return status, doc

    def get(self, path):
        status, doc = self.call("GET", path)
        assert status == 200, (path, status, doc)
        return doc

    def check_stored(self):
        schema.check_stored(self.store)
        schema.check_stored(self.dir / "agg-spool")

    def metrics(self):
        with urllib.request.urlopen(self.url + "/metrics", timeout=20 * SLOW) as answer:
            return answer.read().decode().splitlines()

    def hosts(self):
        return {h["host"]: h for h in self.get("/api/v1/hosts")["hosts"]}

    def wait_hosts(self, n, calibrated=True):
        def there():
            up = [h for h in self.hosts().values() if h["state"] == "connected"]
            good = [h for h in up if h["clock"]["calibrated"]]
            return len(good if calibrated else up) >= n
        wait_until(f"{n} hosts", there, 30)

    def wait_rings(self, seconds):
        """Until the rings of all hosts hold the last `seconds`: an agent that is younger has less."""
        def reach(tracer):
            return 0 < tracer.get("begin_ns", 0) <= time.time_ns() - seconds * 1e9
        wait_until(f"rings of {seconds:g} s", lambda: all(
            reach(t) for h in self.hosts().values() for t in h["tracers"]
            if t["name"] in ("cpu", "metrics", "marks") and t["state"] != "off"), 30 + seconds)

    def tutti(self, *args, check=None, timeout=120, env=None):
        """Runs the command line; returns (exit code, JSON document or text)."""
        env = {**os.environ, "TUTTI_SERVER": self.url, **(env or {})}
        try:
            p = subprocess.run([BIN / "tutti", *map(str, args)], env=env, capture_output=True, text=True, timeout=timeout * SLOW)
        except subprocess.TimeoutExpired as late:
            raise AssertionError(f"tutti {args} took {late.timeout:.0f} s; it had printed\n{(late.stderr or b'').decode()}\n"
                                 f"{self.captures_text()}") from None
        with open(self.dir / "tutti.log", "a", errors="surrogateescape") as log:
            log.write(f"$ tutti {' '.join(map(str, args))} -> {p.returncode}\n{p.stderr}\n")
        self.stderr = p.stderr
        if check is not None:
            assert p.returncode == check, f"tutti {args}: exit {p.returncode}, not {check}\n{p.stderr}{p.stdout}"
        try:
            doc = json.loads(p.stdout)
        except ValueError:
            return p.returncode, p.stdout
        schema.check_printed(args, doc)
        return p.returncode, doc

    def captures_text(self):
        """What the aggregator says of the captures that have not ended."""
        try:
            captures = self.call("GET", "/api/v1/captures")[1]["captures"]
        except (OSError, ValueError) as e:
            return f"the aggregator does not say which captures there are: {e}"
        return "\n".join(json.dumps(c) for c in captures if c["state"] not in ("committed", "failed")) or "no capture is under way"

    # ---- logs ----

    def log(self, name):
        return (self.dir / f"{name}.log").read_text(errors="replace")

    def logs_text(self):
        parts = []
        for path in sorted(self.dir.glob("*.log")):
            parts.append(f"---- {path.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-60:]))
        return "\n".join(parts)

    def print_logs(self):
        print(self.logs_text(), file=sys.stderr)

    def complaints(self):
        found = []
        for path in self.dir.glob("*.log"):
            text = path.read_text(errors="replace")
            if any(word in text for word in SANITIZER_WORDS):
                found.append(f"{path.name}: a sanitizer reported\n{text[-6000:]}")
        return found


def show_output(e):
    """What a program had printed that failed, or did not end in time."""
    for output in filter(None, (getattr(e, "stdout", None), getattr(e, "stderr", None))):
        print(output.decode(errors="replace") if isinstance(output, bytes) else output, file=sys.stderr)


def part_of(tests):
    """The argument K/N of a test's program: every Nth of its tests, from the Kth on. tests.cmake divides long programs so."""
    for word in sys.argv[1:]:
        if match := re.fullmatch(r"([1-9])/([1-9])", word):
            k, n = map(int, match.groups())
            return tests[k - 1::n]
    return tests


def main(*tests, own_network=True, own_pids=True, before=()):
    """Runs test functions, or those of a part, one after the other, in a network of their own and with processes of their own, so that agents
    sample no program of another test; calls those of `before` first. Exit status 1 if one failed, 77 if one asked to be skipped."""
    if own_pids:
        own_processes()
    if own_network:
        isolate()
    failed = 0
    for test in (*before, *part_of(tests)):
        start = time.monotonic()
        try:
            test()
            print(f"ok   {test.__name__} ({time.monotonic() - start:.1f} s)", flush=True)
        except SkipTest as why:
            print(f"skip {test.__name__}: {why}", flush=True)
            sys.exit(77)
        except Exception as e:
            traceback.print_exc()
            show_output(e)
            print(f"FAIL {test.__name__}", flush=True)
            failed += 1
    sys.exit(1 if failed else 0)
