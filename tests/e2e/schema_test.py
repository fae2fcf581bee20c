# SPDX-License-Identifier: Apache-2.0
"""docs/schema/: each schema is valid, explained and used; real documents fit, and a document that is changed anywhere does not."""
import copy
import http.client
import json
import re
import threading

import jsonschema

from lib import schema
from lib.cluster import SLOW, Cluster, main, wait_until

ROOT = schema.DIRECTORY.parents[1]
FREE = {"labels", "settings", "instances", "windows"}  # maps: their members are named by users


def refs(node):
    """File names that a schema refers to."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref" and not value.startswith("#"):
                yield value.partition("#")[0].removesuffix(".schema.json")
            yield from refs(value)
    elif isinstance(node, list):
        for value in node:
            yield from refs(value)


def properties(node):
    if isinstance(node, dict):
        if isinstance(node.get("properties"), dict):
            yield from node["properties"].items()
        for value in node.values():
            yield from properties(value)
    elif isinstance(node, list):
        for value in node:
            yield from properties(value)


def used():
    roots = list(schema.REQUESTS.values()) + list(schema.STORED.values()) + [n for names in schema.PRINTED.values() for n in names]
    for answer in schema.ANSWERS.values():
        roots += answer.values() if isinstance(answer, dict) else [answer] if answer else []
    todo, found = {*roots, "error"}, set()
    while todo:
        name = todo.pop()
        found.add(name)
        todo |= set(refs(schema.load(name))) - found
    return found


def test_files():
    """Each file is a valid schema that something uses, and explains each of its properties."""
    assert used() == set(schema.names()), used() ^ set(schema.names())
    for name in schema.names():
        doc = schema.load(name)
        jsonschema.Draft202012Validator.check_schema(doc)
        assert doc["title"] == name and doc["description"].endswith("."), name
        for key, value in properties(doc):
            said = isinstance(value, bool) or value.keys() & {"description", "$ref", "const", "enum"}
            assert said, f"{name}: {key} has no description"


def test_routes():
    """The aggregator's table of routes and the one that the tests check answers by are the same; docs/wire.md has them all."""
    text = (ROOT / "aggregator/api/api.c").read_text()
    routes = {f"{m} {p}" for m, p in re.findall(r'\{ "([A-Z]+)", "(/[^"]*)", &\w+,\s+\w+,\s+(?:true|false) \}', text)}
    assert routes == schema.ANSWERS.keys(), routes ^ schema.ANSWERS.keys()
    page = (ROOT / "docs/wire.md").read_text()
    for name in schema.ANSWERS:
        method, path = name.split()
        assert re.search(f"`{method} {re.escape(path)}[?`]".replace(r"\*", "[A-Z]+"), page), f"docs/wire.md lacks {name}"
    rows = re.findall(r"^\| `([a-z-]+)` \| (?:failed|partial)", page, re.M)
    assert {*rows, ""} == set(schema.load("reason")["enum"]), "docs/wire.md and reason.schema.json differ"


def changes(doc, path=()):
    """Copies of a document, each with one member renamed, or with a value of another type."""
    def copied(where, change):
        new = copy.deepcopy(doc)
        node = new
        for step in where[:-1]:
            node = node[step]
        change(node, where[-1])
        return ".".join(map(str, where)), new

    def rename(node, key):
        node[key + "_"] = node.pop(key)

    def retype(node, key):
        node[key] = [node[key]] if not isinstance(node[key], list) else {}

    def walk(node, where):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            here = where + (key,)
            if isinstance(node, dict):
                yield copied(here, rename)
            yield copied(here, retype)
            if isinstance(value, (dict, list)) and key not in FREE:
                yield from walk(value, here)

    yield from walk(doc, path)


def check_strict(name, doc):
    schema.check(doc, name)
    n = 0
    for what, changed in changes(doc):
        assert schema.error(name, changed), f"{name}: {what} was changed, and the schema accepts it"
        n += 1
    return n


class Listener(threading.Thread):
    """Checks the events of a stream until it ends."""

    def __init__(self, c, path):
        super().__init__(daemon=True)
        self.conn = http.client.HTTPConnection("127.0.0.1", c.http, timeout=60 * SLOW)
        self.conn.request("GET", path)
        self.answer = self.conn.getresponse()
        self.events = schema.ANSWERS[schema.route("GET", path)]
        self.seen, self.wrong = {}, []
        self.start()

    def run(self):
        event = None
        try:
            for line in self.answer:
                field, _, value = line.decode().rstrip("\n").partition(": ")
                if field == "event":
                    event = value
                elif field == "data":
                    self.take(event, json.loads(value))
        except (OSError, http.client.HTTPException):
            pass

    def take(self, event, doc):
        problem = schema.error(self.events[event], doc) if event in self.events else f"unknown event {event}"
        self.seen.setdefault(event, []).append(doc)
        self.wrong += [problem] if problem else []


def test_documents():
    """A capture with all there is: each document fits its schema, and no changed one does."""
    with Cluster() as c:
        c.aggregator()
        c.agent("host-a", "--label", "rack=7", tracers="all")
        c.agent("host-b")
        c.wait_hosts(2)
        page = Listener(c, "/api/v1/events")
        hosts = c.get("/api/v1/hosts")
        request = {"hosts": "all", "duration_ns": 500_000_000, "run": "exp/1", "settings": {"host_tracer_level": 2},
                   "tracers": ["metrics", "marks"], "wait_ns": 0, "refine": "events"}
        schema.check(request, "capture-request")
        status, begun = c.call("POST", "/api/v1/captures", request)
        assert status == 202, begun
        session = begun["session"]
        ledger = json.loads(next((c.store / "tutti/ledger").glob(f"{session}.*.json")).read_text())
        stream = Listener(c, f"/api/v1/captures/{session}/events")
        stream.join(60 * SLOW)
        assert not stream.is_alive() and stream.seen["capture"][-1]["state"] == "committed", stream.seen
        wait_until("the page's event", lambda: page.seen.get("sessions"))
        manifest, captures = c.get(f"/api/v1/sessions/{session}"), c.get("/api/v1/captures")
        assert c.get(f"/api/v1/captures/{session}") in captures["captures"]
        status, failed = c.call("POST", "/api/v1/captures", {"duration_ns": 60_000_000_000})
        status, failed = c.call("DELETE", f"/api/v1/captures/{failed['session']}")
        assert status == 202 and failed["cancelled"], failed
        clock = json.loads((c.dir / "agg-spool/session-clock.json").read_text())
        n = 0
        for name, doc in [("hosts", hosts), ("capture", begun), ("captures", captures), ("manifest", manifest), ("ledger", ledger),
                          ("sessions", c.get("/api/v1/sessions")), ("capture", failed), ("session-clock", clock),
                          ("session", page.seen["sessions"][0]),
                          ("agent-status", c.tutti("status", "--local-socket", c.sockets["host-a"], check=0)[1])]:
            n += check_strict(name, doc)
        status, doc = c.call("DELETE", f"/api/v1/sessions/{session}")
        assert status == 200
        n += check_strict("deleted", doc)
        wait_until("two events of the session", lambda: len(page.seen["sessions"]) >= 2)
        assert {"hosts", "capture", "sessions"} <= page.seen.keys(), page.seen.keys()
        assert not page.wrong + stream.wrong, page.wrong + stream.wrong
        print(f"     {n} changed documents refused, {sum(map(len, page.seen.values()))} events fit")


REQUESTS = [
    {}, {"hosts": ""}, {"hosts": "host-a"}, {"hosts": 1}, {"run": "a/b"}, {"run": "a/../b"}, {"run": 7}, {"duration_ns": 0},
    {"duration_ns": -1}, {"duration_ns": 3_600_000_000_001}, {"duration_ns": "1s"}, {"duration_ns": 1.5}, {"tracers": "metrics"},
    {"tracers": []}, {"tracers": ["metrics"]}, {"tracers": [1]}, {"settings": []}, {"settings": {"host_tracer_level": "3"}},
    {"settings": {"host_tracer_level": [3]}}, {"wait_ns": 0}, {"wait_ns": -1}, {"wait_ns": None}, {"refine": ""},
    {"refine": "events"}, {"refine": "all"}, {"at_step": -1}, {"at_step": "last"}, {"steps": 0}, {"steps": 5}, {"duration": 1},
]


def test_requests():
    """The schema of a request and the aggregator accept and refuse the same."""
    with Cluster() as c:
        c.aggregator()
        c.agent("host-a", tracers="metrics")
        c.wait_hosts(1)
        for request in REQUESTS:
            status, doc = c.call("POST", "/api/v1/captures", {"duration_ns": 60_000_000_000, **request})
            fits = not schema.error("capture-request", request)
            assert status == (202 if fits else 400), (request, status, doc)
            if fits:
                assert c.call("DELETE", f"/api/v1/captures/{doc['session']}")[0] == 202


def test_errors():
    with Cluster() as c:
        c.aggregator()
        for method, path, expected in [("GET", "/api/v1/sessions?limit=0", 400), ("POST", "/api/v1/captures", 404),
                                       ("GET", "/api/v1/sessions/2026_01_01_00_00_00_aaaaaa", 404), ("DELETE", "/api/v1/hosts", 405),
                                       ("GET", "/api/v2", 404)]:
            status, doc = c.call(method, path, {} if method == "POST" else None)
            assert status == expected, (path, status, doc)
            check_strict("error", doc)


main(test_files, test_routes, test_requests, test_errors, test_documents)
