/* SPDX-License-Identifier: Apache-2.0 */
#include "xspace/tvx/batch.h"

#include <stdlib.h>

/* A batch has at least this part of what may be held: short lines are not worth a turn of the helper each. */
#define LEAST_PART 32
#define RUNS_MAX   4096 /* lines without events take memory, too */

void batches_open(struct batches *b, struct tvx_writer *out, const struct tvx_build *how)
{
	*b = (struct batches){ .out = out, .how = how };
	if (how && how->in_two_threads)
		b->helper = helper_new();
}

/* ---- tracks, as the helper ---- */

/* How many of the events are of the track of the first one: of a counter those of its name. */
static size_t count_of_track(bool is_counter, const struct line_event *events, size_t n)
{
	size_t i = 1;

	if (!is_counter)
		return n;
	while (i < n && events[i].name == events[0].name)
		i++;
	return i;
}

static int end_track(struct batches *b)
{
	struct track_writer *t = b->track;

	b->track = NULL;
	return t ? track_end(t, 0) : 0;
}

/* The events of one track, its first ones if there is none yet. */
static int add_to_track(struct batches *b, const struct batch_run *run,
			const struct line_event *events, size_t n)
{
	struct tvx_track head = run->head;

	if (head.kind == TVX_COUNTER)
		head.name = b->counter = events->name;
	if (!b->track)
		b->track = track_begin(b->out, &head, events, n, run->is_last, &b->why);
	return track_add(b->track, events, n);
}

/* A line's tracks: one, or one for each counter. */
static int make_run(struct batches *b, const struct batch_run *run, const struct line_event *events)
{
	bool is_counter = run->head.kind == TVX_COUNTER;
	size_t n = run->n, piece;
	int rc = 0;

	if (run->is_first && b->out->tracks.n >= XS_MAX_LINES)
		return err_set(&b->why, ERR_LIMIT, "more than %d lines", XS_MAX_LINES);
	for (; !rc && n; events += piece, n -= piece) {
		piece = count_of_track(is_counter, events, n);
		if (is_counter && b->track && events->name != b->counter)
			rc = end_track(b);
		if (!rc)
			rc = add_to_track(b, run, events, piece);
	}
	if (rc || !run->is_last)
		return rc;
	if (!b->track && !is_counter)
		b->track = track_begin(b->out, &run->head, NULL, 0, true, &b->why);
	b->has_lines = true;
	return end_track(b);
}

static void make_batch(void *arg)
{
	struct batches *b = arg;
	const struct batch_run *runs = b->making.runs.items;
	const struct line_event *events = b->making.events.items;

	for (size_t i = 0; !b->rc && i < b->making.runs.n; i++) {
		b->rc = make_run(b, &runs[i], events);
		events += runs[i].n;
	}
}

/* ---- batches, as the reader ---- */

/* Waits for the helper. Between lines the tables of a part are sound. */
static int finish(struct batches *b, struct err *e)
{
	helper_wait(b->helper);
	if (b->rc) {
		if (e)
			*e = b->why;
		return b->rc;
	}
	if (!b->has_lines || b->track)
		return 0;
	b->has_lines = false;
	return b->how && b->how->on_line ? b->how->on_line(b->how->arg, b->out, e) : 0;
}

static void swap(struct batches *b)
{
	struct batch filled = b->filling;

	b->filling = b->making;
	b->filling.events.n = b->filling.runs.n = 0;
	b->making = filled;
}

static int hand_over(struct batches *b, struct err *e)
{
	int rc = finish(b, e);

	if (rc)
		return rc;
	swap(b);
	helper_start(b->helper, make_batch, b);
	if (b->helper)
		return 0;
	swap(b); /* it is made: its memory takes the next one */
	return finish(b, e);
}

int batches_add(struct batches *b, const struct batch_run *run, struct err *e)
{
	*(struct batch_run *)table_add(&b->filling.runs, sizeof(*run)) = *run;
	if (b->helper && b->filling.runs.n < RUNS_MAX &&
	    b->filling.events.n < line_held_max(b->how) / LEAST_PART)
		return 0;
	return hand_over(b, e);
}

int batches_flush(struct batches *b, struct err *e)
{
	int rc = hand_over(b, e);

	return rc ? rc : finish(b, e);
}

static void release(struct batch *batch)
{
	free(batch->events.items);
	free(batch->runs.items);
}

void batches_close(struct batches *b)
{
	helper_free(b->helper);
	if (b->track)
		b->rc = track_end(b->track, ERR_CANCELLED);
	release(&b->filling);
	release(&b->making);
}
