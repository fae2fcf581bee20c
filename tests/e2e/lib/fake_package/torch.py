# SPDX-License-Identifier: Apache-2.0
"""`import torch` of a package that records as PyTorch does when its daemon asks for a number of steps: it begins with the
second step after it was asked, ends with the last, and then a thread of its own writes the trace, which has an annotation for
each 10 ms. What the process's end cuts is lost."""
import os
import pathlib
import socket
import struct
import sys
import threading
import time
import types
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import fake_torch  # noqa: E402


class Kineto:
    def __init__(self):
        self.lock = threading.Lock()
        self.steps, self.config, self.begin, self.end = 0, None, None, None
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(f"\0dynoconfigclient{uuid.uuid4()}\0")
        self.socket.settimeout(0.09)
        threading.Thread(target=self.poll, daemon=True).start()

    def step(self):
        with self.lock:
            self.steps += 1
            if not self.config or self.end:
                return
            if self.begin is None:
                self.begin = self.steps + 1, 0
            elif self.steps == self.begin[0]:
                self.begin = self.steps, time.time_ns()
            elif self.steps >= self.begin[0] + int(self.config["ACTIVITIES_ITERATIONS"]):
                self.end = time.time_ns()

    def write(self):
        wanted = pathlib.Path(self.config["ACTIVITIES_LOG_FILE"])
        path = wanted.with_name(f"{wanted.stem}_{os.getpid()}.json")
        path.with_suffix(".json.tmp").write_text(fake_torch.trace(self.begin[1], self.end, path))
        path.with_suffix(".json.tmp").rename(path)
        with self.lock:
            self.config = self.begin = self.end = None

    def poll(self):
        while True:
            if self.end:
                time.sleep(0.3)
                self.write()
            text = self.ask()
            if text and self.steps:
                with self.lock:
                    self.config = dict(line.split("=", 1) for line in text.splitlines())
            time.sleep(0.1)

    def ask(self):
        body = struct.pack("<iiqi", 0 if self.config else 3, 1, 0, os.getpid())
        try:
            self.socket.sendto(struct.pack("<Q32s", len(body), b"req") + body, f"{os.environ['KINETO_IPC_SOCKET_DIR']}/dynolog")
            answer = self.socket.recv(4096)
        except OSError:
            return ""
        return answer[40:].decode()


    def drop(self):
        """The program profiles itself: what was under way is dropped, and an unfinished file stays."""
        with self.lock:
            wanted = pathlib.Path(self.config["ACTIVITIES_LOG_FILE"])
            wanted.with_name(f"{wanted.stem}_{os.getpid()}.json.tmp").touch()
            self.config = self.begin = self.end = None


kineto = Kineto()
_C = types.SimpleNamespace(_autograd=types.SimpleNamespace(_kineto_step=kineto.step))
