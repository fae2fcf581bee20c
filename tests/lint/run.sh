#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Holds the tree to its own rules: tests/lint/run.sh [CHECK...]; all of them if none is named.
#
# LINT_ROOT   the tree to check (default: this one)
# LINT_BUILD  a build folder with generated headers (default: build/dev, configured if missing)
set -uo pipefail
lint=$(cd "$(dirname "$0")" && pwd)
root=${LINT_ROOT:-$(cd "$lint/../.." && pwd)}
build=${LINT_BUILD:-$root/build/dev}
cd "$root" || exit 2
. "$lint/checks.sh"

declare -A about=(
	[layers]="folders include only those below them"
	[fronts]="from outside, only front-door headers are included"
	[circles]="no include circle between rooms, none of more than three modules inside"
	[libraries]="library headers stay in their folder"
	[calls]="clocks, sleeps, sockets, threads, forks and exits stay in theirs"
	[headers]="every header compiles alone"
	[format]="clang-format 14 would change nothing"
	[tables]="every member of a table has a comment"
	[licence]="every C file begins with the SPDX line"
	[words]="nothing unfinished, no path of a builder's machine"
	[terms]="no word that the glossary has retired"
	[paths]="files that docs and comments name are there"
	[columns]="lines of docs have at most 140 characters"
	[deadlines]="no test waits without a deadline"
)
checks=("$@")
[ $# -gt 0 ] || checks=(layers fronts circles libraries calls headers format tables licence words terms paths columns deadlines)

# An unreadable repository must not pass for a clean one.
if ! git rev-parse --git-dir >/dev/null || [ "$(files c h | wc -c)" -eq 0 ]; then
	echo "lint: git lists no C files in $root" >&2
	exit 2
fi

failed=0
for check in "${checks[@]}"; do
	if [ -z "${about[$check]:-}" ]; then
		echo "lint: no check \"$check\"; there are ${!about[*]}" >&2
		exit 2
	fi
	found=$("check_$check")
	if [ -z "$found" ]; then
		printf 'ok    %-10s %s\n' "$check" "${about[$check]}"
	else
		printf 'FAIL  %-10s %s\n%s\n' "$check" "${about[$check]}" "$found"
		failed=$((failed + 1))
	fi
done
[ $# -gt 0 ] || "$lint/mirror.sh"
echo "lint: $((${#checks[@]} - failed)) passed, $failed failed"
[ "$failed" -eq 0 ]
