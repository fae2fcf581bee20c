/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pieces.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/jobs.h"
#include "base/mem.h"

struct pieces {
	struct jobs *jobs;
	const struct pieces_source *source;
	void *source_arg;
	struct buf text;
	size_t wanted; /* bytes of the piece that is being made; 0 = none is */
	bool is_dropped; /* freed when it would go on */
	pieces_fn fn;
	void *arg;
};

struct pieces *pieces_new(struct jobs *jobs, const struct pieces_source *source, void *arg,
			  const char *begin)
{
	struct pieces *p = xcalloc(1, sizeof(*p));

	p->jobs = jobs;
	p->source = source;
	p->source_arg = arg;
	buf_add_str(&p->text, begin);
	return p;
}

static void free_all(struct pieces *p)
{
	p->source->free(p->source_arg);
	buf_release(&p->text);
	free(p);
}

void pieces_free(struct pieces *p)
{
	if (!p)
		return;
	if (p->wanted)
		p->is_dropped = true;
	else
		free_all(p);
}

static void hand_over(struct pieces *p, bool is_last)
{
	struct buf piece = p->text;

	p->text = (struct buf)BUF_INIT;
	p->wanted = 0;
	p->fn(p->arg, &piece, is_last); /* may free it */
	buf_release(&piece);
}

static void go_on(void *arg)
{
	struct pieces *p = arg;
	enum pieces_state state;

	if (p->is_dropped) {
		free_all(p);
		return;
	}
	state = p->source->write(p->source_arg, &p->text, p->wanted);
	if (state == PIECES_PART && p->text.len < p->wanted)
		jobs_post(p->jobs, go_on, p);
	else if (state != PIECES_WAIT)
		hand_over(p, state == PIECES_WHOLE);
}

void pieces_go_on(struct pieces *p)
{
	go_on(p);
}

void pieces_more(struct pieces *p, size_t bytes, pieces_fn fn, void *arg)
{
	assert(!p->wanted && bytes);
	p->wanted = bytes;
	p->fn = fn;
	p->arg = arg;
	jobs_post(p->jobs, go_on, p);
}

/* ---- in one piece ---- */

struct whole {
	struct pieces *pieces;
	pieces_whole_fn fn;
	void *arg;
};

static void on_whole(void *arg, struct buf *piece_taken, bool is_last)
{
	struct whole *w = arg;

	(void)is_last;
	w->fn(w->arg, piece_taken);
	pieces_free(w->pieces);
	free(w);
}

void pieces_make_whole(struct pieces *p_taken, bool now, pieces_whole_fn fn, void *arg)
{
	struct whole *w = xmalloc(sizeof(*w));

	*w = (struct whole){ .pieces = p_taken, .fn = fn, .arg = arg };
	p_taken->wanted = SIZE_MAX;
	p_taken->fn = on_whole;
	p_taken->arg = w;
	if (now)
		go_on(p_taken);
	else
		jobs_post(p_taken->jobs, go_on, p_taken);
}
