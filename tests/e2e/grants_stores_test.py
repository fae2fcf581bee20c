# SPDX-License-Identifier: Apache-2.0
"""Grants of a real server: agents put their files, the aggregator's own traffic is counted, each answer is lost once, and what a grant allows is tried.

    grants_stores_test.py versitygw|azurite|gcs|ceph [HOSTS]
"""
import collections
import http.client
import json
import pathlib
import re
import sys
import threading
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from ceph import Ceph  # noqa: E402
from fault_proxy import FaultProxy, Handler  # noqa: E402
from lib import xspace  # noqa: E402
from lib.cluster import SLOW, Cluster, main, wait_until  # noqa: E402
from lib.command import Command  # noqa: E402
from lib.memory import knows  # noqa: E402
from servers import SECRET, SERVERS, ACCOUNT_KEY, account_sas  # noqa: E402

STORE = sys.argv[1]
SHORT = sys.argv[2:] == ["short"]
N_HOSTS = int(sys.argv[2]) if len(sys.argv) > 2 and not SHORT else 3
HOSTS = [f"host-{i}" for i in range(N_HOSTS)]
# Bytes that the aggregator may exchange with the store for a further host: what the plan says of it, 0.1 kB, and its result, twice (ledger and
# manifest), 1.1 kB; its line in a listing, which Azure's servers make 700 bytes long; and with Google a request for each grant.
OWN_MOST = 2000
is_grant = re.compile(r"X-Amz-Signature=|[?&]sig=|upload_id=").search
is_file = re.compile(r"\.xplane\.pb").search
Put = collections.namedtuple("Put", "path headers body status")


class WatchedHandler(Handler):
    def forward(self, body):
        status, headers, data = self.server.early(self.command, self.path) or self.server.as_google(self.command, self.path, *super().forward(body))
        self.server.note(self, body, status, headers, data)
        return status, headers, data


class Watched(FaultProxy):
    """Between Tutti and a server. Loses the answers to the requests `lose` about a session's files, which count from 0 since begin()."""

    def __init__(self, server):
        super().__init__(server.endpoint)
        self.RequestHandlerClass = WatchedHandler
        self.server, self.own, self.puts = server, collections.Counter(), []
        self.ended, self.held = set(), []  # upload sessions that were revoked; puts that wait
        self.go = threading.Event()
        self.go.set()
        self.begin()

    def begin(self, lose=()):
        with self.lock:
            self.lose, self.step, self.puts = set(lose), 0, []

    def next_fault(self, command, path):
        if not is_file(path):
            return None
        with self.lock:
            self.step += 1
            return "lost" if self.step - 1 in self.lose else None

    def early(self, command, path):
        """As Google's own server; this one says only after the put that the key is there, and a DELETE ends no session."""
        if STORE != "gcs":
            return None
        if command == "POST" and self.is_there(re.search(r"[?&]name=([^&]*)", path)[1]):
            return 412, [("Content-Length", "0")], b""
        if command == "DELETE" and is_grant(path):
            self.ended.add(path)
        if command == "PUT" and is_grant(path) and is_file(path):
            if not self.go.is_set():
                self.held.append(path)
                self.go.wait(60 * SLOW)
            if path in self.ended:
                return 499, [("Content-Length", "0")], b""

    def as_google(self, command, path, status, headers, data):
        """fake-gcs-server gives every member of an object, whichever were asked for, also in the answer that opens a session, where Google gives none."""
        if STORE != "gcs" or status != 200 or "alt=media" in path or not (asked := re.search(r"[?&]fields=([^&]*)", path)):
            return status, headers, data
        names = set(re.findall(r"\w+", urllib.parse.unquote(asked[1])))
        keep = lambda o: {k: keep_all(v) for k, v in o.items() if k in names}
        keep_all = lambda v: [keep(o) for o in v] if isinstance(v, list) else v
        data = b"" if command == "POST" else json.dumps(keep(json.loads(data)), separators=(",", ":") if "prettyPrint=false" in path else (",\n  ", ": ")).encode()
        return status, [(k, v) for k, v in headers if k.lower() != "content-length"] + [("Content-Length", str(len(data)))], data

    def note(self, handler, body, status, headers, data):
        path = handler.path
        with self.lock:
            if is_file(path) and handler.command == "PUT" and is_grant(path):
                self.puts.append(Put(path, dict(handler.headers.items()), body, status))
            elif handler.command == "GET" and path.split("?")[0].endswith("manifest.json"):
                pass  # for whoever asked for the capture
            elif session := re.search(r"\d{4}(_\d\d){5}_\w{6}", path):
                self.own[session[0]] += len(handler.requestline) + len(str(handler.headers)) + len(body) + sum(len(k) + len(v) + 4 for k, v in headers) + len(data)

    def is_there(self, name):
        connection = http.client.HTTPConnection(self.upstream, timeout=60)
        connection.request("GET", f"/storage/v1/b/bucket/o/{name}")
        status = connection.getresponse().status
        connection.close()
        return status == 200

    def use(self, put, path=None, body=None, without=None, to=None):
        """The status of one more request with an agent's grant."""
        connection = http.client.HTTPConnection(to or self.upstream, timeout=60)
        headers = {k: v for k, v in put.headers.items() if k.lower() not in ("content-length", "connection", without)}
        connection.request("PUT", path or put.path, put.body if body is None else body, headers)
        status = connection.getresponse().status
        connection.close()
        return status


def through(proxy, text):
    return text.replace(proxy.server.endpoint, proxy.endpoint)


def start(c, proxy, env):
    c.aggregator("--store", through(proxy, proxy.server.url("fleet")), "--lead", "1s", env=env)
    (c.dir / "space.pb").write_bytes(xspace.synthetic(1000, 10**11))
    for host, profiler in zip(HOSTS, c.profilers_of(*[c.dir / "space.pb"] * N_HOSTS, mode="good")):
        c.agent(host, profiler, tracers="metrics,profiler")
    c.wait_hosts(N_HOSTS)


def capture(c, hosts="all"):
    return c.tutti("capture", "--duration", "200ms", "--hosts", hosts, "--json", check=0)[1]


def check_put(proxy, doc):
    """Agents have put each file once, as the manifest has it; that it lists them the commit has compared."""
    sizes = lambda host: [len(p.body) for p in proxy.puts if p.status // 100 == 2 and f"{doc['session']}/{host}.xplane.pb" in p.path.replace("%2F", "/")]
    for h in doc["hosts"]:
        assert sizes(h["host"]) == [h["bytes"]] and len(h["crc32c"]) == 1, (h, sizes(h["host"]))


def check_exported(c, doc):
    out = c.dir / f"out-{doc['session']}"
    c.tutti("export", doc["session"], "-o", out, check=0)
    found = {p.name: xspace.load(p) for p in out.rglob("*.xplane.pb")}
    assert sorted(found) == [f"{h['host']}.xplane.pb" for h in doc["hosts"]], list(found)
    assert all(any(p.name.startswith("/host:CPU") for p in space.planes) for space in found.values()), list(found)


def check_refused(proxy, put):
    """The grant of a file that is stored, once more, for another key, for another size, without its condition."""
    assert proxy.use(put) >= 400
    if STORE == "gcs":
        return  # a session is for one object
    other = put.path.replace(HOSTS[0], "host-x")
    assert other != put.path and proxy.use(put, other) == 403
    if STORE == "azurite":
        assert proxy.use(put, body=b"x") >= 400
        return  # the condition is part of its permission
    assert proxy.use(put, body=put.body + b"x") == 403 and proxy.use(put, body=put.body[1:]) == 403
    assert proxy.use(put, without="if-none-match") == 403
    assert re.search("X-Amz-Expires=120&", put.path), put.path


def test_check(c, server):
    """`tutti store check` says of the server what is known of it."""
    found = {f["name"]: f for f in c.tutti("store", "check", server.url("check"), "--json", check=0, env=server.env)[1]["findings"]}
    assert {"grant", "grant-once"} < set(found) and ("hold them to the size" in found["grant"]["text"]) == (STORE == "azurite"), found


def test_captures(c, proxy, secrets):
    one, all_ = capture(c, HOSTS[0]), capture(c)
    per_host = (proxy.own[all_["session"]] - proxy.own[one["session"]]) / (N_HOSTS - 1)
    check_put(proxy, all_)
    check_exported(c, all_)
    assert per_host < OWN_MOST, per_host
    secrets = [s.encode() for s in secrets]
    for host in HOSTS:
        assert not knows(c.processes[host].pid, secrets), f"{host} has the keys"
    assert STORE == "gcs" or knows(c.processes["aggregator"].pid, secrets), "the search finds nothing"
    assert not is_grant(c.logs_text()), "a grant in a log"
    check_refused(proxy, next(p for p in proxy.puts if HOSTS[0] in p.path))
    print(f"{STORE}, {N_HOSTS} hosts: {per_host:.0f} bytes of the aggregator for each further host", flush=True)


def test_lost_answers(c, proxy):
    """The answer to each request about a host's file, and to each two in a row."""
    proxy.begin()
    capture(c, HOSTS[0])
    steps = proxy.step
    assert steps >= 1
    for lose in [{i} for i in range(steps)] + [{i, i + 1} for i in range(steps)]:
        proxy.begin(lose)
        doc = capture(c, HOSTS[0])
        assert proxy.step > max(lose), (lose, proxy.step)
        check_put(proxy, doc)
    check_exported(c, doc)
    print(f"{STORE}: {2 * steps} captures with lost answers", flush=True)


def hold(c, proxy, then):
    """A capture whose agent is in the middle of its put: the session is revoked because of what `then` does."""
    proxy.begin()
    proxy.held.clear()
    proxy.go.clear()
    command = Command(c, f"held-{then.__name__}", "--duration", "200ms", "--hosts", HOSTS[0])
    wait_until("a put under way", lambda: proxy.held)
    then(next(q["session"] for q in c.get("/api/v1/captures")["captures"] if q["state"] == "uploading"))
    wait_until("the session to be revoked", lambda: proxy.held[0] in proxy.ended)
    proxy.go.set()
    return command.finish()[1]


def test_revoked(c, proxy):
    """A host's part ends while its grant is open: cancelled, and by an agent that is killed. Then the grant is of no use."""
    def cancel(session):
        assert "data is dropped" in c.tutti("cancel", session, check=0)[1]

    def kill(_):
        c.kill(HOSTS[0])
    for then in cancel, kill:
        doc = hold(c, proxy, then)
        path = proxy.held[0]
        name = re.search(r"[?&]name=([^&]*)", path)[1]
        assert proxy.use(Put(path, {}, b"x", 0), to=proxy.endpoint.split("//")[1]) == 499 and not proxy.is_there(name), (doc, path)
    assert not is_grant(c.logs_text()), "a grant in a log"
    print(f"{STORE}: {next(m for m in c.metrics() if m.startswith('tutti_grants_revoked_total '))}", flush=True)


def test_no_grants(c, proxy):
    """With a SAS all bytes pass through the aggregator."""
    sas = {"AZURE_STORAGE_SAS_TOKEN": account_sas("rwdlc", 3600 * SLOW)}
    start(c, proxy, sas)
    doc = capture(c)
    check_exported(c, doc)
    assert "tutti_grants_total 0" in c.metrics() and "grants=0" in c.log("aggregator"), c.log("aggregator")
    assert "all bytes will pass through the aggregator" in c.tutti("store", "check", proxy.server.url(), check=1, env=sas)[1]


def test_store():
    with {**SERVERS, "ceph": Ceph}[STORE]() as server, Watched(server) as proxy:
        with Cluster() as c:
            env = server.role_env("fleet") if STORE == "ceph" else server.env
            start(c, proxy, {k: through(proxy, v) for k, v in env.items()})
            test_captures(c, proxy, [SECRET, ACCOUNT_KEY, env.get("AWS_SECRET_ACCESS_KEY", SECRET)])
            if SHORT:
                return
            test_lost_answers(c, proxy)
            test_check(c, server)
            if STORE == "gcs":
                test_revoked(c, proxy)
        if STORE == "azurite":
            proxy.begin()
            with Cluster() as c:
                test_no_grants(c, proxy)


main(test_store)
