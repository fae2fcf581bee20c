# SPDX-License-Identifier: Apache-2.0
"""The table of permissions in docs/tracers.md, row by row: an agent of an ordinary user with those capabilities and no
others starts, its tracers are in the states of the row, and each one names what is missing. What this machine's settings
cannot show is left out by name. The log and the folder of profiles are those of root, private.

    permissions_test.py [wakeups]    the rows of agents with --sched-wakeups, which need the machine's first PID namespace, or the others
"""
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import sys
import uuid

from lib.cluster import Cluster, SkipTest, main, wait_until
from lib.python_jobs import start_job

DOC = pathlib.Path(__file__).resolve().parents[2] / "docs/tracers.md"
SYSCTL = pathlib.Path("/proc/sys/kernel")
USER = 65500  # a user for each agent: what they lock of perf's memory is counted by user
# Mounts tracefs for a command alone, where this machine has not.
WITH_TRACEFS = ["unshare", "--mount", "sh", "-c", 'mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null; exec "$@"', "sh"]
WAKEUP = "/sys/kernel/tracing/events/sched/sched_wakeup/format"
WAKEUPS = sys.argv[1:] == ["wakeups"]


def names(text):
    return re.findall(r"`(\w+)`", text)


def tables():
    """[(capabilities, {tracer: (state, capabilities that its reason names)}, flags of the agent)]."""
    text = DOC.read_text().split("## Permissions")[1].split("\n## ")[0]
    for lines in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        head, _, *rows = [line.strip("|").split("|") for line in lines.splitlines()]
        for cells in rows:
            states = {tracer: (cell.split(":")[0].strip(), names(cell)) for titles, cell in zip(head[1:], cells[1:])
                      for tracer in names(titles)}
            yield names(cells[0]), states, re.findall(r"`(--[\w-]+)`", "".join(head))


def setpriv(i, *command, capabilities=()):
    given = "-all" + "".join(f",+{name.lower()}" for name in capabilities)
    return ["setpriv", f"--reuid={USER + i}", f"--regid={USER + i}", "--clear-groups", f"--inh-caps={given}",
            f"--ambient-caps={given}", f"--bounding-set={given}", *command]


def setting(name):
    return int((SYSCTL / name).read_text())


def has_tracefs():
    return not subprocess.run([*WITH_TRACEFS, "test", "-e", WAKEUP], capture_output=True, timeout=60).returncode


def why_not(states, flags):
    """{tracer: why this machine's settings are not those of the table}."""
    found = {}
    if "--sched-wakeups" in flags and not has_tracefs():
        found["sched"] = f"there is no {WAKEUP}"
    paranoid, kptr = setting("perf_event_paranoid"), setting("kptr_restrict")
    for tracer, (state, missing) in states.items():
        if tracer in ("cpu", "sched") and missing == ["PERFMON"] and paranoid < 1:
            found[tracer] = f"kernel.perf_event_paranoid is {paranoid}: everybody may sample"
        elif missing == ["SYSLOG"] and paranoid < 2 and not kptr:
            found[tracer] = f"kernel.perf_event_paranoid is {paranoid}: everybody sees the kernel's addresses"
        elif tracer == "cpu" and state == "ok" and kptr > 1:
            found[tracer] = f"kernel.kptr_restrict is {kptr}: the kernel's addresses are hidden"
    return found


def expected():
    """{host: ({tracer: (state, missing)}, capabilities, flags)}, of what this machine can show."""
    hosts = {}
    for i, (capabilities, states, flags) in enumerate(tables()):
        if ("--sched-wakeups" in flags) != WAKEUPS:
            continue
        if subprocess.run(setpriv(i, "true", capabilities=capabilities), capture_output=True, timeout=60).returncode:
            print(f"     skipped: this machine does not grant {' '.join(capabilities)}")
            continue
        left_out = why_not(states, flags)
        for tracer, why in left_out.items():
            print(f"     skipped: {tracer} with {' '.join(capabilities) or 'nothing'}: {why}")
        hosts[f"row-{i + 1}"] = {t: s for t, s in states.items() if t not in left_out}, capabilities, flags
    return hosts


def differences(found, hosts):
    """Where the states are not those of the table."""
    wrong = []
    for host, (states, capabilities, _) in hosts.items():
        tracers = {t["name"]: t for t in found[host]["tracers"]} if host in found else {}
        for name, (state, missing) in states.items():
            t = tracers.get(name, {"state": "", "reason": "", "errno": 0})
            if t["state"] != state or not all(f"CAP_{m}" in t["reason"] for m in missing) or bool(missing) != bool(t["errno"]):
                wrong.append(f"{name} with {' '.join(capabilities) or 'nothing'}: {t}, not {state} for {missing}")
    return wrong


class Asker:
    """A PyTorch process of another user, for all agents: this test itself."""

    def __init__(self, c, hosts):
        self.folders = [c.dir / f"torch-{host}" for host in hosts]
        for folder in self.folders:
            folder.mkdir()
            folder.chmod(0o777)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(f"\0dynoconfigclient{uuid.uuid4()}\0")
        self.socket.setblocking(False)

    def ask(self):
        body = struct.pack("<iiqi", 3, 1, 0, os.getpid())
        for folder in self.folders:
            try:
                self.socket.sendto(struct.pack("<Q32s", len(body), b"req") + body, f"{folder}/dynolog")
                while True:
                    self.socket.recv(4096)
            except OSError:
                pass


def start(c, hosts):
    """The agents, and programs of root: one in Python, one whose file is private, and the aggregator's sockets."""
    c.dir.chmod(0o777)
    c.aggregator()
    private = c.dir / "private"
    private.mkdir(0o700)
    (private / "log").touch()
    groups = c.dir / "cgroups"  # this machine may have cgroup v1 alone
    groups.mkdir()
    (groups / "cgroup.controllers").write_text("cpu memory io pids\n")
    every = dict.fromkeys(tracer for states, _, _ in hosts.values() for tracer in states)
    for host, (_, capabilities, flags) in hosts.items():
        c.agent(host, *flags, "--pytorch-socket=", f"--pytorch-dir={c.dir}/torch-{host}",
                f"--logs={private}/log", f"--watch={private}", f"--cgroups-root={groups}", discover=True, tracers=",".join(every),
                prefix=[*(WITH_TRACEFS if flags else []), *setpriv(int(host.split("-")[1]), capabilities=capabilities)])
    shutil.copy(shutil.which("gzip"), private)
    (private / "gzip").chmod(0o700)  # a folder alone hides no program that runs: /proc/PID/exe leads to it
    c.start("burst-gzip", ["sh", "-c", f"exec {private}/gzip </dev/zero >/dev/null"])
    start_job(c, "job", [os.path.realpath(sys.executable)])


def check_captured(c, hosts):
    """What works is recorded where other tracers lack a permission, and the result names that."""
    tracers = ("sched",) if WAKEUPS else ("cpu", "sched", "python", "logs")
    _, doc = c.tutti("capture", "--duration", "100ms", *(f"--tracer={t}" for t in tracers), "--json")
    for host in doc["hosts"]:
        states, *_ = hosts[host["host"]]
        for t in host["tracers"]:
            state, missing = states.get(t["name"], ("", []))
            is_denied = state == "off" or (state == "degraded" and t["name"] in ("python", "logs", "sched"))
            if state:
                assert t["reason"] == ("no-permission" if is_denied else ""), (host["host"], t)
                assert not is_denied or all(f"CAP_{m}" in t["detail"] for m in missing), (host["host"], t)


def test_table():
    if os.geteuid():
        raise SkipTest("only root can give an agent single capabilities")
    if subprocess.run(setpriv(0, "test", "-r", os.path.realpath(sys.executable)), timeout=60).returncode:
        raise SkipTest(f"{os.path.realpath(sys.executable)} is in a private folder")
    hosts = expected()
    with Cluster() as c:
        asker = Asker(c, hosts)
        start(c, hosts)
        c.wait_hosts(len(hosts))
        left = []

        def agree():
            asker.ask()
            left[:] = differences(c.hosts(), hosts)
            return not left
        try:
            wait_until("the states of docs/tracers.md", agree, 40)
        except AssertionError as e:
            raise AssertionError(f"{e}\n" + "\n".join(left)) from None
        check_captured(c, hosts)
        assert not differences(c.hosts(), hosts), differences(c.hosts(), hosts)


def test_own_pids():
    """In another PID namespace than the machine's first, as this test is in, even root cannot tell who was woken: an agent says so."""
    if WAKEUPS or os.readlink("/proc/self/ns/pid") == "pid:[4026531836]":
        return
    with Cluster() as c:
        c.aggregator()
        c.agent("nested", "--sched-wakeups", prefix=WITH_TRACEFS, tracers="sched")
        c.wait_hosts(1)
        [state] = c.hosts()["nested"]["tracers"]
        assert state["state"] == "degraded" and ("hostPID" in state["reason"] or not has_tracefs()), state


main(test_table, test_own_pids, own_pids=not WAKEUPS)
