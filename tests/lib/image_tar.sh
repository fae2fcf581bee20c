#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An image of one static program, as `ctr images import` reads it: image_tar.sh OUT.tar NAME:TAG PROGRAM [ARGUMENT...]
set -euo pipefail

out=$(realpath -m "${1:?}") name=${2:?} program=${3:?}
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/root/bin" "$work/root/tmp" "$work/root/etc" "$work/image"
chmod 1777 "$work/root/tmp"
install -m 755 "$program" "$work/root/bin/"
tar -C "$work/root" -cf "$work/image/layer.tar" .
entry=$(printf '"%s",' "/bin/$(basename "$program")" "$@")
printf '{"architecture":"%s","os":"linux","config":{"Entrypoint":[%s],"Env":["PATH=/bin"]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]},"history":[{"created":"1970-01-01T00:00:00Z"}]}' \
	"$(dpkg --print-architecture)" "${entry%,}" "$(sha256sum "$work/image/layer.tar" | cut -d' ' -f1)" >"$work/config.json"
config=$(sha256sum "$work/config.json" | cut -d' ' -f1).json
mv "$work/config.json" "$work/image/$config"
printf '[{"Config":"%s","RepoTags":["%s"],"Layers":["layer.tar"]}]' "$config" "$name" >"$work/image/manifest.json"
tar -C "$work/image" -cf "$out" manifest.json "$config" layer.tar
