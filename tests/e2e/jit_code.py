# SPDX-License-Identifier: Apache-2.0
"""A process that runs code which it made itself, with names for it as JIT compilers write them: jit_code.py NAME [COUNT], as its only name or
before COUNT others. It prints "ready" when it begins. x86-64."""
import ctypes
import mmap
import os
import signal
import sys
import time

SPIN = bytes.fromhex("48c7c000093d00 48ffc8 75fb c3")  # counts down from 4,000,000

signal.signal(signal.SIGTERM, lambda *_: sys.exit())
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(SPIN)
address = ctypes.addressof(ctypes.c_char.from_buffer(code))
path = f"/tmp/perf-{os.getpid()}.map"
with open(path, "w") as f:
    f.write(f"{address:x} 100 {sys.argv[1]}\n")
    for i in range(int(sys.argv[2]) if len(sys.argv) > 2 else 0):
        f.write(f"{address + 0x100000 + i * 16:x} 10 {'n' * 24}{i}\n")
print("ready", flush=True)
try:
    spin = ctypes.CFUNCTYPE(None)(address)
    while True:
        spin()
        time.sleep(0.02)
finally:
    os.unlink(path)
