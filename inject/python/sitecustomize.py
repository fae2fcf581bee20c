# SPDX-License-Identifier: Apache-2.0
"""What `tutti inspect` puts in front of PYTHONPATH, so that PyTorch is recorded from its import to the end of its program.

PyTorch ends a recording that was asked for from outside after a time or a number of steps, and drops one that its process's
end cuts. So the agent asks for a number of steps that no program takes (docs/inspect.md), and this hook ends the recording: it
takes the rest of the steps, after the time that the agent gives, or when the program ends. The two share files in the folder of
the socket:

    hook-PID    the process has this hook; 1 byte: PyTorch counts steps. Removed at the program's end
    piece-PID   the agent has asked for a recording, which ends after this many seconds. It is removed when the agent
                has the recording

Where anything of that is missing, the program runs as it does without the hook."""
import importlib.util
import os
import sys

FOLDER = os.environ.get("KINETO_IPC_SOCKET_DIR", "")
STEPS = 200_000  # of a recording; the agent asks for as many (agent/tracer/pytorch/hook.h)
TICK_S = 0.1
BEGIN_S = 3  # longest time that the import of torch waits for the first recording
END_S = 60  # and the end of the program for the last


class Finder:
    """Learns that torch is imported, and when it is there."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if not spec or not hasattr(spec.loader, "exec_module"):
            return spec
        try:
            hook, load = Hook(), spec.loader.exec_module
        except OSError:  # the recording is over, or another user's
            return spec

        def exec_module(module):
            load(module)
            try:
                hook.begin(module)
            except OSError:
                pass
        spec.loader.exec_module = exec_module
        return spec


class Hook:
    def __init__(self):
        self.pid = os.getpid()
        self.hook = f"{FOLDER}/hook-{self.pid}"
        self.piece = f"{FOLDER}/piece-{self.pid}"
        self.ended = None  # the piece that was ended last
        open(self.hook, "w").close()

    def begin(self, torch):
        import atexit
        import threading
        import time
        try:
            self.step = torch._C._autograd._kineto_step
        except AttributeError:
            os.unlink(self.hook)
            return
        self.step()
        with open(self.hook, "w") as f:
            f.write("1")
        until = time.monotonic() + BEGIN_S
        while not self.look() and time.monotonic() < until:
            time.sleep(TICK_S / 4)
        self.is_ending = threading.Event()
        threading.Thread(target=self.tick, name="tutti inspect", daemon=True).start()
        atexit.register(self.end)
        for _ in range(4):  # a recording begins with the second step after PyTorch has the agent's answer
            time.sleep(TICK_S)
            self.step()

    def look(self):
        """(identity, seconds since the agent asked, seconds that the recording may have); None: nothing is recorded."""
        import time
        try:
            with open(self.piece) as f:
                made = os.fstat(f.fileno()).st_mtime_ns
                return made, time.time() - made / 1e9, float(f.read() or "inf")
        except (OSError, ValueError):
            return None

    def tick(self):
        while not self.is_ending.wait(TICK_S):
            self.step()
            piece = self.look()
            if piece and piece[0] != self.ended and piece[1] >= piece[2]:
                self.ended = piece[0]
                self.end_piece()

    def end_piece(self):
        for _ in range(STEPS):
            self.step()

    def end(self):
        """The program ends: the agent asks for no more, and gets what is under way."""
        import time
        if os.getpid() != self.pid:  # a child that was forked: PyTorch records nothing there
            return
        self.is_ending.set()
        try:
            os.unlink(self.hook)
            until, looks = time.monotonic() + END_S, 0
            while self.look() and time.monotonic() < until:
                if looks % 10 == 0:  # again: the recording may have begun only now
                    self.end_piece()
                looks += 1
                time.sleep(TICK_S)
        except (OSError, KeyboardInterrupt):
            pass
        stop_asking()


def stop_asking():
    """Ends PyTorch's thread that asks the agent for work. At the end of its process PyTorch 2.3.1 frees the thread's socket, waits up to
    a second for another thread, and ends this one only then: it crashes if it asks meanwhile."""
    try:
        import ctypes
        kineto = ctypes.CDLL("libtorch_cpu.so")  # it is loaded: no search
        instance, stop = (getattr(kineto, f"_ZN9libkineto12ConfigLoader{name}Ev") for name in ("8instance", "10stopThread"))
    except (ImportError, OSError, AttributeError):
        return
    instance.restype = ctypes.c_void_p
    stop.argtypes, stop.restype = [ctypes.c_void_p], None
    stop(instance())


def run_the_next():
    """The program's own sitecustomize, which this one hides."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
    this = sys.modules.pop(__name__)
    try:
        import sitecustomize  # noqa: F401
    except ImportError as e:
        sys.modules[__name__] = this
        if e.name != __name__:
            raise


if os.path.isdir(FOLDER):
    sys.meta_path.insert(0, Finder())
run_the_next()
