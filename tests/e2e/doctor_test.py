# SPDX-License-Identifier: Apache-2.0
"""`tutti doctor` beside set-ups that are broken in one place each: the check that has to name it, and words of its cause or its mend."""
import http.server
import json
import pathlib
import shutil
import subprocess
import threading

from lib import schema
from lib.cluster import BIN, Cluster, free_port, main, wait_until
from lib.leftovers import temp_dir

HEALTHY = {
    "proc/sys/kernel/osrelease": "6.1.0-18-amd64\n", "proc/sys/kernel/perf_event_paranoid": "2\n", "proc/sys/kernel/kptr_restrict": "1\n",
    "proc/sys/kernel/yama/ptrace_scope": "1\n", "proc/mounts": "proc /proc proc rw,nosuid 0 0\n", "proc/net/unix": "Num\n",
    "sys/fs/cgroup/cgroup.controllers": "cpu memory\n", "sys/kernel/security/lockdown": "[none] integrity confidentiality\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    "sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc hpet acpi_pm\n",
    "dev/shm/x": "", "var/tmp/x": "",
}
CLOCK = "sys/devices/system/clocksource/clocksource0/current_clocksource"
PROFILE = "proc/driver/nvidia/params"

# what is broken in the files of a host: {file: text, or None to remove it}; the check; words of the finding
HOSTS = [
    ("a kernel without CAP_PERFMON", {"proc/sys/kernel/osrelease": "5.4.0\n"}, "kernel.version", "5.8"),
    ("no /proc", {"proc": None}, "kernel.version", "mount -t proc"),
    ("a distribution's paranoid setting", {"proc/sys/kernel/perf_event_paranoid": "4\n"}, "kernel.perf_events", "perf_event_paranoid=2"),
    ("no perf events", {"proc/sys/kernel/perf_event_paranoid": None}, "kernel.perf_events", "CONFIG_PERF_EVENTS"),
    ("hidden kernel addresses", {"proc/sys/kernel/kptr_restrict": "2\n"}, "kernel.kptr_restrict", "kptr_restrict=1"),
    ("no ptrace at all", {"proc/sys/kernel/yama/ptrace_scope": "3\n"}, "kernel.ptrace_scope", "cannot be taken back"),
    ("cgroup v1 alone", {"sys/fs/cgroup/cgroup.controllers": None}, "kernel.cgroups", "unified_cgroup_hierarchy"),
    ("hidden processes", {"proc/mounts": "proc /proc proc rw,hidepid=invisible 0 0\n"}, "kernel.hidepid", "remount,hidepid=0"),
    ("a locked kernel", {"sys/kernel/security/lockdown": "none integrity [confidentiality]\n"}, "kernel.lockdown", "lockdown=integrity"),
    ("a slow clock", {CLOCK: "hpet\n"}, "kernel.clocksource", "tsc hpet acpi_pm"),
    ("no shared memory", {"dev/shm": None}, "disk.shm", "mount -t tmpfs"),
    ("a file where the spool should be", {"var/tmp/tutti-agent": "x"}, "disk.spool", "is no folder"),
    ("GPUs for root alone", {"proc/driver/nvidia/version": "550\n", PROFILE: "x: 0\nRmProfilingAdminOnly: 1\n"}, "gpu.counters",
     "NVreg_RestrictProfilingToAdminUsers=0"),
    ("another program at PyTorch's socket", {"proc/net/unix": "0000: 00000002 0 0 0002 01 1 @dynolog\n"}, "pytorch.socket", "dynolog"),
    ("PyTorch that never asks", {"proc/71/maps": "7f00-7f01 r-xp 0 0:1 2 /x/libtorch_cpu.so\n", "proc/71/environ": "A=1\0"}, "job.pytorch",
     "KINETO_USE_DAEMON=1"),
    ("a launcher for a job", {"proc/71/maps": "7f00-7f01 r-xp 0 0:1 2 /bin/sh\n"}, "job.framework", "not its launcher"),
    ("a process of nowhere", {"proc/72/maps": ""}, "job.process", "no process 71"),
]


def host(broken):
    root = temp_dir("tutti-doctor")
    for name, text in {**HEALTHY, **{k: v for k, v in broken.items() if v is not None}}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name in (k for k, v in broken.items() if v is None):
        path = root / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return root


def doctor(*flags, prefix=()):
    """{check: finding} of all checks, and the exit code."""
    p = subprocess.run([*prefix, BIN / "tutti", "doctor", "--json", *map(str, flags)], capture_output=True, text=True, timeout=120)
    doc = json.loads(p.stdout)
    schema.check(doc, "doctor")
    verdicts = [f["verdict"] for f in doc["findings"]]
    assert (doc["failed"], doc["warnings"]) == (verdicts.count("failed"), verdicts.count("warning")), doc
    assert p.returncode == (1 if doc["failed"] else 3 if doc["warnings"] else 0), (p.returncode, doc)
    for f in doc["findings"]:
        assert (f["verdict"] in ("failed", "warning")) == bool(f["fix"]), f"a finding without a mend, or the other way round: {f}"
    return {f["check"]: f for f in doc["findings"]}, p.returncode


def wrong(found):
    return {name for name, f in found.items() if f["verdict"] in ("failed", "warning")}


def expect(what, found, check, words, only=True):
    text = found.get(check, {}).get("text", "") + " " + found.get(check, {}).get("fix", "")
    assert check in wrong(found) and words in text, f"{what}: {check} says: {text}; wrong are {wrong(found)}"
    others = wrong(found) - {check, "aggregator.http"}
    assert not only or not others, f"{what}: also {others}"
    print(f"     {what}: {check}")


def test_hosts():
    found, code = doctor("--root", host({}), "--local-socket", "")
    assert wrong(found) == {"aggregator.http"} and code == 1, found
    for what, broken, check, words in HOSTS:
        job = ("--pid", "71") if check.startswith("job.") else ()
        expect(what, doctor("--root", host(broken), "--local-socket", "", *job)[0], check, words, only=what != "no /proc")
    root = host({})

    def mounted(options, folder):
        return ["unshare", "-m", "sh", "-c", f"mount -t tmpfs -o {options} tmpfs {root}/{folder} && exec \"$@\"", "sh"]
    for what, prefix, check, words in (
            ("a full disk", mounted("size=1m", "var/tmp"), "disk.spool", "another disk"),
            ("a disk that is nearly full", mounted("size=200m", "var/tmp"), "disk.spool", "a capture of a minute may take more"),
            ("little shared memory", mounted("size=4m", "dev/shm"), "disk.shm", "remount,size=1G")):
        expect(what, doctor("--root", root, "--local-socket", "", prefix=prefix)[0], check, words)
    found = doctor("--root", root, "--local-socket", "", "--store", f"file://{root}/var/tmp", prefix=mounted("ro,size=2g", "var/tmp"))[0]
    bad = sorted(name for name in wrong(found) if name.startswith("store."))
    assert bad and "docs/storage.md" in found[bad[0]]["fix"], found
    print(f"     a store without the right to write: {', '.join(bad)}")
    expect("a socket's name that is none", doctor("--root", root, "--local-socket", "tcp://127.0.0.1:1")[0], "agent.socket", "ipc:///run/tutti/agent.ipc")


class Server:
    """Answers as an aggregator, or as something else."""
    def __init__(self, answers):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                status, text = answers.get(self.path, (404, "{}"))
                self.send_response(status)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def fleet(**changed):
    one = {"host": "host-b", "state": "connected", "version": "0.1.0", "clock": {"calibrated": True, "bound_ns": 20000}}
    return {"/healthz": (200, "ok\n"), "/readyz": (200, "ok\n"), "/api/v1/hosts": (200, json.dumps({"hosts": [{**one, **changed}]}))}


def test_aggregators():
    base = ("--root", host({}), "--local-socket", "")
    cases = [
        ("another program's port", {"/healthz": (200, "<html>")}, "aggregator.http", "not as an aggregator"),
        ("a store that takes no writes", {**fleet(), "/readyz": (503, "the disk is full")}, "aggregator.store", "the disk is full"),
        ("lost hosts", fleet(state="lost"), "fleet.hosts", "1 of them lost"),
        ("no agents", {**fleet(), "/api/v1/hosts": (200, '{"hosts": []}')}, "fleet.hosts", "start agents"),
        ("clocks that are not known", fleet(clock={"calibrated": False}), "fleet.clocks", "port 7403"),
        ("an agent of another version", fleet(version="0.0.9"), "fleet.versions", "one version"),
    ]
    found, code = doctor(*base, "--server", Server(fleet()).url)
    assert not wrong(found) and code == 0, found
    for what, answers, check, words in cases:
        expect(what, doctor(*base, "--server", Server(answers).url)[0], check, words)
    leads = Server({**fleet(), "/healthz": (200, "ok: a leads\n"), "/readyz": (200, "ok: a leads\n")}).url
    for leader, sentence in ((leads, f"this aggregator stands by: a leads at {leads}"), ("", "this aggregator stands by: it is not known yet which one leads")):
        elsewhere = json.dumps({"error": sentence, "leader": leader})
        follower = Server({"/healthz": (200, sentence + "\n"), "/readyz": (503, sentence + "\n"), "/api/v1/hosts": (307 if leader else 503, elsewhere)}).url
        found, code = doctor(*base, "--server", follower)
        assert found["aggregator.http"]["verdict"] == "ok" and found["aggregator.store"] == {**found["aggregator.store"], "verdict": "skipped", "text": sentence}, found
        if leader:
            assert not wrong(found) and code == 0 and found["fleet.hosts"]["text"].startswith("1 hosts"), found
        else:
            expect("no leader yet", found, "aggregator.access", "not known yet")
    found, code = doctor(*base, "--server", leads)
    assert not wrong(found) and code == 0, found
    refuses = Server({**fleet(), "/api/v1/hosts": (401, "{}")}).url
    token = host({}) / "token"
    token.write_text("a-token-of-another-one\n")
    token.chmod(0o600)
    expect("no token", doctor(*base, "--server", refuses)[0], "aggregator.access", "needs a token")
    expect("another token", doctor(*base, "--server", refuses, "--token-file", token)[0], "aggregator.access", "not the aggregator's")
    expect("a name that is none", doctor(*base, "--server", "http://no-such-host.invalid:7400")[0], "aggregator.http", "correct the name")
    expect("nothing listens", doctor(*base, "--server", f"http://127.0.0.1:{free_port()}")[0], "aggregator.http", "systemctl start")
    expect("nothing listens for agents", doctor(*base, "--server", Server(fleet()).url, "--aggregator", f"127.0.0.1:{free_port()}")[0],
           "aggregator.grpc", "--grpc 0.0.0.0:7401")
    expect("a store's URL of nowhere", doctor(*base, "--server", Server(fleet()).url, "--store", "ftp://x/y")[0], "store.open", "docs/storage.md")


def test_live():
    root = host({"proc/71/maps": "7f00-7f01 r-xp 0 0:1 2 /x/xla_extension.so\n"})
    with Cluster() as c:
        c.aggregator()
        c.agent("host-a", tracers="metrics,profiler")
        wait_until("the clock", lambda: not {"agent.socket", "agent.clock"} & wrong(doctor("--root", root, "--local-socket", c.sockets["host-a"])[0]))
        here = ("--root", root, "--local-socket", c.sockets["host-a"])
        well = (*here, "--server", c.url)
        found, code = doctor(*well)
        assert not wrong(found) - {"fleet.clocks", "agent.clock"}, found
        assert found["aggregator.host"]["verdict"] == found["aggregator.grpc"]["verdict"] == "ok", found
        grpc, http_port = f"127.0.0.1:{c.grpc}", f"127.0.0.1:{c.http}"
        expect("the gRPC port for HTTP", doctor(*here, "--server", f"http://{grpc}")[0], "aggregator.http", "7400 unless", only=False)
        expect("the HTTP port for agents", doctor(*well, "--aggregator", http_port)[0], "aggregator.grpc", "7401 unless", only=False)
        expect("TLS where none is", doctor(*here, "--server", f"https://{http_port}")[0], "aggregator.http", "http://", only=False)
        expect("another aggregator", doctor(*here, "--server", Server(fleet()).url)[0], "aggregator.host", "host-a", only=False)
        expect("JAX without a server", doctor(*well, "--pid", "71")[0], "job.profiler", "start_server", only=False)
        nowhere = ("--root", root, "--local-socket", f"ipc://{c.dir}/none", "--server", c.url)
        expect("no agent", doctor(*nowhere)[0], "agent.socket", "systemctl start", only=False)

        shutil.chown(c.dir, 65534)
        c.agent("host-b", tracers="all", prefix=["setpriv", "--reuid", "65534", "--clear-groups", "--bounding-set", "-all", "--"])
        wait_until("the agent without rights", lambda: pathlib.Path(c.sockets["host-b"].removeprefix("ipc://")).exists())
        bare = doctor("--root", root, "--local-socket", c.sockets["host-b"], "--server", c.url)[0]
        expect("an agent without rights", bare, "tracer.cpu", "PERFMON", only=False)
        expect("what records less", bare, "tracer.annotations", "degraded: programs of other users cannot be found", only=False)
        assert bare["tracer.annotations"]["verdict"] == "warning" and bare["tracer.cpu"]["verdict"] == "failed", bare
        pathlib.Path(c.sockets["host-a"].removeprefix("ipc://")).chmod(0o600)
        c.dir.chmod(0o755)
        other_user = ["env", "-u", "HOME", "setpriv", "--reuid", "65533", "--clear-groups", "--"]
        expect("another user's socket", doctor("--root", root, "--local-socket", c.sockets["host-a"], prefix=other_user)[0], "agent.socket", "run this as root", only=False)

        gpu = host({"proc/driver/nvidia/version": "550\n"})
        c.agent("host-c", tracers="metrics,nvml")
        wait_until("its socket", lambda: pathlib.Path(c.sockets["host-c"].removeprefix("ipc://")).exists())
        expect("an agent without the driver's library", doctor("--root", gpu, "--local-socket", c.sockets["host-c"], "--server", c.url)[0],
               "gpu.nvml", "overlays/gpu", only=False)

        other = c.dir / "tutti-agent"
        version = subprocess.run([BIN / "tutti", "--version"], capture_output=True, text=True, check=True, timeout=60).stdout.split()[1].encode()
        other.write_bytes((BIN / "tutti-agent").read_bytes().replace(version + b"\0", b"9" + version[1:] + b"\0"))
        other.chmod(0o755)
        socket_url = f"ipc://{c.dir}/other.ipc"
        c.start("host-d", [other, "--host", "host-d", "--aggregator", f"127.0.0.1:{free_port()}", "--spool", c.dir / "d-spool", "--local-socket", socket_url,
                           "--tracers", "metrics"])
        wait_until("its socket", lambda: (c.dir / "other.ipc").exists())
        found = doctor("--root", root, "--local-socket", socket_url, "--server", c.url)[0]
        expect("an agent of another version here", found, "agent.version", "one version everywhere", only=False)
        expect("a clock that was never measured", found, "agent.clock", "port 7403", only=False)
        c.kill("aggregator")
        wait_until("the loss", lambda: "agent.link" in wrong(doctor(*well)[0]))
        found = doctor(*well)[0]
        expect("an agent without its aggregator", found, "agent.link", "aggregator", only=False)
        expect("an aggregator that is not there", found, "aggregator.http", "no server", only=False)


def test_far_clock():
    """Probes take 10 ms each way: the clock is known, and not within a millisecond."""
    with Cluster() as c:
        there = "127.0.0.2"
        c.aggregator("--grpc", f"{there}:{c.grpc}", "--insecure")
        c.start("burst-relay", [BIN / "udp_relay", "--listen", f"{there}:{c.probe}", "--server", f"127.0.0.1:{c.probe}",
                                "--there-delay", "10ms", "--back-delay", "10ms"])
        c.agent("host-a", "--aggregator", f"{there}:{c.grpc}", tracers="metrics")
        c.wait_hosts(1)
        found = doctor("--root", host({}), "--local-socket", c.sockets["host-a"], "--server", c.url)[0]
        expect("a clock that is known within milliseconds", found, "agent.clock", "ms only", only=False)
        expect("the same in the fleet", found, "fleet.clocks", "tutti clock names them", only=False)
        assert found["agent.clock"]["verdict"] == "warning", found


if __name__ == "__main__":
    main(test_hosts, test_aggregators, test_live, test_far_clock)
