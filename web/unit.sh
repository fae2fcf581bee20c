#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The unit tests of the page's functions, those of web/tests; arguments are Vitest's: `web/unit.sh tile` runs the files so called.
. "$(dirname "$0")/copy.sh"
timeout 50 "$node" node_modules/vitest/vitest.mjs run "$@"
