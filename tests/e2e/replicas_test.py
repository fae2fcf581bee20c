# SPDX-License-Identifier: Apache-2.0
"""Two aggregators on one store, of which one leads. The leader is killed (SIGKILL) or stopped (SIGSTOP) at drawn points of captures: the other one
carries them on, no session is lost and none is there twice; a former leader that wakes up ends itself. A follower answers reads, and sends all
else to the leader; the command line finds that among several.

    replicas_test.py [TIMES [SEED]]     as part of the test run: once killed, once stopped
"""
import json
import random
import signal
import sys
import threading
import time

from lib.certs import make_ca
from lib.cluster import SLOW, Cluster, main, wait_until
from lib.replicas import HOSTS, LEASE_S, Replicas, can_be_elsewhere
from lib.waits import join

NUMBERS = [int(a) for a in sys.argv[1:] if a.isdigit()]
TIMES, SEED = NUMBERS + [2, 1][len(NUMBERS):]
WINDOW_S = 0.5


def clock_of(c, name):
    return json.loads((c.dir / f"{name}-spool/session-clock.json").read_text())


def play(r, draw, number, sig):
    """One capture, whose leader is gone `after` seconds after the request. What was answered with 2xx is there afterwards, once."""
    c, answers = r.c, []
    before, former = r.sessions(), r.lead
    after = draw.uniform(0, 2 * WINDOW_S + 0.5)

    def ask():
        try:
            answers.append(c.call("POST", "/api/v1/captures", {"duration_ns": int(WINDOW_S * 1e9), "run": f"n{number}"}, timeout=5))
        except OSError:
            pass  # the leader went before it answered
    asked = threading.Thread(target=ask, daemon=True)
    asked.start()
    time.sleep(after)
    c.kill(former, sig)
    join(asked)
    r.wait_leader(other_than=former)
    r.wait_until("the hosts", lambda: sum(h["state"] == "connected" for h in c.hosts().values()) == len(HOSTS), 60, former)
    promised = [doc["session"] for status, doc in answers if 200 <= status < 300]
    r.wait_until("the capture to end", lambda: set(promised) <= set(r.sessions()), 90, former)
    wait_until("no ledger", lambda: not list((c.store / "tutti/ledger").glob("[!.]*")), 90)
    new = [s for s in r.sessions() if s not in before]
    assert len(new) <= 1 and set(promised) <= set(new), (promised, new)
    whole = 0
    for session in new:
        doc = c.get(f"/api/v1/sessions/{session}")
        whole += sum(h["state"] == "complete" for h in doc["hosts"])
    print(f"     {number}: {sig.name} after {after:.2f} s; answered {len(promised)}, sessions {len(new)}, hosts complete {whole}", flush=True)
    assert whole == len(new) * len(HOSTS), c.get(f"/api/v1/sessions/{new[0]}")
    if sig == signal.SIGSTOP:
        c.kill(former, signal.SIGCONT)
        wait_until("the former leader to end itself", lambda: c.processes[former].poll() is not None, 30)
        assert c.processes[former].returncode == 1
        c.processes[former].expected = False
        assert r.ready() == [r.lead]
    r.start(former)
    wait_until("the former leader to stand by", lambda: f"{r.lead} leads at" in (r.answer(former, "/api/v1/hosts") or [0, ""])[1], 60)
    return len(promised), len(new)


def test_takeover():
    draw = random.Random(SEED)
    with Cluster() as c:
        r = Replicas(c)
        assert r.answer(r.follower(), "/healthz")[0] == 200
        promised = stored = 0
        for number in range(TIMES):
            p, n = play(r, draw, number, (signal.SIGKILL, signal.SIGSTOP)[number % 2])
            promised, stored = promised + p, stored + n
        print(f"     seed {SEED}: {TIMES} takeovers, {promised} captures answered, {stored} sessions, 0 lost, 0 double; {r.starved} leaders got no CPU time", flush=True)


def test_stop_hands_over():
    """A leader that is stopped in good order gives its term back: no lease has to pass. The session clock goes on."""
    with Cluster() as c:
        r = Replicas(c)
        former, before = r.lead, clock_of(c, r.lead)
        begun = time.monotonic()
        c.processes[former].terminate()
        assert c.processes[former].wait(30 * SLOW) == 0
        c.processes[former].expected = False
        r.wait_leader(other_than=former)
        print(f"     handed over in {time.monotonic() - begun:.1f} s", flush=True)
        now = clock_of(c, r.lead)
        assert all(now[key] == before[key] for key in ("boot_id", "shift_ns", "epoch")) and "changes" not in now, (before, now)
        assert "released" in (sorted((c.store / "tutti/leader").glob("*.json"))[-1]).read_text()
        c.wait_hosts(len(HOSTS))
        assert c.tutti("capture", "--duration", "200ms", "--json", check=0)[1]["state"] == "committed"


def test_other_machine():
    """The other replica has another raw clock. It has measured the leader's session clock, and goes on with it: captures under way, too."""
    with Cluster() as c:
        if not can_be_elsewhere(c.dir):
            print("     skipped: needs root and time namespaces")
            return
        r = Replicas(c, machines=True)
        for sig in (signal.SIGKILL, signal.SIGTERM):
            former, successor = r.lead, r.follower()
            port = r.ports[former][2]
            wait_until("the leader's clock", lambda: f"state=hears leader=127.0.0.1 port={port}" in (c.dir / f"{successor}.log").read_text(), 60)
            before, real = clock_of(c, former), time.time_ns()
            status, doc = c.call("POST", "/api/v1/captures", {"duration_ns": int(3e9 * SLOW)})
            assert status == 202 and abs(doc["t0_ns"] - real) < 10e9 * SLOW
            c.kill(former, sig)
            r.wait_leader(other_than=former)
            now = clock_of(c, successor)
            change = now["changes"][0]
            assert change["epoch"] == before["epoch"] != now["epoch"] and change["shift_ns"] == before["shift_ns"], (before, now)
            assert abs(before["shift_ns"] - now["shift_ns"]) > 4000e9, (before, now)
            wait_until("the capture to end", lambda: doc["session"] in r.sessions(), 90)
            session = c.get(f"/api/v1/sessions/{doc['session']}")
            bounds = [h["clock_bound_ns"] for h in session["hosts"]]
            print(f"     {sig.name}: the clock goes on to {change['bound_ns'] / 1e6:.3f} ms; bounds {[b / 1e6 for b in bounds]} ms", flush=True)
            assert all(h["state"] == "complete" for h in session["hosts"]), session
            assert all(b >= change["bound_ns"] for b in bounds)
            later = c.tutti("capture", "--duration", "200ms", "--json", check=0)[1]
            assert later["state"] == "committed"
            c.processes[former].expected = False
            r.start(former)
            wait_until("the former leader to stand by", lambda: (r.answer(former, "/readyz") or [0])[0] == 503, 60)


def test_follower_reads():
    """A follower answers what is stored, says what it is, and sends everything else to the leader."""
    with Cluster() as c:
        r = Replicas(c)
        lead, follower = r.lead, r.follower()
        session = c.tutti("capture", "--duration", "200ms", "--json", check=0)[1]["session"]
        at = f"/api/v1/sessions/{session}"
        for path in ("/api/v1/sessions", at, f"{at}/files/a.xplane.pb", "/"):
            mine, leaders = r.ask(follower, path), r.ask(lead, path)
            assert mine[0] == 200 and (path == "/" or mine[2] == leaders[2]), (path, mine, leaders)
        wait_until("a view", lambda: r.ask(follower, f"{at}/view")[0] == 200)
        assert json.loads(r.ask(follower, "/api/v1/whoami")[2])["leader"] == r.url(lead)
        assert "leader" not in json.loads(r.ask(lead, "/api/v1/whoami")[2])
        for path in ("/healthz", "/readyz"):
            assert r.answer(lead, path) == (200, f"ok: {lead} leads\n")
            status, text = r.answer(follower, path)
            assert f"{lead} leads at {r.url(lead)}" in text and status == (503 if path == "/readyz" else 200), (status, text)
        assert "tutti_leads 0" in r.answer(follower, "/metrics")[1] and "tutti_leads 1" in r.answer(lead, "/metrics")[1]

        unknown = "/api/v1/sessions/2026_01_01_00_00_00_aaaaaa"
        for method, path in (("GET", "/api/v1/hosts?a=b%2F"), ("GET", "/api/v1/events"), ("GET", "/api/v1/captures"), ("POST", "/api/v1/captures"),
                             ("POST", "/api/v1/snapshots"), ("DELETE", at), ("PUT", f"{at}/pin"), ("POST", f"{at}/links"), ("GET", unknown)):
            status, headers, body = r.ask(follower, path, method)
            assert status == 307 and headers["Location"] == r.url(lead) + path, (method, path, status, headers)
            assert json.loads(body)["leader"] == r.url(lead)
        assert r.ask(lead, unknown)[0] == 404
        assert session in r.sessions()

        c.http = r.ports[follower][0]  # one address, of the follower: the leader does it
        assert c.tutti("capture", "--duration", "200ms", "--json", check=0)[1]["state"] == "committed"
        assert len(c.tutti("hosts", "--json", check=0)[1]["hosts"]) == len(HOSTS)
        both = f"{r.url(follower)},{r.url(lead)}"
        assert c.tutti("capture", "--server", both, "--duration", "200ms", "--json", check=0)[1]["state"] == "committed"

        c.kill(lead)  # no leader for a while: reads go on
        assert r.ask(follower, at)[0] == 200
        r.wait_leader(other_than=lead)
        c.wait_hosts(len(HOSTS))
        assert len(c.tutti("sessions", "--server", f"{r.url(lead)},{r.url(follower)}", "--json", check=0)[1]["sessions"]) == 3
        assert c.tutti("capture", "--server", f"{r.url(lead)},{r.url(follower)}", "--duration", "200ms", "--json", check=0)[1]["state"] == "committed"


def test_command_over_takeover():
    """A command that follows its capture finds the next leader, and ends with the capture."""
    with Cluster() as c:
        r = Replicas(c)
        done = []
        servers = f"{r.url(r.lead)},{r.url(r.follower())}"
        command = threading.Thread(target=lambda: done.append(c.tutti("capture", "--server", servers, "--duration", "3s", "--json")), daemon=True)
        command.start()
        wait_until("the capture to run", lambda: any(s["state"] == "running" for s in c.get("/api/v1/captures")["captures"]))
        c.kill(r.lead)
        join(command)
        code, doc = done[0]
        assert code == 0 and doc["state"] == "committed" and {h["state"] for h in doc["hosts"]} == {"complete"}, (done, c.stderr)


def test_enrolment():
    """Replicas of one authority: the next leader knows which hosts the one before revoked, and which tokens were used."""
    with Cluster() as c:
        make_ca(c.dir, "ca")
        given = ("--enrol-cert", c.dir / "ca.crt", "--enrol-key", c.dir / "ca.key")
        r = Replicas(c, flags=lambda name: ("--enrol", c.dir / f"{name}-authority", *given), agents=())
        token = c.dir / "join"
        token.write_text(c.tutti("token", "create", "--uses", "3", "--json", check=0)[1]["token"])
        token.chmod(0o600)
        shown = ("--ca", c.dir / "ca.crt", "--enrol-token", token)
        for host in HOSTS:
            r.agent(host, *shown)
        c.wait_hosts(len(HOSTS))
        assert c.tutti("revoke", "b", "--json")[0] == 0
        former = r.lead
        c.kill(former)
        r.wait_leader(other_than=former)
        wait_until("host a", lambda: c.hosts().get("a", {}).get("state") == "connected", 60)
        wait_until("a refusal", lambda: "the host 'b' is revoked" in c.log(r.lead), 60)
        r.agent("c", *shown)
        wait_until("host c", lambda: c.hosts().get("c", {}).get("state") == "connected", 60)
        r.agent("d", *shown)
        wait_until("another refusal", lambda: "this join token is used up" in c.log(r.lead), 60)
        assert {h for h, doc in c.hosts().items() if doc["state"] == "connected"} == {"a", "c"}, c.hosts()
        assert len(list((c.store / "tutti/enrol").glob("[!.]*"))) == 1
        assert not (c.dir / "one-authority/records.json").exists()


main(test_takeover, test_enrolment, test_follower_reads, test_command_over_takeover, test_stop_hands_over, test_other_machine)
