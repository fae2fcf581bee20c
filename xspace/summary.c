/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "xspace/schema.h"
#include "xspace/text.h"
#include "xspace/xspace.h"

/* Line time plus offset plus duration, in ps: more than 64 bits. */
__extension__ typedef __int128 ps_wide;

struct summing {
	struct xs_summary *out;
	int64_t line_ns;
	ps_wide first_ps, last_ps;
	bool timed; /* an event with a time was found */
	bool environment; /* the plane is Task Environment */
	int64_t start_id, stop_id; /* its stat metadata */
};

static int sum_plane(void *arg, const struct xs_plane *p)
{
	struct summing *s = arg;

	s->out->planes++;
	s->environment = !strcmp(p->name, ENVIRONMENT_PLANE);
	s->start_id = s->stop_id = 0;
	return 0;
}

static int sum_stat_metadata(void *arg, int64_t id, const char *name, size_t len)
{
	struct summing *s = arg;

	if (text_equals(name, len, "profile_start_time"))
		s->start_id = id;
	else if (text_equals(name, len, "profile_stop_time"))
		s->stop_id = id;
	return 0;
}

static int sum_plane_stat(void *arg, const struct xs_stat *stat)
{
	struct summing *s = arg;

	if (!s->environment || !stat->metadata_id || stat->kind != XS_UINT)
		return 0;
	if (stat->metadata_id == s->start_id)
		s->out->profile_start_ns = stat->u;
	else if (stat->metadata_id == s->stop_id)
		s->out->profile_stop_ns = stat->u;
	return 0;
}

static int sum_line(void *arg, const struct xs_line *l)
{
	struct summing *s = arg;

	s->out->lines++;
	s->line_ns = l->timestamp_ns;
	return 0;
}

static int sum_event(void *arg, const struct xs_event *ev)
{
	struct summing *s = arg;
	ps_wide begin = (ps_wide)s->line_ns * 1000 + ev->offset_ps;
	ps_wide end = ev->duration_ps > 0 ? begin + ev->duration_ps : begin;

	s->out->events++;
	if (ev->is_aggregate)
		return 0;
	if (!s->timed || begin < s->first_ps)
		s->first_ps = begin;
	if (!s->timed || end > s->last_ps)
		s->last_ps = end;
	s->timed = true;
	return 0;
}

/* Rounded down; clamped to 64 bits. */
static int64_t to_ns(ps_wide ps)
{
	ps_wide ns = ps / 1000 - (ps % 1000 < 0);

	return ns > INT64_MAX ? INT64_MAX : ns < INT64_MIN ? INT64_MIN : (int64_t)ns;
}

int xs_profile_start(const struct xs_source *in, uint64_t *start_ns, struct err *e)
{
	static const struct xs_visitor visitor = {
		.plane_begin = sum_plane,
		.stat_metadata = sum_stat_metadata,
		.plane_stat = sum_plane_stat,
	};
	struct xs_summary found = { 0 };
	struct summing s = { .out = &found };
	int rc = xs_read(in, &visitor, &s, e);

	*start_ns = rc ? 0 : found.profile_start_ns;
	return rc;
}

int xs_summarize(const struct xs_source *in, struct xs_summary *out, struct err *e)
{
	static const struct xs_visitor visitor = {
		.plane_begin = sum_plane,
		.stat_metadata = sum_stat_metadata,
		.plane_stat = sum_plane_stat,
		.line_begin = sum_line,
		.event = sum_event,
	};
	struct summing s = { .out = out };
	int rc;

	*out = (struct xs_summary){ 0 };
	rc = xs_read(in, &visitor, &s, e);
	out->first_ns = to_ns(s.first_ps);
	out->last_ns = to_ns(s.last_ps + 999); /* rounded up */
	if (!s.timed)
		out->first_ns = out->last_ns = 0;
	return rc;
}
