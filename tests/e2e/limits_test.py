# SPDX-License-Identifier: Apache-2.0
"""What one caller may have: each limit is reached, named, written down, and another caller's room is his own."""
import json
import signal
import socket

from access_test import People, ask
from lib.cluster import Cluster, main, wait_until


def start(c, people, *flags):
    c.aggregator("--tokens", people.path, "--audit", c.dir / "audit", "--anonymous", "viewer", *flags)
    c.agent("host-a", tracers="metrics")
    c.wait_hosts(1)


def refused(answer, name):
    status, doc, head = answer
    assert status == 429 and name in doc["error"], (status, doc)
    assert 1 <= int(head["Retry-After"]) <= 60, dict(head)


def refusals(c):
    lines = [json.loads(line) for line in (c.dir / "audit").read_text().splitlines()]
    return [(line["who"], line["verb"]) for line in lines if line.get("outcome") == "refused" and "limit-" in line["reason"]]


def test_captures():
    with Cluster() as c:
        people = People(c)
        start(c, people, "--limit-captures", "1")
        ada, bob = people.tokens["operator-all"], people.tokens["admin-all"]
        body = {"duration_ns": 60_000_000_000}
        status, doc, _ = ask(c, ada, "POST", "/api/v1/captures", body)
        assert status == 202, doc
        refused(ask(c, ada, "POST", "/api/v1/captures", {"duration_ns": 1_000_000_000}), "limit-captures")
        refused(ask(c, ada, "POST", "/api/v1/snapshots", {}), "limit-captures")
        other = ask(c, bob, "POST", "/api/v1/captures", {"duration_ns": 1_000_000_000})
        assert other[0] == 202, other
        assert refusals(c) == [("operator-all", "start"), ("operator-all", "snapshot")]
        for token, session in ((ada, doc["session"]), (bob, other[1]["session"])):
            ask(c, token, "POST", f"/api/v1/captures/{session}/stop")
            wait_until("its end", lambda: ask(c, token, "GET", f"/api/v1/sessions/{session}")[0] == 200)
        wait_until("room", lambda: ask(c, ada, "POST", "/api/v1/captures", {"duration_ns": 1_000_000})[0] == 202)


def test_bytes():
    with Cluster() as c:
        people = People(c)
        start(c, people, "--limit-bytes", "100")
        c.agent("host-b", tracers="metrics")
        c.wait_hosts(2)
        token = people.tokens["operator-all"]
        session = ask(c, token, "POST", "/api/v1/captures", {"duration_ns": 1_000_000_000})[1]["session"]
        state = lambda: ask(c, token, "GET", f"/api/v1/captures/{session}")[1]
        # A host that stops before it is armed is given up at once, and the capture ends.
        wait_until("armed hosts", lambda: all(h["state"] != "arming" for h in state()["hosts"]))
        c.processes["host-b"].send_signal(signal.SIGSTOP)
        wait_until("a file", lambda: sum(h["bytes"] for h in state()["hosts"]) > 100)
        refused(ask(c, token, "POST", "/api/v1/captures", {"duration_ns": 1_000_000}), "limit-bytes")
        c.processes["host-b"].send_signal(signal.SIGCONT)
        wait_until("its end", lambda: ask(c, token, "GET", f"/api/v1/sessions/{session}")[0] == 200)
        wait_until("room", lambda: ask(c, token, "POST", "/api/v1/captures", {"duration_ns": 1_000_000})[0] == 202)


def test_starts():
    with Cluster() as c:
        people = People(c)
        start(c, people, "--limit-starts", "3")
        token = people.tokens["operator-all"]
        for n in range(3):
            assert ask(c, token, "POST", "/api/v1/captures", {"duration_ns": 1_000_000 + n})[0] == 202
        refused(ask(c, token, "POST", "/api/v1/captures", {"duration_ns": 1_000_000}), "limit-starts")
        assert ask(c, people.tokens["admin-all"], "POST", "/api/v1/captures", {"duration_ns": 1_000_000})[0] == 202
        # What is refused for another reason is no capture, and who may not start one is told that.
        assert ask(c, people.tokens["viewer-all"], "POST", "/api/v1/captures", {})[0] == 403


def at_once(c, token, bodies):
    """The statuses of requests that come in one moment."""
    connections = []
    for body in bodies:
        text = json.dumps(body)
        s = socket.create_connection(("127.0.0.1", c.http), timeout=20)
        s.sendall(f"POST /api/v1/captures HTTP/1.1\r\nHost: 127.0.0.1:{c.http}\r\nAuthorization: Bearer {token}\r\n"
                  f"Content-Length: {len(text)}\r\n\r\n{text[:-1]}".encode())
        connections.append(s)
    for s in connections:
        s.sendall(b"}")
    return [int(s.recv(12)[9:]) for s in connections]


def test_at_once():
    """Starts that come together wait together for the audit log: the limit holds for them as well."""
    with Cluster() as c:
        people = People(c)
        start(c, people, "--limit-captures", "2")
        for _ in range(3):
            statuses = at_once(c, people.tokens["operator-all"], [{"duration_ns": 1_000_000_000 + n, "tracers": ["metrics"]} for n in range(20)])
            assert sorted(statuses) == [202] * 2 + [429] * 18, statuses
            wait_until("their end", lambda: all(s["state"] in ("committed", "failed")
                                                for s in ask(c, people.tokens["admin-all"], "GET", "/api/v1/captures")[1]["captures"]))


def test_retries():
    """A retry counts for who asks for it, not for whose session it is."""
    with Cluster() as c:
        people = People(c)
        start(c, people, "--limit-captures", "1")
        c.agent("host-b", tracers="metrics")
        c.wait_hosts(2)
        ada, bob = people.tokens["operator-all"], people.tokens["admin-all"]
        host_b, sessions = c.processes["host-b"], []
        for n in range(2):
            host_b.send_signal(signal.SIGSTOP)
            status, doc, _ = ask(c, bob, "POST", "/api/v1/captures", {"duration_ns": 1_000_000, "grace_ns": 1_000_000_000})
            assert status == 202, doc
            wait_until("its end", lambda: ask(c, bob, "GET", f"/api/v1/captures/{doc['session']}")[1]["state"] == "committed")
            host_b.send_signal(signal.SIGCONT)
            sessions.append(doc["session"])
        c.wait_hosts(2)
        host_b.send_signal(signal.SIGSTOP)
        retry = lambda session: ask(c, ada, "POST", f"/api/v1/sessions/{session}/retry", {"grace_ns": 60_000_000_000})
        assert retry(sessions[0])[0] == 202
        refused(retry(sessions[1]), "limit-captures")
        assert ask(c, bob, "POST", "/api/v1/captures", {"hosts": "host-a", "duration_ns": 1_000_000})[0] == 202
        host_b.send_signal(signal.SIGCONT)
        wait_until("room", lambda: retry(sessions[1])[0] in (202, 409))


def open_stream(c, token):
    s = socket.create_connection(("127.0.0.1", c.http), timeout=20)
    s.sendall(f"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1:{c.http}\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
    return s, s.recv(12)


def test_streams():
    with Cluster() as c:
        people = People(c)
        start(c, people, "--limit-streams", "2")
        token = people.tokens["viewer-all"]
        streams = [open_stream(c, token) for _ in range(2)]
        assert [line for _, line in streams] == [b"HTTP/1.1 200"] * 2
        refused(ask(c, token, "GET", "/api/v1/events"), "limit-streams")
        assert open_stream(c, people.tokens["admin-all"])[1] == b"HTTP/1.1 200"
        streams[0][0].close()
        wait_until("room", lambda: open_stream(c, token)[1] == b"HTTP/1.1 200")
        assert refusals(c)[0] == ("viewer-all", "watch")


if __name__ == "__main__":
    main(test_captures, test_bytes, test_starts, test_at_once, test_retries, test_streams)
