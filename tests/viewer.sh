#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What a user of the page feels with large sessions, in real Chromium, with the release build; the figures are printed.
#
#   tests/viewer.sh [BYTES]                the checks 2, 3, 8, 11, 18 and 20 of view_large.py; BYTES of the large file
#                                          (default 1000000000: some five minutes and 4 GB of disk)
#   tests/viewer.sh screenshots DIRECTORY  pictures of every screen and state, at two sizes and at 400 %, light and dark
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
python=${TUTTI_PYTHON:-$root/.venv/bin/python}
case ${1:-} in -h | --help) sed -n '4,/^set /p' "$0" | sed -n 's/^# \{0,1\}//p'; exit ;; esac
"$root/tests/setup.sh" test
cd "$root"
cmake --preset release >/dev/null
cmake --build --preset release --target tutti-aggregator tutti-agent tutti burst fake_profiler xspace_gen >/dev/null
export TUTTI_BIN=$root/build/release/bin
if [ "${1:-}" = screenshots ]; then
	shift
	out=$(realpath -m "${1:?a directory}")
	shift
	cd tests/e2e
	exec "$python" pictures.py "$out" "$@"
fi
"$root/tests/setup.sh" viewers
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build/release/tests/xspace_gen "$work/large.pb" "${1:-1000000000}"
cd tests/e2e
"$python" view_large.py "$work/large.pb"
