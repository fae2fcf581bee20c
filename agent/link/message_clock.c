/* SPDX-License-Identifier: Apache-2.0 */
/* The clock model as a message. */
#include <math.h>

#include "agent/link/messages.h"

static void set_step(Tutti__V1__ClockStep *out, const char *kind, int64_t from_ns, int64_t to_ns,
		     int64_t delta_ns)
{
	tutti__v1__clock_step__init(out);
	out->kind = (char *)kind;
	out->from_ns = from_ns;
	out->to_ns = to_ns;
	out->delta_ns = delta_ns;
}

static void add_step(struct message_clock *out, const char *kind, int64_t from_ns, int64_t to_ns,
		     int64_t delta_ns)
{
	size_t n = out->model.n_steps;

	if (n == LIMIT_CLOCK_STEPS)
		return;
	set_step(&out->steps[n], kind, from_ns, to_ns, delta_ns);
	out->pointers[n] = &out->steps[n];
	out->model.n_steps++;
}

/* Adds the steps and sleeps in the wall clock's ledger. */
static void add_ledger(struct message_clock *out, const struct clock_model *m)
{
	static const char *const kinds[] = {
		[LEDGER_SET] = "set",
		[LEDGER_SUSPEND] = "suspend",
		[LEDGER_SOURCE] = "clocksource",
		[LEDGER_MOVED] = "moved",
	};
	const struct clock_ledger *l = &m->ledger;

	for (size_t i = 0; i < l->n_steps; i++) {
		const struct ledger_step *s = &l->steps[i];

		add_step(out, kinds[s->kind], clock_model_session_of_raw(m, s->from_raw_ns),
			 clock_model_session_of_raw(m, s->to_raw_ns), s->delta_ns);
	}
}

/* Adds the steps of the raw clock against the session clock; the ledger has the other breaks. */
static void add_breaks(struct message_clock *out, const struct clock_model *m)
{
	for (size_t i = 1; i < m->n_segments; i++) {
		const struct clock_segment *s = &m->segments[i], *before = s - 1;
		const struct clock_knot *last = &clock_model_knots(
			m)[before->first + before->n - 1];
		const struct clock_knot *first = &clock_model_knots(m)[s->first];

		if (s->cause == CLOCK_BREAK_STEP || s->cause == CLOCK_BREAK_RATE ||
		    s->cause == CLOCK_BREAK_TAKEOVER)
			add_step(out, clock_break_name(s->cause), last->host_ns - last->offset_ns,
				 first->host_ns - first->offset_ns,
				 first->offset_ns - last->offset_ns);
	}
}

static void add_suspicion(struct message_clock *out, const struct clock_suspicion *s)
{
	if (s->cause == CLOCK_BREAK_NONE)
		return;
	set_step(&out->suspected, clock_break_name(s->cause), s->from_ns, s->to_ns, s->delta_ns);
	out->model.suspected = &out->suspected;
	out->model.suspected_known_ns = s->known_ns;
}

void message_clock(struct message_clock *out, const struct clock_model *m, int64_t bound_ns)
{
	Tutti__V1__ClockModel *c = &out->model;

	tutti__v1__clock_model__init(c);
	c->calibrated = m->calibrated;
	c->grade = (char *)clock_grade_name(clock_grade_of(m, bound_ns));
	c->steps = out->pointers;
	c->steps_seen = m->ledger.steps_seen + m->steps_found;
	c->wall_synced = m->wall_error_ns >= 0;
	c->wall_error_ns = m->wall_error_ns >= 0 ? m->wall_error_ns : 0;
	add_ledger(out, m);
	add_suspicion(out, &m->suspected);
	if (!m->calibrated)
		return;
	add_breaks(out, m);
	c->offset_ns = clock_model_wall_offset_at(m, m->at_raw_ns);
	c->bound_ns = bound_ns;
	c->rtt_min_ns = m->rtt_min_ns;
	c->rate_known = m->rate_known;
	c->rate_ppb = m->rate_known ? llround(m->rate * 1e9) : 0;
	c->jitter_ns = m->jitter_ns;
	c->probes = m->probes;
	if (m->method)
		c->method = (char *)m->method;
}
