/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A text of megabytes that is made piece by piece, as fast as its reader takes it: in turns of the loop, or by workers. Loop
 * thread.
 */
#ifndef BASE_PIECES_H
#define BASE_PIECES_H

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct jobs;
struct pieces;

/* How far the text is. */
enum pieces_state {
	PIECES_PART, /* enough for now: more in a later turn */
	PIECES_WAIT, /* something else writes it, and calls pieces_go_on() then */
	PIECES_WHOLE
};

struct pieces_source {
	/* Adds to the text until it has about `wanted` bytes, or until the turn of the loop is over. */
	enum pieces_state (*write)(void *arg, struct buf *text, size_t wanted);
	void (*free)(void *arg);
};

/* `source` is borrowed; the text begins with `begin`, which is copied. */
struct pieces *pieces_new(struct jobs *jobs, const struct pieces_source *source, void *arg,
			  const char *begin);

/* Makes a piece of about so many bytes, for which fn is called in a later turn. It may ask for more, or free the text. */
typedef void (*pieces_fn)(void *arg, struct buf *piece_taken, bool is_last);
void pieces_more(struct pieces *p, size_t bytes, pieces_fn fn, void *arg);

/* All of the text in one piece, then frees it; with `now` from here, which is for a source that neither waits nor takes turns. */
typedef void (*pieces_whole_fn)(void *arg, struct buf *text_taken);
void pieces_make_whole(struct pieces *p_taken, bool now, pieces_whole_fn fn, void *arg);

/* At any time: no fn is called any more. The source is freed when it does not wait any more. NULL is fine. */
void pieces_free(struct pieces *p);

/* For a source that waited. */
void pieces_go_on(struct pieces *p);

#endif
