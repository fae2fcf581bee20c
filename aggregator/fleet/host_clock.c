/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/fleet/host_clock.h"

#include <stdio.h>

#include "json/json_text.h"

static void set_word(char out[HOST_CLOCK_WORD], const char *word)
{
	snprintf(out, HOST_CLOCK_WORD, "%s", word);
}

static struct host_clock_break break_from(const Tutti__V1__ClockStep *from)
{
	struct host_clock_break to = {
		.from_ns = from->from_ns,
		.to_ns = from->to_ns,
		.delta_ns = from->delta_ns,
	};

	set_word(to.kind, from->kind);
	return to;
}

struct host_clock host_clock_from(const Tutti__V1__ClockModel *c,
				  struct host_clock_break breaks[LIMIT_CLOCK_STEPS])
{
	struct host_clock out = { 0 };

	if (!c)
		return out;
	out = (struct host_clock){
		.calibrated = c->calibrated,
		.offset_ns = c->offset_ns,
		.bound_ns = c->bound_ns,
		.rtt_min_ns = c->rtt_min_ns,
		.rate_known = c->rate_known,
		.rate_ppb = c->rate_ppb,
		.jitter_ns = c->jitter_ns,
		.probes = c->probes,
		.wall_steps = c->steps_seen,
		.wall_synced = c->wall_synced,
		.wall_error_ns = c->wall_error_ns,
		.earlier_ns = c->earlier_ns,
		.later_ns = c->later_ns,
		.breaks = breaks,
	};
	set_word(out.method, c->method);
	out.grade[0] = c->grade[0];
	for (; out.n_breaks < c->n_steps && out.n_breaks < LIMIT_CLOCK_STEPS; out.n_breaks++)
		breaks[out.n_breaks] = break_from(c->steps[out.n_breaks]);
	out.is_suspecting = c->suspected;
	if (c->suspected)
		out.suspected = break_from(c->suspected);
	out.suspected_known_ns = c->suspected_known_ns;
	return out;
}

static json_t *break_json(const struct host_clock_break *b)
{
	json_t *o = json_object();

	json_put_text(o, "kind", b->kind);
	json_put_int(o, "from_ns", b->from_ns);
	json_put_int(o, "to_ns", b->to_ns);
	json_put_int(o, "delta_ns", b->delta_ns);
	return o;
}

json_t *host_clock_json(const struct host_clock *c)
{
	json_t *o = json_object(), *breaks = json_array();

	json_put_bool(o, "calibrated", c->calibrated);
	json_put_int(o, "offset_ns", c->offset_ns);
	json_put_int(o, "bound_ns", c->bound_ns);
	json_put_int(o, "rtt_min_ns", c->rtt_min_ns);
	if (c->rate_known)
		json_put_int(o, "rate_ppb", c->rate_ppb);
	json_put_int(o, "jitter_ns", c->jitter_ns);
	json_put_int(o, "probes", c->probes);
	json_put_text(o, "method", c->method);
	json_put_text(o, "grade", c->grade);
	json_put_int(o, "steps_seen", c->wall_steps);
	json_put_bool(o, "wall_synced", c->wall_synced);
	if (c->wall_synced)
		json_put_int(o, "wall_error_ns", c->wall_error_ns);
	if (c->earlier_ns || c->later_ns) {
		json_put_int(o, "earlier_ns", c->earlier_ns);
		json_put_int(o, "later_ns", c->later_ns);
	}
	for (size_t i = 0; i < c->n_breaks; i++)
		json_array_append_new(breaks, break_json(&c->breaks[i]));
	json_put(o, "steps", breaks);
	if (c->is_suspecting) {
		json_t *suspected = break_json(&c->suspected);

		json_put_int(suspected, "known_ns", c->suspected_known_ns);
		json_put(o, "suspected", suspected);
	}
	return o;
}
