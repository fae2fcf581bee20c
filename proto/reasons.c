/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/reasons.h"

#include <stddef.h>
#include <string.h>

#define CONSTANT(constant, word, states, by, flags, meaning) \
	const char REASON_##constant[sizeof(word)] = word;
REASONS(CONSTANT)

#define ROW(constant, word, states, by, flags, meaning) \
	{ REASON_##constant, REASON_##states, REASON_BY_##by, flags, meaning },

const struct reason reasons[] = { REASONS(ROW){ 0 } };

const struct reason *reason_find(const char *word)
{
	for (const struct reason *r = reasons; r->word; r++) {
		if (!strcmp(r->word, word))
			return r;
	}
	return NULL;
}
