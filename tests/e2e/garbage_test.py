# SPDX-License-Identifier: Apache-2.0
"""Garbage on every port: a line in the log at most, and the daemons serve on."""
import random
import socket

from lib.cluster import Cluster, free_port, main, wait_until


def throw(address, data, kind=socket.SOCK_STREAM, family=socket.AF_INET):
    with socket.socket(family, kind) as s:
        s.settimeout(2)
        try:
            s.connect(address)
            s.sendall(data)
            if kind == socket.SOCK_STREAM:
                s.shutdown(socket.SHUT_WR)
                while s.recv(65536):
                    pass
        except OSError:
            pass


def samples(seed):
    rnd = random.Random(seed)
    yield b""
    yield b"\0" * 100
    yield b"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n"
    yield b"GET /api/v1/sessions/..%2f..%2fmanifest HTTP/1.1\r\nHost: x\r\n\r\n"
    yield b"GET /api/v1/sessions?limit=%zz HTTP/1.1\r\nHost: x\r\n\r\n"
    yield b"POST /api/v1/captures HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999999\r\n\r\n{"
    yield b"POST /api/v1/captures HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n[[[["
    yield b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + rnd.randbytes(200)
    yield b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0" + rnd.randbytes(2000)
    yield b"\0SP\0\0\x31\0\0" + b"\xff" * 64  # nng's greeting, then a message of absurd length
    yield b"\0SP\0\0\x30\0\0\x01\0\0\0\0\0\0\0\x10" + rnd.randbytes(16)
    for _ in range(30):
        yield rnd.randbytes(rnd.randrange(1, 3000))


def test_garbage():
    seed = random.randrange(1 << 32)
    print(f"     seed {seed}")
    with Cluster() as c:
        c.aggregator()
        port = free_port()
        c.agent("host-a", "--listen", f"127.0.0.1:{port}")
        c.wait_hosts(1)
        socket_url = c.sockets["host-a"].removeprefix("ipc://")
        for data in samples(seed):
            throw(("127.0.0.1", c.http), data)
            throw(("127.0.0.1", c.grpc), data)
            throw(("127.0.0.1", port), data)
            throw(socket_url, data, family=socket.AF_UNIX)
            throw(("127.0.0.1", c.probe), data, kind=socket.SOCK_DGRAM)
        assert c.hosts()["host-a"]["state"] == "connected"
        assert "W HTTP-REFUSED" in c.log("aggregator") and "W AGG-PROBE" in c.log("aggregator")
        for daemon, grpc in (("aggregator", c.grpc), ("host-a", port)):
            wait_until(f"what {daemon} says of unidentified connections at port {grpc}",
                       lambda: f"W NET-UNIDENTIFIED port={grpc} " in c.log(daemon))
        assert f"W NET-UNIDENTIFIED url={c.sockets['host-a']} " in c.log("host-a")
        c.tutti("mark", "--local-socket", c.sockets["host-a"], "still here", check=0)
        _, doc = c.tutti("capture", "--duration", "500ms", "--json", check=0)
        assert doc["complete"] == 1


main(test_garbage)
