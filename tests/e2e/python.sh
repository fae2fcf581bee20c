#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs an end-to-end test with the interpreter that tests/setup.sh made. Its gRPC leaves forks alone: it closes what it polls in the parent, too,
# where a test starts a program while a server of its own is running.
GRPC_ENABLE_FORK_SUPPORT=0 exec "${TUTTI_PYTHON:-$(dirname "$0")/../../.venv/bin/python}" "$@"
