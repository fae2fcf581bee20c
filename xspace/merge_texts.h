/* SPDX-License-Identifier: Apache-2.0 */
/* The errors, or the warnings, of a merged file: labelled, each once, XS_MAX_TEXTS at most. Private to
 * xspace/. Zeroed means empty. */
#ifndef XSPACE_MERGE_TEXTS_H
#define XSPACE_MERGE_TEXTS_H

#include <stddef.h>

#include "xspace/xspace.h"

struct merge_text;

struct merge_texts {
	struct merge_text *all; /* uthash, in order of arrival */
	size_t left_out;
};

/* `label` may be NULL. Texts longer than 4 KiB are cut. */
void merge_texts_add(struct merge_texts *t, const char *label, const char *s, size_t len);

/* Passes each to add(), and a last one with the number of texts left out. */
void merge_texts_build(const struct merge_texts *t, struct xs_builder *b,
		       void (*add)(struct xs_builder *b, const char *text));

void merge_texts_release(struct merge_texts *t);

#endif
