# SPDX-License-Identifier: Apache-2.0
"""A file system whose server stops answering, as that of a network or of FUSE may: hung_fs.py PROGRAM FOLDER [NAME]. It is mounted at FOLDER, and all
may use it; its only file, NAME (`prog`), is a copy of PROGRAM. It prints "mounted"; from SIGUSR1 on nothing is answered, until SIGUSR2;
from SIGHUP on each answer takes a second."""
import ctypes
import errno
import os
import pathlib
import signal
import struct
import sys
import time

LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, FLUSH, INIT, OPENDIR = 1, 2, 3, 14, 15, 18, 25, 26, 27
INTERRUPT, BATCH_FORGET = 36, 42
ROOT, PROG = 1, 2
hung = False
late = []
delay = 0


def hang(*_):
    global hung
    hung = True


def slow_down(*_):
    global delay
    delay = 1


def recover(*_):
    global hung
    hung = False
    while late:
        reply(late.pop())


def attributes(node):
    mode, size = (0o40755, 0) if node == ROOT else (0o100755, len(program))
    return struct.pack("<6Q10I", node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def answer(kind, node, body):
    """(error, data) of a request."""
    if kind == INIT:
        return 0, struct.pack("<4I2H2I2H6I", 7, 31, 65536, 0, 0, 0, 131072, 1, 0, 0, *[0] * 6)
    if kind == GETATTR:
        return 0, struct.pack("<QII", 0, 0, 0) + attributes(node)
    if kind == LOOKUP and body.rstrip(b"\0") == name:
        return 0, struct.pack("<4Q2I", PROG, 0, 0, 0, 0, 0) + attributes(PROG)
    if kind in (OPEN, OPENDIR):
        return 0, struct.pack("<QII", 0, 0, 0)
    if kind == READ:
        _, offset, size = struct.unpack_from("<QQI", body)
        return 0, program[offset:offset + size]
    if kind in (RELEASE, FLUSH):
        return 0, b""
    return -(errno.ENOENT if kind == LOOKUP else errno.ENOSYS), b""


def reply(request):
    _, kind, number, node = struct.unpack_from("<IIQQ", request)
    if kind not in (FORGET, INTERRUPT, BATCH_FORGET):
        error, data = answer(kind, node, request[40:])
        os.write(device, struct.pack("<IiQ", 16 + len(data), error, number) + data)


program = pathlib.Path(sys.argv[1]).read_bytes()
name = (sys.argv[3] if len(sys.argv) > 3 else "prog").encode()
device = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions"
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(b"hung", sys.argv[2].encode(), b"fuse", 0, options.encode()):
    sys.exit(os.strerror(ctypes.get_errno()))
signal.signal(signal.SIGUSR1, hang)
signal.signal(signal.SIGUSR2, recover)
signal.signal(signal.SIGHUP, slow_down)
print("mounted", flush=True)
while True:
    request = os.read(device, 1 << 20)
    if hung:
        late.append(request)
    else:
        time.sleep(delay)
        reply(request)
