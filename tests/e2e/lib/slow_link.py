# SPDX-License-Identifier: Apache-2.0
"""A TCP relay with a speed limit, in one thread for each way of each connection."""
import socket
import threading
import time


class SlowLink:
    """Listens on `port` of 127.0.0.1, forwards to `target` at `bytes_per_s` each way (None: as fast as it
    goes), all connections together; the speed may be changed at any time. stop() ends all."""

    def __init__(self, target, bytes_per_s):
        self.target = target
        self.bytes_per_s = bytes_per_s
        self.lock = threading.Lock()
        self.free_at = {True: 0.0, False: 0.0}
        self.sockets = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.target), 20)
                far.settimeout(None)  # it may say nothing for as long as it likes
            except OSError:
                return
            # What stands in a kernel's buffer counts as sent for the sender: keep it small.
            near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
            self.sockets += [near, far]
            threading.Thread(target=self.pump, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self.pump, args=(far, near, False), daemon=True).start()

    def wait_turn(self, n, up):
        with self.lock:
            if not self.bytes_per_s:
                return
            now = time.monotonic()
            self.free_at[up] = max(now, self.free_at[up]) + n / self.bytes_per_s
            pause = self.free_at[up] - now
        time.sleep(pause)

    def pump(self, source, sink, up):
        try:
            while data := source.recv(4096):
                self.wait_turn(len(data), up)
                sink.sendall(data)
        except OSError:
            pass
        for s in (source, sink):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def stop(self):
        self.listener.close()
        for s in self.sockets:
            s.close()
