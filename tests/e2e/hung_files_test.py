# SPDX-License-Identifier: Apache-2.0
"""A program on a file system that does not answer, sampled beside others: it costs nothing but the names of its own functions, and the agent
ends in time."""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

from lib import xspace
from lib.cluster import BIN, SLOW, Cluster, main, wait_until
from lib.netns import SkipTest

HERE = pathlib.Path(__file__).parent
JOB = BIN.parent / "tests/agent_job"
OWN = {"hash_all", "sum_of_sines"}  # functions of the job
USER = 4242
PYTHON = os.path.realpath(sys.executable)
SPIN = "def {0}():\n while True: sum(range(1000))\n{0}()"
# Its function is in a source file of a very long name. Once FLAG is there, the end of that, which the interpreter does not look at, is memory
# of FILE; `touch`: and a thread of it reads there.
WEDGED = """
import ctypes, mmap, os, sys, threading, time
code = compile("def unlucky():\\n while True: sum(range(1000))", "x" * 600_000, "exec")
exec(code)
name = unlucky.__code__.co_filename
at = (id(name) + sys.getsizeof(name) - 1 & -4096) - 4096
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *3 * [ctypes.c_int], ctypes.c_long]
file = os.open(sys.argv[1], os.O_RDONLY)
def wedge():
    while not os.path.exists(sys.argv[2]): time.sleep(0.1)
    assert libc.mmap(at, 8192, mmap.PROT_READ, mmap.MAP_PRIVATE | 16, file, 1 << 20) == at
    print("mapped", flush=True)
    if sys.argv[3:] == ["touch"]: libc.strnlen(ctypes.c_void_p(at + 4096), ctypes.c_size_t(1))
threading.Thread(target=wedge, daemon=True).start()
unlucky()
"""


def as_user(*command):
    return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *command]


@contextlib.contextmanager
def hung_jobs(c, n, program=JOB, name="prog", command=lambda prog: as_user(prog, "1000"), env=None):
    """The job on n such file systems, which answer until they get SIGUSR1: their servers."""
    c.dir.chmod(0o711)
    folders, servers = [c.dir / f"hung-{i}" for i in range(n)], []
    try:
        for i, folder in enumerate(folders):
            folder.mkdir()
            servers.append(c.start(f"burst-server-{i}", [sys.executable, HERE / "hung_fs.py", program, folder, name]))
            wait_until("the mount", lambda: "mounted" in c.log(f"burst-server-{i}"))
            c.start(f"burst-job-{i}", command(folder / name), env)
        for i in range(n):
            wait_until("the job", lambda: cpu_seconds(c.processes[f"burst-job-{i}"].pid) > 1, 60)
        yield servers
    finally:
        for i in range(n):
            if f"burst-job-{i}" in c.processes:
                c.processes[f"burst-job-{i}"].kill()  # it ends when it can
        for i in range(len(servers)):
            c.kill(f"burst-server-{i}")  # what waits for an answer gets an error
        for folder in folders[:len(servers)]:
            subprocess.run(["umount", "-l", folder], check=True, timeout=60)


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def capture(c, *flags, may_lose=False):
    """The names of a capture, what is said of it, and how long it took. On a busy machine a second of lost samples may be half a window."""
    began = time.monotonic()
    code, doc = c.tutti("capture", "--duration", "2s", "--json", *(flags or ("--tracer", "cpu")))
    assert code == 0 or may_lose and doc["hosts"][0]["reason"] == "window-cut", doc
    space = xspace.load(c.logdir / "plugins/profile" / doc["session"] / "host-a.xplane.pb")
    return {name for p in space.planes for name, *_ in xspace.events(p)}, str(doc), time.monotonic() - began


def end(c, agent):
    began = time.monotonic()
    agent.terminate()
    assert agent.wait(20 * SLOW) == 0, agent.returncode
    took = time.monotonic() - began
    assert "state=cut" not in c.log("host-a"), c.log("host-a")
    return took


def start_agent(c):
    """With the tracers that read files of programs."""
    agent = c.agent("host-a", tracers="cpu,sched,python,annotations,metrics,marks")
    c.wait_hosts(1)
    if [t["state"] for t in c.hosts()["host-a"]["tracers"] if t["name"] == "cpu"] == ["off"]:
        raise SkipTest("no CPU samples here")
    return agent


def test_others_keep_their_names():
    with Cluster() as c, hung_jobs(c, 2) as servers:
        c.aggregator()
        for server in servers:
            server.send_signal(signal.SIGUSR1)
        c.start("burst-honest", [BIN / "burst", "--period", "100ms", "--work", "50ms"])
        agent = start_agent(c)
        names, said, first_s = capture(c)
        again, _, again_s = capture(c)
        took = end(c, agent)
        print(f"       captures of 2 s took {first_s:.1f} and {again_s:.1f} s, the end {took:.2f} s")
        for found in names, again:
            assert "burst_work" in found and "[prog]" in found and not OWN & found, found
        assert "does not answer" in said, said
        assert max(first_s, again_s) < 15 * SLOW


def test_names_come_back():
    with Cluster() as c, hung_jobs(c, 1) as servers:
        c.aggregator()
        servers[0].send_signal(signal.SIGUSR1)
        agent = start_agent(c)
        names, _, _ = capture(c)
        assert "[prog]" in names and not OWN & names, names
        servers[0].send_signal(signal.SIGUSR2)
        wait_until("the names", lambda: OWN & capture(c)[0], 60)
        wait_until("nothing to be said", lambda: "does not answer" not in capture(c)[1], 60)
        end(c, agent)


def test_slow_answers():
    """A file system that answers, late each time: it is waited for a while, then left alone for a while."""
    with Cluster() as c, hung_jobs(c, 1) as servers:
        c.aggregator()
        servers[0].send_signal(signal.SIGHUP)
        c.start("burst-honest", [BIN / "burst", "--period", "100ms", "--work", "50ms"])
        agent = start_agent(c)
        for _ in range(2):
            names, _, took = capture(c)
            print(f"       a capture of 2 s took {took:.1f} s")
            assert "burst_work" in names and took < 20 * SLOW, (took, names)
        end(c, agent)


ASK = '''
import os, socket, struct, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind("")
s.settimeout(0.3)
body = struct.pack("<iiqi", 3, 1, 0, os.getpid())
while True:
    try:
        s.sendto(struct.pack("<Q32s", len(body), b"req") + body, "\\0tutti-hung\\0")
        s.recv(4096)
    except OSError:
        pass
    time.sleep(0.3)
'''


def test_pytorch():
    """Processes that ask to be recorded have a /tmp, to which they would write, that does not answer: more of them than the agent has workers.
    Another one is recorded, and the agent goes on, and ends in time."""
    with Cluster() as c:
        folder = c.dir / "hung"
        folder.mkdir()
        (c.dir / "torch").mkdir()
        c.aggregator()
        server = c.start("burst-server", [sys.executable, HERE / "hung_fs.py", PYTHON, folder])
        wait_until("the mount", lambda: "mounted" in c.log("burst-server"))
        try:
            for i in range(8):
                c.start(f"burst-job-{i}", ["unshare", "--mount", "sh", "-ec", f'mount --bind {folder} /tmp; exec "$@"', "sh",
                                           *as_user(PYTHON, "-c", ASK)])
            time.sleep(2)
            server.send_signal(signal.SIGUSR1)
            agent = c.agent("host-a", "--pytorch-socket=tutti-hung",
                            f"--pytorch-dir={c.dir}/torch", "--pytorch-poll=500ms", tracers="pytorch,metrics,marks")
            c.wait_hosts(1)
            honest = c.start("burst-honest", [sys.executable, HERE / "lib/fake_torch.py", c.dir / "torch", c.dir / "job.json", ""])
            wait_until("the jobs", lambda: c.log("host-a").count("state=known") == 9, 30)
            wait_until("the lead", lambda: any(t.get("lead_ms") for t in c.hosts()["host-a"]["tracers"]))
            for _ in range(2):
                began = time.monotonic()
                _, doc = c.tutti("capture", "--duration", "500ms", "--json", check=3)
                took = time.monotonic() - began
                space = xspace.load(c.logdir / "plugins" / "profile" / doc["session"] / "host-a.xplane.pb")
                found = {xspace.stats(p).get("process_id") for p in space.planes if any(e[0] == "ProfilerStep" for e in xspace.events(p))}
                assert found == {honest.pid} and "does not answer" in str(doc), (found, honest.pid, doc)
                assert any(p.name == "/host:CPU metrics" for p in space.planes) and took < 30 * SLOW, took
            print(f"       a capture took {took:.1f} s, the end {end(c, agent):.2f} s", flush=True)
        finally:
            for i in range(8):
                c.processes[f"burst-job-{i}"].kill()
            c.kill("burst-server")
            subprocess.run(["umount", "-l", folder], check=True, timeout=60)


ASK_AT = '''
import os, socket, struct, sys
at, becomes, folder, asks = sys.argv[1:]
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(at)
if becomes:
    at = os.path.dirname(at) if folder not in at else at
    os.rename(at, at + ".old")
    os.symlink(becomes, at)
s.settimeout(2)
body = struct.pack("<iiqi", 3, 1, 0, os.getpid())
said = "not answered"
for _ in range(int(asks)):  # as frameworks do: an agent that took a question late, on a busy machine, does not answer it
    s.sendto(struct.pack("<Q32s", len(body), b"req") + body, folder + "/dynolog")
    try: said = f"answered {len(s.recv(4096))}"
    except OSError: continue
    break
print(said)
'''


def test_addresses():
    """The address of a process that asks lies on the file system that does not answer: it is not looked at. One in the agent's folder is
    answered, if it is a socket of that user."""
    with Cluster() as c:
        for name, mode in ("hung", 0o755), ("torch", 0o1777), ("other", 0o1777):
            (c.dir / name).mkdir()
            (c.dir / name).chmod(mode)
        c.dir.chmod(0o711)
        c.aggregator()
        server = c.start("burst-server", [sys.executable, HERE / "hung_fs.py", PYTHON, c.dir / "hung"])
        wait_until("the mount", lambda: "mounted" in c.log("burst-server"))
        try:
            agent = c.agent("host-a", "--pytorch-socket=", f"--pytorch-dir={c.dir}/torch", tracers="pytorch,metrics,marks")
            c.wait_hosts(1)
            server.send_signal(signal.SIGUSR1)
            (c.dir / "other/moved").mkdir()
            (c.dir / "other/moved").chmod(0o777)
            (c.dir / "other").chmod(0o777)
            for i, (at, becomes, said) in enumerate((("torch/a", "", "answered 40"), ("torch/b", c.dir / "hung/b", "not answered"),
                                                     ("torch/c", c.dir / "torch/dynolog", "not answered"),
                                                     ("other/moved/d", c.dir / "hung", "not answered"), ("torch/e", "", "answered 40"))):
                p = c.start(f"burst-job-{i}", as_user(PYTHON, "-c", ASK_AT, c.dir / at, becomes, c.dir / "torch", 2 if said == "not answered" else 10))
                assert p.wait(30 * SLOW) == 0 and c.log(f"burst-job-{i}").strip() == said, (at, c.log(f"burst-job-{i}"))
            end(c, agent)
        finally:
            c.kill("burst-server")
            subprocess.run(["umount", "-l", c.dir / "hung"], check=True, timeout=60)


def test_python_programs():
    """Their files are read, too, to find where their stacks are."""
    with Cluster() as c, hung_jobs(c, 1, PYTHON, "python3", lambda prog: [prog, "-c", SPIN.format("unlucky")],
                                   {"PYTHONHOME": sys.base_prefix}) as servers:
        c.aggregator()
        servers[0].send_signal(signal.SIGUSR1)
        c.start("burst-honest", [PYTHON, "-c", SPIN.format("honest")])
        agent = start_agent(c)
        wait_until("the honest one", lambda: "honest" in capture(c, "--set", "python_tracer_level=1")[0], 60)
        names, said, took = capture(c, "--set", "python_tracer_level=1")
        assert "honest" in names and took < 15 * SLOW, (took, names)
        assert "unlucky" in names or "does not answer" in said, said
        servers[0].send_signal(signal.SIGUSR2)
        wait_until("the other one", lambda: "unlucky" in capture(c, "--set", "python_tracer_level=1")[0], 60)
        end(c, agent)


def seen(c):
    """What a capture of Python programs and CPUs has, what is said of it, and how long it took."""
    return capture(c, "--set", "python_tracer_level=1", may_lose=True)


def wedged(*more):
    """Memory of a program is that of a file: who reads it waits. That costs its own Python samples, and others' for a second."""
    with Cluster() as c, hung_jobs(c, 1, PYTHON, "data", lambda data: as_user(PYTHON, "-c", WEDGED, data, c.dir / "flag", *more)) as servers:
        c.aggregator()
        c.start("burst-honest", [PYTHON, "-c", SPIN.format("honest")])
        servers[0].send_signal(signal.SIGUSR1)
        (c.dir / "flag").touch()
        wait_until("the memory", lambda: "mapped" in c.log("burst-job-0"))
        ends = [end(c, start_agent(c))]
        agent, pid, took = start_agent(c), c.processes["burst-job-0"].pid, []

        def look():
            names, said, s = seen(c)
            took.append(f"{s:.1f}")
            assert s < 10 * SLOW, s
            return names, said

        def is_told():
            names, said = look()
            assert "unlucky" not in names, names
            return "honest" in names and f"pid {pid}: " in said and "does not answer" in said  # a window that a busy machine cuts says that instead
        look()
        for _ in range(2):
            wait_until("the honest one, and what is said of the other", is_told, 60)
        ends.append(end(c, agent))
        print(f"       captures of 2 s took {', '.join(took)} s, the ends {', '.join(f'{e:.2f}' for e in ends)} s")
        agent = start_agent(c)
        wait_until("the honest one", lambda: "honest" in seen(c)[0], 60)
        servers[0].send_signal(signal.SIGUSR2)
        wait_until("the other one", lambda: "unlucky" in seen(c)[0], 60)
        wait_until("nothing to be said", lambda: "does not answer" not in seen(c)[1], 60)
        end(c, agent)


def test_memory_that_only_the_agent_reads():
    wedged()


def test_memory_that_its_program_reads():
    wedged("touch")


if os.geteuid() or not os.path.exists("/dev/fuse"):
    print("skip: needs root and FUSE")
    sys.exit(77)
main(test_pytorch, test_addresses, test_others_keep_their_names, test_names_come_back, test_slow_answers, test_python_programs,
     test_memory_that_only_the_agent_reads, test_memory_that_its_program_reads)
