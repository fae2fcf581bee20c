# SPDX-License-Identifier: Apache-2.0
"""Namespaces: isolate() gives a test a network of its own, own_processes() process ids of its own. Pair has two with a cable (a veth pair) in between, like two
machines that share one clock:

    with Pair() as net:         # raises SkipTest where that is not permitted
        net.enter(net.near)     # this process and all that it starts from now on
        subprocess.run(["ping", "-c1", net.FAR], preexec_fn=net.entrance(net.far))
"""
import ctypes
import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys

from lib.leftovers import dead_names, temp_dir

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
IFF_UP = 1
LIBC = ctypes.CDLL(None, use_errno=True)
outside = None  # what this process was called before own_processes()


class SkipTest(Exception):
    pass


def setns(fd):
    if LIBC.setns(fd, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def ip(*words):
    p = subprocess.run(["ip", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    if p.returncode:
        raise SkipTest(f"no network namespaces here: ip {' '.join(words)}: {p.stderr.strip()}")


class Pair:
    NEAR, FAR = "198.18.0.1", "198.18.0.2"

    def __init__(self):
        number = outside or os.getpid()  # /run/netns is that of all
        self.near, self.far = f"tutti-{number}-near", f"tutti-{number}-far"
        self.home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

    def __enter__(self):
        if os.geteuid() or not shutil.which("ip"):
            raise SkipTest("network namespaces need root and the ip command (package iproute2)")
        try:
            self.lay_cable()
        except SkipTest:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        setns(self.home)
        for name in (self.near, self.far):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=60)
        os.close(self.home)

    def lay_cable(self):
        left = os.listdir("/run/netns") if os.path.isdir("/run/netns") and not outside else []  # from inside all others look dead
        for name in dead_names(left, "tutti"):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=60)
        ip("netns", "add", self.near)
        self.connect_far()

    def connect_far(self):
        ip("netns", "add", self.far)
        ip("-n", self.near, "link", "add", "near0", "type", "veth", "peer", "name", "far0", "netns", self.far)
        for name, device, address in ((self.near, "near0", self.NEAR), (self.far, "far0", self.FAR)):
            ip("-n", name, "address", "add", f"{address}/30", "dev", device)
            ip("-n", name, "link", "set", device, "up")
            ip("-n", name, "link", "set", "lo", "up")

    def unplug_far(self):
        ip("-n", self.far, "link", "set", "far0", "down")

    def renew_far(self):
        """After its programs were killed: the far machine was without power, and knows nothing of its connections."""
        ip("-n", self.near, "link", "del", "near0")
        ip("netns", "del", self.far)
        self.connect_far()

    @staticmethod
    def path(name):
        return f"/run/netns/{name}"

    def enter(self, name):
        fd = os.open(self.path(name), os.O_RDONLY | os.O_CLOEXEC)
        setns(fd)
        os.close(fd)

    def entrance(self, name):
        """For subprocess's preexec_fn."""
        return lambda: self.enter(name)


def raise_loopback():
    """ip link set lo up"""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def isolate():
    """Puts this process, and all that it starts from now on, into a network namespace of its own that has nothing but a
    loopback: every port is free, and agents discover the frameworks of this test alone. Where that is not permitted,
    prints why and goes on."""
    if LIBC.unshare(CLONE_NEWNET):
        why = os.strerror(ctypes.get_errno())
        print(f"note: no network namespace of its own ({why}): agents may discover JAX jobs of other programs here",
              file=sys.stderr, flush=True)
    else:
        raise_loopback()


def own_processes():
    """Goes on in a program that sees no process but itself and those that it starts: for root, and to be called first.
    Its temporary files are in a folder of their own, because the names of others' hold process ids."""
    global outside
    outside = os.environ.pop("TUTTI_OWN_PROCESSES", None)
    if os.geteuid() or outside:
        return
    command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    p = subprocess.run([*command, "true"], capture_output=True, text=True, timeout=60)
    if p.returncode:
        print(f"note: no process ids of its own ({p.stderr.strip()}): agents see other programs here", file=sys.stderr, flush=True)
        return
    os.environ["TUTTI_OWN_PROCESSES"] = str(os.getpid())
    os.environ["TMPDIR"] = str(temp_dir("tutti-own"))
    os.chmod(os.environ["TMPDIR"], 0o755)
    os.execvp(command[0], [*command, sys.executable, *sys.argv])
