#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Each kind of store and each server that can be had, in each kind of failure: tests/stores.sh [STORE...]. Prints a table; "-" is a case
# that the store does not have. Then, with ceph among them, captures of 3 and of 64 hosts by grants into Ceph. Not part of tests/run.sh: takes
# some 12 minutes, root, and Ceph's packages.
#
#   stores: file mem fault fake-s3 versitygw azurite gcs ceph
set -euo pipefail
cd "$(dirname "$0")/.."
tests/setup.sh test
tests/servers.sh install
if [ $# -eq 0 ] || [[ " $* " == *" ceph "* ]]; then
	tests/setup.sh ceph
fi
targets=(conform_store_cloud conform_store_failures tutti-aggregator tutti-agent tutti fake_profiler)
cmake --preset dev >build/stores.log 2>&1 && cmake --build --preset dev --target "${targets[@]}" >>build/stores.log 2>&1 ||
	{ tail -n 40 build/stores.log; exit 1; }
python3 tests/conform/stores.py build/dev/tests "$@"
if [ $# -eq 0 ] || [[ " $* " == *" ceph "* ]]; then
	for hosts in 3 64; do
		TUTTI_BIN=$PWD/build/dev/bin TUTTI_TEST_SLOW=4 LSAN_OPTIONS=suppressions=$PWD/tests/lib/lsan.supp \
			tests/e2e/python.sh tests/e2e/grants_stores_test.py ceph $hosts
	done
fi
