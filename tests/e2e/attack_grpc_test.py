# SPDX-License-Identifier: Apache-2.0
"""A hostile peer at the gRPC port: each attack in turn (lib/siege.py says what must hold)."""
import contextlib
import gzip
import socket
import ssl
import struct
import threading
import time

from lib import raw_h2
from lib.cluster import SLOW, Cluster, main, wait_until
from lib.raw_h2 import frame
from lib.siege import (CONNECT, PROFILE, SANITIZED, TERMINATE, UPLOAD, WATCH, ProfileRequest, TlsSiege, attack_all, hello, memory_mb,
                       times, together, varint)
from lib.waits import join
from lib.xspace import synthetic


STATUS = b"\x12\x00"  # an AgentMessage with an empty Status


def streams_that_are_not_read(s):
    """Events over HTTP, control links, watches: all open, none read, while captures make messages for them."""
    with s.attack(), contextlib.ExitStack() as stack:
        for _ in range(times(200)):
            conn = stack.enter_context(socket.create_connection(("127.0.0.1", s.http), 10, source_address=(s.attacker, 0)))
            conn.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for i in range(times(64)):
            h, _ = s.fake_agent(f"deaf-{i}", window=0)
            stack.callback(h.close)
            for _ in range(times(15)):
                h.message(h.call(WATCH), b"", end=True)
        for _ in range(3):
            s.capture()
            s.call("POST", "/api/v1/captures", {"duration_ns": 10**8, "hosts": "all"})


def large_answers_that_are_not_read(s):
    """Profile answers of 30 MB, and files over HTTP."""
    with s.attack(), contextlib.ExitStack() as stack:
        request = ProfileRequest(session_id="greedy", duration_ms=100).SerializeToString()
        for _ in range(times(48)):
            h = s.h2()
            stack.callback(h.close)
            h.message(h.call(PROFILE), request, end=True)
        doc = s.capture()
        for _ in range(times(200)):
            conn = stack.enter_context(socket.create_connection(("127.0.0.1", s.http), 10, source_address=(s.attacker, 0)))
            conn.sendall(f"GET /api/v1/sessions/{doc['session']} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 40)
        time.sleep(2)


def profiler_calls_with_huge_names(s):
    request = ProfileRequest(session_id="x" * 120000, duration_ms=1000).SerializeToString()
    with s.attack(), contextlib.closing(s.h2()) as h:
        calls = []
        with contextlib.suppress(OSError):  # the connection is ended, too
            for _ in range(128):
                calls.append(h.call(PROFILE))
                h.message(calls[-1], request, end=True)
        assert h.read_until(lambda: h.closed or all(c in h.reset for c in calls)), "a call with a name of 120 kB was not refused"
    assert s.get("/api/v1/captures")["captures"][0]["origin"] != "profiler-service", "one was accepted"


def messages_of_empty_submessages(s):
    """4 MB of empty submessages, eight at once: what a message unpacks to is no more than a hundred times its limit."""
    with s.attack():
        def go(path, data):
            with contextlib.closing(s.h2()) as h:
                call = h.call(path)
                h.message(call, data, end=True)
                assert h.read_until(lambda: call in h.reset or h.closed, 10 * SLOW), f"{path} was not refused"
        # Hello.labels, Hello.held; ProfileRequest.opts as often as there is room, and tool_options
        inner = b"\x2a\x00\x42\x00" * 1_000_000
        attacks = [(CONNECT, b"\x0a" + varint(len(inner)) + inner), (PROFILE, b"\x22\x00" * 2_000_000),
                   (PROFILE, b"\x2a\x00" * 2_000_000), (TERMINATE, b"\x0a\x00" * 2_000_000)]
        together(lambda a: go(*a), attacks * 2)


def announced_lengths(s):
    """Messages that announce up to 4 GiB and go on and on; at most 300 MB are sent of each."""
    block = b"\0" * (1 << 20)

    def go(args):
        path, announced = args
        with contextlib.closing(s.h2(seconds=2)) as h:
            call = h.call(path)
            h.put(call, struct.pack(">BI", 0, announced), patience=1)
            for _ in range(times(300)):
                if h.put(call, block, patience=1) < len(block):
                    return
    with s.attack():
        together(go, [(path, n) for path in (CONNECT, UPLOAD, PROFILE, WATCH) for n in (300 << 20, (1 << 32) - 1)])


def unfinished_messages(s):
    """Many streams, each with most of a message that it never ends."""
    with s.attack(), contextlib.ExitStack() as stack:
        for _ in range(times(16)):
            with contextlib.suppress(OSError):
                h = s.h2(seconds=1)
                stack.callback(h.close)
                for _ in range(64):
                    call = h.call(CONNECT)
                    h.put(call, struct.pack(">BI", 0, 1 << 20) + b"\0" * 60000, patience=0.1)


def compressed_messages(s):
    """8 kB that would become 8 MB: compression is not accepted."""
    bomb = gzip.compress(b"\0" * (8 << 20))
    with s.attack(), contextlib.closing(s.h2()) as h:
        for i in range(times(64)):
            with contextlib.suppress(OSError):
                call = h.call(PROFILE, [("grpc-encoding", "gzip")])
                h.put(call, raw_h2.grpc_message(bomb, compressed=1), end=True)
            assert h.read_until(lambda: call in h.reset or (i and h.closed)), "a compressed message was not refused"
            if h.closed:
                break


def floods_of_frames(s):
    """Frames that cost the sender nothing: pings, settings, resets of new streams, headers without end."""
    def pings(h):
        for _ in range(times(400)):
            h.send(frame(raw_h2.PING, 0, 0, b"12345678") * 50)

    def settings(h):
        for _ in range(times(400)):
            h.send(frame(raw_h2.SETTINGS, 0, 0, struct.pack(">HI", 4, 65535) * 10) * 20)

    def resets(h):
        for _ in range(times(1000)):
            h.send(frame(raw_h2.RST_STREAM, 0, h.call(WATCH), struct.pack(">I", 8)))

    def continuations(h):
        block = raw_h2.header_block([("x" * 50, "y" * 100)] * 90)
        h.send(frame(raw_h2.HEADERS, 0, 1, block))
        for _ in range(times(300)):
            h.send(frame(raw_h2.CONTINUATION, 0, 1, block))

    def large_headers(h):
        for _ in range(times(4)):
            h.call(WATCH, [("x", "y" * 1000000)])

    def windows(h):
        call = h.call(WATCH)
        for _ in range(times(20000)):
            h.send(frame(raw_h2.WINDOW_UPDATE, 0, call, struct.pack(">I", (1 << 31) - 1)))

    def empty_data(h):
        call = h.call(CONNECT)
        for _ in range(times(2000)):
            h.send(frame(raw_h2.DATA, 0, call) * 50)

    def priorities(h):
        for i in range(times(400)):
            h.send(b"".join(frame(2, 0, 2 * k + 1, struct.pack(">IB", 0, 1)) for k in range(100 * i, 100 * i + 100)))

    def streams(h):
        for _ in range(times(1500)):
            h.call(WATCH)

    def one(flood):
        with contextlib.suppress(OSError), contextlib.closing(s.h2()) as h:
            flood(h)
            h.read_for(0.2)
    with s.attack():
        for flood in (pings, settings, resets, continuations, large_headers, windows, empty_data, priorities, streams):
            one(flood)


def calls_that_are_never_used(s):
    """One address has its share of them, another one its own; without a first message they end."""
    with s.attack(), contextlib.ExitStack() as stack:
        for _ in range(times(125)):
            h = s.h2()
            stack.callback(h.close)
            for _ in range(16):
                h.call(WATCH)
            h.read_for(0.01)
        with contextlib.closing(s.h2(source=s.second)) as other:
            call = other.call(WATCH)
            other.message(call, b"")
            assert other.read_until(lambda: other.messages.get(call)), "another address got no call"


def calls_all_at_once(s):
    """On many connections: a call takes a hundred times what it costs its sender. Settings are not acknowledged, so no limit of
    streams holds. From one address, then from eight; then the shortest calls there are."""
    block = raw_h2.header_block([(":method", "POST"), (":scheme", "http"), (":path", WATCH), (":authority", "x"), ("te", "trailers"),
                                 ("content-type", "application/grpc")])
    # method and scheme by number, a path of one byte, te
    shortest = b"\x83\x86\x04\x01/" + raw_h2.header_block([("te", "trailers")])
    for addresses, n, headers in ([s.attacker], 250, block), (s.colluders(), 250, block), (s.colluders(), 2500, block), \
                                 (s.colluders(), 2500, shortest):
        calls = b"".join(frame(raw_h2.HEADERS, 4, 2 * k + 1, headers) for k in range(times(n)))
        with s.attack(), contextlib.ExitStack() as stack:
            held = []
            for i in range(times(256)):
                with contextlib.suppress(OSError):
                    held.append(s.h2(source=addresses[i % len(addresses)], seconds=1))
                    stack.callback(held[-1].close)
            together(lambda h: h.send(calls), held)
            time.sleep(2)
        assert f"NET-BANNED address={addresses[0]}" in s.log("aggregator") or SANITIZED
    wait_until("the memory to be given back", lambda: SANITIZED or memory_mb(s.agg.pid, "VmRSS") < 40)


# ---- floods ----

def flood_of_resets(s, h):
    while True:
        h.send(b"".join(frame(raw_h2.RST_STREAM, 0, h.call(WATCH), struct.pack(">I", 8)) for _ in range(8)))


def flood_of_streams(s, h):
    while True:
        h.call(WATCH)


def flood_of_announcements(s, h):
    call = h.call(CONNECT)
    h.put(call, struct.pack(">BI", 0, (1 << 32) - 1), patience=1)
    while h.put(call, b"\0" * (1 << 20), patience=1):
        pass


def flood_of_unfinished_messages(s, h):
    for _ in range(64):
        h.put(h.call(CONNECT), struct.pack(">BI", 0, 1 << 20) + b"\0" * 60000, patience=0.1)
    h.read_for(0.5)


def flood_of_connections(s, h):
    held = []
    with contextlib.suppress(OSError):
        while True:
            held.append(socket.create_connection(("127.0.0.1", s.grpc), 2, source_address=(s.attacker, 0)))
    time.sleep(2)
    for c in held:
        c.close()


def floods_that_go_on(s):
    """Each kind on eight connections at once, opened again for as long as it lasts. Meanwhile agents have their links, or have them
    back within 10 s, and a capture is complete."""
    for kind in (flood_of_resets, flood_of_streams, flood_of_announcements, flood_of_unfinished_messages, flood_of_connections):
        over = threading.Event()

        def go(_):
            while not over.wait(0.02):
                with contextlib.suppress(OSError, ValueError), contextlib.closing(s.h2(seconds=2)) as h:
                    h.sock.settimeout(2)
                    kind(s, h)
        with s.attack(links=False):
            print(f"       {kind.__name__}", flush=True)
            attackers = threading.Thread(target=together, args=(go, range(8)), daemon=True)
            attackers.start()
            try:
                end = time.monotonic() + 4
                while time.monotonic() < end:
                    s.capture()
            finally:
                over.set()
                join(attackers)
        s.next_attacker()


def an_admitted_host_floods(s):
    """A Hello of an invented name makes the connection an agent's; then it sends frames without end."""
    def go(i):
        end = time.monotonic() + 3
        while time.monotonic() < end:
            with contextlib.suppress(OSError), contextlib.closing(s.h2(seconds=2)) as h:
                _, stream = s.fake_agent(f"invented-{i}", h)
                h.sock.settimeout(2)
                h.read_until(lambda: h.messages.get(stream), 2)
                while time.monotonic() < end:
                    h.call(WATCH)
    with s.attack(links=False):
        together(go, range(4))


def an_admitted_host_does_not_end_its_messages(s):
    """Its link is good, and beside it messages grow without end, each a little slower than a flood; whole ones come between."""
    def go(i):
        with contextlib.suppress(OSError), contextlib.closing(s.h2(seconds=2)) as h:
            name = f"dripping-{i}"
            _, stream = s.fake_agent(name, h)
            assert h.read_until(lambda: h.messages.get(stream), 2 * SLOW), "it was not welcomed"
            calls = [h.call(CONNECT) for _ in range(4)]
            for call in calls:
                h.put(call, struct.pack(">BI", 0, 300 << 20), patience=1)
            for n in range(times(2000)):
                if not h.put(calls[n % 4], b"\0" * 16384, patience=1):
                    break
                if n % 8 == 0:
                    h.message(stream, STATUS)
                time.sleep(0.002)
            assert h.read_until(lambda: h.closed, 2 * SLOW), "it may send as much as it likes"
    with s.attack():
        together(go, range(4))
    assert f"NET-BANNED address={s.attacker}" in s.log("aggregator")


# ---- addresses that collude ----

def colluding_addresses(s):
    """Eight addresses, each within what one alone may take: unfinished messages, idle connections."""
    def pile_up(address):
        with contextlib.ExitStack() as stack:
            for _ in range(times(128)):
                h = s.h2(source=address, seconds=2)
                stack.callback(h.close)
                with contextlib.suppress(OSError):
                    h.put(h.call(CONNECT), struct.pack(">BI", 0, 1 << 20) + b"\0" * 60000, patience=0.1)
            time.sleep(1)

    def idle(address):
        with contextlib.ExitStack() as stack:
            for _ in range(times(256)):
                stack.enter_context(socket.create_connection(("127.0.0.1", s.grpc), 1, source_address=(address, 0)))
            time.sleep(1)
    for kind in (pile_up, idle):
        with s.attack():
            print(f"       {kind.__name__}", flush=True)
            together(kind, s.colluders())


def colluding_hosts(s):
    """Eight addresses with a good link each, and beside it messages that grow until the connection is cut."""
    def go(args):
        i, address = args
        with contextlib.closing(s.h2(source=address, seconds=2)) as h:
            _, stream = s.fake_agent(f"colluding-{i}", h)
            assert h.read_until(lambda: h.messages.get(stream), 10 * SLOW), "it was not welcomed"
            flood_of_announcements(s, h)
            assert h.read_until(lambda: h.closed, 10 * SLOW), "it may send as much as it likes"
    with s.attack():
        together(go, enumerate(s.colluders()))
    assert "NET-BANNED" in s.log("aggregator")


# ---- TLS ----

def tls_greeting():
    """A ClientHello as OpenSSL sends it."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        ssl._create_unverified_context().wrap_bio(back, there, server_hostname="localhost").do_handshake()
    return there.read()


def handshakes_that_do_not_end(s):
    """TLS begun on many connections, of which nothing more comes, at the gRPC and the HTTP port."""
    greeting = tls_greeting()
    with s.attack(), contextlib.ExitStack() as stack:
        for port in (s.grpc, s.http):
            refused = 0
            for i in range(times(1200)):
                with contextlib.suppress(OSError):
                    refused += 1
                    c = stack.enter_context(socket.create_connection(("127.0.0.1", port), 0.5, source_address=(s.attacker, 0)))
                    c.sendall((greeting, greeting[:3], greeting[:-1], b"")[i % 4])
                    refused = 0
                if refused == 10:
                    break
        time.sleep(3)
        s.capture()


def attack_slowly(*attacks):
    attack_all(attacks, slow=attacks)


def test_messages():
    attack_all([profiler_calls_with_huge_names, messages_of_empty_submessages, compressed_messages])


def test_unread():
    attack_slowly(streams_that_are_not_read, large_answers_that_are_not_read, announced_lengths, unfinished_messages)


def test_floods():
    attack_slowly(floods_of_frames, an_admitted_host_floods, an_admitted_host_does_not_end_its_messages)


def test_calls():
    attack_slowly(calls_that_are_never_used, calls_all_at_once, colluding_addresses, colluding_hosts)


def test_floods_that_go_on():
    attack_slowly(floods_that_go_on)


def test_uploads():
    """What is no attack: an agent that uploads more than a ban would take, capture after capture."""
    with Cluster() as c:
        c.aggregator("--lead", "50ms")
        c.agent("host-0", *c.profilers(synthetic(times(300_000), 10**12)), tracers="profiler,metrics")
        c.wait_hosts(1)
        sent = 0
        for _ in range(4):
            _, doc = c.tutti("capture", "--duration", "1s", "--json")
            assert doc["hosts"][0]["reason"] in ("", "profiler-old"), doc["hosts"][0]
            sent += doc["hosts"][0]["bytes"]
        assert SANITIZED or sent > 9 << 20, sent
        assert "NET-BANNED" not in c.log("aggregator"), "an agent was banned for its uploads"


def test_tls():
    attack_all([handshakes_that_do_not_end], slow=(handshakes_that_do_not_end,), siege=TlsSiege)


main(test_messages, test_unread, test_floods, test_calls, test_floods_that_go_on, test_uploads, test_tls)
