#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Whether the tests are steady: runs them N times (default 5) beside two busy processes that outrank them (stress-ng), and prints
# what failed, how often, and why.
#
#   tests/steady.sh [N] [PART...]     the parts of tests/run.sh; all if none is named
#   --quiet                           without the load
#   --results FILE                    default: build/steady.tsv. Runs that it has already are not made again.
#
# Its last line is "N passed, N failed", of runs; a run with a test that passed only alone has failed here.
set -uo pipefail

cd "$(dirname "$0")/.." || exit 1
runs=5 load=true file=build/steady.tsv parts=()
while [ $# -gt 0 ]; do
	case $1 in
	--quiet) load=false ;;
	--results) file=$2; shift ;;
	-h | --help) sed -n 's/^# \{0,1\}//; 4,/^set/{/^set/!p}' "$0"; exit ;;
	[0-9]*) runs=$1 ;;
	*) parts+=("$1") ;;
	esac
	shift
done
mkdir -p build/steady
key="${parts[*]:-all} $($load && echo load || echo quiet)"

# Lines of the file: key, run, then what tests/run.sh wrote of a test; or key, run, "end", its exit status, seconds.
touch "$file"
for ((run = 1; run <= runs; run++)); do
	grep -q "^$key"$'\t'"$run"$'\t'"end"$'\t' "$file" && continue
	echo "==== run $run of $runs: $key"
	pressure=
	if $load; then
		nice -n -5 stress-ng --cpu 2 --quiet --timeout 2h &
		pressure=$!
	fi
	trap '[ -z "$pressure" ] || kill "$pressure" 2>/dev/null' EXIT
	from=$SECONDS
	tests/run.sh "${parts[@]}" >"build/steady/$run.log" 2>&1
	status=$?
	[ -z "$pressure" ] || { kill "$pressure"; wait "$pressure"; } 2>/dev/null
	pressure=
	sed "s/^/$key\t$run\t/" build/results.tsv >>"$file"
	printf '%s\t%s\tend\t%s\t%s\n' "$key" "$run" "$status" "$((SECONDS - from))" >>"$file"
	tail -n 1 "build/steady/$run.log"
done

awk -F '\t' -v key="$key" -v runs="$runs" '
	$1 != key || $2 > runs { next }
	$3 == "end" { seconds[$2] = $5; status[$2] = $4; next }
	$4 != "run" && $4 != "skip" { n[$3 ": " $5]++; cause[$3 ": " $5] = $4 ": " $7; bad[$2] = 1 }
	END {
		for (r in seconds) { printf "run %d: %d s, exit status %d\n", r, seconds[r], status[r]; if (bad[r] || status[r]) failed++; else passed++ }
		printf "%-50s %8s  %s\n", "test", "failed", "how, and why the last time"
		for (t in n) printf "%-50s %3d of %d  %s\n", t, n[t], runs, cause[t]
		printf "%d passed, %d failed\n", passed, failed
		exit failed > 0
	}' "$file"
