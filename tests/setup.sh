#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what a bare Debian 12 lacks for Tutti; quick, quiet and off the network where all is there.
#
#   tests/setup.sh build   what the build and deploy/quickstart.sh need (the default)
#   tests/setup.sh jax     a Python environment in .venv with JAX, XProf and gRPC (tests/requirements.txt)
#   tests/setup.sh test    both, and the tools that the tests use (servers: tests/servers.sh install)
#   tests/setup.sh ceph    Ceph's S3 gateway, for tests/stores.sh
#   tests/setup.sh viewers s3fs, for tests/viewers.sh
#
# Debian packages need root, or sudo.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
venv=$root/.venv
wanted=$root/tests/requirements.txt

build_packages=(
	build-essential cmake ninja-build pkg-config
	libgrpc-dev libprotobuf-c-dev protobuf-c-compiler protobuf-compiler libprotobuf-dev
	libnng-dev libcurl4-openssl-dev libjansson-dev libmicrohttpd-dev zlib1g-dev liblzma-dev libexpat1-dev uthash-dev libjose-dev
	curl jq	# the quickstart asks and prints with them
	file ca-certificates python3	# cpack -G DEB; deploy/images/build.sh
)
jax_packages=(python3 python3-venv ca-certificates)
test_packages=(
	clang libclang-rt-14-dev	# fuzz targets
	clang-format-14 universal-ctags git	# tests/lint
	chromium chromium-driver	# the page in a real browser
	ccache	# builds of clones share what they compile
	libssl-dev openssl
	iproute2	# two machines in network namespaces
	stress-ng	# tests/steady.sh
	systemd	# systemd-analyze, for the exposure of units
)

ceph_packages=(ceph-mon ceph-mgr ceph-osd radosgw ceph-common)

say() { echo "setup: $*"; }

# Those of the named packages that dpkg does not have.
missing() {
	local have
	# dpkg-query fails if it does not know a name at all: that one is missing, too.
	have=" $(dpkg-query -W -f '${db:Status-Status}=${Package} ' "$@" 2>/dev/null || true)"
	for package in "$@"; do
		[[ $have == *" installed=$package "* ]] || echo "$package"
	done
}

as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		DEBIAN_FRONTEND=noninteractive "$@"
	elif command -v sudo >/dev/null; then
		sudo DEBIAN_FRONTEND=noninteractive "$@"
	else
		say "neither root nor sudo; an administrator has to run: $*" >&2
		return 1
	fi
}

install_packages() {
	local packages
	if ! command -v apt-get dpkg-query >/dev/null; then
		say "this is not Debian; install the equivalent of: $*" >&2
		return 1
	fi
	mapfile -t packages < <(missing "$@")
	[ ${#packages[@]} -gt 0 ] || return 0
	say "Debian packages to install: ${packages[*]}"
	as_root apt-get -o DPkg::Lock::Timeout=300 update -qq || say "the package lists could not be updated; using the old ones" >&2
	as_root apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
}

# The list is copied into the environment when all of it is in: that copy says what is there.
install_python() {
	"$venv/bin/python" -c '' 2>/dev/null && cmp -s "$wanted" "$venv/requirements.txt" && return
	say "Python packages into .venv: JAX, XProf, gRPC (close to a gigabyte, the first time)"
	"$venv/bin/python" -m pip --version >/dev/null 2>&1 || /usr/bin/python3 -m venv --clear "$venv"
	rm -f "$venv/requirements.txt"
	"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$wanted"
	cp "$wanted" "$venv/requirements.txt"
}

case ${1:-build} in
build)
	install_packages "${build_packages[@]}"
	;;
jax)
	install_packages "${jax_packages[@]}"
	install_python
	;;
test)
	install_packages "${build_packages[@]}" "${jax_packages[@]}" "${test_packages[@]}"
	install_python
	;;
ceph)
	install_packages "${ceph_packages[@]}"
	;;
viewers)
	install_packages s3fs
	;;
*)
	echo "usage: tests/setup.sh [build|jax|test|ceph|viewers]" >&2
	exit 2
	;;
esac
say "${1:-build}: complete"
