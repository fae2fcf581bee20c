# SPDX-License-Identifier: Apache-2.0
"""A hostile client at the HTTP port: each attack in turn (lib/siege.py says what must hold)."""
import contextlib
import socket
import subprocess
import time

from lib.cluster import BIN, SLOW, main
from lib.siege import SANITIZED, attack_all


def wild_numbers(s):
    numbers = (-1, 0, 1, 2**31, 2**53, 2**62, 2**63 - 1, 2**63, 2**64, -2**63, 1e308, -1e308, 0.5, "1", None, [], {}, True)
    fields = ("duration_ns", "wait_ns", "at_step", "steps", "not_before_ns", "grace_ns", "after_steps")
    with s.attack():
        for field in fields:
            for n in numbers:
                body = {"duration_ns": 10**6, "hosts": "no-such-host", field: n}
                status, _ = s.call("POST", "/api/v1/captures", body)
                assert 400 <= status < 500, (field, n, status)
        for body in (b"[" * 100000, b'{"a":' * 100000, b'{"duration_ns": 1e999999999}', b'"\\ud800"', b"\xff" * 1000, b"nul"):
            answer = s.http_bytes(b"POST /api/v1/captures HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
                                  % len(body) + body)
            assert answer.startswith(b"HTTP/1.1 400"), answer[:300]
        for query in ("limit=99999999999999999999", "limit=-1", "after=" + "x" * 4000, "run=%2e%2e%2f", "&" * 4000, "limit=1&" * 60):
            answer = s.http_bytes(f"GET /api/v1/sessions?{query} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            assert answer[:10] in (b"HTTP/1.1 2", b"HTTP/1.1 4", b""), (query[:80], answer[:300])


def paths_with_many_wildcards(s):
    with s.attack():
        for path in ("/api/v1/sessions/" + "*/" * 4000, "/" * 8000, "/api/v1/sessions/" + "%2f" * 2000 + "/files/x",
                     "/api/v1/sessions/../../../etc/passwd", "/api/v1/sessions/x/files/..%2f..%2fplan.json", "/%00", "/%"):
            answer = s.http_bytes(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            assert answer[:10] == b"HTTP/1.1 4", (path[:80], answer[:300])


def names_of_other_sites(s):
    """A site in a user's browser makes its own name resolve to the aggregator."""
    with s.attack():
        for name in ("evil.example", f"evil.example:{s.http}", "localhost.evil.example", "127.0.0.1.evil.example", "evil.example@localhost",
                     "[::1].evil.example", "xn--", "localhost:1@evil.example", "0x7f000001.evil", ""):
            for method, path in (("GET", "/api/v1/hosts"), ("POST", "/api/v1/captures"), ("DELETE", "/api/v1/sessions/x")):
                answer = s.http_bytes(f"{method} {path} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".encode())
                assert answer.startswith(b"HTTP/1.1 421"), (name, answer[:200])
        answer = s.http_bytes(b"POST /api/v1/captures HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\nConnection: close\r\n"
                              b"Content-Length: 2\r\n\r\n{}")
        assert answer.startswith(b"HTTP/1.1 403"), answer[:200]


def two_ends_of_a_body(s):
    smuggled = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with s.attack():
        for headers in (b"Content-Length: 0\r\nContent-Length: %d" % len(smuggled), b"Content-Length: 5\r\nTransfer-Encoding: chunked",
                        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", b"Transfer-Encoding: xchunked",
                        b"Content-Length: +5", b"Content-Length: 5, 5", b"Content-Length: 0x5", b"Content-Length : 5"):
            answer = s.http_bytes(b"POST /api/v1/captures HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n\r\n" + smuggled)
            assert answer.startswith(b"HTTP/1.1 400") and b"HTTP/1.1 2" not in answer, (headers, answer[:500])


def two_addresses_hold_the_connections(s):
    """Heads and bodies of which a byte comes now and then; an address gets at most half of what is left."""
    body = b"POST /api/v1/captures HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048576\r\n\r\n" + b"x" * 1000000
    heads = b"GET /healthz HTTP/1.1\r\nX: " + b"y" * 30000
    with s.attack(), contextlib.ExitStack() as stack:
        conns = []
        for source, n in ((s.attacker, 510), (s.second, 260)):
            for i in range(n):
                with contextlib.suppress(OSError):
                    c = socket.create_connection(("127.0.0.1", s.http), 10, source_address=(source, 0))
                    stack.callback(c.close)
                    c.setblocking(False)
                    c.send(heads if i % 2 else body)
                    conns.append(c)
        end = time.monotonic() + (30 if not SANITIZED else 3) * SLOW
        while time.monotonic() < end and sum(is_over(c) for c in conns) <= 300:
            for c in conns:
                with contextlib.suppress(OSError):
                    c.send(b"z")
            time.sleep(1)
        if not SANITIZED:
            assert sum(is_over(c) for c in conns) > 300, "slow heads are waited for without end"


def is_over(conn):
    try:
        while conn.recv(65536):
            pass
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def token_files_that_others_read(s):
    with s.attack():
        token = s.dir / "open-token"
        token.write_text("0123456789abcdef0123\n")
        token.chmod(0o644)
        p = subprocess.run([BIN / "tutti-aggregator", "--store", f"file://{s.dir}/other", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0",
                            "--probe", "127.0.0.1:0", "--spool", s.dir / "other-spool", "--token-file", token],
                           capture_output=True, text=True, timeout=20 * SLOW)
        assert p.returncode == 1 and "open-token" in p.stderr and "correct" not in p.stderr, p


ATTACKS = [wild_numbers, paths_with_many_wildcards, names_of_other_sites, two_ends_of_a_body, two_addresses_hold_the_connections,
           token_files_that_others_read]


def test_http():
    attack_all(ATTACKS, slow=(two_addresses_hold_the_connections,))


main(test_http)
