#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Each kind of store and each server that can be had, in each kind of failure: tests/stores.sh [STORE...]. Prints a table; "-" is a case
# that the store does not have. Not part of tests/run.sh: takes some 10 minutes, root, and Ceph's packages for the last row.
#
#   stores: file mem fault fake-s3 versitygw azurite gcs ceph
set -euo pipefail
cd "$(dirname "$0")/.."
tests/setup.sh test
tests/servers.sh install
if [ $# -eq 0 ] || [[ " $* " == *" ceph "* ]]; then
	tests/setup.sh ceph
fi
cmake --preset dev >build/stores.log 2>&1 && cmake --build --preset dev --target conform_store_cloud conform_store_failures >>build/stores.log 2>&1 ||
	{ tail -n 40 build/stores.log; exit 1; }
exec python3 tests/conform/stores.py build/dev/tests "$@"
