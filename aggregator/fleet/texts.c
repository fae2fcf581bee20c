/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/fleet/texts.h"

#include <string.h>

#include "base/mem.h"

/* How many texts are compared with a new one: the hosts of a fleet have some dozens in common. */
#define COMPARED 128

struct text {
	size_t refs;
	TAILQ_ENTRY(text) entry;
	char bytes[];
};

static const char nothing[] = "";

static struct text *find_same(struct texts *all, const char *text)
{
	struct text *t;
	int compared = 0;

	TAILQ_FOREACH (t, all, entry) {
		if (!strcmp(t->bytes, text))
			return t;
		if (++compared == COMPARED)
			break;
	}
	return NULL;
}

static struct text *new_text(const char *text)
{
	size_t size = strlen(text) + 1;
	struct text *t = xmalloc(sizeof(*t) + size);

	t->refs = 0;
	memcpy(t->bytes, text, size);
	return t;
}

const char *text_share(struct texts *all, const char *text)
{
	struct text *t;

	if (!*text)
		return nothing;
	t = find_same(all, text);
	if (t)
		TAILQ_REMOVE(all, t, entry);
	else
		t = new_text(text);
	TAILQ_INSERT_HEAD(all, t, entry);
	t->refs++;
	return t->bytes;
}

void text_unref(struct texts *all, const char *shared)
{
	struct text *t;

	if (!shared || shared == nothing)
		return;
	t = container_of(shared, struct text, bytes);
	if (--t->refs)
		return;
	TAILQ_REMOVE(all, t, entry);
	free(t);
}
