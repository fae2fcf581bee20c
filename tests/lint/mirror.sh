#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Shows the longest functions and files and the small include circles: a mirror, not a gate.
set -euo pipefail
lint=$(cd "$(dirname "$0")" && pwd)
cd "${LINT_ROOT:-$lint/../..}"
. "$lint/checks.sh"

# Numbers with names, one a line, to a title with count and median, and the ten largest.
ten_largest() {
	sort -rn | awk -v title="$1" '{ n[NR] = $1; text[NR] = $0 }
		END {
			printf "%s: %d, median %d lines\n", title, NR, n[int((NR + 1) / 2)]
			for (i = 1; i <= NR && i <= 10; i++)
				print "  " text[i]
		}'
}

ours() { files "$@" | grep -zv '^tests/'; }

if command -v ctags >/dev/null; then
	ours c h | xargs -0r ctags -f - --languages=C --kinds-C=f --fields=+ne --excmd=number |
		awk -F'\t' '{
			start = end = 0
			for (i = 4; i <= NF; i++) {
				if ($i ~ /^line:/) start = substr($i, 6)
				if ($i ~ /^end:/) end = substr($i, 5)
			}
			if (end) printf "%4d %s:%d %s\n", end - start + 1, $2, start, $1
		}' | ten_largest functions
fi
ours c | xargs -0r -n1 awk 'END { printf "%4d %s\n", NR, FILENAME }' | ten_largest ".c files"
ours h | xargs -0r -n1 awk 'END { printf "%4d %s\n", NR, FILENAME }' | ten_largest ".h files"
circles rest
