#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The tracer "python" on each CPython from 3.11 on that can be had: those of this machine (python3, pyenv) and those of
# Debian unstable, which are unpacked into build/pythons and run there by chroot (needs root and apt). The same test
# as e2e/python, with windows of 20 s and the limits of docs/tracers.md. Prints a line for each.
#
#   tests/pythons.sh
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
[ -n "${TUTTI_PYTHON:-}" ] || "$root/tests/setup.sh" test
roots=$root/build/pythons

# apt_here COMMAND...: apt with a state of its own, so that this machine's packages stay as they are.
apt_here() {
	apt-get -qq -o Dir::State="$roots/apt" -o Dir::State::status="$roots/apt/status" -o Dir::Cache="$roots/apt/cache" \
		-o Dir::Etc::sourcelist="$roots/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o APT::Install-Recommends=false -o Debug::NoLocking=1 -o APT::Sandbox::User=root "$@"
}

# unpack VERSION: a root folder with this CPython and what it needs.
unpack() {
	local dir=$roots/$1 package link
	[ ! -e "$dir/complete" ] || return 0
	echo "pythons: fetching CPython $1"
	mkdir -p "$roots/apt/lists/partial" "$roots/apt/cache/archives/partial"
	: >"$roots/apt/status"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian sid main" \
		>"$roots/apt/sources.list"
	rm -rf "$dir" "$roots/apt/cache/archives/"*.deb
	apt_here update && apt_here -y --download-only install "python$1-minimal" "libpython$1-stdlib" >/dev/null || return 1
	mkdir -p "$dir/tmp"
	for package in "$roots/apt/cache/archives/"*.deb; do dpkg -x "$package" "$dir"; done
	for link in bin lib lib64; do [ -e "$dir/$link" ] || ln -s "usr/$link" "$dir/$link"; done
	touch "$dir/complete"
}

list=()
for python in /usr/bin/python3 "$HOME"/.pyenv/versions/3.*/bin/python3; do
	[ -x "$python" ] || continue
	version=$("$python" -c 'import sys; print(f"3.{sys.version_info.minor}")')
	[ "${version#3.}" -lt 11 ] || list+=("$version $python")
done
for version in 3.13 3.14 3.15; do
	if [ "$(id -u)" != 0 ] || ! unpack "$version"; then
		echo "pythons: no CPython $version: needs root, and Debian's packages"
		continue
	fi
	list+=("$version chroot $roots/$version /usr/bin/python$version")
done

cd "$root"
cmake --preset release >/dev/null
cmake --build --preset release --target tutti-aggregator tutti-agent tutti >/dev/null
cd tests/e2e
TUTTI_BIN=$root/build/release/bin TUTTI_PYTHON_SECONDS=20 TUTTI_PYTHONS=$(printf '%s\n' "${list[@]}") \
	exec "${TUTTI_PYTHON:-$root/.venv/bin/python}" python_test.py
