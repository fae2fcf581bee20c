# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 without rules, for tests of what a hostile gRPC peer may do: frames are sent as they are given, windows are kept
or broken as the test likes.

    h = H2(("127.0.0.1", port))
    stream = h.call("/tutti.v1.Control/Connect")
    h.message(stream, hello)             # one gRPC message in DATA frames, as far as the windows go
    h.read_for(0.2); h.messages[stream]  # what came; reading is up to the test
"""
import select
import socket
import struct
import time

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_MAX = 16384


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def number(value, bits, first=0):
    """HPACK's integer with a prefix of so many bits."""
    top = (1 << bits) - 1
    if value < top:
        return bytes((first | value,))
    out = bytearray((first | top,))
    value -= top
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def header_block(pairs):
    """Literals that are never added to a table, without Huffman codes."""
    out = b""
    for name, value in pairs:
        name, value = (x if isinstance(x, bytes) else x.encode() for x in (name, value))
        out += b"\0" + number(len(name), 7) + name + number(len(value), 7) + value
    return out


def grpc_message(data, compressed=0, length=None):
    return struct.pack(">BI", compressed, len(data) if length is None else length) + data


class H2:
    """One connection. `window`: how much the server may send on each stream before the test allows more; None: as much
    as it likes. Lost connections raise OSError when written to; reading them sets `closed`."""

    def __init__(self, address, window=None, source=None, wrap=None, seconds=10, accepted=None):
        """accepted: a socket on which the other side has begun; this one serves."""
        self.serves = accepted is not None
        self.sock = accepted or socket.create_connection(address, seconds, source_address=source)
        if wrap:
            self.sock = wrap(self.sock)
        self.poll = select.poll()
        self.poll.register(self.sock, select.POLLIN)
        self.window = window
        self.buffer = b""
        self.next = 1
        self.connection_window, self.initial_window, self.windows = 65535, 65535, {}
        self.data, self.reset, self.headers = {}, {}, {}
        self.closed = False
        self.goaway = None
        settings = b"" if window is None else struct.pack(">HI", 4, window)
        self.skip = len(PREFACE) if self.serves else 0
        self.send((b"" if self.serves else PREFACE) + frame(SETTINGS, 0, 0, settings))
        if window is None:
            self.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", (1 << 31) - 1 - 65535)))

    def send(self, data):
        self.sock.sendall(data)

    def close(self):
        self.sock.close()

    # ---- calls ----

    def call(self, path, metadata=(), end=False):
        """Opens a stream; returns its number."""
        stream, self.next = self.next, self.next + 2
        block = header_block([(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "x"), ("te", "trailers"),
                              ("content-type", "application/grpc"), *metadata])
        self.windows[stream] = self.initial_window
        flags = END_STREAM if end else 0
        self.send(frame(HEADERS, flags | (END_HEADERS if len(block) <= FRAME_MAX else 0), stream, block[:FRAME_MAX]))
        for at in range(FRAME_MAX, len(block), FRAME_MAX):
            last = at + FRAME_MAX >= len(block)
            self.send(frame(CONTINUATION, END_HEADERS if last else 0, stream, block[at:at + FRAME_MAX]))
        return stream

    def put(self, stream, data, end=False, patience=5):
        """Sends bytes as the windows allow, reading meanwhile; returns how many went out."""
        at, limit = 0, time.monotonic() + patience
        while at < len(data):
            n = min(FRAME_MAX, len(data) - at, self.connection_window, self.windows[stream])
            if n <= 0:
                self.read_for(0.05)
                if self.closed or stream in self.reset or time.monotonic() > limit:
                    return at
                continue
            last = end and at + n == len(data)
            self.send(frame(DATA, END_STREAM if last else 0, stream, data[at:at + n]))
            self.connection_window -= n
            self.windows[stream] -= n
            at += n
            limit = time.monotonic() + patience
            self.read_for(0)
        return at

    def message(self, stream, data, end=False, **kwargs):
        return self.put(stream, grpc_message(data), end, **kwargs)

    def answer(self, stream):
        """Begins to answer a call of the other side; put() goes on."""
        self.send(frame(HEADERS, END_HEADERS, stream, header_block([(":status", "200"), ("content-type", "application/grpc")])))

    # ---- what the other side sends ----

    def read_for(self, seconds):
        """Reads what comes within that time: all that is there, also with 0."""
        end = time.monotonic() + seconds
        while not self.closed:
            left = end - time.monotonic()
            if not self.poll.poll(1000 * max(0, left)):
                return
            try:
                data = self.sock.recv(1 << 18)
            except OSError:
                data = b""
            self.closed = not data
            self.buffer += data[self.skip:]
            self.skip = max(0, self.skip - len(data))
            self.take_frames()

    def read_until(self, condition, seconds=10):
        end = time.monotonic() + seconds
        while not condition() and not self.closed and time.monotonic() < end:
            self.read_for(0.02)
        return condition()

    def take_frames(self):
        while len(self.buffer) >= 9:
            length = int.from_bytes(self.buffer[:3], "big")
            if len(self.buffer) < 9 + length:
                return
            kind, flags, stream = self.buffer[3], self.buffer[4], int.from_bytes(self.buffer[5:9], "big")
            payload, self.buffer = self.buffer[9:9 + length], self.buffer[9 + length:]
            self.take(kind, flags, stream, payload)

    def take(self, kind, flags, stream, payload):
        if kind == SETTINGS and not flags & ACK:
            for at in range(0, len(payload) - 5, 6):
                key, value = struct.unpack(">HI", payload[at:at + 6])
                if key == 4:
                    for s in self.windows:
                        self.windows[s] += value - self.initial_window
                    self.initial_window = value
            self.send(frame(SETTINGS, ACK, 0))
        elif kind == WINDOW_UPDATE:
            n = int.from_bytes(payload, "big")
            if stream:
                self.windows[stream] = self.windows.get(stream, 0) + n
            else:
                self.connection_window += n
        elif kind == PING and not flags & ACK:
            self.send(frame(PING, ACK, 0, payload))
        elif kind == DATA:
            self.data[stream] = self.data.get(stream, b"") + payload
            if self.window is None and length_matters(payload):
                self.send(frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", len(payload))))
        elif kind == HEADERS:
            self.headers[stream] = self.headers.get(stream, b"") + payload
            if self.serves:
                self.windows.setdefault(stream, self.initial_window)
            if flags & END_STREAM:
                self.reset.setdefault(stream, 0)
        elif kind == RST_STREAM:
            self.reset[stream] = int.from_bytes(payload, "big")
        elif kind == GOAWAY:
            self.goaway = payload

    @property
    def messages(self):
        """By stream, the whole messages that came."""
        found = {}
        for stream, data in self.data.items():
            found[stream] = []
            while len(data) >= 5 and len(data) >= 5 + (n := int.from_bytes(data[1:5], "big")):
                found[stream].append(data[5:5 + n])
                data = data[5 + n:]
        return found


def length_matters(payload):
    return len(payload) > 0
