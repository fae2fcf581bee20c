/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes CAPTURE as text. For 10,000 hosts that takes a tenth of a second, so a worker writes it from a copy
 * while the loop goes on; and it has megabytes, so those who read it piece by piece get it so. With several captures, the
 * next one is copied when the one before is written.
 */
#include "aggregator/captures/capture_impl.h"

#include <assert.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define AT_ONCE_HOSTS 200 /* captures with up to this many hosts are written at once, on the loop */

struct captures_text {
	struct captures *captures;
	char **sessions; /* to be written, in order */
	size_t n, next;
	struct capture *held; /* to be copied next, or NULL */
	struct capture *copy; /* the copy that is being written */
	size_t next_host; /* of the copy; all are written: its text is whole */
	bool is_whole;
	bool list, shared, at_once, is_first;
	struct buf text;
	size_t wanted; /* bytes of the piece that is being made; 0 = none is */
	bool is_dropped; /* freed when the worker is done */
	captures_piece_fn fn;
	void *arg;
};

/* ---- copies ---- */

void capture_hold(struct capture *c)
{
	c->n_holds++;
}

void capture_unhold(struct capture *c)
{
	if (c && !--c->n_holds && c->free_pending)
		capture_free(c);
}

/* The copy borrows everything that does not change while the capture lives. */
struct capture *capture_copy(struct capture *c)
{
	struct capture *copy = xmalloc(sizeof(*copy));

	*copy = *c;
	copy->original = c;
	copy->hosts = xmalloc(c->n_hosts * sizeof(*c->hosts));
	memcpy(copy->hosts, c->hosts, c->n_hosts * sizeof(*c->hosts));
	copy->warnings = json_deep_copy(c->warnings);
	capture_hold(c);
	return copy;
}

void capture_copy_free(struct capture *copy)
{
	struct capture *c = copy->original;

	json_decref(copy->warnings);
	free(copy->hosts);
	free(copy);
	capture_unhold(c);
}

/* ---- pieces ---- */

static void write_copy(void *arg)
{
	struct captures_text *t = arg;

	if (!t->next_host && !t->is_first)
		buf_add_str(&t->text, ",");
	t->is_first = false;
	t->is_whole = capture_write(&t->text, t->copy, &t->next_host, t->wanted);
	if (!t->is_whole)
		return;
	free(t->copy->hosts); /* here, because this may be a worker */
	t->copy->hosts = NULL;
}

static void drop_copy(struct captures_text *t)
{
	if (t->copy)
		capture_copy_free(t->copy);
	t->copy = NULL;
	t->next_host = 0;
	t->is_whole = false;
}

static void text_free(struct captures_text *t)
{
	drop_copy(t);
	capture_unhold(t->held);
	for (size_t i = 0; i < t->n; i++)
		free(t->sessions[i]);
	free(t->sessions);
	buf_release(&t->text);
	free(t);
}

static void hand_over(struct captures_text *t)
{
	bool is_last = !t->copy && !t->held && t->next == t->n;
	struct buf piece;

	if (is_last && t->list)
		buf_add_str(&t->text, "]}");
	piece = t->text;
	t->text = (struct buf)BUF_INIT;
	t->wanted = 0;
	t->fn(t->arg, &piece, is_last); /* may free it */
	buf_release(&piece);
}

static void copy_held(struct captures_text *t)
{
	t->copy = capture_copy(t->held);
	capture_unhold(t->held);
	t->held = NULL;
}

/* False at the end. A capture that was forgotten meanwhile is left out. */
static bool copy_next(struct captures_text *t)
{
	if (t->copy)
		return true;
	if (t->held)
		copy_held(t);
	while (!t->copy && t->next < t->n) {
		struct capture *c = capture_find(t->captures, t->sessions[t->next++]);

		if (c)
			t->copy = capture_copy(c);
	}
	if (t->copy)
		t->copy->shared = t->shared;
	return t->copy != NULL;
}

static void go_on(struct captures_text *t);

static void done_copy(void *arg)
{
	struct captures_text *t = arg;

	if (t->is_dropped) {
		text_free(t);
		return;
	}
	if (t->is_whole)
		drop_copy(t);
	go_on(t);
}

static void go_on(struct captures_text *t)
{
	while (t->text.len < t->wanted && copy_next(t)) {
		if (!t->at_once) {
			jobs_work(t->captures->env.jobs, write_copy, done_copy, t);
			return;
		}
		write_copy(t);
		if (t->is_whole)
			drop_copy(t);
	}
	hand_over(t);
}

static void begin_piece(void *arg)
{
	struct captures_text *t = arg;

	if (t->is_dropped)
		text_free(t);
	else
		go_on(t);
}

void captures_text_more(struct captures_text *t, size_t bytes)
{
	assert(!t->wanted && bytes);
	t->wanted = bytes;
	jobs_post(t->captures->env.jobs, begin_piece, t);
}

void captures_text_free(struct captures_text *t)
{
	if (!t)
		return;
	if (t->wanted)
		t->is_dropped = true;
	else
		text_free(t);
}

/* ---- texts ---- */

static struct captures_text *text_new(struct captures *cs, size_t n, captures_piece_fn fn,
				      void *arg)
{
	struct captures_text *t = xcalloc(1, sizeof(*t));

	t->captures = cs;
	t->sessions = xcalloc(n + 1, sizeof(char *));
	t->is_first = true;
	t->fn = fn;
	t->arg = arg;
	return t;
}

struct captures_text *capture_text_new(struct capture *c, captures_piece_fn fn, void *arg)
{
	struct captures_text *t = text_new(c->captures, 0, fn, arg);

	t->held = c; /* it may be in no list any more */
	capture_hold(c);
	t->at_once = c->n_hosts <= AT_ONCE_HOSTS;
	return t;
}

struct captures_text *captures_text_new(struct captures *cs, const struct spaces *within,
					captures_piece_fn fn, void *arg)
{
	struct captures_text *t = text_new(cs, cs->n_active + cs->n_ended, fn, arg);
	struct capture *c;
	size_t n_hosts = 0;

	t->list = true;
	buf_addf(&t->text, "{\"now_ns\":%" PRId64 ",\"captures\":[", captures_now(cs));
	TAILQ_FOREACH (c, &cs->all, entry) {
		if (within && !spaces_cover(within, &c->spaces))
			continue;
		t->sessions[t->n++] = xstrdup(c->session);
		n_hosts += c->n_hosts;
	}
	t->at_once = n_hosts <= AT_ONCE_HOSTS;
	return t;
}

/* ---- the whole text of a capture ---- */

struct whole {
	struct captures_text *text;
	json_text_fn fn;
	void *arg;
};

static void on_whole(void *arg, struct buf *piece_taken, bool is_last)
{
	struct whole *w = arg;

	(void)is_last;
	w->fn(w->arg, piece_taken);
	captures_text_free(w->text);
	free(w);
}

/* The caller may have done much already, so a large capture is copied in a callback of its own. */
void capture_make_text(struct capture *c, bool shared, json_text_fn fn, void *arg)
{
	struct whole *w = xcalloc(1, sizeof(*w));

	w->fn = fn;
	w->arg = arg;
	w->text = capture_text_new(c, on_whole, w);
	w->text->shared = shared;
	if (w->text->at_once) {
		w->text->wanted = SIZE_MAX;
		go_on(w->text);
	} else {
		captures_text_more(w->text, SIZE_MAX);
	}
}
