# SPDX-License-Identifier: Apache-2.0
"""Wrong usage is refused with a message and exit code 2; a log without a reader ends no daemon; a store has
one aggregator."""
import http.server
import json
import os
import subprocess
import tempfile
import threading

from lib.cluster import BIN, SLOW, Cluster, main, wait_until

DAEMONS = ("tutti-aggregator", "tutti-agent")


def close_standard():
    for fd in range(3):
        os.close(fd)


def refused(*argv):
    p = subprocess.run([str(a) for a in argv], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                       timeout=20 * SLOW)
    assert p.returncode == 2, f"{argv}: exit code {p.returncode}\n{p.stderr}"
    return p.stderr


def test_refusals():
    for daemon in DAEMONS:
        assert "--nonsense" in refused(BIN / daemon, "--nonsense")
        assert "'word'" in refused(BIN / daemon, "word")
        # a bool takes no value of its own: "false" must not be dropped and the listener be open
        assert "'false'" in refused(BIN / daemon, "--insecure", "false")
        assert "log level" in refused(BIN / daemon, "--log-level=loud")
    assert "--nonsense" in refused(BIN / "tutti", "hosts", "--nonsense")
    assert "did you mean --duration?" in refused(BIN / "tutti", "capture", "--duraton", "1s")
    assert "did you mean 'capture'?" in refused(BIN / "tutti", "captrue")
    assert "unknown flag '--duration' before the command" in refused(BIN / "tutti", "--duration", "1s", "capture")
    assert "there is no command" in refused(BIN / "tutti", "--json")
    assert "unknown flag '-Z'" in refused(BIN / "tutti", "sessions", "-Z")
    assert "goes behind --" in refused(BIN / "tutti", "mark", "-3 degrees")
    assert "use table, wide, name or json" in refused(BIN / "tutti", "hosts", "-o", "yaml")
    assert "'7' is not a session" in refused(BIN / "tutti", "stop", "7", "--local-socket", "ipc:///nowhere")
    for number in ("x", "", "-1", "1000000000000001", 10**30):
        assert "--step" in refused(BIN / "tutti", "mark", f"--step={number}"), number


def test_full_disk():
    """A full disk is an error, but not of the command that `tutti inspect` runs."""
    def run(*words):
        with open("/dev/full", "w") as full:
            p = subprocess.run([BIN / "tutti", *words], stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, text=True,
                               timeout=20 * SLOW)
        assert "No space left on device" in p.stderr, (words, p)
        return p.returncode

    assert run("--version") == run("--help") == run("context", "list", "--json") == 1
    assert run("hosts", "--nonsense", "--json") == 2


def test_no_descriptors():
    """A program that is started without stdin, stdout and stderr must not take their numbers: lines would go into its files and sockets."""
    with Cluster() as c:
        for name, flags in (("aggregator", ["--store", f"file://{c.store}", "--spool", c.dir / "spool", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0",
                                            "--probe", "127.0.0.1:0"]),
                            ("agent", ["--aggregator", "127.0.0.1:9", "--spool", c.dir / "agent", "--local-socket", f"ipc://{c.dir}/a.ipc"])):
            p = c.start(name, [BIN / f"tutti-{name}", *flags], before=close_standard)
            wait_until(f"the {name} to open files", lambda: len(os.listdir(f"/proc/{p.pid}/fd")) > 8)
            links = {os.readlink(f"/proc/{p.pid}/fd/{fd}") for fd in range(3)}
            assert links == {"/dev/null"}, (name, links)


def test_errors_are_documents():
    """Whatever asks for JSON: a flag, the environment, a file, or the form of a list."""
    def run(*words, **env):
        p = subprocess.run([BIN / "tutti", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20 * SLOW,
                           env={**os.environ, "TUTTI_SERVER": "http://127.0.0.1:9", **env})
        assert p.returncode in (1, 2), (words, p)
        return json.loads(p.stdout)["error"] if p.stdout else None

    with tempfile.NamedTemporaryFile("w") as file:
        file.write("json = true\n")
        file.flush()
        assert "127.0.0.1" in run("hosts", TUTTI_CONFIG=file.name)
    for words in (["hosts"], ["capture"], ["captrue"], ["hosts", "--nonsense"], ["show"]):
        assert run(*words) is None, words
        assert run(*words, TUTTI_JSON="true"), words
        assert run(*words, "--json=1"), words
        assert run(*words, "--json=false", TUTTI_JSON="true") is None, words
    for words in (["-o", "json"], ["--output=json"], ["--output", "json", "--nonsense"]):
        for verb in ("hosts", "sessions"):
            assert run(verb, *words), (verb, words)
    assert run("export", "SESSION", "-o", "json") is None  # a folder
    assert run("inspect", TUTTI_JSON="true") is None  # a flag only


def test_lists():
    """Lists are tables with a header, names for scripts, or JSON; an error is JSON, too."""
    with Cluster() as c:
        c.aggregator()
        assert c.tutti("hosts", check=0)[1] == "" and "no host is connected" in c.stderr, c.stderr
        assert c.tutti("sessions", check=0)[1] == "" and "no session is stored" in c.stderr, c.stderr
        c.agent("host-a", "--label", "rack=1", tracers="all")
        c.agent("a-host-with-a-longer-name")
        c.wait_hosts(2)
        head, *rows = c.tutti("hosts", check=0)[1].splitlines()
        assert head.split() == ["HOST", "STATE", "ADDRESS", "OFFSET", "BOUND", "STEP", "TRACERS", "JOBS", "LABELS"], head
        assert len(rows) == 2 and all(r.index("connected") == head.index("STATE") for r in rows), (head, rows)
        assert any(r.endswith("rack=1") for r in rows) and any(r.endswith("-") for r in rows), rows
        assert sorted(c.tutti("hosts", "-o", "name", check=0)[1].split()) == ["a-host-with-a-longer-name", "host-a"]
        assert "tracer " in c.tutti("hosts", "-o", "wide", check=0)[1]
        c.tutti("capture", "-d", "100ms", "-H", "host-a", check=0)
        head, row = c.tutti("sessions", check=0)[1].splitlines()
        assert head.split()[:3] == ["SESSION", "RUN", "DURATION"] and row.index("100 ms") == head.index("DURATION"), (head, row)
        session = c.tutti("sessions", "-o", "name", check=0)[1].strip()
        assert c.tutti("sessions", "-o", "json", check=0)[1]["sessions"][0]["session"] == session
        assert c.tutti("--json", "sessions", check=0)[1]["sessions"][0]["hosts"] == 1
        code, doc = c.tutti("--server", c.url, "--json", "show", "no-such-session")
        assert code == 1 and doc["error"] in c.stderr, (code, doc, c.stderr)


def test_words_that_are_no_text():
    """JSON cannot hold them: without them the request would be another one, for all hosts."""
    with Cluster() as c:
        c.aggregator()
        c.agent("host-a")
        c.wait_hosts(1, calibrated=False)
        for flag in (b"--hosts=\xff", b"--run=\xff", b"--set=a=\xff", b"--tracer=\xff"):
            p = subprocess.run([BIN / "tutti", "capture", f"--server={c.url}", flag], capture_output=True,
                               timeout=20 * SLOW)
            assert p.returncode == 2, f"{flag}: exit code {p.returncode}\n{p.stderr}"
            assert b"UTF-8" in p.stderr, p.stderr
        assert not c.get("/api/v1/captures")["captures"]


class NeverEnds(http.server.BaseHTTPRequestHandler):
    """A capture of which no end is ever told; the stream itself is alive."""
    CAPTURE = {"session": "2026_01_01_00_00_00_aaaaaa", "state": "uploading", "duration_ns": 1, "grace_ns": 1, "hosts": [
        {"host": "host-a", "state": "complete"}, {"host": "host-b", "state": "uploading", "bytes": 9, "bytes_done": 3}]}
    over = threading.Event()

    def answer(self, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()

    def do_POST(self):
        self.answer("application/json")
        self.wfile.write(json.dumps(self.CAPTURE).encode())

    def do_GET(self):
        self.answer("text/event-stream")
        self.wfile.write(f"event: capture\ndata: {json.dumps(self.CAPTURE)}\n\n".encode())
        while not self.over.wait(0.2):
            self.wfile.write(b":\n\n")

    def log_message(self, *_):
        pass


def test_capture_that_never_ends():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), NeverEnds) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        p = subprocess.run([BIN / "tutti", "capture", "--server", f"http://127.0.0.1:{server.server_port}", "--patience", "200ms"],
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60 * SLOW)
        NeverEnds.over.set()
        server.shutdown()
    assert p.returncode == 1, (p.returncode, p.stderr)
    assert "it is uploading and waits for host-b (uploading, 3 of 9 bytes)" in p.stderr, p.stderr


def test_log_without_reader():
    with Cluster() as c:
        c.aggregator()
        reader, writer = os.pipe()
        agent = subprocess.Popen(
            [BIN / "tutti-agent", "--host", "host-a", "--aggregator", f"127.0.0.1:{c.grpc}", "--spool",
             c.dir / "spool", "--listen", "", "--local-socket", "", "--discover=false"],
            stdin=subprocess.DEVNULL, stderr=writer)
        os.close(writer)
        try:
            c.wait_hosts(1)
            os.close(reader)
            c.tutti("capture", "--duration", "300ms", check=0)  # of which the agent writes lines
            assert agent.poll() is None, f"the agent ended with {agent.returncode}"
        finally:
            agent.terminate()
            code = agent.wait(20 * SLOW)
        assert code == 0, f"the agent ended with {code}"


def newest_record(c, session):
    return max((int(p.name.split(".")[1]) for p in (c.store / "tutti/ledger").glob(f"{session}.*.json")), default=0)


def test_second_aggregator():
    """Started by mistake on the first one's store: it takes the capture under way over, and the first one learns that."""
    with Cluster() as c:
        c.aggregator()
        c.agent("host-a", tracers="metrics")
        c.wait_hosts(1)
        status, capture = c.call("POST", "/api/v1/captures", {"duration_ns": 60_000_000_000})
        assert status == 202, capture
        plan = newest_record(c, capture["session"])
        c.start("second", [BIN / "tutti-aggregator", "--store", f"file://{c.store}", "--spool", c.dir / "spool-2", "--http",
                           "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--probe", "127.0.0.1:0"])
        wait_until("the takeover", lambda: newest_record(c, capture["session"]) != plan)  # gone: it has failed there
        c.call("POST", f"/api/v1/captures/{capture['session']}/stop")
        wait_until("the first one to learn of it", lambda: "AGG-LEDGER" in c.log("aggregator") and "state=lost" in c.log("aggregator"))


main(test_refusals, test_full_disk, test_no_descriptors, test_errors_are_documents, test_lists, test_words_that_are_no_text, test_capture_that_never_ends, test_log_without_reader, test_second_aggregator)
