# SPDX-License-Identifier: Apache-2.0
"""A small TensorFlow program that trains for ever and serves its profiler."""
import argparse
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf

from publish import free_port, publish


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--port-file", required=True, help="gets the port when the server listens and 3 steps are done")
    args.add_argument("--seconds", type=float, default=60)
    args = args.parse_args()

    port = free_port()
    tf.profiler.experimental.server.start(port)
    weights = tf.Variable(tf.ones((64, 64)))
    batch = tf.ones((64, 64))

    @tf.function
    def train_step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.tanh(tf.matmul(batch, weights)) - 0.5) ** 2)
        weights.assign_sub(0.01 * tape.gradient(loss, weights))

    step = 0
    end = time.monotonic() + args.seconds
    while time.monotonic() < end:
        if step == 3:
            publish(args.port_file, port)
        with tf.profiler.experimental.Trace("train", step_num=step, _r=1):
            train_step()
        step += 1
        time.sleep(0.005)


main()
