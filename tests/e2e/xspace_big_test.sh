#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A large XSpace, by default one of more than 2 GiB, is rebased file to file in less than 64 MiB of memory, and every line
# of it is where it should be.
#
#   xspace_big_test.sh DIRECTORY_OF_PROGRAMS [BYTES]
set -euo pipefail

programs=$1
bytes=${2:-2200000000}
limit=$((64 << 20))
shift_ns=1760000000000000000
base=${TMPDIR:-/tmp}
for left in "$base"/tutti-big-*; do # of a test that was killed
	pid=${left#"$base"/tutti-big-}
	[ -O "$left" ] && ! [ -e "/proc/${pid%%-*}" ] && rm -rf "$left"
done
tmp=$(mktemp -d "$base/tutti-big-$$-XXXXXX")
trap 'rm -rf "$tmp"' EXIT

free=$(df --output=avail -B1 "$tmp" | tail -n 1)
if ((free < bytes * 2 + (1 << 30))); then
	echo "skipped: $free bytes are free in $tmp"
	exit 77
fi

"$programs/xspace_gen" "$tmp/in" "$bytes"
read -r seconds written lines rss < <("$programs/xspace_rebase" "$tmp/in" "$tmp/out" $shift_ns)
size_in=$(stat -c %s "$tmp/in")
size_out=$(stat -c %s "$tmp/out")
echo "$size_in bytes in, $size_out out, $lines lines, $seconds s, $rss bytes RSS"

((size_in >= bytes)) || { echo "the input is too small"; exit 1; }
((size_out == written)) || { echo "counted $written bytes"; exit 1; }
((rss < limit)) || { echo "RSS is not below $limit"; exit 1; }
read -r _ _ checked rss < <("$programs/xspace_rebase" --check "$tmp/in" "$tmp/out" $shift_ns)
((checked == lines)) || { echo "$checked lines are there"; exit 1; }
((rss < limit)) || { echo "RSS of reading is not below $limit"; exit 1; }
