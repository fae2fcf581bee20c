# Finds retired words (words.txt: a regular expression of whole words, a tab, what to use instead) in any
# text: identifiers are taken apart at underscores. One line for each.

FNR == NR && /^[^#]/ {
	split($0, half, "\t+")
	words[++n] = "(^|[^a-z])(" half[1] ")([^a-z]|$)"
	instead[n] = half[2]
}
FNR == NR { next }

{
	line = tolower($0)
	gsub(/front[- ]doors?|curlopt_[a-z]+/, "", line)
	gsub(/_/, " ", line)
	for (i = 1; i <= n; i++)
		if (match(line, words[i])) {
			word = substr(line, RSTART, RLENGTH)
			gsub(/^[^a-z]+|[^a-z]+$/, "", word)
			print FILENAME ":" FNR ": \"" word "\" is retired: " instead[i]
		}
}
