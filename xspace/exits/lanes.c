/* SPDX-License-Identifier: Apache-2.0 */
#include "xspace/exits/lanes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clean_text.h"
#include "base/mem.h"
#include "xspace/text.h"

#define TIME_MAX_PS (INT64_C(1) << 60) /* beyond it an event has no place */

/* An event of the chunk. */
struct held {
	int64_t start_ns, end_ns;
	uint64_t order; /* in the file: decides among equals */
	uint32_t name, n_stats;
	size_t stats_at; /* in lanes.stats */
};

struct lane {
	int64_t last_ns; /* the last begin */
	int64_t *ends; /* of the events that are open, the innermost last */
	size_t n, cap;
};

struct lanes {
	const struct exit_filter *filter;
	const struct lanes_visitor *v;
	void *arg;
	struct lanes_names *names, *stat_names;
	struct exit_counts *counts;
	struct lanes_plane plane; /* the present one */
	char pod[96], rank[32]; /* of its process; empty without */
	struct xs_line line;
	char line_name[1024], display_name[1024];
	bool is_counters, is_told; /* the visitor knows the line */
	struct held *held;
	size_t n_held;
	bool is_sorted; /* the chunk is */
	uint64_t n_events; /* of the line so far */
	struct xs_stat *stats; /* of the chunk */
	size_t n_stats, cap_stats;
	struct buf bytes; /* of their texts: stats have offsets in `len`... */
	struct lane *lanes;
	size_t n_lanes;
	int rc; /* of a callback */
	struct err *e;
};

/* ---- names ---- */

static void clear_names(struct lanes_names *n)
{
	names_release(&n->texts);
	number_map_release(&n->by_id);
	*n = (struct lanes_names){ 0 };
}

static int add_name(struct lanes *l, struct lanes_names *n, int64_t id, const char *name,
		    size_t len)
{
	uint32_t number;
	int rc = names_add(&n->texts, name, len < EXIT_NAME_MAX ? len : EXIT_NAME_MAX, &number,
			   l->e);

	if (!rc)
		number_map_set(&n->by_id, id, number);
	return rc;
}

static int on_event_name(void *arg, int64_t id, const char *name, size_t len)
{
	struct lanes *l = arg;

	return add_name(l, l->names, id, name, len);
}

static int on_stat_name(void *arg, int64_t id, const char *name, size_t len)
{
	struct lanes *l = arg;

	return add_name(l, l->stat_names, id, name, len);
}

bool lanes_is_stat(const struct lanes_names *stat_names, const struct xs_stat *s, const char *name)
{
	const char *own;
	size_t len;

	if (s->metadata_id == LANES_NO_NAME)
		return false;
	own = lanes_text(stat_names, (uint32_t)s->metadata_id, &len);
	return text_equals(own, len, name);
}

const char *lanes_stat_text(const struct lanes_names *stat_names, const struct xs_stat *s,
			    size_t *len)
{
	*len = 0;
	if (s->kind == XS_REF && s->u != LANES_NO_NAME)
		return lanes_text(stat_names, (uint32_t)s->u, len);
	if (s->kind == XS_STR)
		*len = s->len;
	return s->kind == XS_STR ? (const char *)s->bytes : "";
}

/* ---- lanes ---- */

static int close_until(struct lanes *l, size_t lane, int64_t ns)
{
	struct lane *at = &l->lanes[lane];
	int rc = 0;

	while (!rc && at->n && at->ends[at->n - 1] <= ns) {
		int64_t end_ns = at->ends[--at->n];

		rc = l->v->end ? l->v->end(l->arg, (uint32_t)lane, end_ns) : 0;
	}
	return rc;
}

static void open_event(struct lane *at, int64_t end_ns)
{
	if (at->n == at->cap) {
		at->cap = at->cap ? at->cap * 2 : 16;
		at->ends = xrealloc(at->ends, at->cap * sizeof(*at->ends));
	}
	at->ends[at->n++] = end_ns;
}

/* The first lane that the event fits into; one more than there are if none does. */
static int find_lane(struct lanes *l, const struct held *h, size_t *out)
{
	int rc = 0;

	for (*out = 0; *out < l->n_lanes; (*out)++) {
		struct lane *at = &l->lanes[*out];

		if (h->start_ns < at->last_ns)
			continue;
		rc = close_until(l, *out, h->start_ns);
		if (rc || !at->n || (at->ends[at->n - 1] >= h->end_ns && at->n < LANES_DEPTH))
			return rc;
	}
	return rc;
}

static int give_event(struct lanes *l, const struct held *h)
{
	struct lane_event ev = { .start_ns = h->start_ns,
				 .end_ns = h->end_ns,
				 .name = h->name,
				 .stats = h->n_stats ? l->stats + h->stats_at : NULL,
				 .n_stats = h->n_stats };
	size_t lane;
	int rc = find_lane(l, h, &lane);

	if (rc)
		return rc;
	if (lane == EXIT_LANES_MAX) {
		l->counts->left_out++;
		return 0;
	}
	if (lane == l->n_lanes)
		l->lanes[l->n_lanes++] = (struct lane){ 0 };
	l->lanes[lane].last_ns = h->start_ns;
	ev.lane = (uint32_t)lane;
	rc = l->v->begin(l->arg, &ev);
	if (!rc && h->end_ns > h->start_ns)
		open_event(&l->lanes[lane], h->end_ns);
	return rc;
}

static int by_time(const void *a, const void *b)
{
	const struct held *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	if (x->end_ns != y->end_ns)
		return x->end_ns > y->end_ns ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

/* A stat's text has been copied: its place is in `bytes` as an offset, until the chunk is complete. */
static void point_at_texts(struct lanes *l)
{
	for (size_t i = 0; i < l->n_stats; i++) {
		struct xs_stat *s = &l->stats[i];

		if (s->kind == XS_STR)
			s->bytes = l->bytes.data + s->u;
	}
}

static int give_chunk(struct lanes *l)
{
	int rc = 0;

	if (!l->is_sorted)
		sort_array(l->held, l->n_held, sizeof(*l->held), by_time);
	point_at_texts(l);
	for (size_t i = 0; i < l->n_held && !rc; i++)
		rc = give_event(l, &l->held[i]);
	l->n_held = l->n_stats = 0;
	buf_reset(&l->bytes);
	l->is_sorted = true;
	return rc;
}

/* ---- events ---- */

static int64_t floor_ns(int64_t ps)
{
	return ps >= 0 ? ps / 1000 : -((-ps + 999) / 1000);
}

/* False: it has no place on the axis. */
static bool place(const struct lanes *l, const struct xs_event *ev, int64_t *start_ps,
		  int64_t *end_ps)
{
	int64_t line_ps, length_ps = ev->duration_ps > 0 ? ev->duration_ps : 0;

	return !__builtin_mul_overflow(l->line.timestamp_ns, 1000, &line_ps) &&
	       !__builtin_add_overflow(line_ps, ev->offset_ps, start_ps) &&
	       !__builtin_add_overflow(*start_ps, length_ps, end_ps) && *start_ps >= -TIME_MAX_PS &&
	       *end_ps <= TIME_MAX_PS;
}

static bool passes(const struct lanes *l, int64_t start_ps, int64_t end_ps)
{
	const struct exit_filter *f = l->filter;

	/* an instant overlaps what it lies in */
	return start_ps / 1000 < f->to_ns &&
	       (end_ps > f->from_ns * 1000 ||
		(start_ps == end_ps && end_ps == f->from_ns * 1000)) &&
	       (l->is_counters || end_ps - start_ps >= f->min_ns * 1000);
}

static uint32_t number_of(const struct lanes_names *n, int64_t id)
{
	uint32_t number;

	return number_map_find(&n->by_id, id, &number) ? number : LANES_NO_NAME;
}

static int64_t stat_name_of(const struct lanes *l, int64_t id)
{
	return (int64_t)number_of(l->stat_names, id);
}

static void hold_stat(struct lanes *l, const struct xs_stat *from)
{
	struct xs_stat *s;

	if (l->n_stats == l->cap_stats) {
		l->cap_stats = l->cap_stats ? l->cap_stats * 2 : 1024;
		l->stats = xrealloc(l->stats, l->cap_stats * sizeof(*l->stats));
	}
	s = &l->stats[l->n_stats++];
	*s = *from;
	s->metadata_id = stat_name_of(l, from->metadata_id);
	if (from->kind == XS_REF)
		s->u = (uint64_t)stat_name_of(l, (int64_t)from->u);
	if (from->kind == XS_STR) {
		s->len = from->len < EXIT_NAME_MAX ? from->len : EXIT_NAME_MAX;
		s->u = l->bytes.len;
		buf_add(&l->bytes, from->bytes, s->len);
	}
}

static int hold_event(struct lanes *l, const struct xs_event *ev, int64_t start_ps, int64_t end_ps)
{
	struct held *h = &l->held[l->n_held];

	*h = (struct held){ .start_ns = floor_ns(start_ps),
			    .end_ns = floor_ns(end_ps),
			    .order = l->n_events++,
			    .name = number_of(l->names, ev->metadata_id),
			    .stats_at = l->n_stats };
	for (size_t i = 0; i < ev->n_stats && h->n_stats < EXIT_STATS_MAX; i++) {
		if (ev->stats[i].kind == XS_NONE || ev->stats[i].kind == XS_BYTES)
			continue;
		hold_stat(l, &ev->stats[i]);
		h->n_stats++;
	}
	l->is_sorted = l->is_sorted && (!l->n_held || by_time(h - 1, h) < 0);
	l->n_held++;
	if (l->n_held == LANES_HELD ||
	    l->n_stats * sizeof(*l->stats) + l->bytes.len > LANES_HELD_BYTES)
		return give_chunk(l);
	return 0;
}

static double value_of(const struct xs_stat *s)
{
	return s->kind == XS_DOUBLE ? s->d : s->kind == XS_UINT ? (double)s->u : (double)s->i;
}

/* The event's stats, to be forgotten after the call that gets them: nothing else of a line of counters is held. */
static void hold_sample_stats(struct lanes *l, const struct xs_event *ev, struct lane_event *out)
{
	l->n_stats = 0;
	buf_reset(&l->bytes);
	for (size_t i = 0; i < ev->n_stats && i < EXIT_STATS_MAX; i++) {
		if (ev->stats[i].kind != XS_NONE && ev->stats[i].kind != XS_BYTES)
			hold_stat(l, &ev->stats[i]);
	}
	point_at_texts(l);
	out->stats = l->stats;
	out->n_stats = l->n_stats;
	l->n_stats = 0;
}

static int give_sample(struct lanes *l, const struct xs_event *ev, int64_t start_ps)
{
	struct lane_event sample = { .start_ns = floor_ns(start_ps),
				     .end_ns = floor_ns(start_ps),
				     .name = number_of(l->names, ev->metadata_id) };

	if (!l->v->sample)
		return 0;
	for (size_t i = 0; i < ev->n_stats; i++) {
		enum xs_stat_kind kind = ev->stats[i].kind;

		if (kind != XS_DOUBLE && kind != XS_UINT && kind != XS_INT)
			continue;
		if (l->v->wants_sample_stats)
			hold_sample_stats(l, ev, &sample);
		return l->v->sample(l->arg, &sample, value_of(&ev->stats[i]));
	}
	l->counts->left_out++;
	return 0;
}

static int on_event(void *arg, const struct xs_event *ev)
{
	struct lanes *l = arg;
	int64_t start_ps, end_ps;
	int rc = 0;

	if (ev->is_aggregate) {
		l->counts->untimed++;
		return 0;
	}
	if (!place(l, ev, &start_ps, &end_ps)) {
		l->counts->left_out++;
		return 0;
	}
	if (!passes(l, start_ps, end_ps)) {
		l->counts->filtered++;
		return 0;
	}
	if (!l->is_told)
		rc = l->v->line(l->arg, &l->line);
	l->is_told = true;
	if (rc)
		return rc;
	return l->is_counters ? give_sample(l, ev, start_ps) : hold_event(l, ev, start_ps, end_ps);
}

/* ---- lines and planes ---- */

static int on_plane(void *arg, const struct xs_plane *p)
{
	struct lanes *l = arg;

	clear_names(l->names);
	clear_names(l->stat_names);
	l->plane = (struct lanes_plane){ .is_device = !strncmp(p->name, "/device:", 8) };
	*l->pod = *l->rank = '\0';
	snprintf(l->plane.name, sizeof(l->plane.name), "%s", p->name);
	/* what agents wrote before the stat */
	l->plane.is_sampled = !strcmp(p->name, "/host:CPU samples");
	return 0;
}

static int on_plane_stat(void *arg, const struct xs_stat *s)
{
	struct lanes *l = arg;
	struct xs_stat own = *s;
	const char *text;
	size_t len;

	own.metadata_id = stat_name_of(l, s->metadata_id);
	if (s->kind == XS_REF)
		own.u = (uint64_t)stat_name_of(l, (int64_t)s->u);
	if (lanes_is_stat(l->stat_names, &own, "process_id")) {
		l->plane.has_process = s->kind == XS_INT || s->kind == XS_UINT;
		l->plane.process_id = s->i;
	} else if (lanes_is_stat(l->stat_names, &own, "tracer")) {
		text = lanes_stat_text(l->stat_names, &own, &len);
		l->plane.is_sampled = text_equals(text, len, "cpu");
	} else if (lanes_is_stat(l->stat_names, &own, "pod")) {
		text = lanes_stat_text(l->stat_names, &own, &len);
		clean_text(l->pod, sizeof(l->pod), text, len);
	} else if (lanes_is_stat(l->stat_names, &own, "rank") && s->kind == XS_INT) {
		snprintf(l->rank, sizeof(l->rank), " rank %" PRId64, s->i);
	}
	return 0;
}

static int on_lines(void *arg)
{
	struct lanes *l = arg;
	struct lanes_plane *p = &l->plane;
	int rc;

	if (*l->pod)
		snprintf(p->title, sizeof(p->title), "%s (%s%s)", p->name, l->pod, l->rank);
	else if (*l->rank)
		snprintf(p->title, sizeof(p->title), "%s (%s)", p->name, l->rank + 1);
	else
		snprintf(p->title, sizeof(p->title), "%s", p->name);
	rc = l->v->plane(l->arg, p);
	if (rc)
		return rc;
	return l->plane.is_device ? l->filter->no_devices : l->filter->no_hosts;
}

static int on_line(void *arg, const struct xs_line *line)
{
	struct lanes *l = arg;
	const struct exit_filter *f = l->filter;
	const char *name = *line->display_name ? line->display_name : line->name;

	snprintf(l->line_name, sizeof(l->line_name), "%s", line->name);
	snprintf(l->display_name, sizeof(l->display_name), "%s", name);
	l->line = *line;
	l->line.name = l->line_name;
	l->line.display_name = l->display_name;
	l->is_counters = !strcmp(line->name, "_counters_");
	l->is_told = false;
	l->is_sorted = true;
	l->n_events = 0;
	return f->wants && !f->wants(f->arg, l->plane.name, name);
}

static void clear_lanes(struct lanes *l)
{
	for (size_t i = 0; i < l->n_lanes; i++)
		free(l->lanes[i].ends);
	l->n_lanes = 0;
}

static int on_line_end(void *arg)
{
	struct lanes *l = arg;
	int rc = give_chunk(l);

	for (size_t i = 0; i < l->n_lanes && !rc; i++)
		rc = close_until(l, i, INT64_MAX);
	clear_lanes(l);
	return rc;
}

int lanes_read(const struct xs_source *in, const struct exit_filter *filter,
	       const struct lanes_visitor *v, void *arg, struct lanes_names *names,
	       struct lanes_names *stat_names, struct exit_counts *counts, struct err *e)
{
	static const struct xs_visitor visitor = {
		.plane_begin = on_plane,
		.stat_metadata = on_stat_name,
		.event_metadata = on_event_name,
		.plane_stat = on_plane_stat,
		.lines = on_lines,
		.line_begin = on_line,
		.event = on_event,
		.line_end = on_line_end,
		.want_stats = true,
		.want_shown_names = true,
	};
	struct lanes l = { .filter = filter,
			   .v = v,
			   .arg = arg,
			   .names = names,
			   .stat_names = stat_names,
			   .counts = counts,
			   .e = e };
	int rc;

	l.held = xcalloc(LANES_HELD, sizeof(*l.held));
	l.lanes = xcalloc(EXIT_LANES_MAX, sizeof(*l.lanes));
	rc = xs_read(in, &visitor, &l, e);
	clear_lanes(&l);
	clear_names(names);
	clear_names(stat_names);
	buf_release(&l.bytes);
	free(l.stats);
	free(l.held);
	free(l.lanes);
	return rc;
}
