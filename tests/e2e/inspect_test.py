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
import tempfile
import time

from lib import schema, xspace
from lib.cluster import BIN, SANITIZER_WORDS, SLOW, main, wait_until
from lib.leftovers import die_with_parent, temp_dir
from lib.waits import read_line

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAKE_TORCH = ROOT / "tests/e2e/lib/fake_torch.py"


def folder():
    path = temp_dir("tutti-inspect-test")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


class Inspection:
    """One run of `tutti inspect`, in a folder of its own."""

    def __init__(self, *command, flags=(), env=None, stdin=None):
        self.dir = folder()
        self.err = self.dir / "stderr"
        self.p = subprocess.Popen([BIN.resolve() / "tutti", "inspect", "--json", *flags, "--", *map(str, command)],
                                  stdin=stdin, stdout=subprocess.PIPE, stderr=open(self.err, "w"), text=True, cwd=self.dir,
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
    sockets = pathlib.Path(read_line(run.p.stdout).strip())
    left = int(read_line(run.p.stdout))
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


def test_killed_itself():
    """Killed, it takes its daemons with it, and the command goes on; what is left in /tmp is removed by the next one."""
    run = Inspection("sh", "-c", "echo $KINETO_IPC_SOCKET_DIR $$; exec sleep 1000")
    sockets, command = read_line(run.p.stdout).split()
    daemons = set(pathlib.Path(f"/proc/{run.p.pid}/task/{run.p.pid}/children").read_text().split()) - {command}
    assert len(daemons) == 2, daemons
    other = Inspection("sh", "-c", "echo $KINETO_IPC_SOCKET_DIR; read line", stdin=subprocess.PIPE)
    busy = pathlib.Path(read_line(other.p.stdout).strip())
    kept = pathlib.Path(tempfile.mkdtemp(prefix="tutti-inspect-", dir="/tmp"))  # without a lock: it is kept for its logs
    run.p.kill()
    run.p.wait(20 * SLOW)
    try:
        wait_until("its daemons to end", lambda: not any(is_running(pid) for pid in daemons))
        assert is_running(command)
        Inspection("true").end(0)
        assert not pathlib.Path(sockets).exists()
        assert kept.exists() and (busy / "tutti-agent.log").exists()
        other.p.stdin.write("\n")
        other.end(0)
    finally:
        kept.rmdir()
        os.kill(int(command), signal.SIGKILL)


def stop_at_its_start(run):
    """Stops its agent when it has connected; goes on with it when a capture has failed. False: it was recording before."""
    def agent():
        children = pathlib.Path(f"/proc/{run.p.pid}/task/{run.p.pid}/children").read_text().split()
        return next((int(pid) for pid in children if pathlib.Path(f"/proc/{pid}/comm").read_text() == "tutti-agent\n"), None)
    wait_until("its agent", agent)
    pid = agent()
    words = pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    log = pathlib.Path(words[words.index("--spool") + 1]).with_name("tutti-aggregator.log")
    end = time.monotonic() + 20 * SLOW
    while "AGG-HOST " not in log.read_text():  # looked for so often that the agent is stopped before the command begins
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.001)
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until("an attempt that fails, or the command",
                   lambda: "reason=unresponsive" in log.read_text() or (run.dir / "begun").exists())
    finally:
        os.kill(pid, signal.SIGCONT)
    return not (run.dir / "begun").exists()


def test_slow_start():
    """The command waits until the agent records, although its first answer comes too late."""
    for _ in range(5):
        run = Inspection("sh", "-c", "echo >begun; sleep 0.3; exit 6")
        was_slow = stop_at_its_start(run)
        _, doc = run.end(6)
        assert doc["hosts"][0]["state"] == "complete", doc["hosts"]
        if was_slow:
            return
    raise AssertionError("the agent was quicker than this test, five times")


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_end_of_the_end():
    """While the session is finished the first signal is told of what the second does; that drops the session. Here its
    agent is stopped, as by a hanging kernel."""
    run = Inspection("sh", "-c", "echo $KINETO_IPC_SOCKET_DIR $PPID; read line; exit 8", stdin=subprocess.PIPE)
    sockets, _ = read_line(run.p.stdout).split()
    children = pathlib.Path(f"/proc/{run.p.pid}/task/{run.p.pid}/children").read_text().split()
    [agent] = [int(pid) for pid in children if pathlib.Path(f"/proc/{pid}/comm").read_text() == "tutti-agent\n"]
    os.kill(agent, signal.SIGSTOP)
    run.p.stdin.write("\n")
    run.p.stdin.flush()
    wait_until("the command to end", lambda: "stopping" in run.err.read_text() or "uploading" in run.err.read_text())
    run.p.send_signal(signal.SIGINT)
    wait_until("the answer", lambda: "with another signal the recording is lost" in run.err.read_text())
    run.p.send_signal(signal.SIGINT)
    os.kill(agent, signal.SIGCONT)
    run.p.communicate(timeout=60 * SLOW)
    assert run.p.returncode == 8 and "the recording is lost: " in run.err.read_text(), run.err.read_text()
    assert not run.sessions()
    shutil.rmtree(sockets)


def test_no_command():
    """A command that cannot be run: its code, a reason, and no session."""
    plain = folder() / "plain"
    plain.write_text("")
    for command, code, reason in (("no-such-command", 127, "No such file"), ("", 127, "No such file"), (plain, 126, "Permission denied")):
        run = Inspection(command)
        run.end(code)
        assert reason in run.err.read_text(), run.err.read_text()
        assert not (run.dir / "tutti-inspect").exists()
    run = Inspection("true", flags=("-o", str(plain)))
    run.end(125)
    assert f"-o {plain} is no folder" in run.err.read_text(), run.err.read_text()
    p = subprocess.run([BIN / "tutti", "inspect", "gcc", "-o", "x"], capture_output=True, text=True, timeout=60)
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
    assert f"{pid}: PyTorch recorded 2.0 of the " in host["detail"], host
    assert ", pieces: 2; missing are " in host["detail"], host
    configs = [json.loads(line) for line in log.read_text().splitlines()]
    planes = run.planes(doc)[pid]
    at = sorted(start for p in planes for name, start, *_ in xspace.events(p) if name == "ProfilerStep")
    for config in configs[:2]:  # each piece is whole, and where the process recorded it
        begin = int(config["PROFILE_START_TIME"]) * 10**9 - doc["t0_ns"] * 10**3
        inside = [ps for ps in at if begin <= ps < begin + 10**12]
        assert 98 <= len(inside) <= 101, (begin, len(inside), len(at))
    assert 196 <= len(at) <= 202, len(at)
    assert not list(pathlib.Path("/tmp").glob(f"tutti_*_{pid}.json*"))


def steps_s(planes):
    """When the steps of a fake PyTorch began, in seconds since T0."""
    return sorted(start / 1e12 for p in planes for name, start, *_ in xspace.events(p) if name == "ProfilerStep")


def test_pytorch_to_the_end():
    """Python programs end PyTorch's recording themselves: all is there, from the import to the program's end. A program that
    is killed loses what it was recording, and the session says how much; so does one that is recorded in several pieces, or
    profiles itself."""
    job = folder() / "job.py"
    job.write_text("""
import os, sys, time
import torch
begin = time.time_ns()
if sys.argv[1] == "whole":
    time.sleep(1)
if sys.argv[1] == "killed":
    print("killed", os.getpid(), begin, begin, flush=True)
    os.kill(os.getpid(), 9)
while sys.argv[1] == "profiler" and not torch.kineto.config:
    time.sleep(0.05)
if sys.argv[1] == "profiler":
    torch.kineto.drop()
    os.unlink(f"{os.environ['KINETO_IPC_SOCKET_DIR']}/hook-{os.getpid()}")  # not asked again
    while os.path.exists(f"{os.environ['KINETO_IPC_SOCKET_DIR']}/piece-{os.getpid()}"):
        time.sleep(0.05)
asked = set()  # for a recording
while sys.argv[1] == "pieces" and len(asked) < 2:
    try:
        asked.add(os.stat(f"{os.environ['KINETO_IPC_SOCKET_DIR']}/piece-{os.getpid()}").st_mtime_ns)
    except OSError:
        pass
    time.sleep(0.05)
print(sys.argv[1], os.getpid(), begin, time.time_ns(), flush=True)
raise SystemExit(3)
""")
    env = {"PYTHONPATH": f"{ROOT / 'tests/e2e/lib/fake_package'}:{ROOT / 'python'}"}
    run = Inspection("sh", "-c", f"""
        {sys.executable} {job} whole & whole=$!
        {sys.executable} {job} killed &
        {sys.executable} {job} profiler & profiler=$!
        {sys.executable} {job} pieces; code=$?
        wait $whole $profiler; exit $code""", env=env, flags=("--set", "pytorch.open_s=2"))
    text, doc = run.end(3)
    jobs = {name: list(map(int, rest)) for name, *rest in map(str.split, text.splitlines())}
    [host] = doc["hosts"]
    detail = {name: next((d for d in host["detail"].split("; python") if f" {pid}: " in d), "")
              for name, (pid, *_) in jobs.items()}
    planes = run.planes(doc)
    at = {name: steps_s(planes[pid]) for name, (pid, *_) in jobs.items()}
    begin, end = ({name: (row[i] - doc["t0_ns"]) / 1e9 for name, row in jobs.items()} for i in (1, 2))
    assert host["state"] == "partial", host
    assert not detail["whole"], host
    whole = at["whole"]
    assert whole and whole[0] < end["whole"] and whole[-1] > end["whole"] - 0.05, (begin, end, whole[:1], whole[-1:])
    assert at["pieces"] and at["pieces"][0] < end["pieces"], (end, at["pieces"][:1])
    assert not at["killed"] and "PyTorch recorded 0.0 of the " in detail["killed"], host
    assert "the process ended while it recorded" in detail["killed"], host
    assert "does the program use torch.profiler itself?" in detail["profiler"], host
    assert "pieces: 2; missing are " in detail["pieces"] and " and 0.0 s after them" in detail["pieces"], host
    assert not [path for pid, *_ in jobs.values() for path in pathlib.Path("/tmp").glob(f"tutti_*_{pid}.json*")]


def test_hook_alone():
    """Programs go on as without the hook where the folder is gone, and their own sitecustomize runs."""
    own = folder()
    (own / "sitecustomize.py").write_text("print('own', __file__)")
    (own / "sockets").mkdir()
    script = "import os, sys; os.rmdir(sys.argv[1]); import torch; print(torch._C._autograd._kineto_step(), len(sys.meta_path))"
    path = f"{BIN.resolve() / 'tutti-hook'}:{own}:{ROOT / 'tests/e2e/lib/fake_package'}"
    p = subprocess.run([sys.executable, "-c", script, own / "sockets"], capture_output=True, text=True,
                       env={**os.environ, "PYTHONPATH": path, "KINETO_IPC_SOCKET_DIR": str(own / "sockets")}, timeout=60)
    assert (p.returncode, p.stderr) == (0, "") and p.stdout.startswith(f"own {own}/sitecustomize.py\nNone "), p


main(test_killed, test_children, test_signals_and_what_is_left, test_killed_itself, test_slow_start, test_end_of_the_end, test_no_command, test_pytorch,
     test_pytorch_to_the_end, test_hook_alone)
