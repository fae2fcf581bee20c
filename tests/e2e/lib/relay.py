# SPDX-License-Identifier: Apache-2.0
"""A TCP relay that breaks: cuts a connection, both ways and at once, when enough bytes have gone through it."""
import socket
import struct
import threading


class Relay:
    """Listens on `port` of 127.0.0.1, forwards to `target`; each of the next len(cuts) connections that pass
    so many bytes towards the target is reset. With `hold`, a connection that passed so many stands still.
    stop() ends all."""

    def __init__(self, target, cuts=(), hold=None):
        self.target = target
        self.cuts = list(cuts)
        self.hold = hold
        self.held = 0  # connections that stand still
        self.cut = 0  # connections cut so far
        self.going = threading.Event()
        self.passed = 0
        self.connections = 0  # ever
        self.lock = threading.Lock()
        self.sockets = set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            try:
                far = socket.create_connection(("127.0.0.1", self.target), 20)
                far.settimeout(None)  # it may say nothing for as long as it likes
            except OSError:
                near.close()
                continue
            with self.lock:
                self.sockets |= {near, far}
            threading.Thread(target=self.pump, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self.pump, args=(far, near, False), daemon=True).start()

    def pump(self, source, sink, counted):
        passed = 0
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
                passed += len(data)
                if counted and self.is_due(len(data), passed):
                    break
                if counted and self.hold and passed >= self.hold:
                    self.held += 1
                    self.going.wait()
        except OSError:
            pass
        self.reset(source)
        self.reset(sink)

    def is_due(self, n, passed):
        with self.lock:
            self.passed += n
            if not self.cuts or passed < self.cuts[0]:
                return False
            self.cuts.pop(0)
            self.cut += 1
            return True

    def reset(self, s):
        with self.lock:
            if s not in self.sockets:
                return
            self.sockets.discard(s)
        try:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        s.close()

    def cut_all(self):
        for s in list(self.sockets):
            self.reset(s)

    def stop(self):
        self.listener.close()
        self.going.set()
        self.cut_all()
