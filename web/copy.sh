# SPDX-License-Identifier: Apache-2.0
#
# Sourced by built.sh and unit.sh: goes to a copy of this folder's sources that is removed at the end, with the Node and the packages
# that tests/servers.sh keeps as $node and node_modules. What is run there writes nothing into the checkout.
set -euo pipefail

web=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
read -r node packages < <("$web/../tests/servers.sh" command web)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r "$web"/{index.html,package.json,tsconfig.json,vite.config.js,src,tests} "$copy"
ln -s "$packages" "$copy/node_modules"
cd "$copy"
timeout 60 "$node" node_modules/typescript/bin/tsc --noEmit
