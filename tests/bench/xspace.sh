#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Moves every line of the same 150 MB XSpace, with xs_rebase and with C++ protobuf (arena: parse, edit,
# serialize), in turns, memory to memory, and prints medians and their ratio. One command:
#
#   tests/bench/xspace.sh [REPEATS] [BYTES]
#
# Builds the release preset. Ends with 1 if the results differ or the ratio is below 10.
set -euo pipefail

repeats=${1:-9}
bytes=${2:-150000000}
shift_ns=1760000000000000000
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${TUTTI_BENCH_BUILD:-$root/build/release}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

echo "building into $build" >&2
(cd "$root" && cmake --preset release -B "$build" && cmake --build "$build" \
	--target xspace_gen xspace_rebase) >"$tmp/build.log" 2>&1 || { cat "$tmp/build.log" >&2; exit 1; }
protoc -I"$root/proto" --cpp_out="$tmp" "$root/proto/tensorflow/xplane.proto"
g++ -O2 -DNDEBUG -std=c++17 -I"$tmp" -o "$tmp/peer" "$root/tests/bench/xspace_peer.cc" \
	"$tmp/tensorflow/xplane.pb.cc" $(pkg-config --cflags --libs protobuf)

ours=$build/tests/xspace_rebase
"$build/tests/xspace_gen" "$tmp/in" "$bytes"

echo "checking that both write the same message" >&2
"$ours" --memory "$tmp/in" "$tmp/out" $shift_ns >/dev/null
"$tmp/peer" "$tmp/in" $shift_ns --same "$tmp/out" || { echo "the outputs differ" >&2; exit 1; }

for ((i = 1; i <= repeats; i++)); do
	echo "run $i of $repeats" >&2
	"$ours" --memory "$tmp/in" /dev/null $shift_ns | cut -d' ' -f1 >>"$tmp/memory"
	"$tmp/peer" "$tmp/in" $shift_ns | cut -d' ' -f1 >>"$tmp/cpp"
	"$ours" "$tmp/in" "$tmp/out" $shift_ns | cut -d' ' -f1 >>"$tmp/file"
done

size=$(stat -c %s "$tmp/in")
row() {
	sort -n "$tmp/$1" | awk -v what="$2" -v size="$size" '
		{ t[NR] = $1 }
		END {
			m = t[int((NR + 1) / 2)]
			printf "%-44s %9.4f %9.4f %9.4f %8.2f\n", what, t[1], m, t[NR], size / m / 1e9
		}'
}
median() { sort -n "$tmp/$1" | awk '{ t[NR] = $1 } END { print t[int((NR + 1) / 2)] }'; }

printf '%d bytes, %d runs in turns\n' "$size" "$repeats"
printf '%-44s %9s %9s %9s %8s\n' "seconds" min median max GB/s
row memory "xs_rebase, memory to memory"
row file "xs_rebase, file to file through a window"
row cpp "C++ protobuf, arena, memory to memory"
awk -v a="$(median cpp)" -v b="$(median memory)" 'BEGIN {
	printf "ratio of medians, C++ to ours, in memory: %.1f\n", a / b
	exit a / b < 10
}'
