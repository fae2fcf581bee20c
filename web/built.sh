#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Whether web/dist is what web/src builds to. Needs the packages of package-lock.json (npm ci --ignore-scripts); without
# them nothing is compared, status 77.
set -eu

cd "$(dirname "$0")"
if [ ! -d node_modules/vite ] || ! command -v node >/dev/null; then
	echo "web: no node, or no packages: npm ci --ignore-scripts in web/"
	exit 77
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
node node_modules/typescript/bin/tsc --noEmit
node node_modules/vite/bin/vite.js build --logLevel warn --emptyOutDir --outDir "$out"
cmp "$out/index.html" dist/index.html || {
	echo "web: dist/ is not what src/ builds to: npm run build in web/, and commit dist/"
	exit 1
}
echo "web: dist/ is what src/ builds to"
