#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Whether web/dist is what web/src builds to, with the Node and the packages that tests/servers.sh keeps.
set -euo pipefail

cd "$(dirname "$0")"
read -r node packages < <(../tests/servers.sh wait web)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cp -r index.html package.json tsconfig.json vite.config.js src "$out"
ln -s "$packages" "$out/node_modules"
cd "$out"
"$node" node_modules/typescript/bin/tsc --noEmit
"$node" node_modules/vite/bin/vite.js build --logLevel warn
cd - >/dev/null
cmp "$out/dist/index.html" dist/index.html || {
	echo "web: dist/ is not what src/ builds to: npm ci --ignore-scripts && npm run build in web/, and commit dist/"
	exit 1
}
echo "web: dist/ is what src/ builds to"
