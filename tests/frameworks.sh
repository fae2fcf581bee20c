#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Other frameworks and viewers beside those of tests/requirements.txt: real jobs of an old JAX, the current one,
# TensorFlow, and the oldest and the newest PyTorch are captured, and each session is opened in XProf and in xprof-rs.
# PyTorch is also recorded to its end by `tutti inspect`.
# Prints a table of frameworks and checks. The first run downloads 5 GB of Python packages, which take 13 GB in
# TUTTI_FRAMEWORKS, by default ~/.cache/tutti/frameworks.
#
#   tests/frameworks.sh [NAME...]		only the rows whose name contains one of these, as "torch" and "one session"
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
packages=${TUTTI_FRAMEWORKS:-${XDG_CACHE_HOME:-$HOME/.cache}/tutti/frameworks}
case ${1:-} in
-h | --help)
	sed -n '3,/^set/{/^#/s/^# \{0,1\}//p}' "$0"
	exit
	;;
esac
"$root/tests/setup.sh" test

# environment NAME PACKAGE...: a Python environment with exactly these packages and what they bring.
environment() {
	local dir=$packages/$1
	shift
	[ "$(cat "$dir/packages" 2>/dev/null)" = "$*" ] && return
	echo "frameworks: installing $*"
	python3 -m venv --clear "$dir"
	"$dir/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
	echo "$*" >"$dir/packages"
}

environment jax-old jax==0.4.38 jaxlib==0.4.38 numpy==2.2.6
environment tensorflow tensorflow-cpu==2.21.0
environment torch-old torch==2.3.1 numpy==1.26.4
environment torch-new torch==2.15.0 numpy==2.4.6
environment viewer xprof-rs==0.1.3

cd "$root"
cmake --preset release >/dev/null
cmake --build --preset release --target tutti-aggregator tutti-agent tutti >/dev/null
cd tests/e2e
TUTTI_BIN=$root/build/release/bin exec "${TUTTI_PYTHON:-$root/.venv/bin/python}" frameworks.py "$packages" "$@"
