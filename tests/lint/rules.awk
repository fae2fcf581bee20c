# Holds stripped code (strip.awk) against layers.txt; prints one line for each rule broken.
# -v rule=may|front|library|calls

function glob(pattern)
{
	gsub(/[.+()|]/, "\\\\&", pattern)
	gsub(/\*/, ".*", pattern)
	return "^" pattern "$"
}

# Does `path` match one of the patterns in fields `first` and up of a rule?
function listed(path, patterns, 	parts, n, i)
{
	n = split(patterns, parts, " ")
	for (i = 1; i <= n; i++)
		if (path ~ glob(parts[i]))
			return 1
	return 0
}

# The room of a file: the longest folder above it that has a `may` line; "" if there is none.
function room(path)
{
	while (sub(/\/[^\/]*$/, "", path))
		if (path in others)
			return path
	return ""
}

function complain(text)
{
	print path ":" line ": " text
}

function check_may(header, 	from, to)
{
	from = room(path)
	to = room(header)
	if (from == "")
		complain("layers.txt has no line for folder " folder(path))
	else if (to == "" || index(header, ".."))
		complain("\"" header "\": includes name the path from the root")
	else if (from != to && index(" " others[from] " ", " " to " ") == 0)
		complain(from "/ may not include " to "/")
}

function folder(path)
{
	return sub(/\/[^\/]*$/, "/", path) ? path : "./"
}

function check_front(header, 	to)
{
	to = room(header)
	if (to != "" && to != room(path) && !listed(header, fronts))
		complain(header " is not one of the headers " to "/ shows to others")
}

function check_library(header, 	i)
{
	for (i = 1; i <= libraries; i++)
		if (index(header, library[i]) == 1 && !listed(path, library_files[i]))
			complain("<" header "> belongs into " library_files[i])
}

function check_calls(code, 	i)
{
	for (i = 1; i <= calls; i++)
		if (match(code, call[i]) && !listed(path, call_files[i]))
			complain(substr(code, RSTART, RLENGTH) " belongs into " call_files[i])
}

function rest_from(field, 	i, out)
{
	for (i = field; i <= NF; i++)
		out = out (i > field ? " " : "") $i
	return out
}

FNR == NR && $1 == "may" { others[$2] = rest_from(3) }
FNR == NR && $1 == "front" { fronts = fronts " " rest_from(2) }
FNR == NR && $1 == "library" { library[++libraries] = $2; library_files[libraries] = rest_from(3) }
FNR == NR && $1 == "call" { call[++calls] = "(^|[^A-Za-z0-9_>.])(" $2 ")[ \t]*\\("; call_files[calls] = rest_from(3) }
FNR == NR && $1 == "word" { call[++calls] = "(^|[^A-Za-z0-9_])(" $2 ")"; call_files[calls] = rest_from(3) }
FNR == NR { next }

{
	match($0, /^[^:]*:[0-9]+:/)
	split(substr($0, 1, RLENGTH), place, ":")
	path = place[1]
	line = place[2]
	code = substr($0, RLENGTH + 1)
}

path ~ /^tests\// { next }
rule == "calls" { check_calls(code) }

code ~ /^[ \t]*#[ \t]*include[ \t]*["<]/ {
	header = code
	sub(/^[^"<]*["<]/, "", header)
	sub(/[">].*/, "", header)
	if (rule == "library")
		check_library(header)
	else if (code ~ /"/ && rule == "may")
		check_may(header)
	else if (code ~ /"/ && rule == "front")
		check_front(header)
}
