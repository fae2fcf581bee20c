# SPDX-License-Identifier: Apache-2.0
"""Two aggregators on one store, of which one leads."""
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

from lib.cluster import BIN, SLOW, free_port, wait_until

LEASE_S = 3
HOSTS = ("a", "b")
# Makes its command's monotonic clocks and boot id those of another machine, and hides that the clocks are a namespace's.
ELSEWHERE = ("unshare", "--mount", "--time", "--monotonic", "5000", "--boottime", "5000", "sh", "-c",
             "echo another-machine > boot_id && mount --bind boot_id /proc/sys/kernel/random/boot_id && "
             "mount --bind /dev/null /proc/$$/timens_offsets && exec \"$@\"", "sh")


def can_be_elsewhere(folder):
    """Needs root, and a kernel whose exec enters the time namespace."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        return False
    read = subprocess.run([*ELSEWHERE, sys.executable, "-c", "import time; print(time.monotonic())"], cwd=folder, capture_output=True, text=True, timeout=60)
    return read.returncode == 0 and float(read.stdout) > time.monotonic() + 4000


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args):
        return None


OPENER = urllib.request.build_opener(NoRedirect)


class Replicas:
    """Two replicas of the cluster `c`; `lead` is the name of the one that leads, whose HTTP the cluster asks."""

    def __init__(self, c, machines=False, flags=lambda name: (), agents=HOSTS):
        """`machines`: the second one has the clocks of another machine. `flags`: more settings of a replica."""
        self.c, self.lead, self.machines, self.flags, self.starved = c, None, machines, flags, 0
        self.ports = {name: (free_port(), free_port(), free_port(socket.SOCK_DGRAM)) for name in ("one", "two")}
        for name in self.ports:
            self.start(name)
            self.wait_leader()
        for host in agents:
            self.agent(host)
        if agents:
            c.wait_hosts(len(agents))

    def agent(self, host, *flags):
        self.c.agent(host, "--aggregator", ",".join(f"127.0.0.1:{grpc}" for _, grpc, _ in self.ports.values()), *flags, tracers="metrics")

    def start(self, name):
        http, grpc, probe = self.ports[name]
        prefix = ELSEWHERE if self.machines and name == "two" else ()
        self.c.start(name, [*prefix, BIN / "tutti-aggregator", "--store", f"file://{self.c.store}", "--http", f"127.0.0.1:{http}", "--grpc", f"127.0.0.1:{grpc}",
                            "--probe", f"127.0.0.1:{probe}", "--spool", self.c.dir / f"{name}-spool", "--grace", f"{30 * SLOW:g}s", "--replica", name,
                            "--replica-url", self.url(name), "--lease", f"{LEASE_S * SLOW:g}s",
                            *self.flags(name)])

    def url(self, name):
        return f"http://127.0.0.1:{self.ports[name][0]}"

    def ask(self, name, path, method="GET"):
        """The status, the headers and the bytes of an answer; a redirection is one."""
        request = urllib.request.Request(self.url(name) + path, b"{}" if method == "POST" else None, method=method)
        try:
            with OPENER.open(request, timeout=2 * SLOW) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as e:
            return e.code, e.headers, e.read()

    def answer(self, name, path):
        """The status and the text of an answer; None if there is none in time."""
        try:
            status, _, body = self.ask(name, path)
        except OSError:
            return None
        return status, body.decode()

    def ready(self):
        return [name for name in self.ports if (self.answer(name, "/readyz") or [0])[0] == 200]

    def wait_leader(self, other_than=None):
        def there():
            ready = self.ready()
            assert len(ready) < 2, ready
            return ready[0] if ready and ready[0] != other_than else None
        self.lead = wait_until("a leader", there, 60)
        self.c.http = self.ports[self.lead][0]

    def wait_until(self, what, condition, seconds, former):
        """As that of the cluster. On a busy machine the leader may get no CPU time for its lease, and end itself: it is started again, as by its
        supervisor, and another one leads. `former` is one that was stopped, and is left alone."""
        def holds():
            try:
                return condition()
            except OSError:
                p, log = self.c.processes[self.lead], (self.c.dir / f"{self.lead}.log").read_text()
                if self.lead == former or p.poll() != 1 or "the lease was not renewed in time" not in log.splitlines()[-1]:
                    raise
                p.expected = False
                self.starved += 1
                self.start(self.lead)
                self.wait_leader(other_than=former)
                return None
        wait_until(what, holds, seconds)

    def follower(self):
        return next(name for name in self.ports if name != self.lead)

    def sessions(self):
        return sorted(s["session"] for s in self.c.get("/api/v1/sessions")["sessions"])
