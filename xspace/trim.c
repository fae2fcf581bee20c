/* SPDX-License-Identifier: Apache-2.0 */
#include "xspace/trim.h"

struct times {
	bool aggregate;
	int64_t offset_ps, duration_ps;
	struct wire_field offset, duration; /* their last occurrence; end = 0: absent */
};

static int read_times(struct wire *w, const struct wire_field *event, struct times *t,
		      struct err *e)
{
	struct wire_walk walk = wire_walk(w, event, schema_xevent);
	struct wire_field f;
	int rc;

	*t = (struct times){ 0 };
	while ((rc = wire_next(&walk, &f, e)) > 0) {
		if (f.number == XEVENT_OFFSET_PS)
			t->offset = f;
		else if (f.number == XEVENT_DURATION_PS)
			t->duration = f;
		if (f.number == XEVENT_OFFSET_PS || f.number == XEVENT_NUM_OCCURRENCES)
			t->aggregate = f.number == XEVENT_NUM_OCCURRENCES;
	}
	t->offset_ps = (int64_t)t->offset.value;
	t->duration_ps = (int64_t)t->duration.value;
	return rc;
}

static void add_splice(struct trim_event *out, const struct splice *s)
{
	out->splices[out->n_splices++] = *s;
	out->len = (uint64_t)((int64_t)out->len + splice_growth(s));
	if (out->n_splices == 2 && out->splices[1].at < out->splices[0].at) {
		struct splice first = out->splices[1];

		out->splices[1] = out->splices[0];
		out->splices[0] = first;
	}
}

static void rewrite(const struct wire_field *event, const struct times *t, int64_t offset_ps,
		    int64_t duration_ps, struct trim_event *out)
{
	struct splice s;

	if (offset_ps != t->offset_ps) {
		s = splice_varint(&t->offset, event, XEVENT_OFFSET_PS, (uint64_t)offset_ps);
		add_splice(out, &s);
	}
	if (duration_ps != t->duration_ps) {
		s = splice_varint(&t->duration, event, XEVENT_DURATION_PS, (uint64_t)duration_ps);
		add_splice(out, &s);
	}
	out->result = out->n_splices ? TRIM_EDIT : TRIM_KEEP;
}

/* The event's new times; without a duration, `end` is `begin`. */
static void move(const struct trim *trim, const struct times *t, ps_wide *begin, ps_wide *end)
{
	int64_t duration_ps = t->duration_ps > 0 ? t->duration_ps : 0;
	ps_wide old = (ps_wide)trim->source_ns * 1000 + t->offset_ps;

	if (trim->curve) {
		*begin = curve_at(trim->curve, old);
		*end = duration_ps ? curve_at(trim->curve, old + duration_ps) : *begin;
	} else {
		*begin = (ps_wide)trim->line_ns * 1000 + t->offset_ps;
		*end = *begin + duration_ps;
	}
}

/* Cuts to the window; false if the event is outside. */
static bool clip(const struct trim *trim, ps_wide *begin, ps_wide *end)
{
	ps_wide window = (ps_wide)trim->window_ns * 1000, cut = (ps_wide)trim->cut_ns * 1000;
	bool is_instant = *begin == *end;

	if (!trim->window_ns)
		return true;
	if (*begin >= cut || *end < 0 || (*end == 0 && *begin < 0))
		return false;
	*begin = *begin > 0 ? *begin : 0;
	*begin = *begin < window ? *begin : window - 1;
	*end = *end < cut ? *end : cut;
	*end = is_instant ? *begin : *end < window ? *end : window;
	return true;
}

/* The value of a field of this tag at *at, which is moved behind it; -1 if there is none, or it is below 0. */
static int64_t take_number(const uint8_t **at, const uint8_t *end, uint8_t tag)
{
	const uint8_t *p = *at;
	uint64_t v = 0;

	if (p == end || *p++ != tag)
		return -1;
	for (unsigned int shift = 0; p < end && shift < 63; shift += 7) {
		v |= (uint64_t)(*p & 0x7f) << shift;
		if (*p++ < 0x80) {
			*at = p;
			return (int64_t)v;
		}
	}
	return -1;
}

/* Whether all that is left are stats of less than 128 bytes. */
static bool are_short_stats(const uint8_t *p, const uint8_t *end)
{
	while (end - p >= 2 && p[0] == WIRE_TAG(XEVENT_STATS, WIRE_LEN) && p[1] < 0x80 &&
	       p[1] <= end - p - 2)
		p += 2 + p[1];
	return p == end;
}

bool trim_is_inside(int64_t inside_ps, const struct wire *w, const struct wire_field *event)
{
	const uint8_t *at, *end;
	int64_t offset_ps, duration_ps = 0;

	if (!inside_ps || event->body < w->base || event->end > w->base + w->len)
		return false;
	at = w->data + (event->body - w->base);
	end = w->data + (event->end - w->base);
	if (take_number(&at, end, WIRE_TAG(XEVENT_METADATA_ID, WIRE_VARINT)) < 0)
		return false;
	offset_ps = take_number(&at, end, WIRE_TAG(XEVENT_OFFSET_PS, WIRE_VARINT));
	if (offset_ps < 0 || offset_ps >= inside_ps)
		return false;
	if (at < end && *at == WIRE_TAG(XEVENT_DURATION_PS, WIRE_VARINT))
		duration_ps = take_number(&at, end, *at);
	return duration_ps >= 0 && duration_ps <= inside_ps - offset_ps && are_short_stats(at, end);
}

int trim_decide(const struct trim *trim, struct wire *w, const struct wire_field *event,
		struct trim_event *out, struct err *e)
{
	ps_wide line = trim_line_ns(trim) * (ps_wide)1000;
	ps_wide begin, end, from, to;
	struct times t;
	int rc = read_times(w, event, &t, e);

	out->result = TRIM_KEEP;
	out->clipped = false;
	out->len = event->value;
	out->n_splices = 0;
	if (rc || t.aggregate)
		return rc;
	move(trim, &t, &begin, &end);
	from = begin;
	to = end;
	if (!clip(trim, &from, &to)) {
		out->result = TRIM_DROP;
		return 0;
	}
	out->clipped = from != begin || to != end;
	rewrite(event, &t, (int64_t)(from - line),
		out->clipped || t.duration_ps > 0 ? (int64_t)(to - from) : t.duration_ps, out);
	return 0;
}
