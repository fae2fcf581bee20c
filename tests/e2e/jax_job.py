# SPDX-License-Identifier: Apache-2.0
"""A small JAX program that trains for ever and serves its profiler: work for Tutti to capture."""
import argparse
import os
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp

from publish import free_port, publish


@jax.jit
def train_step(weights, batch):
    def loss(w):
        return jnp.mean((jnp.tanh(batch @ w) - 0.5) ** 2)

    return weights - 0.01 * jax.grad(loss)(weights)


def nothing():
    pass


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--port", type=int, default=0, help="of the profiler server; 0 = any free one")
    args.add_argument("--seconds", type=float, default=60)
    args.add_argument("--port-file", help="gets the port when the server listens and --ready-step is done")
    args.add_argument("--ready-step", type=int, default=0, help="how many steps come first")
    args.add_argument("--calls", type=int, default=0, help="of a Python function in each step: events of its tracer")
    args.add_argument("--log", default=os.devnull, help="gets step, begin, end of each step, in the wall clock's ns")
    args.add_argument("--trace", help="run jax.profiler.start_trace() into this directory all the time")
    args = args.parse_args()

    port = args.port or free_port()
    server = jax.profiler.start_server(port)
    assert server
    weights = jnp.ones((128, 128))
    batch = jnp.ones((64, 128))
    jax.block_until_ready(train_step(weights, batch))
    if args.trace:
        jax.profiler.start_trace(args.trace)
    end = time.monotonic() + args.seconds
    step = 0
    log = open(args.log, "w", buffering=1)
    while time.monotonic() < end:
        if step == args.ready_step:
            if args.port_file:
                publish(args.port_file, port)
            print(f"ready port={port} pid={os.getpid()}", flush=True)
        begin_ns = time.time_ns()
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            weights = jax.block_until_ready(train_step(weights, batch))
        print(step, begin_ns, time.time_ns(), file=log)
        for _ in range(args.calls):
            nothing()
        step += 1
        if not args.calls:
            time.sleep(0.005)
    if args.trace:
        jax.profiler.stop_trace()
    return 0


if __name__ == "__main__":
    sys.exit(main())
