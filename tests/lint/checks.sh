# The checks: each prints what is wrong, a line each, and is silent where all is well. They run in
# the root of the tree they check and find in $lint the folder of this file.

# Tracked files and those that will be, by the ends of their names: files c h
files() {
	local ends=()
	for end in "$@"; do ends+=("*.$end"); done
	git ls-files -co --exclude-standard -z -- "${ends[@]}" | while IFS= read -r -d '' f; do
		[ -f "$f" ] && printf '%s\0' "$f"
	done
}

# Runs a shell text with the files as its arguments, so many at a time, on all processors.
each() { build=$build xargs -0r -P "$(nproc)" -n "$1" bash -c "$2" -; }

rules() {
	files c h | xargs -0r awk -f "$lint/strip.awk" | awk -v rule="$1" -f "$lint/rules.awk" "$lint/layers.txt" -
}

check_layers() { rules may; }
check_fronts() { rules front; }
check_libraries() { rules library; }
check_calls() { rules calls; }

# Circles between rooms, and of more than three modules inside one; mirror.sh shows the small ones.
circles() {
	files c h | xargs -0r awk -f "$lint/strip.awk" |
		awk -v show="$1" -v limit=3 -f "$lint/circles.awk" "$lint/layers.txt" -
}
check_circles() { circles errors; }

# Generated headers come from a build folder; any will do.
generated() {
	[ -e "$build/proto/tutti/v1/control.pb-c.h" ] && return
	[ -e "$build/CMakeCache.txt" ] || cmake --preset dev -B "$build" >/dev/null
	cmake --build "$build" --target proto_generated >/dev/null
}

# The build compiles a header alone where the file of its name includes it first; the others are compiled here.
check_headers() {
	files h | xargs -0r grep -l 'pb-c\.h"' >/dev/null && generated
	files h | while IFS= read -r -d '' header; do
		[ "$(grep -m1 '^#include' "${header%.h}.c" 2>/dev/null)" = "#include \"$header\"" ] || printf '%s\0' "$header"
	done | each 1 'gcc -std=gnu11 -D_GNU_SOURCE -fsyntax-only -Wfatal-errors -x c -I. -I"$build" \
		-I"$build/proto" -include base/banned.h "$1" 2>&1 >/dev/null | grep -m1 error:'
}

check_format() {
	if ! command -v clang-format-14 >/dev/null; then
		echo "clang-format-14 is missing; tests/setup.sh test installs it"
		return
	fi
	files c h | each 20 'clang-format-14 --dry-run -Werror "$@" 2>&1 |
		sed -n "s/^\([^ :]*\):[0-9]*:[0-9]*: error:.*/\1: clang-format-14 -i would change it/p" | uniq'
}

check_tables() { files h | xargs -0r awk -f "$lint/ops.awk"; }

check_licence() {
	files c h | xargs -0r awk 'FNR == 1 && !/SPDX-License-Identifier: Apache-2.0/ {
		print FILENAME ": its first line is not the SPDX line" }'
}

# Unfinished business, and paths of the machine it was written on.
check_words() {
	git ls-files -co --exclude-standard -z | xargs -0r grep -InE -s -d skip \
		-e '\b(TO''DO|FIX''ME|XX''X)\b' -e '(^|[^A-Za-z0-9_}>)])/(ho''me|ro''ot)/'
}

# A test that waits for ever holds up the run, and says nothing. Unit and conformance tests end by tests/lib/deadline.c.
check_deadlines() {
	git ls-files -co --exclude-standard -z -- tests | xargs -0r grep -lIE -s -d skip '^#!.*python|^"""' | xargs -r python3 "$lint/deadlines.py"
	git ls-files -co --exclude-standard -z -- 'tests/*.[ch]' | xargs -0r awk -f "$lint/strip.awk" |
		sed -nE -e 's/^([^:]*:[0-9]+:).*\b(p?poll|epoll_p?wait)\(.*, -1\).*/\1 \2() without a timeout/p' \
			-e 's/^([^:]*:[0-9]+:).*\b(v?fork\(|PR_SET_PDEATHSIG).*/\1 \2: what is forked ends with its test: child_fork() of base\/child.h/p'
	git ls-files -co --exclude-standard -z -- 'tests/*.sh' 'deploy/*.sh' 'web/*.sh' | xargs -0r grep -HnE '\bcurl +-' -s | grep -vE -- ' -m [0-9]' |
		sed -nE 's/^([^:]*:[0-9]+:).*/\1 curl without -m/p'
}

# Words that the glossary has retired, in code, comments, texts and docs.
check_terms() {
	git ls-files -co --exclude-standard -z -- '*.[ch]' '*.proto' '*.md' '*.sh' '*.py' '*.html' '*.cmake' ':!tests/lint' |
		xargs -0r awk -f "$lint/terms.awk" "$lint/words.txt"
}

# Files that docs and comments name are there; generated headers are not looked for.
check_paths() {
	git ls-files -co --exclude-standard -z -- '*.md' '*.[ch]' '*.proto' '*.cmake' '*.sh' '*.py' ':!tests/lint' |
		xargs -0r grep -InoE -s '(^|[^A-Za-z0-9_./<>$}])(agent|aggregator|base|cli|cmake|deploy|docs|json|net|proto|storage|tests|web|xspace)/[A-Za-z0-9_/-]+\.(c|h|py|sh|md|proto|txt|html|cmake|json)\b' |
		sed -E 's/^([^:]*:[0-9]+:)[^A-Za-z]?/\1/' | while IFS=: read -r file line path; do
			case $path in *.pb-c.h | *_pb2.py) continue ;; esac
			[ -e "$path" ] || echo "$file:$line: there is no $path"
		done
}

# Docs are read in a terminal, too.
check_columns() {
	git ls-files -co --exclude-standard -z -- '*.md' |
		xargs -0r awk 'length > 140 { print FILENAME ":" FNR ": " length " characters, at most 140" }'
}
