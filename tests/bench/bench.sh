# SPDX-License-Identifier: Apache-2.0
# What benches in bash share; to be sourced. A bench is one command: no variables, it builds what it needs.
#
#   . "$(dirname "$0")/bench.sh"
#   bench_help "$@"              with --help: prints the comment at the top of the bench, ends
#   bench_build TARGET...        builds the preset release; $build is its folder, $tmp a temporary one
# shellcheck shell=bash
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$root/build/release

bench_help() {
	case ${1:-} in
	-h | --help)
		sed -n '3,/^[^#]/{s/^# \{0,1\}//p}' "$0"
		exit 0
		;;
	esac
}

bench_build() {
	tmp=$(mktemp -d)
	trap 'rm -rf "$tmp"' EXIT
	echo "building $* into $build" >&2
	if ! (cd "$root" && cmake --preset release && cmake --build "$build" --target "$@") >"$tmp/build.log" 2>&1; then
		tail -n 60 "$tmp/build.log" >&2
		echo "the build failed; tests/setup.sh installs what it needs" >&2
		exit 1
	fi
}
