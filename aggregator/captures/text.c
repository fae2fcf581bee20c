/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes CAPTURE as text. For 10,000 hosts that takes a tenth of a second, so a worker writes it from a copy
 * while the loop goes on; and it has megabytes, so those who read it piece by piece get it so. With several captures, the
 * next one is copied when the one before is written.
 */
#include "aggregator/captures/capture_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/pieces.h"

#define AT_ONCE_HOSTS 200 /* captures with up to this many hosts are written at once, on the loop */

struct captures_text {
	struct captures *captures;
	struct pieces *pieces; /* that this is the source of */
	char **sessions; /* to be written, in order */
	size_t n, next;
	struct capture *held; /* to be copied next, or NULL */
	struct capture *copy; /* the copy that is being written */
	size_t next_host; /* of the copy; all are written: its text is whole */
	bool is_whole;
	bool list, shared, at_once, is_first;
	/* of the piece that is being made */
	struct buf *text;
	size_t wanted;
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
		buf_add_str(t->text, ",");
	t->is_first = false;
	t->is_whole = capture_write(t->text, t->copy, &t->next_host, t->wanted);
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

static void text_free(void *arg)
{
	struct captures_text *t = arg;

	drop_copy(t);
	capture_unhold(t->held);
	for (size_t i = 0; i < t->n; i++)
		free(t->sessions[i]);
	free(t->sessions);
	free(t);
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

static void done_copy(void *arg)
{
	struct captures_text *t = arg;

	if (t->is_whole)
		drop_copy(t);
	pieces_go_on(t->pieces);
}

static enum pieces_state write_captures(void *arg, struct buf *text, size_t wanted)
{
	struct captures_text *t = arg;

	t->text = text;
	t->wanted = wanted;
	while (text->len < wanted && copy_next(t)) {
		if (!t->at_once) {
			jobs_work(t->captures->env.jobs, write_copy, done_copy, t);
			return PIECES_WAIT;
		}
		write_copy(t);
		if (t->is_whole)
			drop_copy(t);
	}
	if (t->copy || t->held || t->next < t->n)
		return PIECES_PART;
	if (t->list)
		buf_add_str(text, "]}");
	return PIECES_WHOLE;
}

/* ---- texts ---- */

static struct captures_text *text_new(struct captures *cs, size_t n, const char *begin)
{
	static const struct pieces_source source = { write_captures, text_free };
	struct captures_text *t = xcalloc(1, sizeof(*t));

	t->captures = cs;
	t->pieces = pieces_new(cs->env.jobs, &source, t, begin);
	t->sessions = xcalloc(n + 1, sizeof(char *));
	t->is_first = true;
	return t;
}

static struct captures_text *text_of(struct capture *c)
{
	struct captures_text *t = text_new(c->captures, 0, "");

	t->held = c; /* it may be in no list any more */
	capture_hold(c);
	t->at_once = c->n_hosts <= AT_ONCE_HOSTS;
	return t;
}

struct pieces *capture_text_new(struct capture *c)
{
	return text_of(c)->pieces;
}

struct pieces *captures_text_new(struct captures *cs, const struct spaces *within)
{
	struct captures_text *t;
	struct capture *c;
	size_t n_hosts = 0;
	char begin[64];

	snprintf(begin, sizeof(begin), "{\"now_ns\":%" PRId64 ",\"captures\":[", captures_now(cs));
	t = text_new(cs, cs->n_active + cs->n_ended, begin);
	t->list = true;
	TAILQ_FOREACH (c, &cs->all, entry) {
		if (within && !spaces_cover(within, &c->spaces))
			continue;
		t->sessions[t->n++] = xstrdup(c->session);
		n_hosts += c->n_hosts;
	}
	t->at_once = n_hosts <= AT_ONCE_HOSTS;
	return t->pieces;
}

/* The caller may have done much already, so a large capture is copied in a callback of its own. */
void capture_make_text(struct capture *c, bool shared, json_text_fn fn, void *arg)
{
	struct captures_text *t = text_of(c);

	t->shared = shared;
	pieces_make_whole(t->pieces, t->at_once, fn, arg);
}
