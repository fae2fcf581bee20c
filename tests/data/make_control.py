#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what an agent and an aggregator of a release say to each other, for e2e/old_control:

    .venv/bin/python tests/data/make_control.py BIN NAME      # some 15 s

BIN is as for make_store.py. The result is control-NAME.json beside this file: a list of messages in their order, each with its method, who sent it,
and its bytes in Base64. A capture, training steps, a mark, a capture from the local socket and a stop are in it."""
import base64
import concurrent.futures
import functools
import json
import os
import pathlib
import sys
import threading

import grpc

BIN, NAME = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
HERE = pathlib.Path(__file__).resolve().parent
os.environ["TUTTI_BIN"] = str(BIN)
sys.path.insert(0, str(HERE.parent / "e2e"))
from lib.cluster import Cluster, free_port, main, wait_until  # noqa: E402


class Tape(grpc.GenericRpcHandler):
    """Passes on all streams to another server, and keeps their messages."""

    def __init__(self, target):
        self.channel, self.messages, self.lock = grpc.insecure_channel(target), [], threading.Lock()

    def keep(self, sender, method, message):
        with self.lock:
            self.messages.append({"method": method, "from": sender, "message": base64.b64encode(message).decode()})
        return message

    def service(self, details):
        return grpc.stream_stream_rpc_method_handler(functools.partial(self.pass_on, details.method))

    def pass_on(self, method, requests, context):
        call = self.channel.stream_stream(method)(self.keep("agent", method, m) for m in requests)
        try:
            for reply in call:
                yield self.keep("aggregator", method, reply)
        except grpc.RpcError as e:
            context.abort(e.code(), e.details())


def make():
    with Cluster() as c:
        c.aggregator()
        tape, port, aggregator = Tape(f"127.0.0.1:{c.grpc}"), free_port(), c.grpc
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(16), handlers=[tape])
        server.add_insecure_port(f"127.0.0.1:{port}")
        server.start()
        c.grpc = port
        c.agent("host-a", "--tracers", "metrics,marks", "--label", "rack=12", "--stop-limit", "1s")
        c.grpc = aggregator
        c.wait_hosts(1)
        session = c.tutti("capture", "--duration", "300ms", "--set", "metrics.max_hz=5", "--json", check=0)[1]["session"]
        wait_until("the release", lambda: not list((c.dir / "host-a-spool").glob("*/entry")))
        p = c.burst("host-a", flags=("--period", "200ms", "--work", "5ms", "--steps"))
        wait_until("the steps", lambda: c.hosts()["host-a"].get("steps", {}).get("period_ns", 0) > 0)
        c.tutti("capture", "--at-step", "next", "--steps", "2", "--json", check=0)
        p.kill()
        local = ("--local-socket", c.sockets["host-a"])
        c.tutti("mark", *local, "epoch 3 begins", check=0)
        started = c.tutti("start", *local, "--json", check=0)[1]["session"]
        wait_until("its window", lambda: c.get(f"/api/v1/captures/{started}")["state"] == "running")
        c.tutti("stop", *local, started, check=0)
        wait_until("its commit", lambda: c.call("GET", f"/api/v1/sessions/{started}")[0] == 200)
        c.processes["host-a"].terminate()
        assert c.processes["host-a"].wait(20) == 0
        server.stop(1).wait(20)
        doc = {"release": NAME, "session": session, "messages": tape.messages}
        file = HERE / f"control-{NAME}.json"
        file.write_text(json.dumps(doc, indent=0) + "\n")
        print(f"     {file.name}: {len(tape.messages)} messages, {file.stat().st_size} bytes")


main(make)
