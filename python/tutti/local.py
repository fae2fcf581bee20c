# SPDX-License-Identifier: Apache-2.0
"""Captures through the local socket of this host's agent: one request and its reply, as nng frames them and
proto/tutti/v1/local.proto has them."""
import os
import socket
import struct

SOCKET = "ipc:///run/tutti/agent.ipc"
REQUEST_ID = struct.pack(">I", 0x80000001)
HELLO = b"\0SP\0\0\x30\0\0"  # a requester
HELLO_BACK = b"\0SP\0\0\x31\0\0"
REPLY_MAX = 16 << 20
START, STOP = 3, 4  # of LocalRequest


class AgentError(Exception):
    """There is no agent at the socket, or it refuses; the text has the cause."""


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def field_bytes(number, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(number << 3 | 2) + varint(len(data)) + data if data else b""


def field_int(number, value):
    return varint(number << 3) + varint(value) if value else b""


def read_varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def fields(data):
    """{number: value} of a message with numbers and texts only."""
    out, at = {}, 0
    while at < len(data):
        key, at = read_varint(data, at)
        value, at = read_varint(data, at)
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
        elif key & 7:
            raise ValueError("a field of an unknown kind")
        out[key >> 3] = value
    return out


def read_exact(s, n):
    data = b""
    while len(data) < n:
        more = s.recv(n - len(data))
        if not more:
            raise AgentError("the agent closed the connection")
        data += more
    return data


def read_reply(s):
    kind, length = struct.unpack(">BQ", read_exact(s, 9))
    if kind != 1 or not 4 <= length <= REPLY_MAX:
        raise AgentError("the answer is no message: is this an agent?")
    return read_exact(s, length)[4:]


def call(url, kind, body, timeout):
    """The fields of the reply to one request."""
    if not url.startswith("ipc://"):
        raise AgentError(f"{url!r}: expected ipc:///PATH")
    message = varint(kind << 3 | 2) + varint(len(body)) + body
    try:
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(timeout)
            s.connect(url[len("ipc://"):])
            s.sendall(HELLO)
            if read_exact(s, 8) != HELLO_BACK:
                raise AgentError(f"{url}: the program there is not an agent")
            s.sendall(struct.pack(">BQ", 1, 4 + len(message)) + REQUEST_ID + message)
            reply = fields(read_reply(s))
    except OSError as e:
        raise AgentError(f"{url}: {e}: is an agent there, and may this process use its socket?") from e
    except (IndexError, ValueError) as e:
        raise AgentError(f"{url}: the answer cannot be read: {e}") from e
    if not reply.get(1):
        raise AgentError(reply.get(2, b"").decode(errors="replace") or "refused without a cause")
    return reply


class Capture:
    """A capture under way; `session` is its name. As a context manager it is stopped at the end of the block."""

    def __init__(self, session, url, token, timeout):
        self.session, self.url, self.token, self.timeout = session, url, token, timeout

    def stop(self):
        """Ends the window now; the session keeps what was recorded. An error if it has ended by itself."""
        call(self.url, STOP, field_bytes(1, self.session) + field_bytes(2, self.token), self.timeout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.stop()
        except AgentError:
            pass  # it has ended by itself, or with the agent


def capture(hosts="", duration=600, run="", token="", socket_url=None, timeout=15):
    """Asks the aggregator, through the agent, to begin a capture of this host, or of the hosts that `hosts` selects.

    The capture ends by itself after `duration` seconds.

    Other hosts than this one need the aggregator's token, if it has one. AgentError if it cannot begin.
    """
    url = socket_url or os.environ.get("TUTTI_LOCAL_SOCKET", SOCKET)
    body = (field_bytes(1, hosts) + field_int(2, int(duration * 1e9)) + field_bytes(3, run) + field_bytes(4, token))
    session = call(url, START, body, timeout).get(3, b"").decode()
    return Capture(session, url, token, timeout)
