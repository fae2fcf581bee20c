#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a release leaves on disks, for e2e/old_data, which has later versions open it:

    .venv/bin/python tests/data/make_store.py BIN NAME        # as root; some 20 s

BIN is the folder of that release's tutti, tutti-agent, tutti-aggregator and burst (cmake --build --preset release). The result is
tests/data/store-NAME.tar.xz, some 100 kB; commit it with each release, and remove none. It holds

    store/  agg-spool/  HOST-spool/     as they are after the aggregator was killed in the middle of five captures, a retry and a removal
    tokens  authority/                  what callers and agents were let in by
    home/                               the command line's contexts
    *.conf  *.printed                   files with all settings of then, and what --print-config said of them
    made.json                           what that release said of its sessions, by its API: see `describe`
"""
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

BIN, NAME = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
HERE = pathlib.Path(__file__).resolve().parent
os.environ["TUTTI_BIN"] = str(BIN)
sys.path.insert(0, str(HERE.parent / "e2e"))
from lib import traces  # noqa: E402
from lib.cluster import Cluster, main, wait_until  # noqa: E402
from lib.view import View  # noqa: E402

HOSTS = {"host-a": ["--tracers", "cpu,metrics,marks", "--label", "namespace=red"], "host-b": ["--test-clock-offset", "5s"],
         "host-c": ["--test-clock-offset", "-3s"]}
PERIOD_S = 0.2  # of the bursts

# Of each setting a value that is not its default.
SETTINGS = {
    "tutti-aggregator": {
        "store": "s3://bucket/fleet", "http": "127.0.0.1:17400", "http-host": ["profiles.example", "10.0.0.7"], "perfetto-url": "https://perfetto.example",
        "xprof-url": "https://xprof.example", "http-client": ["ada", "bob"], "grpc": "127.0.0.1:17401", "probe": "127.0.0.1:17403", "spool": "/srv/spool",
        "replica": "a", "replica-url": "https://a.example", "lease": "20s", "upload": "via-aggregator", "reads": "via-aggregator", "lead": "250ms", "grace": "90s",
        "causality": "1s", "stop-limit": "15s", "retain": "30d", "retain-bytes": "500G", "retain-run": ["nightly=7d", "=1d"], "quota-bytes": "1T",
        "quota-sessions": "1000", "quota-run": ["nightly=200G,50", "=0,7"], "limit-captures": "3", "limit-starts": "30", "limit-bytes": "10G", "limit-streams": "8",
        "retain-period": "5m", "cert": "/srv/agg.crt", "key": "/srv/agg.key", "ca": "/srv/ca.crt", "enrol": "/srv/authority", "enrol-cert": "/srv/enrol.crt",
        "enrol-key": "/srv/enrol.key", "enrol-audience": "tutti-agents", "enrol-account": "prof:agent", "enrol-life": "12h", "enrol-name": ["agg.example", "10.0.0.7"],
        "hosts-per-address": "64", "views-limit": "4G", "kubernetes": "https://10.0.0.1:6443", "kubernetes-token-file": "/srv/k8s.token",
        "kubernetes-ca": "/srv/k8s.crt", "kubernetes-retry": "2s", "kubernetes-people": "tutti", "kubernetes-people-hold": "30s", "token-file": "/srv/token",
        "tokens": "/srv/tokens", "oidc-issuer": "https://id.example", "oidc-audience": "tutti", "oidc-client": "tutti-cli", "oidc-ca": "/srv/id.crt",
        "oidc-name-claim": "email", "oidc-role-claim": "roles", "oidc-fetch": "10s", "oidc-hold": "5m", "oidc-grant": ["ml=operator:red,blue", "root=admin"],
        "audit": "/srv/audit", "audit-size": "16M", "anonymous": "viewer", "insecure": "true", "log-level": "warn", "log-format": "json",
    },
    "tutti-agent": {
        "host": "node-7", "aggregator": "a.example:7401,b.example:7401", "label": ["rack=12", "namespace=red"], "spool": "/srv/agent", "spool-limit": "4G",
        "file-limit": "1000000000", "listen": "127.0.0.1:17405", "local-socket": "ipc:///srv/agent.ipc", "tracers": "cpu,metrics,marks", "ring-seconds": "120",
        "ring-bytes": "32M", "max-cpu": "2%", "max-rss": "200M", "cert": "/srv/agent.crt", "key": "/srv/agent.key", "ca": "/srv/ca.crt",
        "store-ca": "/srv/store.crt", "aggregator-name": "agg.example", "reconnect-max": "5s", "stop-limit": "20s", "back-within": "30s", "insecure": "true",
        "log-level": "debug", "log-format": "json", "test-clock-offset": "250ms", "test-clock-drift-ppm": "50", "profiler": ["127.0.0.1:9999", "127.0.0.1:9998"],
        "discover": "false", "continuous": "true", "profiler-limit": "256M", "pytorch-socket": "kineto", "pytorch-dir": "/srv/kineto", "pytorch-poll": "2s",
        "watch": ["/srv/traces", "/srv/more"], "cpu-hz": "49", "sched-cgroup": "/sys/fs/cgroup/jobs", "sched-wakeups": "true", "python-hz": "7", "metrics-hz": "5",
        "cgroups-root": "/srv/cgroup", "cgroups-hz": "2", "nvml-library": "/srv/nvml.so", "nvml-hz": "4", "annotations-look": "250ms",
        "annotations-socket": "/srv/annotations", "logs": "containers,/var/log/*.log", "logs-rate": "500",
    },
    "tutti-agent-enrol": {"ca": "/srv/ca.crt", "enrol-token": "/srv/join"},  # not beside cert and key
}


def run(*command):
    p = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60)
    assert p.returncode == 0, f"{command}: exit {p.returncode}\n{p.stderr}"
    return p.stdout


def aggregator(c, *flags):
    c.aggregator(f"--store=fault://{c.dir / 'rules'}!file://{c.store}", "--tokens", c.dir / "tokens", "--anonymous", "admin", *flags)


def agent(c, host):
    c.agent(host, "--tracers", "metrics,marks", "--reconnect-max", "300ms", *HOSTS[host])


def rules(c, text=""):
    """Of the store (storage/store_fault.h)."""
    new = c.dir / "rules.new"
    new.write_text(text)
    os.rename(new, c.dir / "rules")


def capture(c, *flags, verb="capture", code=0):
    return c.tutti(verb, *flags, "--json", check=code)[1]["session"]


def connected(c):
    return sum(h["state"] == "connected" and h["clock"]["calibrated"] for h in c.hosts().values())


def without(c, host, *flags):
    """A session that lacks the host, which is back afterwards."""
    c.kill(host)
    wait_until("the loss", lambda: c.hosts()[host]["state"] == "lost")
    session = capture(c, "--duration", "200ms", "--hosts", ",".join(HOSTS), *flags, code=3)
    agent(c, host)
    c.wait_hosts(len(HOSTS))
    return session


def write_tokens(c):
    made, lines = [], ["# who may do what"]
    for name, role, spaces in (("ada", "admin", ""), ("bob", "operator", "red"), ("cy", "viewer", "red,blue")):
        token = hashlib.sha256(f"{NAME} {name}".encode()).hexdigest()
        lines.append(f"{name} {role} {hashlib.sha256(token.encode()).hexdigest()} {spaces}".rstrip())
        made.append({"name": name, "role": role, "namespaces": spaces.split(",") if spaces else [], "token": token})
    (c.dir / "tokens").write_text("\n".join(lines) + "\n")
    (c.dir / "tokens").chmod(0o600)
    return made


def make_sessions(c):
    """{what it is: session}, all of them at their ends."""
    made = {"plain": capture(c, "--duration", "300ms"),
            "run": capture(c, "--duration", "200ms", "--run", "nightly/one", "--hosts", "host-a,host-b", "--set", "metrics.max_hz=5"),
            "retried": without(c, "host-c")}
    capture(c, made["retried"], verb="retry")
    made["lacking"] = without(c, "host-b")
    c.wait_rings(2)  # an agent that is younger has less
    shots = c.tutti("snapshot", "--every", "1s", "--for", "3s", "--json", check=0)[1]["snapshots"]
    made |= {f"snapshot-{i}": s["session"] for i, s in enumerate(shots)}
    made["refined"] = capture(c, "--duration", "1s", "--refine", "events")
    made["steps"] = capture(c, "--at-step", "next", "--steps", "2")
    (c.dir / "old.pb").write_bytes(traces.job(steps=3))
    made["imported"] = c.tutti("import", c.dir / "old.pb", "--run", "before", "--json", check=0)[1]["sessions"][0]["session"]
    made["pinned"] = capture(c, "--duration", "100ms", "--hosts", "host-a")
    for name in ("run", "pinned"):
        c.tutti("pin", made[name], check=0)
    return made


def make_ended(c):
    """Sessions that are none any more."""
    deleted = capture(c, "--duration", "100ms", "--hosts", "host-a")
    c.tutti("delete", deleted, check=0)
    status, doc = c.call("POST", "/api/v1/captures", {"duration_ns": 600 * 10**9, "hosts": "host-a"})
    assert status == 202, doc
    c.tutti("cancel", doc["session"], check=0)
    wait_until("the end", lambda: c.get(f"/api/v1/captures/{doc['session']}")["state"] == "failed")
    return {"deleted": deleted, "cancelled": doc["session"]}


def describe(c, session):
    """What must stay true of a session."""
    v = View(c, session)
    return {"manifest": c.get(f"/api/v1/sessions/{session}"),
            "tracks": [[host, plane, t["name"], t["events"]] for host, _, plane, _, t in v.tracks]}


def begin(c, path="captures", **body):
    status, doc = c.call("POST", f"/api/v1/{path}", body)
    assert status == 202, doc
    return doc["session"]


def wait_state(c, session, state):
    wait_until(state, lambda: any(h["state"] == state for h in c.get(f"/api/v1/captures/{session}")["hosts"]))


def break_off(c, retried, removed):
    """The aggregator is killed in the middle of all this, by the store, when it is about to put a manifest."""
    brief = {"duration_ns": 2 * 10**8, "tracers": ["metrics", "marks"]}
    rules(c, "put profiles/*/host-b* hang\nput profiles/*/host-c* hang\nremove profiles/* fail\nput tutti/sessions/* crash\n")
    half = {"uploading": begin(c, hosts="host-c", **brief), "running": begin(c, hosts="host-a", **brief | {"duration_ns": 600 * 10**9})}
    half["queued"] = begin(c, hosts="host-a", at_step=int(time.time() / PERIOD_S) + 2000, steps=2, wait_ns=3600 * 10**9, tracers=brief["tracers"])
    half["retry"] = begin(c, f"sessions/{retried}/retry")
    wait_state(c, half["uploading"], "uploading")
    wait_state(c, half["retry"], "uploading")
    wait_state(c, half["running"], "running")
    assert c.get(f"/api/v1/captures/{half['queued']}")["state"] == "queued"
    assert c.call("DELETE", f"/api/v1/sessions/{removed}")[0] == 503
    c.processes["aggregator"].expected = False
    c.kill("host-b", signal.SIGSTOP)  # it is not armed before the kill
    half |= {"removed": removed, "arming": begin(c, hosts="host-b", **brief), "ended": begin(c, hosts="host-a", **brief)}
    wait_until("the kill", lambda: c.processes["aggregator"].poll() is not None)
    for host in HOSTS:
        c.kill(host)
    return half


def make_authority(c):
    """An authority, agents that it let in, and tokens."""
    tokens = {}
    c.aggregator("--store", "mem://", "--spool", c.dir / "enrol-spool", "--enrol", c.dir / "authority")
    for name, uses in (("used", 1), ("good", 5)):
        tokens[name] = c.tutti("token", "create", "--uses", uses, "--for", "8000h", "--json", check=0)[1]["token"]
    (c.dir / "join").write_text(tokens["used"])
    (c.dir / "join").chmod(0o600)
    c.agent("host-r", "--tracers", "marks", "--ca", c.dir / "authority/ca.crt", "--enrol-token", c.dir / "join")
    c.wait_hosts(1, calibrated=False)
    c.tutti("revoke", "host-r", check=0)
    return {"tokens": tokens, "revoked": "host-r"}


def make_settings(c):
    """Files with all settings, and what they mean."""
    for name, settings in SETTINGS.items():
        program, file = BIN / name.removesuffix("-enrol"), c.dir / f"{name}.conf"
        known = set(re.findall(r"^  --([a-z-]+)", run(program, "--help"), flags=re.M)) - {"config", "print-config", "help"}
        missing = known - {s for n in SETTINGS if n.startswith(program.name) for s in SETTINGS[n]}
        assert not missing, f"{program.name}: no value in SETTINGS for {sorted(missing)}"
        file.write_text("".join(f"{s} = {v}\n" for s, value in settings.items() for v in (value if isinstance(value, list) else [value])))
        file.with_suffix(".printed").write_text(run(program, "--config", file, "--print-config"))


def make():
    with Cluster() as c:
        made = {"release": NAME, "version": run(BIN / "tutti", "--version").strip(),
                "made_ns": time.time_ns(), "tokens": write_tokens(c)}
        make_settings(c)
        made["authority"] = make_authority(c)
        c.stop_all()
        c.processes.clear()
        rules(c)
        aggregator(c)
        for host in HOSTS:
            agent(c, host)
        c.wait_hosts(len(HOSTS))
        c.burst(*HOSTS, flags=("--period", f"{PERIOD_S * 1000:.0f}ms", "--work", "5ms", "--barrier", "--steps"))
        made["sessions"] = make_sessions(c)
        removed = capture(c, "--duration", "100ms", "--hosts", "host-a")
        made["ended"] = make_ended(c)
        env = {"HOME": str(c.dir / "home"), "XDG_CONFIG_HOME": str(c.dir / "home/.config")}
        c.tutti("context", "add", "lab", "http://127.0.0.1:7400", check=0, env=env)
        made["described"] = {s: describe(c, s) for s in made["sessions"].values()}
        made["listed"] = [s for s in c.get("/api/v1/sessions")["sessions"] if s["session"] != removed]
        made["links"] = c.tutti("share", made["sessions"]["plain"], "--for", "1h", "--json", check=0)[1]
        made["half"] = break_off(c, made["sessions"]["lacking"], removed)
        (c.dir / "made.json").write_text(json.dumps(made, indent=1))
        pack(c)
        for name in HOSTS:
            c.processes.pop(name)


def pack(c):
    file = HERE / f"store-{NAME}.tar.xz"
    shutil.rmtree(c.dir / "agg-spool/views", ignore_errors=True)  # made anew from the files, whatever they were
    kept = sorted(p.name for p in c.dir.iterdir() if p.name in ("store", "agg-spool", "tokens", "authority", "home", "made.json")
                  or p.suffix in (".conf", ".printed") or p.name.endswith("-spool") and p.name != "enrol-spool")
    tar = subprocess.Popen(["tar", "-C", c.dir, "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "-cf", "-", *kept], stdout=subprocess.PIPE)
    with open(file, "wb") as out:
        subprocess.run(["xz", "-9e"], stdin=tar.stdout, stdout=out, check=True, timeout=60)
    assert tar.wait(60) == 0
    print(f"     {file.name}: {file.stat().st_size} bytes")


main(make)
