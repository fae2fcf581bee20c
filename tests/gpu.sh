#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Real jobs of PyTorch and JAX on this machine's NVIDIA device: their kernels on the session's clock, NVTX and NCCL, the
# numbers of NVML beside those of NVIDIA's own Python binding, `tutti inspect`, and what the tracer costs. Prints a table of checks.
#
#   tests/gpu.sh PYTHON [FOLDER]	PYTHON is a Python program that has PyTorch and JAX with CUDA; FOLDER gets the sessions' files
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
case ${1:---help} in
-h | --help)
	sed -n '3,/^set/{/^#/s/^# \{0,1\}//p}' "$0"
	exit
	;;
esac
"$root/tests/setup.sh" test
cd "$root"
cmake --preset release >/dev/null
cmake --build --preset release --target tutti-aggregator tutti-agent tutti tutti_nvtx >/dev/null
cd tests/e2e
TUTTI_BIN=$root/build/release/bin exec "${TUTTI_PYTHON:-$root/.venv/bin/python}" gpu.py "$@"
