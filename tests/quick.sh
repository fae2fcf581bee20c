#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The tests of some files, in seconds: builds only what they need (preset plain: -O1), and runs them.
#
#   tests/quick.sh FILE...     C, TypeScript, Python, docs, schemas, scripts; without one: what git says has changed
#
# tests/lib/rooms.py says which tests a file has. Its last line is "N passed, N failed".
set -uo pipefail

cd "$(dirname "$0")/.." || exit 1
files=("$@")
[ ${#files[@]} -gt 0 ] || mapfile -t files < <(git diff --name-only --diff-filter=d HEAD; git ls-files --others --exclude-standard)
[ ${#files[@]} -gt 0 ] || { echo "tests/quick.sh: nothing has changed; name files" >&2; exit 2; }
for file in "${files[@]}"; do [ -e "$file" ] || { echo "tests/quick.sh: there is no file $file" >&2; exit 2; }; done

export TUTTI_PYTHON=$PWD/.venv/bin/python
log=build/plain-build.log report=$PWD/build/quick.xml
mkdir -p build
built() {
	"$@" >>"$log" 2>&1 && return
	grep -E -A 20 'FAILED|error:|CMake Error' "$log" | head -n 60 >&2
	echo "0 passed, 1 failed"
	exit 1
}

: >"$log"
[ -e build/plain/build.ninja ] || built cmake --preset plain
names=$(python3 tests/lib/rooms.py build/plain "${files[@]}") || exit 2
read -ra targets <<<"$(sed -n 2p <<<"$names")"
names=$(sed -n 1p <<<"$names")
[ ${#targets[@]} -eq 0 ] || built cmake --build --preset plain --target "${targets[@]}"

rm -f "$report"
ctest --preset plain -j$((2 * $(nproc))) -R "$names" --output-junit "$report" >build/quick.log 2>&1
grep -qs '<testcase' "$report" || { cat build/quick.log >&2; echo "0 passed, 1 failed"; exit 1; }
lines=$(python3 tests/lib/report.py "$report" build/quick.log)
failed=0
c_files=()
for file in "${files[@]}"; do [[ $file != *.[ch] ]] || c_files+=("$file"); done
if [ ${#c_files[@]} -gt 0 ] && ! unformatted=$(clang-format-14 --dry-run --Werror "${c_files[@]}" 2>&1); then
	echo "$unformatted" | head -n 20
	echo "failed: the format of what was named: clang-format-14 -i FILE"
	failed=1
fi
if grep -qvE '^(run|skip)' <<<"$lines"; then
	sed -n '/\*\*\*Failed\|\*\*\*Timeout\|\*\*\*Exception/,/^ *[0-9]*\/[0-9]* Test/p' build/quick.log | head -n 200
	awk -F '\t' '$1 !~ /^(run|skip)$/ { print "failed: " $2 ": " $1 ": " $4 }' <<<"$lines"
fi
failed=$((failed + $(grep -cvE '^(run|skip)' <<<"$lines")))
echo "$(grep -c '^run' <<<"$lines") passed, $failed failed"
[ $failed -eq 0 ]
