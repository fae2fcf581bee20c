# SPDX-License-Identifier: Apache-2.0
"""What a process knows."""
import pathlib
import re


def knows(pid, secrets):
    """Whether a process has one of the secrets in its environment, its arguments or its memory, without a sanitizer's huge shadow."""
    has = lambda data: any(secret in data for secret in secrets)
    if has(pathlib.Path(f"/proc/{pid}/environ").read_bytes()) or has(pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()):
        return True
    with open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in open(f"/proc/{pid}/maps"):
            begin, end, mode = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+)", line).groups()
            size = int(end, 16) - int(begin, 16)
            if not mode.startswith("rw") or "[v" in line or size > 1 << 26:
                continue
            try:
                mem.seek(int(begin, 16))
                if has(mem.read(size)):
                    return True
            except OSError:
                pass  # a mapping without pages
    return False
