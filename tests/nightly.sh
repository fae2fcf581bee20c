#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What takes too long for each change, one after the other; some hours. tests/README.md says what each is for.
#
#   tests/nightly.sh [STEP...]   all, or: long seeds takeovers clock mutants steady
#
# Resumable: build/nightly.tsv has what is done (remove it to begin anew). Seeds that failed are kept in build/nightly-seeds, a file each
# with the command that repeats it. Its last line is "N passed, N failed", of steps.
set -uo pipefail

cd "$(dirname "$0")/.." || exit 1
steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(long seeds takeovers clock mutants steady)
done_file=build/nightly.tsv seeds=build/nightly-seeds
mkdir -p build "$seeds"
touch "$done_file"

bin=build/plain/bin
prepare() {
	tests/setup.sh test && tests/servers.sh install &&
		cmake --preset plain >/dev/null && cmake --build --preset plain | tail -n 1
}

# draw NAME COUNT ARGUMENT...: plays that many new seeds, each for itself; one that fails is kept.
draw() {
	local name=$1 count=$2 seed failed=0
	shift 2
	for ((i = 0; i < count; i++)); do
		seed=$((RANDOM * 32768 + RANDOM + 100000))
		timeout 600 "$bin/tutti-sim" "$@" --seed "$seed" >"$seeds/log" 2>&1 && continue
		{ echo "$bin/tutti-sim $* --seed $seed"; cat "$seeds/log"; } >"$seeds/$name-$seed"
		failed=$((failed + 1))
	done
	rm -f "$seeds/log"
	echo "$name: $count new seeds, $failed failed"
	[ $failed -eq 0 ]
}

# Each seed that failed once: its file's first line is the command. It is removed when the seed passes.
replay_kept() {
	local file command failed=0
	for file in "$seeds"/*-*; do
		[ -e "$file" ] || continue
		read -ra command <"$file"
		if timeout 600 "${command[@]}" >"$seeds/log" 2>&1; then rm "$file"; else failed=$((failed + 1)); fi
	done
	rm -f "$seeds/log"
	echo "kept seeds: $failed fail still"
	[ $failed -eq 0 ]
}

step_long() { ctest --preset plain -L '^nightly$' -j2 --timeout 3600 --output-on-failure; }
step_seeds() { replay_kept && draw seeds 1000; }
step_takeovers() { draw takeovers 200 --takeover && draw machines 200 --takeover --machines && "$bin/tutti-sim" --crash all; }
step_clock() { tests/clock/run --bin "$bin"; }
step_mutants() { tests/mutants/run --resume build/nightly-mutants && rm build/nightly-mutants; }
step_steady() { tests/steady.sh 5; }

prepare || exit 1
passed=0 failed=()
for step in "${steps[@]}"; do
	declare -F "step_$step" >/dev/null || { echo "tests/nightly.sh: no step '$step'" >&2; exit 2; }
	if ! grep -qx "$step"$'\t'0 "$done_file"; then
		echo "==== $step"
		"step_$step"
		printf '%s\t%s\n' "$step" $? >>"$done_file"
	fi
	if grep -qx "$step"$'\t'0 "$done_file"; then passed=$((passed + 1)); else failed+=("$step"); fi
done
for step in "${failed[@]}"; do echo "failed: $step"; done
echo "$passed passed, ${#failed[@]} failed"
[ ${#failed[@]} -eq 0 ]
