#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Whether web/dist is what web/src builds to.
. "$(dirname "$0")/copy.sh"
timeout 60 "$node" node_modules/vite/bin/vite.js build --logLevel warn
cmp dist/index.html "$web/dist/index.html" || {
	echo "web: dist/ is not what src/ builds to: npm ci --ignore-scripts && npm run build in web/, and commit dist/"
	exit 1
}
echo "web: dist/ is what src/ builds to"
