/* SPDX-License-Identifier: Apache-2.0 */
/* Two tables of a building: each text once, and numbers by number. Private to xspace/. */
#ifndef XSPACE_TVX_NAMES_H
#define XSPACE_TVX_NAMES_H

#include <stdbool.h>

#include "base/buf.h"

/* Texts, numbered from 0. Zeroed is empty. */
struct names {
	struct buf text; /* one after the other */
	uint64_t *ends; /* by number */
	uint32_t n, cap;
	uint32_t *slots; /* 1 + number, by hash */
	size_t n_slots;
};

/* The number of this text, which is made if there is none. ERR_LIMIT beyond TVX_NAMES_MAX and TVX_NAME_BYTES_MAX. */
MUST_CHECK int names_add(struct names *t, const void *text, size_t len, uint32_t *out,
			 struct err *e);
void names_release(struct names *t);

/* From any number to a number, fast where numbers are small. Zeroed is empty. */
struct number_map {
	uint32_t *small; /* by key: 1 + value; 0 = there is none */
	size_t n_small;
	struct number_pair {
		int64_t key;
		uint32_t value, used;
	} * slots;
	size_t n, n_slots;
};

/* Sets *out to the value of this key; false: there is none. */
bool number_map_find_large(const struct number_map *m, int64_t key, uint32_t *out);
static inline bool number_map_find(const struct number_map *m, int64_t key, uint32_t *out)
{
	if ((uint64_t)key >= m->n_small)
		return number_map_find_large(m, key, out);
	*out = m->small[key] - 1;
	return m->small[key] != 0;
}

void number_map_set(struct number_map *m, int64_t key, uint32_t value);
void number_map_release(struct number_map *m); /* empty then */

#endif
