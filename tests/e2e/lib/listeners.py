# SPDX-License-Identifier: Apache-2.0
"""Where a process listens: listeners(pid) is a set of (kind, address, port), with tcp sockets that listen and udp sockets that take
datagrams of any sender."""
import ipaddress
import os
import pathlib
import re

STATES = {"tcp": "0A", "udp": "07"}


def sockets_of(pid):
    """Inodes of the sockets that the process has open."""
    found = set()
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            match = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(fd))
        except OSError:  # closed since
            continue
        if match:
            found.add(match[1])
    return found


def address_of(text):
    """Words of 32 bits, each in this machine's order."""
    raw = b"".join(bytes.fromhex(text[i:i + 8])[::-1] for i in range(0, len(text), 8))
    address = ipaddress.ip_address(raw)
    return getattr(address, "ipv4_mapped", None) or address


def listeners(pid):
    mine, found = sockets_of(pid), set()
    for file in ("tcp", "tcp6", "udp", "udp6"):
        path = pathlib.Path(f"/proc/{pid}/net/{file}")
        for line in path.read_text().splitlines()[1:] if path.exists() else []:
            words = line.split()
            if words[9] in mine and words[3] == STATES[file[:3]]:
                address, port = words[1].split(":")
                found.add((file[:3], str(address_of(address)), int(port, 16)))
    return found


def reachable(pid):
    """Those that other machines reach."""
    return {(kind, address, port) for kind, address, port in listeners(pid) if not ipaddress.ip_address(address).is_loopback}
