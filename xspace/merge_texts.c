/* SPDX-License-Identifier: Apache-2.0 */
#include "xspace/merge_texts.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define uthash_malloc(size) xmalloc(size)
#include <uthash.h>

#define TEXT_BYTES 4096

struct merge_text {
	char *text;
	UT_hash_handle hh;
};

static char *add_label(const char *label, const char *s, size_t len)
{
	int cut = (int)(len < TEXT_BYTES ? len : TEXT_BYTES);

	return label && *label ? xasprintf("%s: %.*s", label, cut, s) : xasprintf("%.*s", cut, s);
}

void merge_texts_add(struct merge_texts *t, const char *label, const char *s, size_t len)
{
	char *text = add_label(label, s, len);
	size_t text_len = strlen(text);
	struct merge_text *known;

	HASH_FIND(hh, t->all, text, text_len, known);
	if (known || HASH_COUNT(t->all) == XS_MAX_TEXTS) {
		t->left_out += !known;
		free(text);
		return;
	}
	known = xmalloc(sizeof(*known));
	known->text = text;
	HASH_ADD_KEYPTR(hh, t->all, known->text, text_len, known);
}

void merge_texts_build(const struct merge_texts *t, struct xs_builder *b,
		       void (*add)(struct xs_builder *b, const char *text))
{
	char *more;

	for (const struct merge_text *m = t->all; m; m = m->hh.next)
		add(b, m->text);
	if (!t->left_out)
		return;
	more = xasprintf("%zu more are left out", t->left_out);
	add(b, more);
	free(more);
}

void merge_texts_release(struct merge_texts *t)
{
	struct merge_text *m, *next;

	HASH_ITER (hh, t->all, m, next) {
		HASH_DEL(t->all, m);
		free(m->text);
		free(m);
	}
}
