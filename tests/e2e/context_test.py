# SPDX-License-Identifier: Apache-2.0
"""Aggregators by name: contexts, what comes before them, and those behind kubectl (a stand-in that forwards nothing, and names the port of
a real aggregator)."""
import json
import os
import signal
import stat
import subprocess

from lib.cluster import BIN, Cluster, main, wait_until
from lib.waits import read_line

KUBECTL = """#!/bin/sh
echo "$$ $*" >>"$KUBECTL_LOG"
[ "$3" != silent ] || exec sleep 60
[ "$3" != missing ] || { echo 'E1123 an attempt' >&2; echo 'Error from server (NotFound): pods "x-0" not found' >&2; exit 1; }
[ ! -e "$HOME/away" ] || { echo 'error: unable to forward port because pod is not running' >&2; exit 1; }
[ "$3 $5" = "moves :7400" ] || [ "$3" != moves ] || { echo "Forwarding from 127.0.0.1:1 -> 7400"; exit 1; }
echo "Forwarding from 127.0.0.1:$KUBECTL_PORT -> 7400"
[ "$3" != moves ] || exit 1
[ "$3" != stubborn ] || trap '' TERM
[ "$3" != script ] || { sleep 60 & echo "$!" >"$HOME/child"; wait; }
exec sleep 60
"""


def environment(c):
    folder = c.dir / "bin"
    folder.mkdir()
    (folder / "kubectl").write_text(KUBECTL)
    (folder / "kubectl").chmod(0o755)
    env = {"PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(c.dir), "KUBECTL_PORT": str(c.http), "KUBECTL_LOG": str(c.dir / "kubectl.log")}
    return {**{k: v for k, v in os.environ.items() if not k.startswith("TUTTI_S") and k != "XDG_CONFIG_HOME"}, **env}


def test_contexts():
    with Cluster() as c:
        c.aggregator()
        env = environment(c)

        def tutti(*words, code=0, **more):
            p = subprocess.run([BIN / "tutti", *map(str, words)], env={**env, **more}, capture_output=True, text=True, timeout=60)
            assert p.returncode == code, (words, p.returncode, p.stdout, p.stderr)
            return p.stdout if not code else p.stderr

        token = c.dir / "token"
        token.write_text("a-token-for-the-lab\n")
        token.chmod(0o600)
        tutti("context", "add", "here", c.url)
        tutti("context", "add", "lab", "http://127.0.0.1:1", "--token-file", token)
        file = c.dir / ".config/tutti/contexts.json"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        doc = json.loads(tutti("context", "list", "--json"))
        assert doc == {"current": "here", "contexts": {"here": {"server": c.url}, "lab": {"server": "http://127.0.0.1:1", "token_file": str(token)}}}, doc
        assert tutti("context", "list", "-o", "name").split() == ["here", "lab"]
        assert json.loads(tutti("hosts", "--json"))["hosts"] == []
        assert "127.0.0.1:1/" in tutti("--context", "lab", "hosts", code=1) and "127.0.0.1:1/" in tutti("hosts", code=1, TUTTI_CONTEXT="lab")
        tutti("context", "use", "lab")
        assert "127.0.0.1:1/" in tutti("hosts", code=1)
        # What names a server comes first, and then the token stays here: its file is not even opened.
        token.unlink()
        tutti("hosts", "--server", c.url)
        tutti("hosts", TUTTI_SERVER=c.url)
        assert "token" in tutti("hosts", code=1)
        assert "did you mean 'here'" in tutti("hosts", "--context", "her", code=1)
        assert "k8s://NAMESPACE/NAME" in tutti("context", "add", "x", "ftp://x", code=2)
        assert "a name has letters" in tutti("context", "add", "a/b", c.url, code=2)
        tutti("context", "remove", "lab")
        assert json.loads(tutti("context", "list", "--json"))["current"] == ""
        assert "no context 'lab'" in tutti("context", "use", "lab", code=1)
        file.chmod(0o644)
        assert "chmod 600" in tutti("context", "list", code=1)
        file.chmod(0o600)

        # ---- through kubectl ----
        tutti("context", "add", "cluster", "k8s://ml/tutti-aggregator")
        tutti("context", "use", "cluster")
        assert json.loads(tutti("hosts", "--json"))["hosts"] == []
        tutti("hosts", "--server", "k8s://ml/pod/other-3")
        tutti("hosts", "--server=k8s://ml/tutti-aggregator/")
        calls = [line.split(" ", 1) for line in (c.dir / "kubectl.log").read_text().splitlines()]
        begin = "port-forward --namespace ml pod/"
        assert [words for _, words in calls] == [begin + pod + " :7400" for pod in ("tutti-aggregator-0", "other-3", "tutti-aggregator-0")], calls
        assert not [pid for pid, _ in calls if os.path.exists(f"/proc/{pid}")], "kubectl outlived its verb"
        # Two aggregators: one that cannot be forwarded is left out.
        both = "k8s://missing/pod/x-0,k8s://ml/pod/x-1"
        assert json.loads(tutti("hosts", "--server", both, "--json"))["hosts"] == []
        tutti("context", "add", "pair", "k8s://ml/pod/x-0,k8s://ml/pod/x-1")
        assert json.loads(tutti("--context", "pair", "hosts", "--json"))["hosts"] == []
        calls = [line.split(" ", 1) for line in (c.dir / "kubectl.log").read_text().splitlines()][-2:]
        assert [words for _, words in calls] == [begin + "x-0 :7400", begin + "x-1 :7400"], calls
        assert not [pid for pid, _ in calls if os.path.exists(f"/proc/{pid}")], "kubectl outlived its verb"
        assert "not found" in tutti("hosts", "--server", "k8s://missing/x,k8s://missing/y", code=1)
        assert "several of one kind" in tutti("context", "add", "x", f"k8s://ml/x,{c.url}", code=2)
        assert "expected k8s://" in tutti("hosts", "--server", f"k8s://ml/x,{c.url}", code=2)
        assert "at most 4 servers" in tutti("hosts", "--server", ",".join(["k8s://ml/x"] * 5), code=2)
        assert "expected one" in tutti("connect", both, code=2)
        assert tutti("hosts", "--server", "k8s://missing/x", code=1).strip().endswith('pods "x-0" not found')
        assert "k8s://NAMESPACE/NAME" in tutti("hosts", "--server", "k8s://ml", code=2)

        p = subprocess.Popen([BIN / "tutti", "connect", "k8s://ml/tutti-aggregator", "--json"], env=env, stdout=subprocess.PIPE, text=True)
        assert json.loads("".join(iter(lambda: read_line(p.stdout), "}\n")) + "}") == {"server": c.url}
        kubectl = (c.dir / "kubectl.log").read_text().splitlines()[-1].split()[0]
        assert os.path.exists(f"/proc/{kubectl}")
        p.send_signal(signal.SIGINT)
        assert p.wait(20) == 0
        wait_until("kubectl to end", lambda: not os.path.exists(f"/proc/{kubectl}"))
        # kubectl ends with the pod. It is started again with the same port, and again, until the pod is back.
        p = subprocess.Popen([BIN / "tutti", "connect", "k8s://ml/tutti-aggregator"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        read_line(p.stdout)

        def logged():
            return [line.split(" ", 1) for line in (c.dir / "kubectl.log").read_text().splitlines()]
        before = len(logged())
        (c.dir / "away").touch()
        os.kill(int(logged()[-1][0]), signal.SIGTERM)
        wait_until("two attempts", lambda: len(logged()) >= before + 2)
        (c.dir / "away").unlink()
        wait_until("kubectl again", lambda: os.path.exists(f"/proc/{logged()[-1][0]}/comm") and open(f"/proc/{logged()[-1][0]}/comm").read() == "sleep\n")
        assert {words for _, words in logged()[before:]} == {f"{begin}tutti-aggregator-0 {c.http}:7400"}, logged()
        p.send_signal(signal.SIGTERM)
        assert p.wait(20) == 0 and not os.path.exists(f"/proc/{logged()[-1][0]}")
        assert p.communicate(timeout=20)[1].count("kubectl port-forward ended") == 1

        broken_forwards(c, env, logged)


def broken_forwards(c, env, logged):
    """A kubectl that says nothing, does not end, is a script, or names another port the next time."""
    def connect(space):
        before = len(logged())
        p = subprocess.Popen([BIN / "tutti", "connect", f"k8s://{space}/x"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_until("kubectl", lambda: len(logged()) > before)
        return p, int(logged()[-1][0])

    def is_alive(pid):
        try:
            return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] != "Z"
        except OSError:
            return False

    p, kubectl = connect("silent")
    p.send_signal(signal.SIGINT)
    assert p.wait(20) == -signal.SIGINT
    wait_until("kubectl to end", lambda: not is_alive(kubectl))

    p, kubectl = connect("stubborn")
    read_line(p.stdout)
    p.send_signal(signal.SIGINT)
    assert p.wait(20) == 0
    wait_until("kubectl to end", lambda: not is_alive(kubectl))

    for how in signal.SIGINT, signal.SIGKILL:
        p, kubectl = connect("script")
        wait_until("its child", lambda: (c.dir / "child").exists() and (c.dir / "child").read_text().strip())
        child = (c.dir / "child").read_text().strip()
        (c.dir / "child").unlink()
        os.kill(kubectl, signal.SIGTERM)  # its child, which has its port and its words' other end, does not end by that
        wait_until("kubectl again", lambda: (c.dir / "child").exists() and (c.dir / "child").read_text().strip())
        assert not is_alive(child)
        pids = [logged()[-1][0], (c.dir / "child").read_text().strip()]
        (c.dir / "child").unlink()
        p.send_signal(how)
        p.wait(20)
        wait_until("all to end", lambda: not any(map(is_alive, pids)))

    p, _ = connect("moves")
    before = len(logged())
    wait_until("two attempts", lambda: len(logged()) > before + 1)
    p.send_signal(signal.SIGTERM)
    assert p.wait(20) == 0
    assert {words.split()[-1] for _, words in logged()[before:]} == {f"{c.http}:7400"}, logged()[before:]


if __name__ == "__main__":
    main(test_contexts)
