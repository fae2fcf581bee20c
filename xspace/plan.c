/* SPDX-License-Identifier: Apache-2.0 */
#include "xspace/plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "xspace/trim.h"

/* Adds one zeroed element; NULL at the limit. */
static void *grow(void **items, size_t *n, size_t *cap, size_t size, size_t limit)
{
	void *item;

	if (*n == limit)
		return NULL;
	if (*n == *cap) {
		*cap = *cap ? 2 * *cap : 64;
		*items = xrealloc(*items, *cap * size);
	}
	item = (char *)*items + (*n)++ * size;
	memset(item, 0, size);
	return item;
}

static struct wire_field line_field(const struct plan_line *l)
{
	return (struct wire_field){ .at = l->at,
				    .body = l->body,
				    .end = l->end,
				    .value = l->end - l->body,
				    .number = XPLANE_LINES,
				    .type = WIRE_LEN };
}

static struct trim trim_of(struct plan *p, const struct plan_line *l)
{
	return (struct trim){ .line_ns = l->moved_ns,
			      .source_ns = l->source_ns,
			      .window_ns = p->conf->window_ns,
			      .cut_ns = p->conf->cut_ns ? p->conf->cut_ns : p->conf->window_ns,
			      .curve = p->curve.n ? &p->curve : NULL };
}

/* Whether the events of the line must be decoded; if not, the line is moved as a whole. */
static bool decodes_events(const struct plan *p)
{
	return p->conf->window_ns || p->curve.n;
}

/* The splice that gives a line its new time. */
static struct splice line_time(struct plan *p, const struct plan_line *l)
{
	struct trim trim = trim_of(p, l);
	int64_t ns = trim_line_ns(&trim);
	struct wire_field message = line_field(l), time = { 0 };
	struct splice none = { .at = l->body, .until = l->body };

	if (!l->time_body && !ns)
		return none;
	if (l->time_body)
		time = (struct wire_field){ .body = l->time_body,
					    .end = l->time_body + l->time_len };
	return splice_varint(&time, &message, XLINE_TIMESTAMP_NS, (uint64_t)ns);
}

/* ---- first pass ---- */

/* Decides for each event what happens to it; adds the line's growth in bytes to *growth, and counts in *c. */
static int trim_line(struct plan *p, struct plan_line *l, struct wire *w, int64_t *growth,
		     struct xs_counts *c, struct err *e)
{
	struct trim trim = trim_of(p, l);
	struct wire_field message = line_field(l), f;
	struct wire_walk walk = wire_walk(w, &message, schema_xline);
	int64_t inside_ps = trim_inside_ps(&trim);
	struct trim_event ev;
	int rc;

	while ((rc = wire_next(&walk, &f, e)) > 0) {
		if (f.number != XLINE_EVENTS)
			continue;
		if (trim_is_inside(inside_ps, w, &f)) {
			c->events++;
			continue;
		}
		rc = trim_decide(&trim, w, &f, &ev, e);
		if (rc)
			break;
		l->trimmed |= ev.result != TRIM_KEEP;
		c->events += ev.result != TRIM_DROP;
		c->trimmed += ev.result == TRIM_DROP;
		c->clipped += ev.clipped;
		if (ev.result == TRIM_DROP)
			*growth -= (int64_t)(f.end - f.at);
		if (ev.result == TRIM_EDIT)
			*growth += (int64_t)(1 + varint_size(ev.len) + ev.len) -
				   (int64_t)(f.end - f.at);
	}
	return rc;
}

/* Finds the line's time and counts its events, without decoding them. */
static int scan_line(struct plan_line *l, struct wire *w, int64_t *time_ns, uint64_t *events,
		     struct err *e)
{
	struct wire_field message = line_field(l), f;
	struct wire_walk walk = wire_walk(w, &message, schema_xline);
	int rc;

	while ((rc = wire_next(&walk, &f, e)) > 0) {
		if (f.number == XLINE_EVENTS)
			*events += 1 + wire_pass_short(&walk, XLINE_EVENTS);
		if (f.number != XLINE_TIMESTAMP_NS)
			continue;
		l->time_body = f.body;
		l->time_len = (uint8_t)(f.end - f.body);
		*time_ns = (int64_t)f.value;
	}
	return rc;
}

/* Rounded down to a nanosecond; any input. */
static int64_t moved(struct plan *p, int64_t source_ns)
{
	ps_wide ps, ns;

	if (!p->curve.n)
		return source_ns;
	ps = curve_at(&p->curve, (ps_wide)source_ns * 1000);
	ns = ps / 1000 - (ps % 1000 < 0);
	return ns < INT64_MIN ? INT64_MIN : ns > INT64_MAX ? INT64_MAX : (int64_t)ns;
}

static int plan_line(struct plan *p, struct plan_line *l, struct wire *w, struct xs_counts *c,
		     struct err *e)
{
	uint64_t events = 0, before = c->events;
	int64_t time_ns = 0, growth = 0;
	struct splice time;
	int rc = scan_line(l, w, &time_ns, &events, e);

	if (rc)
		return rc;
	l->source_ns = p->conf->map ? p->conf->map(p->conf->arg, time_ns) : time_ns;
	l->moved_ns = moved(p, l->source_ns);
	if (decodes_events(p)) {
		rc = trim_line(p, l, w, &growth, c, e);
		if (rc)
			return rc;
		l->dropped = events && c->events == before;
	}
	time = line_time(p, l);
	growth += splice_growth(&time);
	l->len = (uint64_t)((int64_t)(l->end - l->body) + growth);
	c->lines += !l->dropped;
	return 0;
}

static int add_line(struct plan *p, struct plan_plane *plane, const struct wire_field *f,
		    struct wire *w, struct err *e)
{
	struct plan_line *l = grow((void **)&p->lines, &p->n_lines, &p->lines_cap, sizeof(*l),
				   XS_MAX_LINES);
	uint64_t before = f->end - f->at, after;
	int rc;

	if (!l)
		return err_set(e, ERR_LIMIT, "more than %d lines", XS_MAX_LINES);
	l->at = f->at;
	l->body = f->body;
	l->end = f->end;
	rc = plan_line(p, l, w, &plane->counts, e);
	after = l->dropped ? 0 : 1 + varint_size(l->len) + l->len;
	plane->len = plane->len - before + after;
	return rc;
}

static int scan_plane(struct plan *p, struct plan_plane *plane, struct wire *w, struct err *e)
{
	struct wire_walk walk = wire_walk(w, &plane->field, schema_xplane);
	struct wire_field f;
	int rc;

	while ((rc = wire_next(&walk, &f, e)) > 0) {
		if (f.number == XPLANE_ID)
			plane->id = f;
		else if (f.number == XPLANE_NAME)
			plane->name = f;
		if (f.number != XPLANE_LINES)
			continue;
		rc = add_line(p, plane, &f, w, e);
		if (rc)
			return err_prefix(e, "line %zu", plane->n_lines), rc;
		plane->n_lines++;
	}
	return rc;
}

static int add_plane(struct plan *p, const struct wire_field *f, struct wire *w, struct err *e)
{
	struct plan_plane *plane = grow((void **)&p->planes, &p->n_planes, &p->planes_cap,
					sizeof(*plane), XS_MAX_PLANES);
	int rc;

	if (!plane)
		return err_set(e, ERR_LIMIT, "more than %d planes", XS_MAX_PLANES);
	plane->field = *f;
	plane->len = f->value;
	plane->first_line = p->n_lines;
	plane->counts.planes = 1;
	rc = scan_plane(p, plane, w, e);
	if (rc)
		err_prefix(e, "plane %zu", p->n_planes - 1);
	return rc;
}

int plan_make(struct plan *p, struct wire *w, const struct xs_rebase *conf, struct err *e)
{
	struct wire_field root = wire_root(w->src), f;
	struct wire_walk walk = wire_walk(w, &root, schema_xspace);
	int rc;

	*p = (struct plan){ .conf = conf };
	if (conf->window_ns < 0 || conf->window_ns > INT64_MAX / 1000)
		return err_set(e, ERR_INVALID, "a window of %" PRId64 " ns", conf->window_ns);
	rc = curve_init(&p->curve, conf->knots, conf->n_knots, e);
	if (rc)
		return rc;
	while ((rc = wire_next(&walk, &f, e)) > 0) {
		if (f.number != XSPACE_PLANES)
			continue;
		rc = add_plane(p, &f, w, e);
		if (rc)
			break;
	}
	return rc;
}

void plan_release(struct plan *p)
{
	curve_release(&p->curve);
	free(p->planes);
	free(p->lines);
	*p = (struct plan){ 0 };
}

/* ---- second pass ---- */

static int write_event(const struct trim *trim, const struct wire_field *event, struct wire *w,
		       struct splicer *sp, struct err *e)
{
	struct trim_event ev;
	struct splice head;
	int rc = trim_decide(trim, w, event, &ev, e);

	if (rc || ev.result == TRIM_KEEP)
		return rc;
	if (ev.result == TRIM_DROP)
		return splicer_cut(sp, event->at, event->end, e);
	head = splice_head(event, ev.len);
	rc = splicer_put(sp, &head, e);
	for (size_t i = 0; !rc && i < ev.n_splices; i++)
		rc = splicer_put(sp, &ev.splices[i], e);
	return rc;
}

static int write_trimmed(struct plan *p, const struct plan_line *l, struct wire *w,
			 struct splicer *sp, struct err *e)
{
	struct trim trim = trim_of(p, l);
	struct wire_field message = line_field(l), f;
	struct wire_walk walk = wire_walk(w, &message, schema_xline);
	struct splice time = line_time(p, l);
	int rc = l->time_body ? 0 : splicer_put(sp, &time, e);

	while (!rc && (rc = wire_next(&walk, &f, e)) > 0) {
		rc = 0;
		if (f.number == XLINE_EVENTS)
			rc = write_event(&trim, &f, w, sp, e);
		else if (l->time_body && f.body == l->time_body)
			rc = splicer_put(sp, &time, e);
	}
	return rc;
}

static int write_line(struct plan *p, const struct plan_line *l, struct wire *w, struct splicer *sp,
		      struct err *e)
{
	struct wire_field message = line_field(l);
	struct splice head = splice_head(&message, l->len), time = line_time(p, l);
	uint64_t body;
	int rc;

	if (l->dropped)
		return splicer_cut(sp, l->at, l->end, e);
	rc = splicer_put(sp, &head, e);
	body = sp->written;
	if (!rc)
		rc = l->trimmed ? write_trimmed(p, l, w, sp, e) : splicer_put(sp, &time, e);
	if (!rc)
		rc = splicer_copy(sp, l->end, e);
	if (!rc && sp->written - body != l->len)
		rc = err_set(e, ERR_INVALID, "at byte %" PRIu64 ": the input changed", l->at);
	return rc;
}

static void count(struct xs_counts *sum, const struct xs_counts *c)
{
	sum->planes += c->planes;
	sum->lines += c->lines;
	sum->events += c->events;
	sum->clipped += c->clipped;
	sum->trimmed += c->trimmed;
}

static uint64_t body_bytes(const struct plan_plane *plane, const struct splice *splices, size_t n)
{
	uint64_t len = plane->len;

	for (size_t i = 0; i < n; i++)
		len = (uint64_t)((int64_t)len + splice_growth(&splices[i]));
	return len;
}

uint64_t plan_plane_bytes(const struct plan_plane *plane, const struct splice *splices, size_t n)
{
	uint64_t len = body_bytes(plane, splices, n);

	return 1 + varint_size(len) + len;
}

int plan_write_plane(struct plan *p, const struct plan_plane *plane, const struct splice *splices,
		     size_t n, struct wire *w, struct splicer *sp, struct xs_counts *counts,
		     struct err *e)
{
	const struct plan_line *l = plane->n_lines ? &p->lines[plane->first_line] : NULL;
	struct splice head;
	size_t k = 0;
	int rc;

	count(counts, &plane->counts);
	head = splice_head(&plane->field, body_bytes(plane, splices, n));
	rc = splicer_put(sp, &head, e);
	for (size_t i = 0; !rc && i < plane->n_lines; i++) {
		for (; !rc && k < n && splices[k].at <= l[i].at; k++)
			rc = splicer_put(sp, &splices[k], e);
		if (!rc)
			rc = write_line(p, &l[i], w, sp, e);
	}
	for (; !rc && k < n; k++)
		rc = splicer_put(sp, &splices[k], e);
	return rc ? rc : splicer_copy(sp, plane->field.end, e);
}
