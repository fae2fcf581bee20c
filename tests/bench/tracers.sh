#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints what the always-on tracers cost on this host: CPU per cent of one core in the first SECONDS
# and in the next, resident memory, and how long a gather of the last SECONDS takes.
#
#   tests/bench/tracers.sh [SECONDS]
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
build=${TUTTI_BENCH_BUILD:-$root/build/release}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

(cd "$root" && cmake --preset release -B "$build" && cmake --build "$build" --target tracers_bench) \
	>"$log" 2>&1 || { cat "$log" >&2; exit 1; }
echo "load before: $(cut -d' ' -f1-3 /proc/loadavg)" >&2
"$build/tests/tracers_bench" "${1:-10}"
