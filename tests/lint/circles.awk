# Include circles, from stripped code (strip.awk). A module is a header with the .c file of the same name;
# a room is the longest folder that layers.txt has a `may` line for.
# -v show=errors: circles between rooms, and circles of more than `limit` modules.  -v show=rest: the others.

function room(path, 	at)
{
	at = path
	while (sub(/\/[^\/]*$/, "", at))
		if (at in rooms)
			return at
	return at
}

function add_edge(level, from, to)
{
	if (from == to || (level, from, to) in edge)
		return
	edge[level, from, to] = 1
	nodes[level, from] = nodes[level, to] = 1
	next_of[level, from] = next_of[level, from] " " to
}

# Everything that can be reached from `start`; recursion is as deep as the longest chain of includes.
function visit(level, start, at, 	n, i, list)
{
	n = split(next_of[level, at], list, " ")
	for (i = 1; i <= n; i++)
		if (!((level, start, list[i]) in reach)) {
			reach[level, start, list[i]] = 1
			visit(level, start, list[i])
		}
}

# Prints each circle of a level once, its members sorted.
function print_circles(level, 	key, part, list, n, i, j, names, text, size)
{
	n = 0
	for (key in nodes) {
		split(key, part, SUBSEP)
		if (part[1] == level)
			names[++n] = part[2]
	}
	for (i = 2; i <= n; i++)
		for (j = i; j > 1 && names[j] < names[j - 1]; j--) {
			text = names[j]; names[j] = names[j - 1]; names[j - 1] = text
		}
	for (i = 1; i <= n; i++)
		visit(level, names[i], names[i])
	for (i = 1; i <= n; i++) {
		if ((level, names[i]) in shown || !((level, names[i], names[i]) in reach))
			continue
		text = names[i]
		size = 1
		for (j = i + 1; j <= n; j++)
			if ((level, names[i], names[j]) in reach && (level, names[j], names[i]) in reach) {
				shown[level, names[j]] = 1
				text = text " " names[j]
				size++
			}
		if ((level == "room" || size > limit) == (show == "errors"))
			print "circle of " size " " level "s: " text
	}
}

FNR == NR && $1 == "may" { rooms[$2] = 1 }
FNR == NR { next }

{
	match($0, /^[^:]*:[0-9]+:/)
	split(substr($0, 1, RLENGTH), place, ":")
	path = place[1]
	code = substr($0, RLENGTH + 1)
}

path ~ /^tests\// || code !~ /^[ \t]*#[ \t]*include[ \t]*"/ { next }

{
	header = code
	sub(/^[^"]*"/, "", header)
	sub(/".*/, "", header)
	add_edge("room", room(path), room(header))
	sub(/\.[ch]$/, "", path)
	sub(/\.[ch]$/, "", header)
	add_edge("module", path, header)
}

END {
	print_circles("room")
	print_circles("module")
}
