/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a file on a thread of its own: who makes the bytes goes on while the kernel copies those before them. In bounded
 * memory: who is faster than the file waits for it. One caller at a time.
 */
#ifndef BASE_WRITE_BEHIND_H
#define BASE_WRITE_BEHIND_H

#include <stddef.h>

#include "base/err.h"

struct write_behind;

/* Writes at the descriptor's position; `name` is the file's in errors. Both are borrowed. */
struct write_behind *write_behind_new(int fd, const char *name);

/* Takes a copy of the bytes; many at once are written before it returns. An error may be of bytes added before. */
MUST_CHECK int write_behind_add(struct write_behind *w, const void *data, size_t len,
				struct err *e);

/* Waits until all that was added is in the file. */
MUST_CHECK int write_behind_flush(struct write_behind *w, struct err *e);

/* What was added since the last flush may be missing from the file. NULL is fine. */
void write_behind_free(struct write_behind *w);

#endif
