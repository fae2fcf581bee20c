# SPDX-License-Identifier: Apache-2.0
"""A big file in an agent's spool, in place of a small one: for benches of how files travel."""
import os
import pathlib
import re
import zlib

MIB = 1 << 20


class BigFile:
    """Random bytes, so that no program on the way reads them as an XSpace; `size` is in whole MiB."""

    def __init__(self, path, size):
        import google_crc32c  # needs the Python environment of bench.build()
        self.path, self.size = path, size // MIB * MIB
        self.crc32 = self.crc32c = 0
        with open(path, "wb") as f:
            for _ in range(self.size // MIB):
                block = os.urandom(MIB)
                f.write(block)
                self.crc32 = zlib.crc32(block, self.crc32)
                self.crc32c = google_crc32c.extend(self.crc32c, block)


def peak_mib(process):
    text = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", text).group(1)) / 1024


def lay_down(folder, big):
    """Puts the big file in place of the finished one, and its entry."""
    from lib.xspace import message_class  # needs the Python environment of bench.build()

    entry_path = folder / "entry"
    entry = message_class("tutti/v1/ingest.proto", "tutti.v1.SpoolEntry")()
    entry.ParseFromString(entry_path.read_bytes())
    os.unlink(folder / entry.file)
    os.link(big.path, folder / entry.file)
    entry.bytes, entry.crc32 = big.size, big.crc32
    entry.files[:] = [big.size]
    entry.crc32c[:] = [big.crc32c]
    message = message_class("tutti/v1/control.proto", "tutti.v1.AgentMessage")()
    message.ParseFromString(entry.result)
    result = message.result
    result.bytes = big.size
    result.files[:] = [big.size]
    result.crc32c[:] = [big.crc32c]
    entry.result = message.SerializeToString()
    entry_path.write_bytes(entry.SerializeToString())


def seconds_between(log, first, last):
    stamp = {}
    for line in log.splitlines():
        for word in (first, last):
            if word in line:  # the last: the log goes on with the next agent
                h, m, s = line.split("T")[1].split("Z")[0].split(":")
                stamp[word] = int(h) * 3600 + int(m) * 60 + float(s)
    return stamp[last] - stamp[first]
