/* SPDX-License-Identifier: Apache-2.0 */
#include "base/write_behind.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/helper.h"
#include "base/mem.h"

#define PIECE_BYTES ((size_t)1 << 20)

struct write_behind {
	int fd;
	const char *name;
	struct helper *helper;
	struct buf filling; /* the caller's */
	/* the helper's, until it is waited for: */
	struct buf writing;
	int rc; /* of the first write that failed: nothing is written after it */
	struct err why;
};

static void write_piece(void *arg)
{
	struct write_behind *w = arg;

	w->rc = file_write_all(w->fd, w->writing.data, w->writing.len, w->name, &w->why);
}

struct write_behind *write_behind_new(int fd, const char *name)
{
	struct write_behind *w = xcalloc(1, sizeof(*w));

	w->fd = fd;
	w->name = name;
	w->helper = helper_new();
	return w;
}

/* Waits for what is written. */
static int finish(struct write_behind *w, struct err *e)
{
	helper_wait(w->helper);
	if (w->rc && e)
		*e = w->why;
	return w->rc;
}

/* Waits for the helper, then gives it what was filled. */
static int hand_over(struct write_behind *w, struct err *e)
{
	struct buf filled = w->filling;
	int rc = finish(w, e);

	if (rc || !filled.len)
		return rc;
	w->filling = w->writing;
	buf_reset(&w->filling);
	w->writing = filled;
	helper_start(w->helper, write_piece, w);
	return 0;
}

int write_behind_add(struct write_behind *w, const void *data, size_t len, struct err *e)
{
	if (len >= PIECE_BYTES) {
		int rc = write_behind_flush(w, e);

		return rc ? rc : file_write_all(w->fd, data, len, w->name, e);
	}
	buf_add(&w->filling, data, len);
	return w->filling.len < PIECE_BYTES ? 0 : hand_over(w, e);
}

int write_behind_flush(struct write_behind *w, struct err *e)
{
	int rc = hand_over(w, e);

	return rc ? rc : finish(w, e);
}

void write_behind_free(struct write_behind *w)
{
	if (!w)
		return;
	helper_free(w->helper);
	buf_release(&w->filling);
	buf_release(&w->writing);
	free(w);
}
