#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Container images without docker: deploy/images/build.sh [FLAGS] [PROGRAM...]
#
#   tutti-agent        tutti-agent, and tutti for probes and `kubectl exec`
#   tutti-aggregator   tutti-aggregator, and tutti
#   tutti              tutti alone
#
# OUT/PROGRAM.tar is an OCI layout that `ctr images import`, podman, skopeo and registries' clients read; OUT/PROGRAM.spdx.json names each
# file with its Debian package, version and SHA-256. An image holds the programs, the libraries that ldd names for them, the loader,
# the certificates of authorities, two users and Tutti's licence: no shell. The same programs and libraries give the same bytes: times,
# owners and order are fixed.
#
#   --bin FOLDER     where the programs are [build/release/bin]
#   --out FOLDER     [build/images]
#   --roots FOLDER   leave each image's root folder there, too [no]
#   --registry NAME  what the image is called: NAME/PROGRAM:VERSION [localhost]
set -euo pipefail

top=$(cd "$(dirname "$0")/../.." && pwd)
bin=$top/build/release/bin out=$top/build/images registry=localhost roots= programs=()
usage() { sed -n '3,/^set /p' "$0" | sed -n 's/^# \{0,1\}//p'; }
while [ $# -gt 0 ]; do
	case $1 in
	--bin) bin=$2; shift ;;
	--out) out=$2; shift ;;
	--roots) roots=$2; shift ;;
	--registry) registry=$2; shift ;;
	-h | --help) usage; exit 0 ;;
	-*) echo "build.sh: unknown flag '$1'; see --help" >&2; exit 2 ;;
	*) programs+=("$1") ;;
	esac
	shift
done
[ ${#programs[@]} -gt 0 ] || programs=(tutti-agent tutti-aggregator tutti)
version=$("$bin/tutti" --version | cut -d' ' -f2)
arch=$(dpkg --print-architecture)
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fixed=(--sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --format=gnu)

# The files that a program needs beside itself: its libraries and the loader, as it names them.
needed() { ldd "$1" | awk '$2 == "=>" && $3 ~ /^\// { print $3 } $1 ~ /^\// { print $1 }'; }

# lay_out FOLDER PROGRAM: the root folder of an image
lay_out() {
	local root=$1 program file
	mkdir -p "$root"/{usr/bin,usr/lib64,etc/ssl/certs,tmp,var/lib/tutti,run/tutti}
	ln -s usr/lib "$root/lib"
	ln -s usr/lib64 "$root/lib64"
	ln -s usr/bin "$root/bin"
	mkdir -p "$root/usr/lib"
	for program in "$2" tutti; do
		install -m 755 "$bin/$program" "$root/usr/bin/$program"
		strip --strip-unneeded "$root/usr/bin/$program"
		needed "$bin/$program"
	done | sort -u >"$work/needed"
	while read -r file; do
		[ -e "$root$file" ] || install -D -m 755 "$(realpath "$file")" "$root$file"
	done <"$work/needed"
	install -m 644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
	install -D -m 644 "$top/LICENSE" "$root/usr/share/doc/tutti/LICENSE"
	printf 'root:x:0:0::/:/sbin/nologin\ntutti:x:65532:65532::/var/lib/tutti:/sbin/nologin\n' >"$root/etc/passwd"
	printf 'root:x:0:\ntutti:x:65532:\n' >"$root/etc/group"
	printf 'hosts: files dns\n' >"$root/etc/nsswitch.conf"
	chmod 1777 "$root/tmp"
	find "$root" -type d ! -path "$root/tmp" -exec chmod 755 {} +
}

# describe ROOT PROGRAM: the list of what is in there, as SPDX 2.3. Files of no package are Tutti's, or made here.
describe() {
	local root=$1 files paths
	mapfile -t files < <(cd "$root" && find . -type f ! -path './usr/bin/*' | cut -c2- | sort)
	# dpkg may know a library by its path in /lib or in /usr/lib.
	mapfile -t paths < <(for file in "${files[@]}"; do realpath -m "$file" "${file#/usr}" "/usr$file"; done | sed 'p; s#^/usr##' | sort -u)
	dpkg-query -S "${paths[@]}" "${files[@]}" 2>/dev/null >"$work/owners" || true
	echo "ca-certificates: /etc/ssl/certs/ca-certificates.crt" >>"$work/owners" # made of that package's files
	sed 's/: .*//; s/:.*//' "$work/owners" | sort -u | xargs -r dpkg-query -W -f '${Package} ${Version}\n' >"$work/versions"
	(cd "$root" && find . -type f -exec sha256sum {} + | sort -k 2) >"$work/digests"
	/usr/bin/python3 "$top/deploy/images/spdx.py" "$2" "$version" "$work"
}

digest() { sha256sum "$1" | cut -d' ' -f1; }

# put_blob LAYOUT FILE: moves the file to where its digest says; prints "DIGEST SIZE"
put_blob() {
	local sum size
	sum=$(digest "$2") size=$(stat -c %s "$2")
	mv "$2" "$1/blobs/sha256/$sum"
	echo "$sum $size"
}

build() {
	local program=$1 root=$work/$1.root layout=$work/$1.layout user=65532:65532 diff layer config manifest
	[ "$program" != tutti-agent ] || user=0:0 # it reads other users' processes, with the capabilities that it is given
	mkdir -p "$root" "$layout/blobs/sha256"
	lay_out "$root" "$program"
	tar -C "$root" "${fixed[@]}" -cf "$work/layer.tar" .
	diff=$(digest "$work/layer.tar")
	gzip -n -6 "$work/layer.tar"
	read -r -a layer < <(put_blob "$layout" "$work/layer.tar.gz")
	printf '{"architecture":"%s","os":"linux","created":"1970-01-01T00:00:00Z","config":{"Entrypoint":["/usr/bin/%s"],"Env":["PATH=/usr/bin"],"User":"%s","Labels":{"org.opencontainers.image.version":"%s","org.opencontainers.image.licenses":"Apache-2.0"}},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]},"history":[{"created":"1970-01-01T00:00:00Z","created_by":"deploy/images/build.sh"}]}' \
		"$arch" "$program" "$user" "$version" "$diff" >"$work/config"
	read -r -a config < <(put_blob "$layout" "$work/config")
	printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:%s","size":%s},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"sha256:%s","size":%s}]}' \
		"${config[@]}" "${layer[@]}" >"$work/manifest"
	read -r -a manifest < <(put_blob "$layout" "$work/manifest")
	printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
	printf '{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:%s","size":%s,"platform":{"architecture":"%s","os":"linux"},"annotations":{"io.containerd.image.name":"%s","org.opencontainers.image.ref.name":"%s"}}]}' \
		"${manifest[@]}" "$arch" "$registry/$program:$version" "$version" >"$layout/index.json"
	tar -C "$layout" "${fixed[@]}" -cf "$out/$program.tar" oci-layout index.json blobs
	describe "$root" "$program" >"$out/$program.spdx.json"
	[ -z "$roots" ] || { mkdir -p "$roots" && cp -a "$root" "$roots/$program"; }
	printf '%-40s %8d kB, unpacked %d kB, sha256:%s\n' "$registry/$program:$version" $(($(stat -c %s "$out/$program.tar") / 1024)) \
		"$(du -sk --apparent-size "$root" | cut -f1)" "${manifest[0]}"
}

for program in "${programs[@]}"; do build "$program"; done
