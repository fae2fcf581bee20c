/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "Did you mean ...?": keeps the word that is nearest to what a user typed.
 *
 *   struct nearest n = nearest_to("captrue");
 *   nearest_try(&n, "capture"), nearest_try(&n, "cancel");
 *   if (*n.word) ... // "capture"
 */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stddef.h>

#define NEAREST_WORD_BYTES 49 /* no longer word is near to any */

struct nearest {
	const char *typed; /* borrowed */
	char word[NEAREST_WORD_BYTES]; /* the nearest so far; "" = none is near */
	size_t distance; /* characters to insert, remove, replace or swap; more than a third of the word is not near */
};

struct nearest nearest_to(const char *typed);
void nearest_try(struct nearest *n, const char *word);

#endif
