# SPDX-License-Identifier: Apache-2.0
"""Rolling updates under captures: the manifests as they are, with a volume. One caller captures all hosts again and again while the agents' pods
are replaced, twice, and then the aggregator's. A capture that begins ends complete, whichever pod went meanwhile; none is refused because of agents."""
import itertools
import json
import socket
import subprocess
import threading
import time

from bed import KUBECTL, ROOT, TUTTI, connected, get, give_volume, kubectl, person, remove, remove_volume, say, tutti, wait_ready, wait_until

MANIFESTS = ROOT / "deploy/kubernetes"
WINDOWS = ("1s", "4s", "9s")  # the pod of an agent finishes windows of up to 10 s


class LastingForward(threading.Thread):
    """One port of this machine, forwarded again to each next pod of the aggregator."""
    def __init__(self, config):
        super().__init__(daemon=True)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.server = f"http://127.0.0.1:{port}"
        self.command = [KUBECTL, "--kubeconfig", config, "-n", "tutti", "port-forward", "pod/tutti-aggregator-0", f"{port}:7400"]
        self.ended, self.process = threading.Event(), None

    def run(self):
        while not self.ended.wait(0.3):
            self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.process.wait()

    def close(self):
        self.ended.set()
        self.process.terminate()


class Caller(threading.Thread):
    """Captures one window after the other until it is told to end."""
    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.ended, self.calls = server, threading.Event(), []

    def run(self):
        for window in itertools.cycle(WINDOWS):
            if self.ended.is_set():
                return
            begin = time.monotonic()
            p = subprocess.run([TUTTI, "capture", "--server", self.server, "--hosts", "all", "--duration", window, "--json"],
                               capture_output=True, text=True, timeout=240)
            self.calls.append((begin, time.monotonic(), p.returncode, p.stdout, p.stderr))
            if p.returncode:
                time.sleep(1)

    def wait_for_more(self, n=1):
        before = len(self.calls)
        wait_until("captures after it", lambda: sum(not code for _, _, code, *_ in self.calls[before:]) >= n, 120)


def replace(kind, name):
    """Restarts it as a rolling update does; returns when it began and ended."""
    begin = time.monotonic()
    [old] = [p["metadata"] for p in get("pods", "-n", "tutti", "-l", f"app.kubernetes.io/name={name}")["items"]]
    kubectl("rollout", "restart", f"{kind}/{name}", "-n", "tutti")
    kubectl("rollout", "status", f"{kind}/{name}", "-n", "tutti", "--timeout=120s")
    wait_until("the former pod to go", lambda: old["uid"] not in kubectl("get", "pods", "-n", "tutti", "-o", "jsonpath={.items[*].metadata.uid}"))
    return begin, time.monotonic()


def check_agents(caller):
    times = []
    for _ in range(2):
        times.append(replace("daemonset", "tutti-agent"))
        caller.wait_for_more(2)
    for begin, end, code, out, err in caller.calls:
        assert code == 0 and json.loads(out)["complete"] == 1, f"exit {code} after {end - begin:.1f} s\n{out}{err}"
    slowest = max(end - begin for begin, end, *_ in caller.calls)
    say(f"agents replaced in {' and '.join(f'{e - b:.1f} s' for b, e in times)}, under {len(caller.calls)} captures: all complete, the slowest call took {slowest:.1f} s")


def check_aggregator(caller):
    n = len(caller.calls)
    begin, end = replace("statefulset", "tutti-aggregator")
    caller.wait_for_more(2)
    taken = [c for c in caller.calls[n:] if c[2] == 0]
    for b, e, code, out, err in caller.calls[n:]:
        assert code == 0 and json.loads(out)["complete"] == 1 or code and not err.startswith("20"), f"exit {code} after {e - b:.1f} s\n{out}{err}"
    refused = len(caller.calls) - n - len(taken)
    back = next(b for b, *_ in taken if b > end) - end
    say(f"the aggregator replaced in {end - begin:.1f} s, under {len(taken)} captures: all complete, those that it interrupted too; {refused} calls came when "
        f"there was none, the first one after it was ready {back:.1f} s later")


def check_sessions(server, answered):
    """Each session of the store is whole, those too whose caller had no answer."""
    stored = {s["session"]: (s["complete"], s["failed"]) for s in json.loads(tutti(server, "sessions", "--json"))["sessions"]}
    assert answered <= stored.keys() and set(stored.values()) == {(1, 0)}, (answered, stored)


def check():
    give_volume()
    kubectl("apply", "-k", MANIFESTS)
    wait_ready()
    forward = LastingForward(person("rita", "operator"))
    forward.start()
    wait_until("the forwarded port", lambda: subprocess.run([TUTTI, "hosts", "--server", forward.server], capture_output=True, timeout=60).returncode == 0)
    wait_until("the agent", lambda: connected(forward.server))
    caller = Caller(forward.server)
    caller.start()
    try:
        caller.wait_for_more()
        check_agents(caller)
        check_aggregator(caller)
    finally:
        caller.ended.set()
        caller.join(240)
    check_sessions(forward.server, {json.loads(out)["session"] for _, _, code, out, _ in caller.calls if not code})
    forward.close()
    remove(MANIFESTS)
    remove_volume()
