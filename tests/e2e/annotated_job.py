# SPDX-License-Identifier: Apache-2.0
"""A Python program with annotations of the package tutti and, where NVTX is injected, of nvtx: annotated_job.py
Its output is its pid and that of a forked child."""
import asyncio
import ctypes
import math
import os
import threading
import time

import tutti
from lib.leftovers import die_with_parent

try:
    import nvtx
except ImportError:
    nvtx = None


@tutti.scope("a function")
def function():
    time.sleep(0.001)


async def coroutine(name):
    with tutti.span(name):
        await asyncio.sleep(0.005)


async def both():
    await asyncio.gather(coroutine("span one"), coroutine("span two"))


def work(name):
    while True:
        with tutti.scope(name, 0.5):
            function()
        tutti.counter(f"{name} counter", 3)
        time.sleep(0.01)


class Segment(ctypes.Structure):
    _fields_ = [("id", ctypes.c_size_t), ("n", ctypes.c_size_t), ("functions", ctypes.c_void_p)]


class Extension(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint16), ("size", ctypes.c_uint16), ("module", ctypes.c_uint16), ("compatible", ctypes.c_uint16),
                ("n_segments", ctypes.c_size_t), ("segments", ctypes.POINTER(Segment)), ("export", ctypes.c_void_p),
                ("info", ctypes.c_void_p)]


def pop_with_payload():
    """nvtxRangePopPayload() of the default domain, as NCCL has it compiled in: the package nvtx lacks it."""
    functions = (ctypes.c_void_p * 63)()
    segment = Segment(0, 63, ctypes.addressof(functions))
    extension = Extension(3, ctypes.sizeof(Extension), 2, 0x104, 1, ctypes.pointer(segment))
    assert ctypes.CDLL(os.environ["NVTX_INJECTION64_PATH"]).InitializeInjectionNvtxExtension(ctypes.byref(extension)) == 1
    pop = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(functions[4])
    return lambda: pop(None, None, 0)


def use_nvtx(n, pop):
    with nvtx.annotate("nvtx range", domain="job", payload=n):
        nvtx.push_range("never popped", domain="library")
        nvtx.push_range("popped with a payload")
        pop()
        time.sleep(0.001)
    nvtx.mark("nvtx mark")


child = os.fork()
if child == 0:
    die_with_parent()
    work("of the child")
print(os.getpid(), child, flush=True)
threading.Thread(target=work, args=("of a thread",), name="helper", daemon=True).start()
step = 0
pop = pop_with_payload() if nvtx and "NVTX_INJECTION64_PATH" in os.environ else None
while True:
    with tutti.step(step, "py train"):
        function()
        asyncio.run(both())
        tutti.instant("between", step)
        tutti.counter("odd", -math.inf if step % 2 else math.nan)
        if pop:
            use_nvtx(step, pop)
    step += 1
