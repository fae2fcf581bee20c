/* SPDX-License-Identifier: Apache-2.0 */
/* A source whose texts are UTF-8. A '?' for a byte: so all lengths and offsets are those of the file. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "xspace/xspace.h"

struct xs_clean {
	struct xs_source in; /* of the last source that was made */
	uint64_t *bad; /* where, ascending */
	size_t n, cap;
};

static int add_bad(void *arg, const struct xs_bad_text *where, uint64_t at, struct err *e)
{
	struct xs_clean *c = arg;

	(void)where;
	if (c->n == XS_MAX_BAD_BYTES)
		return err_set(e, ERR_LIMIT, "more than %u bytes of its texts are not UTF-8",
			       XS_MAX_BAD_BYTES);
	if (c->n == c->cap) {
		c->cap = c->cap ? 2 * c->cap : 64;
		c->bad = xrealloc(c->bad, c->cap * sizeof(*c->bad));
	}
	c->bad[c->n++] = at;
	return 0;
}

int xs_clean_new(struct xs_clean **out, const struct xs_source *in, struct err *e)
{
	struct xs_clean *c = xcalloc(1, sizeof(*c));
	int rc = xs_check_texts(in, add_bad, c, e);

	*out = rc ? NULL : c;
	if (rc)
		xs_clean_free(c);
	return rc;
}

void xs_clean_free(struct xs_clean *c)
{
	if (!c)
		return;
	free(c->bad);
	free(c);
}

uint64_t xs_clean_bytes(const struct xs_clean *c)
{
	return c->n;
}

/* The first wrong byte at or behind `offset`. */
static size_t find_bad(const struct xs_clean *c, uint64_t offset)
{
	size_t low = 0, high = c->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (c->bad[middle] < offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int read_clean(void *arg, uint64_t offset, void *buf, size_t len, struct err *e)
{
	const struct xs_clean *c = arg;
	int rc = 0;

	if (c->in.memory)
		memcpy(buf, c->in.memory + offset, len);
	else
		rc = c->in.read(c->in.arg, offset, buf, len, e);
	for (size_t i = find_bad(c, offset); i < c->n && c->bad[i] - offset < len; i++)
		((uint8_t *)buf)[c->bad[i] - offset] = '?';
	return rc;
}

struct xs_source xs_clean_source(struct xs_clean *c, const struct xs_source *in)
{
	if (!c->n)
		return *in;
	c->in = *in;
	return (struct xs_source){
		.read = read_clean, .arg = c, .size = in->size, .window_bytes = in->window_bytes
	};
}
