# SPDX-License-Identifier: Apache-2.0
"""A Python program with annotations of the package tutti and, where NVTX is injected, of nvtx: annotated_job.py
Its output is its pid and that of a forked child."""
import asyncio
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


def use_nvtx(n):
    with nvtx.annotate("nvtx range", domain="job", payload=n):
        time.sleep(0.001)
    nvtx.mark("nvtx mark")


child = os.fork()
if child == 0:
    die_with_parent()
    work("of the child")
print(os.getpid(), child, flush=True)
threading.Thread(target=work, args=("of a thread",), name="helper", daemon=True).start()
step = 0
while True:
    with tutti.step(step, "py train"):
        function()
        asyncio.run(both())
        tutti.instant("between", step)
        tutti.counter("odd", -math.inf if step % 2 else math.nan)
        if nvtx:
            use_nvtx(step)
    step += 1
