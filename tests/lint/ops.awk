# Every member of a table (struct *_ops) in a header says what it promises, above it or behind it.

FNR == 1 { inside = in_comment = 0 }
/^struct [a-z0-9_]+_ops \{/ { inside = 1; told = 0; next }
/^\}/ { inside = 0 }
!inside { next }

{
	code = $0
	if (in_comment) {
		if (!index(code, "*/"))
			next
		sub(/.*\*\//, "", code)
		in_comment = 0
	}
	told = told || index(code, "/*")
	gsub(/\/\*.*\*\//, "", code)
	in_comment = index(code, "/*") > 0
	sub(/\/\*.*/, "", code)
}

code ~ /;/ {
	if (!told)
		print FILENAME ":" FNR ": no comment on this member:" code
	told = 0
}
