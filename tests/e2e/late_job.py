# SPDX-License-Identifier: Apache-2.0
"""A training job's process on one host, for a picture: late_job.py PORT LATE_MS. In each step it loads a batch, which takes LATE_MS longer on
a slow host, goes forward and backward, and meets the other hosts: a byte to PORT of loopback says that it is there, one comes back when all are."""
import socket
import sys
import threading
import time

import tutti

LOAD, FORWARD, BACKWARD, REDUCE, UPDATE = 0.014, 0.005, 0.007, 0.008, 0.006  # seconds; of a layer the second and the third
LAYERS = ("in", "attn", "mlp", "out")


def work(name, seconds):
    with tutti.scope(name):
        time.sleep(seconds)


def step(peers, late):
    work("load batch", LOAD + late)
    with tutti.scope("forward"):
        for layer in LAYERS:
            work(layer, FORWARD)
    with tutti.scope("backward"):
        for layer in reversed(LAYERS):
            work(layer, BACKWARD)
    with tutti.scope("all-reduce"):
        with tutti.scope("wait for peers"):
            peers.sendall(b"x")
            if not peers.recv(1):
                sys.exit()
        work("copy", REDUCE)
    work("update", UPDATE)


threading.main_thread().name = "trainer"
with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 30) as peers:
    n = 0
    while True:
        with tutti.step(n):
            step(peers, float(sys.argv[2]) / 1000)
        n += 1
