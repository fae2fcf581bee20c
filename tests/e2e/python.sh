#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs an end-to-end test with the interpreter that tests/setup.sh made.
exec "${TUTTI_PYTHON:-$(dirname "$0")/../../.venv/bin/python}" "$@"
