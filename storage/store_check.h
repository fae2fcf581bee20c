/* SPDX-License-Identifier: Apache-2.0 */
/* Tests with calls to a store whether it behaves as storage/store.h says; for `tutti store check`. */
#ifndef STORAGE_STORE_CHECK_H
#define STORAGE_STORE_CHECK_H

#include <stdbool.h>

#include "storage/store.h"

struct store_finding {
	const char *name; /* "create-only": one word, stable */
	bool ok;
	char text[400]; /* what was seen; what it means, if it is not ok */
};

/*
 * Puts, reads, lists and removes small objects below the prefix tutti/check/, of which nothing is left. Calls `found` for each
 * thing that was tried, in order, until one fails on which the next ones depend. Returns whether all are ok. Blocks, until
 * `deadline_mono_ns` at most.
 */
bool store_check(struct store *s, int64_t deadline_mono_ns,
		 void (*found)(void *arg, const struct store_finding *finding), void *arg);

#endif
