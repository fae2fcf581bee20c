#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Other frameworks and viewers beside those of tests/requirements.txt: real jobs of an old JAX, the current one and
# TensorFlow are captured, and each session is opened in XProf and in xprof-rs. Prints a table of frameworks and checks.
# The first run installs some gigabytes of Python packages into build/frameworks.
#
#   tests/frameworks.sh
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
"$root/tests/setup.sh" test

# environment NAME PACKAGE...: a Python environment with exactly these packages and what they bring.
environment() {
	local dir=$root/build/frameworks/$1
	shift
	[ "$(cat "$dir/packages" 2>/dev/null)" = "$*" ] && return
	echo "frameworks: installing $*"
	python3 -m venv --clear "$dir"
	"$dir/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
	echo "$*" >"$dir/packages"
}

environment jax-old jax==0.4.38 jaxlib==0.4.38 numpy==2.2.6
environment tensorflow tensorflow-cpu==2.21.0
environment viewer xprof-rs==0.1.3

cd "$root"
cmake --preset release >/dev/null
cmake --build --preset release --target tutti-aggregator tutti-agent tutti >/dev/null
cd tests/e2e
TUTTI_BIN=$root/build/release/bin exec "$root/.venv/bin/python" frameworks.py "$root/build/frameworks"
