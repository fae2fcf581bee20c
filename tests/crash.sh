#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Real processes over buckets, killed and stopped at each step: tests/crash.sh [EVERY]. At every so manieth (1) operation of the store in a
# capture's life the aggregator is killed before and after it; the store is versitygw, agents put their files by grants, and a proxy in between
# fails all the time. Then, at every so manieth request to a bucket, the aggregator is stopped, a second one takes the session over and ends
# it, and the first one wakes up. Nothing may be lost, torn or committed twice. Not part of tests/run.sh: some six minutes on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."
every=${1:-1}
tests/setup.sh test
tests/servers.sh install
cmake --preset release >/dev/null
cmake --build --preset release --target tutti-aggregator tutti-agent tutti >/dev/null
export TUTTI_BIN=$PWD/build/release/bin
tests/e2e/python.sh tests/e2e/crash_test.py all kill-before,kill-after 2 "$every" s3
tests/e2e/python.sh tests/e2e/fence_test.py "$every" 0
