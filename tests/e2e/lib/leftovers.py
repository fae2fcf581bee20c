# SPDX-License-Identifier: Apache-2.0
"""What a killed test leaves behind: the next one removes it. Names hold the id of the process they belong to."""
import ctypes
import os
import pathlib
import re
import shutil
import signal
import tempfile

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)
forking = 0  # the process that forks, as its child finds it


def note_forking():
    global forking
    forking = os.getpid()


os.register_at_fork(before=note_forking)


def is_dead(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def dead_names(names, prefix):
    """Those of the form PREFIX-PID-anything whose process is gone."""
    for name in names:
        match = re.fullmatch(re.escape(prefix) + r"-(\d+)-.*", name)
        if match and is_dead(int(match[1])):
            yield name


def temp_dir(prefix):
    """A new directory PREFIX-PID-xxxxxxxx for temporary files; those of dead processes of this user go."""
    base = pathlib.Path(tempfile.gettempdir())
    for name in dead_names(os.listdir(base), prefix):
        shutil.rmtree(base / name, ignore_errors=True)
    return pathlib.Path(tempfile.mkdtemp(prefix=f"{prefix}-{os.getpid()}-"))


def die_with_parent():
    """For a process that was just forked, as subprocess's preexec_fn: it is killed when the thread that forked it ends."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != forking:  # before that
        os._exit(1)
