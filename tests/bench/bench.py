# SPDX-License-Identifier: Apache-2.0
"""What benches in Python share. A bench is one command: no variables, it builds what it needs.

    import bench                    # the modules of tests/e2e (lib.cluster) can be imported, with the binaries of build/release
    p = bench.parser(__doc__)       # p.parse_args() before anything is built: --help is quick
    bench.build("xspace_gen")       # the programs of the preset release, and these targets
"""
import argparse
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/release"
PYTHON = pathlib.Path(os.environ.get("TUTTI_PYTHON") or ROOT / ".venv/bin/python")
PROGRAMS = ("tutti-agent", "tutti-aggregator", "tutti", "fake_profiler", "burst")

sys.path.insert(0, str(ROOT / "tests/e2e"))
own_binaries = "TUTTI_BIN" in os.environ  # a test runs the bench on its own build
os.environ.setdefault("TUTTI_BIN", str(BUILD / "bin"))


class Help(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    pass


def parser(about):
    return argparse.ArgumentParser(description=about, formatter_class=Help)


def build(*targets):
    """Goes on in the Python environment of tests/setup.sh, which is made if it is missing, with the release built."""
    if own_binaries:
        return
    use_environment()
    print(f"building {' '.join((*PROGRAMS, *targets))} into {BUILD}", file=sys.stderr, flush=True)
    run("cmake", "--preset", "release")
    run("cmake", "--build", BUILD, "--target", *PROGRAMS, *targets)


def use_environment():
    if os.environ.pop("TUTTI_BENCH_PYTHON", None) or pathlib.Path(sys.executable) == PYTHON:
        return
    if not PYTHON.exists():
        run(ROOT / "tests/setup.sh", "jax")
    os.environ["TUTTI_BENCH_PYTHON"] = "1"  # once, whatever the environment calls its interpreter
    del os.environ["TUTTI_BIN"]
    os.execv(PYTHON, [str(PYTHON), *sys.argv])


def run(*command):
    p = subprocess.run([str(c) for c in command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=3600)
    if p.returncode:
        print("\n".join(p.stdout.splitlines()[-60:]), file=sys.stderr)
        raise SystemExit(f"{' '.join(map(str, command))} failed; tests/setup.sh installs what the build needs")


def cpu_seconds(process):
    """Of the process and of those that it has begun, the agent's helpers."""
    total, pids = 0, [process.pid]
    for pid in pids:
        total += time.clock_gettime((~pid << 3) | 2)  # the clock of another process: CPUCLOCK_SCHED
        for children in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
            pids += [int(child) for child in children.read_text().split()]
    return total
