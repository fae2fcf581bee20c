# SPDX-License-Identifier: Apache-2.0
"""The audit log: what is in it when an answer comes, its chain over files and restarts, and each way to change it; a full disk."""
import hashlib
import json
import os
import shutil
import signal
import subprocess

from access_test import People, ask, capture
from lib.cluster import BIN, SLOW, Cluster, main, wait_until


def lines(path):
    return [json.loads(line) for file in files(path) for line in file.read_text().splitlines()]


def files(path):
    return sorted(path.parent.glob(path.name + ".[0-9]*")) + [path]


def verify(c, path, problem=None):
    code, doc = c.tutti("audit", "verify", path, "--json")
    assert (code == 0) == doc["ok"] == (problem is None), doc
    if problem:
        assert any(problem in f"{os.path.basename(p['file'])}:{p['line']}: {p['text']}" for p in doc["problems"]), (problem, doc)
    return doc


def start(c, path, *flags):
    people = c.people = getattr(c, "people", None) or People(c)
    c.aggregator("--tokens", people.path, "--audit", path, *flags)
    return people


def test_lines():
    with Cluster() as c:
        path = c.dir / "audit" / "log"
        path.parent.mkdir()
        people = start(c, path, "--audit-size", "1024")
        c.agent("host-a", "--label", "namespace=red")
        root, red = people.tokens["admin-all"], people.tokens["viewer-red"]
        wait_until("the host", lambda: any(h["state"] == "connected" for h in ask(c, root, "GET", "/api/v1/hosts")[1]["hosts"]), 30)
        assert ask(c, red, "POST", "/api/v1/captures", {})[0] == 403
        [refusal] = lines(path)
        assert (refusal["n"], refusal["verb"], refusal["who"], refusal["outcome"], refusal["role"]) == (1, "start", "viewer-red", "refused", "viewer")
        session = capture(c, root, "all")
        granted, started = lines(path)[1:3]
        assert (granted["who"], granted["outcome"], granted["request"]["hosts"]) == ("admin-all", "granted", "all"), granted
        assert (started["verb"], started["session"], started["who"], started["namespaces"]) == ("started", session, "admin-all", ["red"]), started
        for method, what, verb in (("PUT", "/pin", "pin"), ("DELETE", "/pin", "pin"), ("POST", "/links", "share"), ("POST", "/retry", "retry"),
                                   ("DELETE", "", "delete")):
            status, doc, _ = ask(c, root, method, f"/api/v1/sessions/{session}{what}")
            last = lines(path)[-1]
            assert status not in (401, 403) and last["verb"] == verb and last["session"] == session, (verb, status, doc, last)
        text = "".join(f.read_text() for f in files(path))
        assert "sig=" not in text and not [t for t in people.tokens.values() if t in text], "a secret in the log"
        before = len(lines(path))
        for _ in range(100):
            assert ask(c, "a-wrong-token", "DELETE", f"/api/v1/sessions/{session}")[0] == 401
        assert 0 < len(lines(path)) - before <= 100, "refusals are lines, or counted"
        c.kill("aggregator")
        with open(path, "a") as f:
            f.write('{"n":12')  # the kill came while a line was being written
        start(c, path, "--audit-size", "1024")
        assert "AGG-AUDIT state=cut" in c.log("aggregator")
        assert ask(c, red, "POST", "/api/v1/captures", {})[0] == 403
        c.kill("aggregator", signal.SIGTERM)
        doc = verify(c, path)
        assert doc["last"] == len(lines(path)) == doc["lines"] and len(files(path)) > 2, doc
        assert doc["hash"] == hashlib.sha256(path.read_bytes().splitlines()[-1]).hexdigest()
        tampered(c, path)
        c.processes.pop("aggregator")


def refuse_log(c, path, complaint):
    """An aggregator does not go on with this log."""
    p = subprocess.run([BIN / "tutti-aggregator", "--store", "mem://", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--probe", "127.0.0.1:0",
                        "--spool", c.dir / "other", "--audit", path], capture_output=True, text=True, timeout=20 * SLOW)
    assert p.returncode == 1 and complaint in p.stderr, p.stderr


def test_writers():
    """One log has one writer; what is refused before its caller is known, and what comes over a local socket, has a line."""
    with Cluster() as c:
        path = c.dir / "log"
        people = start(c, path)
        root = people.tokens["admin-all"]
        c.agent("host-a")
        wait_until("the host", lambda: any(h["state"] == "connected" for h in ask(c, root, "GET", "/api/v1/hosts")[1]["hosts"]), 30)
        refuse_log(c, path, "another aggregator writes it")
        assert ask(c, root, "POST", "/api/v1/captures", {}, {"Origin": "http://evil.example"})[0] == 403
        [line] = lines(path)
        assert (line["outcome"], line["verb"], line["reason"]) == ("refused", "start", "a page of another site"), line
        c.tutti("start", "--local-socket", c.sockets["host-a"], check=0)
        [session] = [s["session"] for s in ask(c, root, "GET", "/api/v1/captures")[1]["captures"]]
        c.tutti("stop", "--local-socket", c.sockets["host-a"], session, check=0)
        assert [(x["verb"], x["origin"], x["session"]) for x in lines(path)[1:]] == [("started", "local host-a", session), ("stop", "local host-a", session)]
        c.kill("aggregator", signal.SIGTERM)
        c.processes.pop("aggregator").wait(20 * SLOW)
        verify(c, path)
        path.unlink()
        refuse_log(c, path, "it was removed")


def tampered(c, path):
    """Each change of a copy is found, and where it is."""
    first, n = files(path)[0], len(lines(path))
    head = path.name + ".head"

    def change(file, edit, problem):
        copy = c.dir / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(path.parent, copy)
        (copy / file.name).write_bytes(b"".join(edit((copy / file.name).read_bytes().splitlines(keepends=True))))
        verify(c, copy / path.name, problem)
        return copy
    change(first, lambda x: [x[0], x[1].replace(b"admin-all", b"mallory"), *x[2:]], f"{first.name}:3: its `prev` is not the digest of line 2")
    change(first, lambda x: [x[0], *x[2:]], f"{first.name}:2: lines 2 to 2 are missing")
    change(first, lambda x: [x[0], x[2], x[1], *x[3:]], f"{first.name}:3: line 2 stands after line 3")
    change(first, lambda x: [x[0], x[1][:20] + b"\n", *x[2:]], f"{first.name}:2: no JSON")
    change(path, lambda x: [*x[:-1], x[-1][:-5]], "the line is cut")
    change(path, lambda x: x[:-1], f"{head}:1: lines {n} to {n} are missing at the end")
    change(path, lambda x: [*x[:-1], x[-1].replace(b"start", b"stort")], f"{head}:1: line {n}, the last one, was edited")
    change(path, lambda x: [*x, x[-1]], f"line {n} stands after line {n}")
    (c.dir / "copy" / first.name).unlink()
    copy = change(path, lambda x: x[:-1], "missing at the end")
    refuse_log(c, copy / path.name, "its head says line")


def test_full_disk():
    """What must be audited and cannot be does not begin, whichever way it comes; reading goes on; with room all goes on."""
    with Cluster() as c:
        disk = c.dir / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], check=True, timeout=60)
        try:
            people = start(c, disk / "log")
            c.agent("host-a", "--label", "namespace=red")
            root = people.tokens["admin-all"]
            wait_until("the host", lambda: any(h["state"] == "connected" for h in ask(c, root, "GET", "/api/v1/hosts")[1]["hosts"]), 30)
            session = capture(c, root, "all")
            with open(disk / "filler", "wb") as f:
                try:
                    f.write(b"x" * 100_000)
                    f.flush()
                except OSError:
                    pass
            while True:  # what room a page has left
                status, doc, _ = ask(c, root, "POST", "/api/v1/captures", {"hosts": "all", "duration_ns": 1_000_000})
                if status != 202:
                    break
            assert status == 507 and "audit" in doc["error"] and doc["reason"] == "full", (status, doc)
            assert ask(c, root, "DELETE", f"/api/v1/sessions/{session}")[0] == 507
            assert ask(c, root, "GET", f"/api/v1/sessions/{session}")[0] == 200
            code, _ = c.tutti("start", "--local-socket", c.sockets["host-a"])
            assert code and "audit log" in c.stderr, c.stderr
            (disk / "filler").unlink()
            capture(c, root, "all")
            verify(c, disk / "log")
            c.stop_all()
        finally:
            subprocess.run(["umount", "-l", disk], check=True, timeout=60)


if __name__ == "__main__":
    main(test_lines, test_writers, test_full_disk)
