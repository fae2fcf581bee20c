# SPDX-License-Identifier: Apache-2.0
"""`tutti inspect -- COMMAND` with nothing running: a session of the whole run, to the last record of programs that are
killed, and the command's own exit code."""
import atexit
import collections
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

from lib import schema, xspace
from lib.cluster import BIN, SANITIZER_WORDS, SLOW, main
from lib.leftovers import die_with_parent, temp_dir

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAKE_TORCH = ROOT / "tests/e2e/lib/fake_torch.py"


def folder():
    path = temp_dir("tutti-inspect-test")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


class Inspection:
    """One run of `tutti inspect`, in a folder of its own."""

    def __init__(self, *command, flags=(), env=None):
        self.dir = folder()
        self.err = self.dir / "stderr"
        self.p = subprocess.Popen([BIN.resolve() / "tutti", "inspect", "--json", *flags, "--", *map(str, command)],
                                  stdout=subprocess.PIPE, stderr=open(self.err, "w"), text=True, cwd=self.dir,
                                  env={**os.environ, "PYTHONPATH": str(ROOT / "python"), **(env or {})},
                                  preexec_fn=die_with_parent)

    def end(self, code):
        """The command's output and the manifest; None if there is no session."""
        out, _ = self.p.communicate(timeout=120 * SLOW)
        err = self.err.read_text()
        assert self.p.returncode == code, f"exit {self.p.returncode}, not {code}\n{err}{out}"
        assert not any(word in err for word in SANITIZER_WORDS) and "its log is" not in err, err
        text, _, rest = out.partition("{\n")
        if not rest:
            assert not self.sessions(), self.sessions()
            return text, None
        doc = json.loads("{\n" + rest)
        schema.check(doc, "manifest")
        assert self.sessions() == [doc["session"]], (self.sessions(), doc)
        assert "open it: xprof --logdir tutti-inspect/profiles" in err, err
        return text, doc

    def sessions(self):
        return [p.parent.name for p in self.dir.rglob("*.xplane.pb")]

    def planes(self, doc):
        """{pid: [planes]} of the recorded processes."""
        [host] = doc["hosts"]
        space = xspace.load(pathlib.Path(doc["path"]) / host["file"])
        found = collections.defaultdict(list)
        for p in space.planes:
            if "process_id" in xspace.stats(p):
                found[xspace.stats(p)["process_id"]].append(p)
        return found


def names(planes):
    found = collections.Counter()
    for p in planes:
        found.update(name for name, *_ in xspace.events(p))
    return found


def check_annotator(planes, steps):
    """All of a program that killed itself, to its last instant."""
    found = names(planes)
    assert found["train"] == found["load"] == found["halfway"] == steps, found
    assert found["the end"] == found["the last scope"] == 1, found
    [last] = [xspace.stats(p, ev) for p in planes for line in p.lines for ev in line.events
              if p.event_metadata[ev.metadata_id].name == "the last scope"]
    assert last["unfinished"] == 1, last


def test_killed():
    """Too short to be looked for: it sends its ring, and its last records are there."""
    run = Inspection(BIN.resolve() / "annotator", 2, 20)
    text, doc = run.end(128 + signal.SIGKILL)
    assert doc["state"] == "committed" and doc["failed"] == 0, doc
    check_annotator(run.planes(doc)[int(text)], 20)


def test_children():
    """Several processes, C and Python and NVTX, one after the other and at once; the code of the last."""
    annotator = BIN.resolve() / "annotator"
    script = f"""
        {annotator} 2 5 & {annotator} 2 10
        wait
        {sys.executable} -c 'import os, nvtx, tutti
print(os.getpid())
tutti.instant("from Python")
nvtx.mark("from NVTX")
os.kill(os.getpid(), 9)'
        exit 3
    """
    run = Inspection("sh", "-c", script, flags=("--run", "several"))
    text, doc = run.end(3)
    assert doc["run"] == "several", doc
    planes = run.planes(doc)
    a, b, python = map(int, text.split())
    assert sorted(names(planes[pid])["train"] for pid in (a, b)) == [5, 10], (text, {k: names(v) for k, v in planes.items()})
    for pid in (a, b):
        check_annotator(planes[pid], names(planes[pid])["train"])
    found = names(planes[python])
    assert found["from Python"] == 1 and sum("from NVTX" in name for name in found) == 1, found


def test_signals_and_what_is_left():
    """A signal is the command's; a process that outlives it is told of."""
    run = Inspection("sh", "-c", 'trap "exit 7" TERM; echo $KINETO_IPC_SOCKET_DIR; sleep 1000 >/dev/null & echo $!; '
                                 'while :; do sleep 0.1; done')
    sockets = pathlib.Path(run.p.stdout.readline().strip())
    left = int(run.p.stdout.readline())
    assert (sockets / "tutti-agent.log").exists(), sockets
    run.p.terminate()
    try:
        _, doc = run.end(7)
        assert "1 of its processes still run" in run.err.read_text(), run.err.read_text()
        assert doc["state"] == "committed", doc
        os.kill(left, 0)
        assert not sockets.exists()
    finally:
        os.kill(left, signal.SIGKILL)


def test_no_command():
    """A command that cannot be run: its code, a reason, and no session."""
    plain = folder() / "plain"
    plain.write_text("")
    for command, code, reason in (("no-such-command", 127, "No such file"), (plain, 126, "Permission denied")):
        run = Inspection(command)
        run.end(code)
        assert reason in run.err.read_text(), run.err.read_text()
        assert not (run.dir / "tutti-inspect").exists()
    p = subprocess.run([BIN / "tutti", "inspect", "gcc", "-o", "x"], capture_output=True, text=True)
    assert p.returncode == 2 and "put -- before the command" in p.stderr, p


def test_pytorch():
    """A process that behaves as PyTorch does: recorded piece after piece, and the session says what is missing."""
    log = folder() / "log"
    script = f"""
        {sys.executable} {FAKE_TORCH} $KINETO_IPC_SOCKET_DIR {log} &
        echo $!
        until [ -e {log}.written ] && [ $(wc -l <{log}.written) -ge 2 ]; do sleep 0.05; done
        sleep 0.3
        kill -9 $!
        exit 5
    """
    run = Inspection("sh", "-c", script, flags=("--set", "pytorch.piece_s=1"))
    text, doc = run.end(5)
    pid = int(text)
    [host] = doc["hosts"]
    assert host["state"] == "partial" and host["reason"] == "window-cut", host
    assert f"{pid}: PyTorch records in pieces: 2 with 2.0 of the" in host["detail"], host
    configs = [json.loads(line) for line in log.read_text().splitlines()]
    planes = run.planes(doc)[pid]
    at = sorted(start for p in planes for name, start, *_ in xspace.events(p) if name == "ProfilerStep")
    for config in configs[:2]:  # each piece is whole, and where the process recorded it
        begin = int(config["PROFILE_START_TIME"]) * 10**9 - doc["t0_ns"] * 10**3
        inside = [ps for ps in at if begin <= ps < begin + 10**12]
        assert 98 <= len(inside) <= 101, (begin, len(inside), len(at))
    assert 196 <= len(at) <= 202, len(at)
    assert not list(pathlib.Path("/tmp").glob(f"tutti_*_{pid}.json*"))


main(test_killed, test_children, test_signals_and_what_is_left, test_no_command, test_pytorch)
