#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Every test, on a fresh Debian 12: installs what is needed, builds, runs. Ends with "N passed, N failed".
#
#   tests/run.sh            everything
#   tests/run.sh dev        one part: dev (ASan + UBSan: unit, conform, fuzz corpora, lint, end to end),
#                           tsan (the same again under ThreadSanitizer, but for lint), release (the quickstart)
set -uo pipefail

cd "$(dirname "$0")/.." || exit 1
parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(dev tsan release)

tests/setup.sh test || exit 1
export TUTTI_PYTHON=$PWD/.venv/bin/python
passed=0 failed=0 skipped=0

# suite PRESET [ctest arguments...]: builds a preset and runs its tests; adds to the counts.
suite() {
	local preset=$1 report
	shift
	report=$PWD/build/$preset/report.xml
	echo "==== $preset: build"
	if ! { cmake --preset "$preset" >build-$preset.log 2>&1 && cmake --build --preset "$preset" >>build-$preset.log 2>&1; }; then
		tail -n 60 build-$preset.log
		rm -f build-$preset.log
		failed=$((failed + 1))
		return
	fi
	rm -f build-$preset.log "$report"
	echo "==== $preset: test"
	ctest --preset "$preset" --output-junit "$report" "$@"
	if ! [ -s "$report" ]; then
		echo "==== $preset: no report was written"
		failed=$((failed + 1))
		return
	fi
	read -r p f s < <("$TUTTI_PYTHON" - "$report" <<-'PY'
		import sys, xml.etree.ElementTree as tree
		cases = list(tree.parse(sys.argv[1]).getroot().iter("testcase"))
		bad = [c for c in cases if c.get("status") == "fail"]
		out = [c for c in cases if c.get("status") in ("notrun", "disabled")]
		print(len(cases) - len(bad) - len(out), len(bad), len(out))
	PY
	)
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

for part in "${parts[@]}"; do
	case $part in
	dev) suite dev -j2 -LE 'release' ;;
	tsan) suite tsan -j2 -LE 'release|lint' ;;
	release) suite release -L 'release' ;;
	*) echo "tests/run.sh: unknown part '$part'" >&2; exit 2 ;;
	esac
done

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
