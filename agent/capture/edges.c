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

static struct edge place(struct edges *all, const struct clock_model *m, int64_t session_ns)
{
	struct edge *e = NULL;

	for (size_t i = 0; i < EDGES_KEPT && !e; i++) {
		if (all->kept[i].session_ns == session_ns)
			e = &all->kept[i];
	}
	if (e && distance_ns(e, m) >= 0)
		return *e;
	if (!e) {
		e = &all->kept[all->next];
		all->next = (all->next + 1) % EDGES_KEPT;
	}
	e->session_ns = session_ns;
	e->raw_ns = clock_model_raw_of_session(m, session_ns);
	e->bound_ns = clock_model_bound_at(m, e->raw_ns);
	return *e;
}

struct window_edges edges_place(struct edges *all, const struct clock_model *m, int64_t t0_ns,
				int64_t t1_ns)
{
	struct window_edges w = { place(all, m, t0_ns), place(all, m, t1_ns) };

	return w.from.raw_ns < w.to.raw_ns ? w : (struct window_edges){ 0 };
}
