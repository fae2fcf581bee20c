# SPDX-License-Identifier: Apache-2.0
"""The overlay replicas: two aggregators on a bucket (versitygw on this machine). Captures go on when the leader is killed, and when both are
replaced by a rolling update; the one that stands by answers reads, and without credentials neither port gives anything."""
import json
import os
import re
import signal
import subprocess
import sys
import time

from bed import KUBECTL, OVERLAYS, ROOT, TUTTI, Forward, ask, kubectl, person, pod_ready, process_of, say, token_of, wait_until
from http_ports import check_closed
from rolling import Caller

sys.path.insert(0, str(ROOT / "tests/lib"))
from servers import Versitygw  # noqa: E402

PODS = ("tutti-aggregator-0", "tutti-aggregator-1")
SERVER = ",".join(f"k8s://tutti/pod/{pod}" for pod in PODS)


class Bucket(Versitygw):
    address = "198.18.64.1"  # of the bridge: pods reach it


def say_leads(config, pod):
    """What a pod's /healthz says, from which the leader is known."""
    with Forward(config, pod) as server:
        return ask(server, None, "GET", "/healthz")[1]["error"]


def leader(config):
    said = {pod: say_leads(config, pod) for pod in PODS}
    names = {m[1] for m in (re.search(r"(\S+) leads", text) for text in said.values()) if m}
    assert len(names) == 1, said
    return names.pop()


def check_killed(config):
    """The leader's process gets SIGKILL in the window of a capture that `tutti` follows."""
    lead = leader(config)
    pid = process_of(pod_ready(lead))
    begin = time.monotonic()
    p = subprocess.Popen([TUTTI, "capture", "--server", SERVER, "--hosts", "all", "--duration", "5s", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with Forward(config, lead) as server:
        wait_until("the window", lambda: any(c["state"] == "running" for c in ask(server, token_of("rosa", "tutti", "tutti"), "GET", "/api/v1/captures")[1]["captures"]))
    os.kill(pid, signal.SIGKILL)
    out, err = p.communicate(timeout=180)
    assert p.returncode == 0, out + err
    capture = json.loads(out)
    assert (capture["state"], capture["complete"], capture["failed"]) == ("committed", 1, 0), capture
    say(f"{lead} led, and got SIGKILL in the window of {capture['session']}: its caller had the whole session {time.monotonic() - begin:.1f} s after the request; "
        f"{leader(config)} leads")


def check_rolling():
    """Both pods are replaced, one after the other, while a caller captures."""
    caller = Caller(SERVER)
    caller.start()
    try:
        caller.wait_for_more()
        begin = time.monotonic()
        kubectl("rollout", "restart", "statefulset/tutti-aggregator", "-n", "tutti")
        kubectl("rollout", "status", "statefulset/tutti-aggregator", "-n", "tutti", "--timeout=170s")
        took = time.monotonic() - begin
        caller.wait_for_more(2)
    finally:
        caller.ended.set()
        caller.join(240)
    answered = [c for c in caller.calls if c[2] == 0]
    for b, e, code, out, err in caller.calls:
        assert not code or not re.match(r"20\S+: ", err), f"begun, and then exit {code} after {e - b:.1f} s\n{out}{err}"
        assert code or json.loads(out)["complete"] == 1, f"after {e - b:.1f} s\n{out}{err}"
    say(f"both aggregators replaced in {took:.1f} s, under {len(answered)} captures: all complete; {len(caller.calls) - len(answered)} calls came when none "
        f"led; the slowest took {max(e - b for b, e, *_ in answered):.1f} s")
    return {json.loads(out)["session"] for _, _, _, out, _ in answered}


def check_reads(config, sessions):
    """Each of the two lists the sessions; they are whole, those too whose caller had no answer."""
    token = token_of("rosa", "tutti", "tutti")
    for pod in PODS:
        with Forward(config, pod) as server:
            status, doc = ask(server, token, "GET", "/api/v1/sessions")
            stored = {s["session"]: (s["complete"], s["failed"]) for s in doc["sessions"]}
            assert status == 200 and sessions <= stored.keys() and set(stored.values()) == {(1, 0)}, (pod, sessions, doc)
    say(f"each of the two lists the {len(stored)} sessions, all whole")


def check():
    with Bucket() as bucket:
        kubectl("apply", "-f", ROOT / "deploy/kubernetes/base/namespace.yaml")
        kubectl("create", "secret", "generic", "tutti-store", "-n", "tutti", *(f"--from-literal={k}={v}" for k, v in bucket.env.items()))
        objects = kubectl("kustomize", OVERLAYS / "replicas").replace("s3://BUCKET/tutti", f'"{bucket.url("tutti")}"')
        begin = time.monotonic()
        kubectl("apply", "-f", "-", text=objects)
        pods = [wait_until(name, lambda: pod_ready(name)) for name in ("tutti-agent", *PODS)]
        config = person("rosa", "operator")
        os.environ["KUBECONFIG"], os.environ["PATH"] = config, f"{os.path.dirname(KUBECTL)}:{os.environ['PATH']}"
        wait_until("the agent", lambda: subprocess.run([TUTTI, "hosts", "--server", SERVER, "--json"], capture_output=True, text=True, timeout=60).stdout.count('"connected"'))
        say(f"two aggregators and the agent Ready, and connected, after {time.monotonic() - begin:.1f} s; {leader(config)} leads")
        for pod in pods[1:]:
            leads = pod["metadata"]["name"] == leader(config)
            check_closed(pod, {"tcp/7400", *(("tcp/7401", "udp/7403") if leads else ())}, leads)
        check_killed(config)
        check_reads(config, check_rolling())
        kubectl("delete", "namespace", "tutti", "--timeout=120s")
        kubectl("delete", "-f", "-", "--ignore-not-found", text=objects)
    del os.environ["KUBECONFIG"]
