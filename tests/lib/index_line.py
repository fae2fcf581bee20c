# SPDX-License-Identifier: Apache-2.0
"""The names of a session's two objects in the index, as docs/format.md has them; for tests that fill a store by themselves."""

NUMBERS = ("t0_ns", "duration_ns", "hosts", "complete", "partial", "failed", "bytes")


def index_place(session):
    digits = "".join(str(9 - int(c)) for c in session[:19] if c != "_")
    return f"{digits[:8]}/{digits[8:10]}/{digits[10:]}-{session}"


def index_keys(summary):
    """Of a summary as listings have it."""
    run = summary["run"].replace("/", "~")
    line = f"{index_place(summary['session'])}~1~{'.'.join(str(summary[n]) for n in NUMBERS)}~{run}"
    return f"tutti/index/{line}", f"tutti/runs/{run or '~'}/{line}"
