/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/annotations/plane.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clean_text.h"
#include "base/mem.h"

/* Ids of lines that are not of threads. TSL's id of the line of counters, cut to 32 bits as XProf does. */
#define COUNTERS_LINE_ID INT64_C(0xffffffff)
#define RANGES_LINE_ID	 INT64_C(0x80000001)
#define RANGES_LINES	 16 /* lines of ranges; further ranges that overlap share the last one */

/* Names of a process; the events with further ones share one. */
#define NAMES_MAX   65536
#define OTHER_NAMES "(other names)"

/* The lines of a plane, in this order. */
enum line_class { LINE_THREAD, LINE_RANGES, LINE_COUNTERS };

static enum line_class class_of(const struct note *n)
{
	return n->kind == NOTE_RANGE	 ? LINE_RANGES
	       : n->kind == NOTE_COUNTER ? LINE_COUNTERS
					 : LINE_THREAD;
}

static double double_of(const struct note *n)
{
	double d;

	memcpy(&d, &n->value, sizeof(d));
	return d;
}

/* A counter's value that is not a finite number makes no point. */
static bool is_odd_counter(const struct note *n)
{
	return n->kind == NOTE_COUNTER && n->type == TUTTI_TYPE_DOUBLE && !isfinite(double_of(n));
}

/* It is an instant of its thread instead, "loss: nan". */
static void add_odd_counter(struct plane_notes *notes, const struct note *counter)
{
	double d = double_of(counter);
	char text[sizeof(counter->text)];
	struct note n;
	int len;

	memcpy(&n, counter, offsetof(struct note, text));
	n.kind = NOTE_INSTANT;
	n.type = TUTTI_TYPE_NONE;
	len = snprintf(text, sizeof(text), "%.*s: %s", TUTTI_TEXT_MAX - (int)strlen(": -inf"),
		       counter->text,
		       isnan(d) ? "nan"
		       : d > 0	? "inf"
				: "-inf");
	n.text_len = (uint8_t)clean_text(n.text, sizeof(n.text), text, (size_t)len);
	note_row_add(&notes->row, &n);
	notes->n++;
}

void plane_notes_add(struct plane_notes *notes, const struct note *n)
{
	bool is_inside = n->end_raw_ns > n->begin_raw_ns
				 ? n->begin_raw_ns < notes->t1_raw_ns &&
					   n->end_raw_ns > notes->t0_raw_ns
				 : n->begin_raw_ns >= notes->t0_raw_ns &&
					   n->begin_raw_ns < notes->t1_raw_ns;

	if (!is_inside || (n->kind == NOTE_COUNTER && n->type == TUTTI_TYPE_NONE))
		return;
	if (is_odd_counter(n)) {
		add_odd_counter(notes, n);
		return;
	}
	note_row_add(&notes->row, n);
	notes->n++;
}

void plane_notes_release(struct plane_notes *notes)
{
	buf_release(&notes->row);
}

#define COMPARE(a, b) \
	do { \
		if ((a) != (b)) \
			return (a) < (b) ? -1 : 1; \
	} while (0)

/* Order: process, line, begin. Of two that begin together, the longer one is around the other and comes
 * first. */
static int by_line(const void *a, const void *b)
{
	const struct note *x = *(const struct note *const *)a, *y = *(const struct note *const *)b;

	COMPARE(x->pid, y->pid);
	COMPARE(class_of(x), class_of(y));
	if (class_of(x) == LINE_THREAD)
		COMPARE(x->tid, y->tid);
	COMPARE(x->begin_raw_ns, y->begin_raw_ns);
	COMPARE(y->end_raw_ns, x->end_raw_ns);
	return 0;
}

/* ---- events ---- */

static void add_value(struct xs_builder *b, const struct note *n)
{
	double d;

	switch (n->type) {
	case TUTTI_TYPE_INT:
		xs_stat_int(b, "value", (int64_t)n->value);
		break;
	case TUTTI_TYPE_UINT:
		xs_stat_uint(b, "value", n->value);
		break;
	case TUTTI_TYPE_DOUBLE:
		memcpy(&d, &n->value, sizeof(d));
		xs_stat_double(b, "value", d);
		break;
	default:
		break;
	}
}

/* XProf takes an event with these stats for a step. A step that is not in the window as a whole does not get them,
 * because it would look too short. */
static void add_step(struct xs_builder *b, const struct plane_notes *notes, const struct note *n)
{
	bool is_whole = n->begin_raw_ns >= notes->t0_raw_ns && n->end_raw_ns <= notes->t1_raw_ns &&
			!n->unfinished;

	if (!is_whole) {
		add_value(b, n);
		return;
	}
	xs_stat_int(b, "step_num", (int64_t)n->value);
	xs_stat_int(b, "_r", 1);
}

static const char *name_of(struct xs_builder *b, const struct note *n)
{
	return xs_event_names(b) < NAMES_MAX || xs_has_event_name(b, n->text) ? n->text
									      : OTHER_NAMES;
}

static void add_event(struct xs_builder *b, const struct plane_notes *notes, const struct note *n,
		      int64_t end_raw_ns)
{
	int64_t begin_ns = n->begin_raw_ns > notes->t0_raw_ns ? n->begin_raw_ns : notes->t0_raw_ns;

	if (end_raw_ns > notes->t1_raw_ns)
		end_raw_ns = notes->t1_raw_ns;
	xs_event(b, name_of(b, n), (begin_ns - notes->t0_raw_ns) * 1000,
		 end_raw_ns > begin_ns ? (end_raw_ns - begin_ns) * 1000 : 0);
	if (n->kind == NOTE_STEP)
		add_step(b, notes, n);
	else
		add_value(b, n);
	if (n->unfinished)
		xs_stat_int(b, "unfinished", 1);
}

/* ---- lines ---- */

static void begin_thread_line(struct xs_builder *b, const struct plane_notes *notes,
			      const struct note *n)
{
	char name[64];

	snprintf(name, sizeof(name), "%s/%" PRId32, *n->thread ? n->thread : "thread", n->tid);
	xs_line(b, n->tid, name, notes->t0_raw_ns);
}

/* The events of a thread must nest: one that would end after the event around it ends with that event. */
static void build_threads(struct xs_builder *b, const struct plane_notes *notes,
			  const struct note *const *v, size_t n)
{
	int64_t ends[TUTTI_DEPTH_MAX];
	size_t depth = 0;

	for (size_t i = 0; i < n; i++) {
		int64_t end = v[i]->end_raw_ns;

		if (!i || v[i]->tid != v[i - 1]->tid) {
			begin_thread_line(b, notes, v[i]);
			depth = 0;
		}
		while (depth && ends[depth - 1] <= v[i]->begin_raw_ns)
			depth--;
		if (depth && ends[depth - 1] < end)
			end = ends[depth - 1];
		add_event(b, notes, v[i], end);
		if (depth < TUTTI_DEPTH_MAX && end > v[i]->begin_raw_ns)
			ends[depth++] = end;
	}
}

/* Puts each range on the first free line; lines[i] is the line of range i. */
static size_t place_ranges(const struct note *const *v, size_t n, uint8_t *lines)
{
	int64_t free_ns[RANGES_LINES];
	size_t n_lines = 0, k;

	for (size_t i = 0; i < n; i++) {
		for (k = 0; k < n_lines && free_ns[k] > v[i]->begin_raw_ns; k++)
			;
		if (k == RANGES_LINES)
			k--;
		if (k == n_lines)
			n_lines++;
		free_ns[k] = v[i]->end_raw_ns;
		lines[i] = (uint8_t)k;
	}
	return n_lines;
}

static void build_ranges(struct xs_builder *b, const struct plane_notes *notes,
			 const struct note *const *v, size_t n)
{
	uint8_t *lines = xmalloc(n + 1);
	size_t n_lines = place_ranges(v, n, lines);
	char name[32];

	for (size_t k = 0; k < n_lines; k++) {
		snprintf(name, sizeof(name), "ranges %zu", k + 1);
		xs_line(b, RANGES_LINE_ID + (int64_t)k, name, notes->t0_raw_ns);
		for (size_t i = 0; i < n; i++) {
			if (lines[i] == k)
				add_event(b, notes, v[i], v[i]->end_raw_ns);
		}
	}
	free(lines);
}

static void build_counters(struct xs_builder *b, const struct plane_notes *notes,
			   const struct note *const *v, size_t n)
{
	xs_line(b, COUNTERS_LINE_ID, "_counters_", notes->t0_raw_ns);
	for (size_t i = 0; i < n; i++)
		add_event(b, notes, v[i], v[i]->end_raw_ns);
}

/* ---- planes ---- */

typedef void (*lines_fn)(struct xs_builder *b, const struct plane_notes *notes,
			 const struct note *const *v, size_t n);

static const lines_fn builders[] = { [LINE_THREAD] = build_threads,
				     [LINE_RANGES] = build_ranges,
				     [LINE_COUNTERS] = build_counters };

struct order {
	const struct note **v;
	size_t n;
};

static void append_note(void *arg, const struct note *n)
{
	struct order *order = arg;

	order->v[order->n++] = n;
}

void planes_build(const struct plane_notes *notes, struct build_parts *parts)
{
	struct order order = { .v = xmalloc((notes->n + 1) * sizeof(*order.v)) };
	struct xs_builder *b = NULL;
	int64_t pid = -1;
	char label[32];
	size_t n;

	note_row_each(&notes->row, append_note, &order);
	sort_array(order.v, order.n, sizeof(*order.v), by_line);
	for (size_t at = 0; at < order.n; at += n) {
		const struct note **v = &order.v[at];

		for (n = 1;
		     at + n < order.n && v[n]->pid == v[0]->pid && class_of(v[n]) == class_of(v[0]);
		     n++)
			;
		if (v[0]->pid != pid) {
			pid = v[0]->pid;
			snprintf(label, sizeof(label), "process %" PRId64, pid);
			b = build_parts_next(parts, pid, label);
			xs_plane(b, 0, "/host:CPU");
		}
		builders[class_of(v[0])](b, notes, v, n);
	}
	free(order.v);
}
