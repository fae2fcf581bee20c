# SPDX-License-Identifier: Apache-2.0
"""What the jobs of the tests share, whatever their framework."""
import os
import socket


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def publish(path, port):
    """The file appears complete, and only when the server listens."""
    with open(f"{path}.tmp", "w") as f:
        f.write(f"{port}\n")
    os.rename(f"{path}.tmp", path)
