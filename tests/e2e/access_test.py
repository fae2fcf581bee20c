# SPDX-License-Identifier: Apache-2.0
"""People with roles: every cell of the table of docs/security.md, for callers of one namespace and of all; and what a caller of one
namespace gets of the others: nothing."""
import hashlib
import json
import pathlib
import re
import secrets
import signal
import socket
import time
import urllib.error
import urllib.parse
import urllib.request

from lib.cluster import BIN, SLOW, Cluster, main, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROLES = ("viewer", "operator", "admin")
SCOPES = {"red": {"red"}, "all": None}


class People:
    """A file of tokens, and the tokens."""

    def __init__(self, c):
        self.path, self.tokens, self.lines = c.dir / "tokens", {}, []
        for role in ROLES:
            for scope, spaces in SCOPES.items():
                self.add(f"{role}-{scope}", role, spaces)
        self.write()

    def add(self, name, role, spaces):
        self.tokens.setdefault(name, secrets.token_hex(24))
        digest = hashlib.sha256(self.tokens[name].encode()).hexdigest()
        self.lines.append(f"{name} {role} {digest}" + (f" {','.join(sorted(spaces))}" if spaces else ""))

    def write(self):
        self.path.write_text("# who may do what\n\n" + "\n".join(self.lines) + "\n")
        self.path.chmod(0o600)


def ask(c, token, method, path, body=None, headers=()):
    """(status, document or bytes, headers); `token` None: without one."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(c.url + path, data, method=method, headers=dict(headers))
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=20 * SLOW) as answer:
            stream = urllib.parse.urlsplit(path).path == "/api/v1/events"  # which does not end
            status, text, head = answer.status, b"" if stream else answer.read(), answer.headers
    except urllib.error.HTTPError as e:
        status, text, head = e.code, e.read(), e.headers
    try:
        return status, json.loads(text), head
    except ValueError:
        return status, text, head


def table():
    """{verb: (lowest role, lowest role of the owner, about)} of the docs."""
    rows = re.findall(r"^\| `([a-z]+)` \| [^|]* \| ?(\w*)(?:; (\w+) of his own)? \| ([^|]*) \|$", (ROOT / "docs/security.md").read_text(), flags=re.M)
    assert len(rows) == 19, rows
    return {verb: (role, own, about.split(":")[0]) for verb, role, own, about in rows}


def routes():
    """The product's own table, in its order: (method, path). Each row is understood, or none is taken."""
    text = (ROOT / "aggregator/api/api.c").read_text()
    block = text.partition("static const struct route routes[] = {\n")[2].partition("\n};\n")[0]
    row = re.compile(r'\s*\{ "([A-Z]+)", "(/[^"]*)", &verb_\w+,\s+\w+,\s+(?:true|false) \},')
    rows = row.findall(block)
    assert len(rows) > 40 and not row.sub("", block).strip(), f"not understood: {row.sub('', block)}"
    return rows


def verbs():
    """{(method, path): verb} of the calls of docs/wire.md."""
    rows = re.findall(r"^\| (`[A-Z]+ /[^|]*) \| `([a-z]+)` \|", (ROOT / "docs/wire.md").read_text(), flags=re.M)
    calls = [(method, re.sub(r"\b[A-Z]+\b", "*", path), verb) for cell, verb in rows for method, path in re.findall(r"`([A-Z]+) (/[^`?]*)", cell)]
    found = {(method, path): verb for method, path, verb in calls}
    assert len(found) == len(calls), "a call that docs/wire.md has twice"
    return found


PLAIN = """
    GET /api/v1/hosts | GET /api/v1/whoami | DELETE /api/v1/login | GET /api/v1/settings | GET /api/v1/viewers | GET /api/v1/pods
    GET /api/v1/jobs | GET /api/v1/captures | GET /api/v1/captures/* | DELETE /api/v1/captures/* | GET /api/v1/captures/*/events
    POST /api/v1/captures/*/stop | GET /api/v1/sessions | GET /api/v1/sessions/* | DELETE /api/v1/sessions/* | PUT /api/v1/sessions/*/pin
    DELETE /api/v1/sessions/*/pin | DELETE /api/v1/imports/* | POST /api/v1/imports/*/commit | GET /s/* | GET /api/v1/sessions/*/view
    GET /api/v1/sessions/*/view/tile | GET /api/v1/sessions/*/view/event | GET /api/v1/sessions/*/view/search | GET /api/v1/sessions/*/view/next
    GET /api/v1/sessions/*/view/selection | GET /api/v1/sessions/*/view/flame | GET /api/v1/sessions/*/view/spread
    GET /api/v1/sessions/*/view/links | GET /api/v1/sessions/*/view/durations | GET /api/v1/sessions/*/view/trace
    GET /api/v1/events | GET /healthz | GET /readyz | GET /metrics | GET /"""


def examples(session, file, link, token):
    """{(method, path with *): (path, body)}: what each route is asked with."""
    found = {tuple(call.split()): (call.split()[1].replace("*", session), None) for call in re.split(r"[|\n]", PLAIN) if call.strip()}
    return found | {
        ("POST", "/api/v1/login"): ("/api/v1/login", {"token": token}),
        ("POST", "/api/v1/captures"): ("/api/v1/captures", {"hosts": "no-such-host"}),
        ("POST", "/api/v1/snapshots"): ("/api/v1/snapshots", {"hosts": "no-such-host"}),
        ("POST", "/api/v1/sessions/*/retry"): (f"/api/v1/sessions/{session}/retry", {}),
        ("GET", "/api/v1/sessions/*/files/*"): (f"/api/v1/sessions/{session}/files/{file}", None),
        ("POST", "/api/v1/sessions/*/links"): (f"/api/v1/sessions/{session}/links", {}),
        ("POST", "/api/v1/imports"): ("/api/v1/imports", {"files": 1}),
        ("PUT", "/api/v1/imports/*/files/*"): (f"/api/v1/imports/{session}/files/{file}?offset=0", None),
        ("GET", "/shared/*/*"): (link, None),
        ("POST", "/api/v1/join-tokens"): ("/api/v1/join-tokens", {"life_ns": 0}),
        ("POST", "/api/v1/revocations"): ("/api/v1/revocations", {"host": ""}),
    }


def requests(c, token, session):
    """(verb, method, path, body) of every route. A route without an example, or without a verb in the docs, fails."""
    shared = ask(c, token, "POST", f"/api/v1/sessions/{session}/links", {})[1]["files"][0]
    asked, named, table_of_routes = examples(session, shared["file"], shared["url"], token), verbs(), routes()
    assert set(table_of_routes) == asked.keys(), f"routes and their examples: {set(table_of_routes) ^ asked.keys()}"
    assert set(table_of_routes) == named.keys(), f"routes and docs/wire.md: {set(table_of_routes) ^ named.keys()}"
    return [(named[route], route[0], *asked[route]) for route in table_of_routes]


def expect(rule, role, scope, spaces):
    """401, 403 or 404; None: it may. `spaces`: of the session, None of the whole fleet."""
    lowest, _, about = rule
    if not lowest:
        return None
    if role is None:
        return 401
    high_enough = ROLES.index(role) >= ROLES.index(lowest)
    sees = scope is None or (spaces and spaces <= scope)
    if about == "a session" and not sees:
        return 404
    if about == "the fleet" and scope is not None:
        return 403
    return None if high_enough else 403


def capture(c, token, selector, duration_ns=20_000_000):
    status, doc, _ = ask(c, token, "POST", "/api/v1/captures", {"hosts": selector, "duration_ns": duration_ns})
    assert status == 202, (status, doc)
    wait_until("the end", lambda: ask(c, token, "GET", f"/api/v1/captures/{doc['session']}")[1]["state"] == "committed")
    return doc["session"]


def start(c):
    people = People(c)
    c.aggregator("--tokens", people.path)
    for host, space in (("host-red", "red"), ("host-blue", "blue"), ("host-bare", None)):
        c.agent(host, *(["--label", f"namespace={space}"] if space else []))
    root = people.tokens["admin-all"]
    wait_until("three hosts", lambda: [h["state"] for h in ask(c, root, "GET", "/api/v1/hosts")[1]["hosts"]] == ["connected"] * 3, 30)
    return people


def test_every_cell():
    rules = table()
    with Cluster() as c:
        people = start(c)
        root = people.tokens["admin-all"]
        sessions = {frozenset({"red"}): "host-red", frozenset({"blue"}): "host-blue",
                    frozenset({"red", "blue"}): "host-red,host-blue", None: "all"}
        ids = {spaces: capture(c, root, selector) for spaces, selector in sessions.items()}
        callers = [(None, None, None)] + [(f"{r}-{s}", r, spaces) for r in ROLES for s, spaces in SCOPES.items()]
        cells = 0
        for spaces, session in ids.items():
            doc = ask(c, root, "GET", f"/api/v1/sessions/{session}")[1]
            assert doc["owner"] == "admin-all" and set(doc.get("namespaces", [])) == set(spaces or ()), doc
            calls = requests(c, root, session)
            for name, role, scope in callers:
                for verb, method, path, body in calls:
                    wanted = expect(rules[verb], role, scope, spaces)
                    if verb == "delete" and wanted is None:
                        continue
                    status, answer, _ = ask(c, people.tokens.get(name), method, path, body)
                    cell = (name, verb, method, path, spaces, status, wanted, answer)
                    # what is allowed is anything but a refusal; there is no such host, import or event, but there is the session
                    hidden = status == 404 and answer["error"].startswith(("there is no session", "there is no capture"))
                    assert status not in (401, 403) and not hidden if wanted is None else status == wanted, cell
                    cells += 1
        for name, role, scope in callers:
            for spaces, selector in sessions.items():
                if expect(rules["delete"], role, scope, spaces) is None:
                    assert ask(c, people.tokens[name] if name else None, "DELETE", f"/api/v1/sessions/{capture(c, root, selector)}")[0] == 200
                    cells += 1
        mine = capture(c, people.tokens["operator-red"], "all")
        doc = ask(c, root, "GET", f"/api/v1/sessions/{mine}")[1]
        assert [h["host"] for h in doc["hosts"]] == ["host-red"] and doc["owner"] == "operator-red", doc
        assert ask(c, people.tokens["operator-red"], "DELETE", f"/api/v1/sessions/{mine}")[0] == 200, "an operator's own session"
        print(f"access: {cells} cells")


def watch(c, token, meanwhile):
    """The text of an event stream, while this happens, until it tells of the session that this returns as stored."""
    request = urllib.request.Request(c.url + "/api/v1/events", headers={"Authorization": f"Bearer {token}"})
    text, session, end = b"", None, time.monotonic() + 60 * SLOW
    with urllib.request.urlopen(request, timeout=20 * SLOW) as stream:
        while time.monotonic() < end:
            text += stream.read1(65536)
            if session is None and b"event: hosts" in text:
                session = meanwhile()
            if session and re.search(rb'event: sessions\ndata: \{"session": ?"' + session.encode(), text):
                return text.decode()
    raise AssertionError(f"no event of {session} in {text}")


def test_other_namespace():
    """A session of another namespace by all ways that lead to one; a change of the file; wrong, long and doubled tokens."""
    with Cluster() as c:
        people = start(c)
        root, red = people.tokens["admin-all"], people.tokens["operator-red"]
        blue = capture(c, root, "host-blue", 500_000_000)  # there is something to look at
        own = capture(c, root, "host-red")
        view = None
        while view is None or view[0] == 202:
            view = ask(c, root, "GET", f"/api/v1/sessions/{blue}/view")
        build = view[1]["build"]
        for path in (f"/api/v1/sessions/{blue}", f"/api/v1/sessions/{blue}/files/host-blue.xplane.pb", f"/api/v1/captures/{blue}/events",
                     *(f"/api/v1/sessions/{blue}/view{q}?build={build}&file=0&group=0&shift=30&index=0&rows=64&text=a&from_ps=0&to_ps=9&track=0&event=0"
                       for q in ("", "/tile", "/event", "/search", "/next", "/selection", "/flame", "/durations"))):
            status, doc, _ = ask(c, red, "GET", path)
            assert status == 404 and doc["error"].startswith("there is no "), (path, status, doc)
            assert ask(c, root, "GET", path)[0] != 404 or "/event" in path or "/next" in path, path
        assert [s["session"] for s in ask(c, red, "GET", "/api/v1/sessions")[1]["sessions"]] == [own]
        assert [s["session"] for s in ask(c, red, "GET", "/api/v1/captures")[1]["captures"]] == [own]
        hosts = ask(c, red, "GET", "/api/v1/hosts")[1]["hosts"]
        assert [h["host"] for h in hosts] == ["host-red"] and not hosts[0]["jobs"], hosts
        for selector in ("host-blue", "host-bare", "namespace=blue", "!namespace=red", "*-blue"):
            status, doc, _ = ask(c, red, "POST", "/api/v1/captures", {"hosts": selector})
            assert status == 404 and doc["error"] == f"no host matches '{selector}'", (selector, status, doc)
        for name in ("host-blue", "host-nowhere"):  # no host is left out, and none of others shows that it is there
            status, doc, _ = ask(c, red, "POST", "/api/v1/captures", {"hosts": f"host-red,{name}"})
            assert status == 404 and doc["error"] == f"no host matches '{name}'", (name, status, doc)
        link = ask(c, root, "POST", f"/api/v1/sessions/{blue}/links", {})[1]["files"][0]["url"]
        assert ask(c, None, "GET", link)[0] == 200 and ask(c, None, "GET", link[:-1] + "x")[0] == 403, "a link is good by itself"

        # What others capture and delete while he watches is in no event of his.
        seen = []

        def others_first():
            seen.extend([capture(c, root, selector) for selector in ("host-blue", "host-red,host-blue", "host-bare", "host-red")])
            for session in seen[:-1]:
                assert ask(c, root, "DELETE", f"/api/v1/sessions/{session}")[0] == 200
            return seen[-1]

        text = watch(c, red, lambda: (others_first(), capture(c, root, "host-red"))[1])
        assert "host-red" in text and seen[-1] in text, text
        assert not [word for word in ("blue", "bare", *seen[:-1]) if word in text], text
        text = watch(c, root, lambda: capture(c, root, "host-blue"))
        assert "host-blue" in text

        for token in ("", "x", "x" * 40, red[:-1], red + "x", red.upper(), "é" * 20, "x" * 16000):
            header = {"Authorization": f"Bearer {token}".encode().decode("latin-1")}
            assert ask(c, None, "GET", "/api/v1/hosts", headers=header)[0] == 401, token[:50]
        assert ask(c, None, "GET", "/api/v1/hosts", headers={"Authorization": f"Basic {red}"})[0] == 401
        assert ask(c, None, "GET", "/api/v1/hosts")[2]["WWW-Authenticate"].startswith("Bearer")
        logs = c.logs_text()
        assert not [name for name, token in people.tokens.items() if token in logs], "a token in a log"

        people.path.write_text("alice nothing x\n")
        wait_until("the wrong file's warning", lambda: "line 1: " in c.log("aggregator"))
        assert ask(c, red, "GET", "/api/v1/hosts")[0] == 200, "a wrong file changes nothing"
        people.lines = [line for line in people.lines if not line.startswith("operator-red ")]
        people.write()
        wait_until("the token's end", lambda: ask(c, red, "GET", "/api/v1/hosts")[0] == 401)
        assert ask(c, root, "GET", "/api/v1/hosts")[0] == 200


def states(c, token, session):
    return {h["host"]: (h["state"], h.get("reason", "")) for h in ask(c, token, "GET", f"/api/v1/sessions/{session}")[1]["hosts"]}


def end_of(c, token, session):
    wait_until("its end", lambda: ask(c, token, "GET", f"/api/v1/captures/{session}")[1]["state"] in ("committed", "failed"), 40)


def wait_label(c, token, host, space):
    wait_until(f"{host} of {space}", lambda: any(h["host"] == host and h["state"] == "connected" and h["labels"]["namespace"] == space
                                                for h in ask(c, token, "GET", "/api/v1/hosts")[1]["hosts"]), 30)


def test_hosts_of_others():
    """What an operator of one namespace names, and what becomes of another namespace's later, brings him nothing of that one."""
    with Cluster() as c:
        people = start(c)
        root, red = people.tokens["admin-all"], people.tokens["operator-red"]
        wait_until("rings", lambda: all(0 < t.get("begin_ns", 0) < time.time_ns() - 10**9 for h in ask(c, root, "GET", "/api/v1/hosts")[1]["hosts"]
                                        for t in h["tracers"] if t["name"] == "metrics"), 30)

        # Names in a request: that of another's host says no more than one that no host has.
        body = {"hosts": "host-red", "last_ns": 500_000_000, "tracers": ["metrics"]}
        for name in ("host-blue", "host-new"):
            status, doc, _ = ask(c, red, "POST", "/api/v1/snapshots", {**body, "known": [name]})
            assert status == 503 and doc["error"] == f"host {name} has not connected to this aggregator yet", (status, doc)
        status, doc, _ = ask(c, red, "POST", "/api/v1/snapshots", {**body, "expected": ["host-blue", "host-new", "host-red"]})
        assert status == 202, doc
        session = doc["session"]
        end_of(c, red, session)
        missing = {"host-blue": ("failed", "unreachable"), "host-new": ("failed", "unreachable")}
        seen = states(c, red, session)
        assert seen.pop("host-red")[0] != "failed" and seen == missing, seen

        # A retry: one of them has come meanwhile, and is another's.
        c.agent("host-new", "--label", "namespace=blue")
        wait_label(c, root, "host-new", "blue")
        for token in (red, root):
            status, doc, _ = ask(c, token, "POST", f"/api/v1/sessions/{session}/retry", {})
            assert status in (202, 409), doc
            end_of(c, red, session)
            seen = states(c, red, session)
            assert seen.pop("host-red")[0] != "failed" and seen == missing, seen
        assert c.log("aggregator").count(f"AGG-OTHER-NAMESPACE session={session} host=host-new") >= 1

        # A host that failed is another namespace's when it is asked again.
        c.agent("host-r2", "--label", "namespace=red")
        wait_label(c, root, "host-r2", "red")
        c.processes["host-r2"].send_signal(signal.SIGSTOP)
        status, doc, _ = ask(c, red, "POST", "/api/v1/captures", {"hosts": "all", "duration_ns": 50_000_000, "grace_ns": 1_000_000_000, "tracers": ["metrics"]})
        c.kill("host-r2")
        end_of(c, red, doc["session"])
        assert states(c, red, doc["session"])["host-r2"][0] == "failed"
        c.agent("host-r2", "--label", "namespace=blue")
        wait_label(c, root, "host-r2", "blue")
        assert ask(c, red, "POST", f"/api/v1/sessions/{doc['session']}/retry", {})[0] == 202
        end_of(c, red, doc["session"])
        assert states(c, red, doc["session"])["host-r2"] == ("failed", "unreachable")
        # Once it is his again, it takes part.
        c.kill("host-r2", signal.SIGTERM)
        c.processes["host-r2"].wait(30 * SLOW)
        c.agent("host-r2", "--label", "namespace=red")
        wait_label(c, root, "host-r2", "red")
        assert ask(c, red, "POST", f"/api/v1/sessions/{doc['session']}/retry", {})[0] == 202
        end_of(c, red, doc["session"])
        assert states(c, red, doc["session"])["host-r2"][0] != "failed"


def test_names_of_namespaces():
    """A host whose namespace is none that a caller can have makes its sessions the fleet's, also after a restart."""
    with Cluster() as c:
        people = start(c)
        root, red = people.tokens["admin-all"], people.tokens["viewer-red"]
        odd = {"host-list": "red,blue", "host-words": "red team", "host-umlaut": "grün", "host-long": "x" * 200}
        for host, space in odd.items():
            c.agent(host, "--label", f"namespace={space}", tracers="metrics")
            wait_label(c, root, host, space)
        sessions = [capture(c, root, f"host-red,{host}") for host in odd]
        own = capture(c, root, "host-red")
        for _ in range(2):
            seen = [s["session"] for s in ask(c, red, "GET", "/api/v1/sessions")[1]["sessions"]]
            assert seen == [own] and [ask(c, red, "GET", f"/api/v1/sessions/{s}")[0] for s in sessions] == [404] * len(sessions), seen
            c.kill("aggregator")
            c.aggregator("--tokens", people.path)


def test_browser():
    """A browser signs in: its cookie reads, streams and fetches files; a change needs the page's secret, too; a logout ends it."""
    with Cluster() as c:
        people = start(c)
        root, red = people.tokens["admin-all"], people.tokens["operator-red"]
        session = capture(c, root, "host-red")
        status, doc, _ = ask(c, None, "POST", "/api/v1/login", {"token": red + "x"})
        assert status == 401, doc
        for body in ({}, {"token": ""}, {"token": 1}, [1]):
            assert ask(c, None, "POST", "/api/v1/login", body)[0] == 400, body
        status, doc, head = ask(c, None, "POST", "/api/v1/login", {"token": red})
        assert (status, doc["name"], doc["role"], doc["namespaces"]) == (200, "operator-red", "operator", ["red"]), (status, doc)
        attributes = head["Set-Cookie"].split("; ")
        assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(attributes) and red not in head["Set-Cookie"], attributes
        cookie, csrf = {"Cookie": "other=1; " + attributes[0]}, {"X-Tutti-CSRF": doc["csrf"]}
        for path in ("/api/v1/hosts", f"/api/v1/sessions/{session}/files/host-red.xplane.pb", "/api/v1/events", "/api/v1/whoami"):
            assert ask(c, None, "GET", path)[0] == 401 and ask(c, None, "GET", path, headers=cookie)[0] == 200, path
        assert ask(c, None, "GET", "/api/v1/whoami", headers=cookie)[1]["csrf"] == doc["csrf"]
        assert "csrf" not in ask(c, red, "GET", "/api/v1/whoami", headers=cookie)[1]
        pin = "PUT", f"/api/v1/sessions/{session}/pin", None
        for headers in (cookie, {**cookie, "X-Tutti-CSRF": "x"}, {**cookie, "X-Tutti-CSRF": ""}, {**cookie, **csrf, "Origin": "http://evil.example"}):
            assert ask(c, None, *pin, headers)[0] == 403, headers
        assert ask(c, None, *pin, csrf)[0] == 401, "the secret alone"
        assert ask(c, None, *pin, {**cookie, **csrf})[0] == 200
        for broken in (attributes[0][:-1], attributes[0] + "0", attributes[0].split("=")[0] + "=", "=" * 5000):
            assert ask(c, None, "GET", "/api/v1/hosts", headers={"Cookie": broken})[0] == 401, broken[:80]
        other = ask(c, None, "POST", "/api/v1/login", {"token": root})[2]["Set-Cookie"].split(";")[0]
        assert ask(c, None, *pin, {"Cookie": other, **csrf})[0] == 403, "the secret of another browser"
        two = socket.create_connection(("127.0.0.1", c.http), 20 * SLOW)
        two.sendall(f"GET /api/v1/hosts HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {root}\r\nAuthorization: Bearer x\r\n\r\n".encode())
        assert b" 400 " in two.recv(4096), "two of a header"
        two.close()
        streams = [socket.create_connection(("127.0.0.1", c.http), 20 * SLOW) for _ in range(2)]
        for stream, value in zip(streams, (attributes[0], other)):
            stream.sendall(f"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nCookie: {value}\r\n\r\n".encode())
            wait_until("a stream", lambda: b"event: hosts" in stream.recv(65536))
        assert ask(c, None, "DELETE", "/api/v1/login", headers=cookie)[0] == 200
        assert ask(c, None, "GET", "/api/v1/hosts", headers=cookie)[0] == 401, "after the logout"
        wait_until("the end of its stream", lambda: streams[0].recv(65536).endswith(b"0\r\n\r\n"))
        capture(c, root, "host-red")
        wait_until("the other browser's stream", lambda: b"event: capture" in streams[1].recv(65536))
        for _ in range(1100):  # one caller's sign-ins replace his own
            assert ask(c, None, "POST", "/api/v1/login", {"token": people.tokens["viewer-red"]})[0] == 200
        assert ask(c, None, "GET", "/api/v1/hosts", headers={"Cookie": other})[0] == 200, "another browser"
        people.lines = [line for line in people.lines if not line.startswith("admin-all ")]
        people.write()
        wait_until("the end of a token", lambda: ask(c, None, "GET", "/api/v1/hosts", headers={"Cookie": other})[0] == 401)


def test_settings():
    with Cluster() as c:
        for text, mode, complaint in (("alice admin abc\n", 0o600, "line 1"), ("", 0o604, "chmod"), ("", 0o620, "chmod"),
                                      ("\nalice king " + 64 * "a" + "\n", 0o600, "line 2: 'king' is no role")):
            file = c.dir / "tokens"
            file.write_text(text)
            file.chmod(mode)
            p = c.start("other", [BIN / "tutti-aggregator", "--store", "mem://", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0",
                                  "--probe", "127.0.0.1:0", "--spool", c.dir / "other", "--tokens", file])
            assert p.wait(20 * SLOW) == 1 and complaint in c.log("other"), c.log("other")
            c.processes.pop("other")
        c.aggregator("--anonymous", "viewer")
        assert ask(c, None, "GET", "/api/v1/hosts")[0] == 200 and ask(c, None, "POST", "/api/v1/captures", {})[0] == 403


if __name__ == "__main__":
    main(test_every_cell, test_other_namespace, test_hosts_of_others, test_names_of_namespaces, test_browser, test_settings)
