# C files to "path:line:code" with comments gone and strings emptied, except in #include lines.
# Works on what stands between one interesting place and the next, not on single characters.

FNR == 1 { in_comment = 0 }

{
	rest = $0
	code = ""
	marks = rest ~ /^(.*\*\/)?[ \t]*#[ \t]*include/ ? "/[*]|//" : "/[*]|//|\"|'"
	while (rest != "") {
		if (in_comment) {
			end = index(rest, "*/")
			if (!end)
				break
			rest = substr(rest, end + 2)
			in_comment = 0
			code = code " "
			continue
		}
		if (!match(rest, marks)) {
			code = code rest
			break
		}
		code = code substr(rest, 1, RSTART - 1)
		mark = substr(rest, RSTART, RLENGTH)
		rest = substr(rest, RSTART + RLENGTH)
		if (mark == "//")
			break
		if (mark == "/*") {
			in_comment = 1
			continue
		}
		code = code mark mark
		if (!match(rest, "^([^" mark "\\\\]|\\\\.)*" mark))
			break
		rest = substr(rest, RLENGTH + 1)
	}
	if (code !~ /^[ \t]*$/)
		print FILENAME ":" FNR ":" code
}
