/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/session_time.h"

#include <stdlib.h>

#include "aggregator/aggregator.h"
#include "base/mem.h"
#include "tests/sim/daemon.h"
#include "tests/sim/sim.h"

static struct session_time {
	int64_t shift_ns;
	const struct sim_host *host;
	size_t line; /* the same for clocks that go on with each other */
	int64_t from_ns, until_ns; /* true time */
} * clocks;
static size_t n_clocks, n_lines;

static struct session_time *find(int64_t shift_ns)
{
	size_t i = 0;

	while (i < n_clocks && clocks[i].shift_ns != shift_ns)
		i++;
	return i < n_clocks ? &clocks[i] : NULL;
}

static struct session_time *add(int64_t shift_ns, const struct sim_host *h, size_t line)
{
	clocks = xrealloc(clocks, (n_clocks + 1) * sizeof(*clocks));
	clocks[n_clocks] = (struct session_time){ shift_ns, h, line, INT64_MIN, INT64_MAX };
	return &clocks[n_clocks++];
}

static struct session_time *get(int64_t shift_ns, const struct sim_host *h)
{
	struct session_time *t = find(shift_ns);

	return t ? t : add(shift_ns, h, n_lines++);
}

int64_t session_time_in_use(void)
{
	return get(the_aggregator()->clock.shift_ns, sim.hosts[0])->shift_ns;
}

void session_time_goes_on(int64_t from_shift_ns, const struct sim_host *from, int64_t to_shift_ns,
			  const struct sim_host *to)
{
	struct session_time *t = get(from_shift_ns, from);
	size_t line = t->line;

	t->until_ns = sim.now_ns;
	add(to_shift_ns, to, line)->from_ns = sim.now_ns;
}

int64_t session_time_ns(int64_t shift_ns, int64_t true_ns)
{
	const struct session_time *t = find(shift_ns);

	for (size_t i = 0; i < n_clocks; i++) {
		const struct session_time *o = &clocks[i];

		if (o->line == t->line && true_ns >= o->from_ns && true_ns < o->until_ns)
			return host_raw_ns(o->host, true_ns) + o->shift_ns;
	}
	return host_raw_ns(t->host, true_ns) + t->shift_ns;
}

void session_time_free(void)
{
	free(clocks);
	clocks = NULL;
	n_clocks = n_lines = 0;
}
