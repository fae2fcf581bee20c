# SPDX-License-Identifier: Apache-2.0
"""One rank of a distributed JAX program: trains for ever, data parallel, with gloo collectives on CPU.

All ranks stop by the same step: rank 0 takes the decision and the others get it by a collective.
"""
import argparse
import os
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from publish import free_port, publish


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--rank", type=int, required=True)
    args.add_argument("--ranks", type=int, required=True)
    args.add_argument("--coordinator", required=True, help="ADDRESS:PORT that rank 0 opens")
    args.add_argument("--port-file", help="gets the port of the profiler server when the second step is done")
    args.add_argument("--seconds", type=float, default=60)
    args.add_argument("--layers", type=int, default=4, help="each brings a collective to each step")
    args.add_argument("--pause", type=float, default=0.005, help="seconds between steps")
    args = args.parse_args()

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(args.coordinator, args.ranks, args.rank)
    port = free_port()
    server = jax.profiler.start_server(port)
    assert server
    mesh = Mesh(np.array(jax.devices()), ("ranks",))
    split = NamedSharding(mesh, PartitionSpec("ranks"))
    shared = NamedSharding(mesh, PartitionSpec())

    def loss(weights, batch):
        for w in weights:
            batch = jnp.tanh(batch @ w)
            batch = batch - jnp.mean(batch, axis=0)  # over all ranks: an all-reduce
        return jnp.mean((batch - 0.5) ** 2)

    @jax.jit
    def train_step(weights, batch):
        return jax.tree.map(lambda w, g: w - 0.01 * g, weights, jax.grad(loss)(weights, batch))

    rows = np.random.default_rng(args.rank).standard_normal((8, 64), dtype=np.float32)
    batch = jax.make_array_from_process_local_data(split, rows)
    weights = [jax.device_put(np.eye(64, dtype=np.float32), shared) for _ in range(args.layers)]
    step = 0
    end = time.monotonic() + args.seconds
    while True:
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            weights = jax.block_until_ready(train_step(weights, batch))
        step += 1
        if step == 2 and args.port_file:
            publish(args.port_file, port)
            print(f"ready port={port} pid={os.getpid()}", flush=True)
        if step % 64 == 0 and not multihost_utils.broadcast_one_to_all(np.array(time.monotonic() < end)):
            break
        time.sleep(args.pause)
    return 0


if __name__ == "__main__":
    sys.exit(main())
