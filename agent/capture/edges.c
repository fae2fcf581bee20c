/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/capture/edges.h"

#include <stdlib.h>

static int64_t distance_ns(const struct edge *e, const struct clock_model *m)
{
	int64_t off_ns, allowed_ns;

	if (__builtin_sub_overflow(clock_model_session_of_raw(m, e->raw_ns), e->session_ns,
				   &off_ns) ||
	    __builtin_add_overflow(e->bound_ns, clock_model_bound_at(m, e->raw_ns), &allowed_ns) ||
	    llabs(off_ns) > allowed_ns)
		return -1;
	return llabs(off_ns);
}

int64_t edges_distance_ns(const struct window_edges *w, const struct clock_model *m)
{
	int64_t from_ns, to_ns;

	if (!w->from.session_ns)
		return 0;
	from_ns = distance_ns(&w->from, m);
	to_ns = distance_ns(&w->to, m);
	if (from_ns < 0 || to_ns < 0)
		return -1;
	return from_ns > to_ns ? from_ns : to_ns;
}

/* A new edge's raw time, in the order of the kept ones that `m` allows. Around a sleep `m` may have a window's end
 * before the edge at which the window begins: `m` guesses when the host slept, and that edge was placed before it did. */
static int64_t in_order(const struct edges *all, const struct clock_model *m, int64_t session_ns)
{
	int64_t raw_ns = clock_model_raw_of_session(m, session_ns);

	for (size_t i = 0; i < EDGES_KEPT; i++) {
		const struct edge *k = &all->kept[i];
		bool is_out = k->session_ns < session_ns ? raw_ns <= k->raw_ns
							 : raw_ns >= k->raw_ns;

		if (k->session_ns && k->session_ns != session_ns && is_out &&
		    distance_ns(k, m) >= 0)
			raw_ns = k->raw_ns + (k->session_ns < session_ns ? 1 : -1);
	}
	return raw_ns;
}

static struct edge place(struct edges *all, const struct clock_model *m, int64_t session_ns)
{
	struct edge *e = NULL;
	int64_t raw_ns, moved_ns;

	for (size_t i = 0; i < EDGES_KEPT && !e; i++) {
		if (all->kept[i].session_ns == session_ns)
			e = &all->kept[i];
	}
	if (e && distance_ns(e, m) >= 0)
		return *e;
	raw_ns = in_order(all, m, session_ns);
	if (!e) {
		e = &all->kept[all->next];
		all->next = (all->next + 1) % EDGES_KEPT;
	}
	e->session_ns = session_ns;
	e->raw_ns = raw_ns;
	e->bound_ns = clock_model_bound_at(m, e->raw_ns);
	moved_ns = llabs(clock_model_session_of_raw(m, e->raw_ns) - session_ns);
	if (e->bound_ns < moved_ns && raw_ns != clock_model_raw_of_session(m, session_ns))
		e->bound_ns = moved_ns;
	return *e;
}

struct window_edges edges_place(struct edges *all, const struct clock_model *m, int64_t t0_ns,
				int64_t t1_ns)
{
	struct window_edges w;

	w.from = place(all, m, t0_ns);
	w.to = place(all, m, t1_ns);
	return w.from.raw_ns < w.to.raw_ns ? w : (struct window_edges){ 0 };
}
