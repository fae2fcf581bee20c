/* SPDX-License-Identifier: Apache-2.0 */
/* Two tables of a building: each text once, and numbers by number. Private to xspace/tvx/. */
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

/* From any number to a number. Zeroed is empty. */
struct number_map {
	struct number_pair {
		int64_t key;
		uint32_t value, used;
	} * slots;
	size_t n, n_slots;
};

/* The value of this key; with `make` a new one has the value `fresh`. NULL: there is none. */
uint32_t *number_map_at(struct number_map *m, int64_t key, bool make, uint32_t fresh);
void number_map_release(struct number_map *m); /* empty then */

#endif
