/* SPDX-License-Identifier: Apache-2.0 */
#include "base/nearest.h"

#include <string.h>

#define WORD_MAX (NEAREST_WORD_BYTES - 1)

static size_t min3(size_t a, size_t b, size_t c)
{
	size_t least = a < b ? a : b;

	return least < c ? least : c;
}

/* The optimal string alignment distance: a row for each character of a, and the two rows before it. */
static size_t distance(const char *a, size_t na, const char *b, size_t nb)
{
	size_t rows[3][WORD_MAX + 1] = { 0 };

	for (size_t j = 0; j <= nb; j++)
		rows[0][j] = j;
	for (size_t i = 1; i <= na; i++) {
		const size_t *above = rows[(i - 1) % 3], *two_above = rows[(i + 1) % 3];
		size_t *row = rows[i % 3];

		row[0] = i;
		for (size_t j = 1; j <= nb; j++) {
			row[j] = min3(above[j] + 1, row[j - 1] + 1,
				      above[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    two_above[j - 2] + 1 < row[j])
				row[j] = two_above[j - 2] + 1;
		}
	}
	return rows[na % 3][nb];
}

struct nearest nearest_to(const char *typed)
{
	return (struct nearest){ .typed = typed };
}

void nearest_try(struct nearest *n, const char *word)
{
	size_t len = strlen(word), typed_len = strlen(n->typed), d;

	if (len > WORD_MAX || typed_len > WORD_MAX)
		return;
	d = distance(n->typed, typed_len, word, len);
	if (d > (len + 2) / 3 || (*n->word && d >= n->distance))
		return;
	memcpy(n->word, word, len + 1);
	n->distance = d;
}
