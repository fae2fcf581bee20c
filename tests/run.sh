#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Every test, on a fresh Debian 12: installs what is needed, builds, runs. Its last line is "N passed, N failed";
# above it are the names of the tests that failed, of those that passed only alone, and of those that this machine cannot
# run.
#
#   tests/run.sh            everything
#   tests/run.sh dev        one part: dev (ASan + UBSan: unit, conform, fuzz corpora, lint, simulation, end to end),
#                           tsan (what has threads, under ThreadSanitizer), release (the quickstart)
set -uo pipefail

cd "$(dirname "$0")/.." || exit 1
parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(dev tsan release)

tests/setup.sh test || exit 1
export TUTTI_PYTHON=$PWD/.venv/bin/python
passed=0 failed=() unsteady=() skipped=() ahead=
jobs=$((2 * $(nproc))) # most of a test is waiting

# compile PRESET
compile() {
	local log=build/$1.log targets=()
	mkdir -p build
	[ "$1" != release ] || targets=(--target tutti-aggregator tutti-agent tutti burst) # its tests run no others
	cmake --preset "$1" >"$log" 2>&1 && cmake --build --preset "$1" "${targets[@]}" >>"$log" 2>&1
}

# build PRESET
build() {
	[ -z "$ahead" ] || wait "$ahead"
	ahead=
	echo "==== $1: build"
	compile "$1" && return
	tail -n 60 "build/$1.log"
	failed+=("build of $1")
	return 1
}

# The parts after this one are built while its tests wait.
compile_ahead() {
	local preset
	for preset in "$@"; do compile "$preset"; done
}

# read_report FILE: a line a test: run, fail, defect (a sanitizer's report: no matter of load) or another status; its name.
read_report() {
	"$TUTTI_PYTHON" - "$1" <<-'PY'
		import re, sys, xml.etree.ElementTree as tree
		defect = re.compile(r"(Address|Leak|Thread)Sanitizer|runtime error:")
		for case in tree.parse(sys.argv[1]).getroot().iter("testcase"):
		    status = case.get("status")
		    if status == "fail" and defect.search(case.findtext("system-out") or ""):
		        status = "defect"
		    print(status, case.get("name"))
	PY
}

# try_again PRESET NAME...: runs what failed once more, with nothing beside it. A test that passes then is named as unsteady.
# A machine that stands still for a while fails all tests that run then; more than twice as many are never luck.
try_again() {
	local preset=$1 report=$PWD/build/$1/again.xml name results=
	shift
	if [ $# -gt $((2 * jobs)) ]; then
		failed+=("${@/#/$preset: }")
		return
	fi
	echo "==== $preset: once more, alone: $*"
	[ -z "$ahead" ] || wait "$ahead"
	ahead=
	rm -f "$report"
	ctest --preset "$preset" --rerun-failed --output-junit "$report"
	[ ! -s "$report" ] || results=$(read_report "$report")
	for name in "$@"; do
		if grep -qxF "run $name" <<<"$results"; then
			unsteady+=("$preset: $name")
			passed=$((passed + 1))
		else
			failed+=("$preset: $name")
		fi
	done
}

# suite PRESET [ctest arguments...]: builds a preset and runs its tests; adds to the counts.
suite() {
	local preset=$1 report=$PWD/build/$1/report.xml again=() status name
	shift
	build "$preset" || return
	rm -f "$report"
	if [ ${#later[@]} -gt 0 ]; then
		compile_ahead "${later[@]}" &
		ahead=$!
		renice -n 10 "$ahead" >/dev/null 2>&1
	fi
	echo "==== $preset: test"
	ctest --preset "$preset" --output-junit "$report" "$@"
	if ! [ -s "$report" ]; then
		failed+=("$preset: no report was written")
		return
	fi
	while read -r status name; do
		case $status in
		run) passed=$((passed + 1)) ;;
		fail) again+=("$name") ;;
		defect) failed+=("$preset: $name") ;;
		*) skipped+=("$preset: $name") ;;
		esac
	done < <(read_report "$report")
	[ ${#again[@]} -eq 0 ] || try_again "$preset" "${again[@]}"
}

later=("${parts[@]}")
for part in "${parts[@]}"; do
	later=("${later[@]:1}")
	case $part in
	dev) suite dev -j$jobs -LE 'release' ;;
	tsan) suite tsan -j$((3 * $(nproc))) -LE 'release' ;; # no simulation, which needs CPUs: still more is waiting
	release) suite release -L 'release' ;;
	*) echo "tests/run.sh: unknown part '$part'" >&2; exit 2 ;;
	esac
done

for name in "${skipped[@]}"; do echo "skipped: $name"; done
for name in "${unsteady[@]}"; do echo "unsteady: $name (failed beside the others, passed alone; its output is above)"; done
for name in "${failed[@]}"; do echo "failed: $name"; done
echo "$passed passed, ${#failed[@]} failed"
[ ${#failed[@]} -eq 0 ] && [ "$passed" -gt 0 ]
