/* SPDX-License-Identifier: Apache-2.0 */
#include "xspace/tvx/line.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "xspace/tvx/format.h"

#define HELD_MAX     ((size_t)2 << 20) /* events at once; as many again while they are sorted */
#define EVENTS_FIRST 1024
#define SHORT_RUN    16
#define GO_ON_EVENTS 65536 /* between two calls of go_on() */
#define PS_PER_NS    1000

/* ---- the order ---- */

static inline bool is_before(const struct line_event *a, const struct line_event *b)
{
	return a->start_ps != b->start_ps ? a->start_ps < b->start_ps : a->length_ps > b->length_ps;
}

static inline bool is_sample_before(const struct line_event *a, const struct line_event *b)
{
	return a->name != b->name ? a->name < b->name : a->start_ps < b->start_ps;
}

static inline bool is_ahead(const struct line_reader *l, const struct line_event *a,
			    const struct line_event *b)
{
	return l->head.wants.is_counter ? is_sample_before(a, b) : is_before(a, b);
}

/* With the place in the file no two events are equal. */
static bool precedes(const struct line_reader *l, const struct line_event *a,
		     const struct line_event *b)
{
	return is_ahead(l, a, b) || (!is_ahead(l, b, a) && a->source < b->source);
}

/* The first of [low, high) that `ev` is ahead of. */
static size_t after(const struct line_reader *l, size_t low, size_t high,
		    const struct line_event *ev)
{
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (is_ahead(l, ev, &l->events[middle]))
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* The first of [low, high) that is not ahead of `ev`. */
static size_t not_ahead(const struct line_reader *l, size_t low, size_t high,
			const struct line_event *ev)
{
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (is_ahead(l, &l->events[middle], ev))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * Joins two sorted runs. Lines are nearly sorted: only what overlaps is moved, the first run's part of it through
 * `scratch`.
 */
static void merge_runs(struct line_reader *l, size_t begin, size_t middle, size_t end)
{
	struct line_event *events = l->events, *left = l->scratch;
	size_t to, a = 0, b = middle, n;

	if (!is_ahead(l, &events[middle], &events[middle - 1]))
		return;
	to = after(l, begin, middle, &events[middle]);
	end = not_ahead(l, middle, end, &events[middle - 1]);
	n = middle - to;
	memcpy(left, events + to, n * sizeof(*left));
	while (a < n) {
		bool second = b < end && is_ahead(l, &events[b], &left[a]);

		events[to++] = second ? events[b++] : left[a++];
	}
}

static void sort_short_run(struct line_reader *l, size_t begin, size_t end)
{
	for (size_t i = begin + 1; i < end; i++) {
		struct line_event ev = l->events[i];
		size_t to = i;

		for (; to > begin && is_ahead(l, &ev, &l->events[to - 1]); to--)
			l->events[to] = l->events[to - 1];
		l->events[to] = ev;
	}
}

/* Stable: equal events stay in the order of the file. */
static void sort_events(struct line_reader *l)
{
	size_t n = l->n;

	if (l->n_scratch < l->cap) {
		free(l->scratch);
		l->n_scratch = l->cap;
		l->scratch = xmalloc(l->n_scratch * sizeof(*l->scratch));
	}
	for (size_t at = 0; at < n; at += SHORT_RUN)
		sort_short_run(l, at, at + SHORT_RUN < n ? at + SHORT_RUN : n);
	for (size_t width = SHORT_RUN; width < n; width *= 2) {
		for (size_t at = 0; at + width < n; at += 2 * width)
			merge_runs(l, at, at + width, at + 2 * width < n ? at + 2 * width : n);
	}
}

/* ---- holding ---- */

static void skip(struct line_reader *l, const struct line_event *ev)
{
	if (ev->source < l->skipped)
		l->skipped = ev->source;
}

/* No room: the later half is left to the next pass. */
static void drop_half(struct line_reader *l)
{
	sort_events(l);
	for (size_t i = l->n / 2; i < l->n; i++)
		skip(l, &l->events[i]);
	l->n /= 2;
	l->limit = l->events[l->n - 1];
}

static void set_limit(struct line_reader *l)
{
	l->has_limit = true;
	l->limit = l->events[0];
	for (size_t i = 1; i < l->n; i++) {
		if (precedes(l, &l->limit, &l->events[i]))
			l->limit = l->events[i];
	}
}

size_t line_held_max(const struct tvx_build *how)
{
	return how && how->held_events ? how->held_events : HELD_MAX;
}

static size_t held_max(const struct line_reader *l)
{
	return line_held_max(l->how);
}

/* Room for so many events of this pass. */
static void reserve(struct line_reader *l, size_t cap)
{
	struct line_events *into = l->into;

	if (into->n + cap > into->cap) {
		into->cap = into->n + cap;
		into->items = xrealloc(into->items, into->cap * sizeof(*into->items));
	}
	l->events = into->items + into->n;
	l->cap = into->cap - into->n;
}

/* Whether this pass takes the event; if not, a later one may. */
static bool takes(struct line_reader *l, const struct line_event *ev)
{
	if (l->is_again && !precedes(l, &l->last, ev))
		return false;
	if (l->n == held_max(l) && !l->has_limit)
		set_limit(l);
	if (l->has_limit && precedes(l, &l->limit, ev)) {
		skip(l, ev);
		return false;
	}
	return true;
}

static void hold(struct line_reader *l, const struct line_event *ev)
{
	if (l->n == held_max(l)) {
		drop_half(l);
		if (precedes(l, &l->limit, ev)) {
			skip(l, ev);
			return;
		}
	}
	if (l->n == l->cap)
		reserve(l, 2 * l->cap > held_max(l) ? held_max(l) : 2 * l->cap);
	l->events[l->n++] = *ev;
}

/* ---- reading ---- */

/* False: the event's time is out of range. */
static bool place(const struct line_reader *l, const struct raw_event *raw, struct line_event *ev)
{
	int64_t start, length = raw->duration_ps > 0 ? raw->duration_ps : 0;

	if (__builtin_mul_overflow(l->head.line_ns, PS_PER_NS, &start) ||
	    __builtin_add_overflow(start, raw->offset_ps, &start))
		return false;
	if (start < -TIME_MAX || start > TIME_MAX || length > TIME_MAX)
		return false;
	ev->start_ps = start;
	ev->length_ps = (uint64_t)length;
	return true;
}

static int add_event(struct line_reader *l, const struct wire_field *f, struct err *e)
{
	struct line_event ev = { .source = f->at };
	const uint8_t *bytes;
	struct raw_event raw;
	int rc = wire_peek(l->w, f->body, f->value, &bytes, e);

	if (rc)
		return rc;
	if (!event_decode(bytes, (size_t)f->value, &l->head.wants, &raw))
		return err_set(e, ERR_INVALID, "at byte %" PRIu64 ": malformed event", f->at);
	if (raw.is_aggregate) {
		l->untimed += !l->is_again;
		return 0;
	}
	if (!place(l, &raw, &ev)) {
		l->unplaced += !l->is_again;
		return 0;
	}
	if (!number_map_find(l->head.names, raw.metadata_id, &ev.name))
		ev.name = l->head.unnamed;
	ev.extra = raw.extra;
	if (takes(l, &ev))
		hold(l, &ev);
	return 0;
}

static int check_go_on(const struct line_reader *l, uint64_t done, struct err *e)
{
	if (!l->how || !l->how->go_on || l->how->go_on(l->how->arg, done))
		return 0;
	return err_set(e, ERR_CANCELLED, "building the index was stopped");
}

void line_begin(struct line_reader *l, const struct line_head *head)
{
	l->head = *head;
	l->from = head->field->body;
	l->skipped = 0;
	l->is_again = false;
	l->untimed = l->unplaced = 0;
}

int line_next(struct line_reader *l, struct line_events *into, size_t *n, struct err *e)
{
	const struct wire_field *line = l->head.field;
	struct wire_walk walk = wire_walk(l->w, line, schema_xline);
	struct wire_field f;
	uint64_t seen = 0;
	int rc = 0;

	*n = 0;
	if (l->skipped == UINT64_MAX)
		return 0;
	walk.next = l->from;
	l->into = into;
	l->n = 0;
	reserve(l, EVENTS_FIRST);
	l->has_limit = false;
	l->skipped = UINT64_MAX;
	while (!rc && (rc = wire_next(&walk, &f, e)) > 0) {
		rc = f.number == XLINE_EVENTS ? add_event(l, &f, e) : 0;
		if (!rc && !(++seen % GO_ON_EVENTS))
			rc = check_go_on(l, f.at, e);
	}
	if (!rc)
		rc = check_go_on(l, line->end, e);
	if (rc)
		return rc;
	sort_events(l);
	if (l->n)
		l->last = l->events[l->n - 1];
	l->is_again = true;
	l->from = l->skipped;
	*n = l->n;
	into->n += l->n;
	return 0;
}

bool line_has_more(const struct line_reader *l)
{
	return l->skipped != UINT64_MAX;
}

void line_release(struct line_reader *l)
{
	free(l->scratch);
}
