#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds a Kubernetes for tests/cluster.sh: tests/lib/k8s_build.sh DIR GO [TARGET...]
#
# DIR/bin gets etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl, static; DIR also holds the caches of
# the build (4.5 GB). GO is the go program, 1.25 or newer. What is there already is not built again. 617 CPU seconds, the first time.
#
# The module k8s.io/kubernetes replaces its parts by folders of its own, so that `go install` refuses it. A module of ours
# requires it and replaces each part by its published version: v1.X.Y -> v0.X.Y.
set -euo pipefail

dir=${1:?usage: k8s_build.sh DIR GO [TARGET...]} go=${2:?usage: k8s_build.sh DIR GO [TARGET...]}
shift 2
targets=("$@")
[ $# -gt 0 ] || targets=(etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl)
version=1.35.4
etcd=3.6.5

mkdir -p "$dir/bin" "$dir/module/etcd"
dir=$(cd "$dir" && pwd)
export GOPATH=$dir/go GOCACHE=$dir/go-cache GOTOOLCHAIN=local GOFLAGS="-mod=mod -modcacherw" CGO_ENABLED=0
cd "$dir/module"

write_module() {
	local mod edits part
	mod=$("$go" mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/.*"GoMod": "\(.*\)",/\1/p')
	rm -f go.mod
	"$go" mod init tutti.dev/kubernetes 2>/dev/null
	edits=(-require="k8s.io/kubernetes@v$version" -require="go.etcd.io/etcd/server/v3@v$etcd" -godebug=default=go1.25)
	while read -r part; do
		edits+=(-replace="$part=$part@v0.${version#1.}")
	done < <(sed -n 's#^\t*\(k8s.io/[a-z0-9-]*\) => ./staging.*#\1#p' "$mod")
	"$go" mod edit "${edits[@]}"
	printf 'package main\n\nimport (\n\t"os"\n\n\t"go.etcd.io/etcd/server/v3/etcdmain"\n)\n\nfunc main() { etcdmain.Main(os.Args) }\n' >etcd/main.go
	echo "$version $etcd" >version
}

[ "$(cat version 2>/dev/null)" = "$version $etcd" ] || { rm -f "$dir"/bin/*; write_module; }
flags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	flags+=" -X $package.gitVersion=v$version -X $package.gitMajor=1 -X $package.gitMinor=$(cut -d. -f2 <<<"$version")"
done
for target in "${targets[@]}"; do
	[ ! -x "$dir/bin/$target" ] || continue
	package=k8s.io/kubernetes/cmd/$target
	[ "$target" != etcd ] || package=./etcd
	echo "k8s_build: $target"
	"$go" build -p 2 -trimpath -ldflags "$flags" -o "$dir/bin/$target.new" "$package" 2>"$dir/$target.log" ||
		{ grep -v "go: downloading" "$dir/$target.log" | tail -n 30 >&2; echo "k8s_build: $target failed" >&2; exit 1; }
	mv "$dir/bin/$target.new" "$dir/bin/$target"
done
