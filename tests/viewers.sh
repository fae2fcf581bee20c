#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A session that was captured into a bucket (versitygw), opened by stock XProf, fetched and mounted (s3fs), and by xprof-rs, which reads the
# bucket itself: tests/viewers.sh. Needs root for the mount; a machine without /dev/fuse leaves that one out. Some two minutes.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
viewer=${TUTTI_FRAMEWORKS:-${XDG_CACHE_HOME:-$HOME/.cache}/tutti/frameworks}/viewer # as of tests/frameworks.sh
"$root/tests/setup.sh" test
"$root/tests/setup.sh" viewers
"$root/tests/servers.sh" install
if [ "$(cat "$viewer/packages" 2>/dev/null)" != xprof-rs==0.1.3 ]; then
	python3 -m venv --clear "$viewer"
	"$viewer/bin/python" -m pip install --quiet --disable-pip-version-check xprof-rs==0.1.3
	echo xprof-rs==0.1.3 >"$viewer/packages"
fi
cd "$root"
cmake --preset release >/dev/null
cmake --build --preset release --target tutti-aggregator tutti-agent tutti burst >/dev/null
cd tests/e2e
TUTTI_BIN=$root/build/release/bin exec "${TUTTI_PYTHON:-$root/.venv/bin/python}" viewers.py "$viewer/bin/xprof-rs"
