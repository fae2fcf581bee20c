#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Manual pages of a program, made of what its --help prints: deploy/man.sh PROGRAM SECTION VERSION FOLDER
#
# Writes FOLDER/NAME.SECTION, and FOLDER/NAME-COMMAND.SECTION for each command that --help lists.
set -euo pipefail

program=${1:?usage: man.sh PROGRAM SECTION VERSION FOLDER} section=${2:?} version=${3:?} folder=${4:?}
name=$(basename "$program")
mkdir -p "$folder"

# Usage, a text, then lines of "  --flag VALUE   help" or "  command   help", then a closing text.
page() {
	awk -v name="$1" -v section="$section" -v version="$version" '
		function escaped(s) { gsub(/\\/, "\\e", s); gsub(/-/, "\\-", s); sub(/^[.'\'']/, "\\\\\\&&", s); return s }
		function heading(s) { if (at != s) print ".SH " s; at = s }
		BEGIN { printf ".TH %s %s \"\" \"Tutti %s\"\n", toupper(name), section, version }
		/^usage: / { usage = substr($0, 8); next }
		!summary && NF { summary = $0
			sub(/\.$/, "", summary)
			print ".SH NAME\n" name " \\- " escaped(summary) "\n.SH SYNOPSIS\n.B " escaped(usage)
			next }
		match($0, /^ +(-[a-zA-Z], )?--[a-z0-9-]+( [A-Z]+)? +/) { heading("OPTIONS")
			left = substr($0, 1, RLENGTH); gsub(/^ +| +$/, "", left)
			print ".TP\n.B " escaped(left) "\n" escaped(substr($0, RLENGTH + 1)); next }
		/^  [a-z]/ { heading("COMMANDS")
			help = $0; sub(/^ +[a-z-]+ +/, "", help)
			print ".TP\n.BR " escaped(name) "\\-" escaped($1) " (" section ")\n" escaped(help); next }
		!NF { next }
		{ heading("DESCRIPTION"); print escaped($0) }'
}

"$program" --help | page "$name" >"$folder/$name.$section"
"$program" --help | awk '/^  [a-z]/ { print $1 }' | while read -r command; do
	"$program" "$command" --help | page "$name-$command" >"$folder/$name-$command.$section"
done
