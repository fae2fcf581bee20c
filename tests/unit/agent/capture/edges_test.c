/* SPDX-License-Identifier: Apache-2.0 */
/* Where windows that meet are cut, when the clock breaks between one cut and the next. */
#include "agent/capture/edges.h"
#include "base/now.h"
#include "tests/lib/check.h"

#define T0  INT64_C(1790000000000000000)
#define RAW INT64_C(5000000000000)
#define S   NS_PER_S
#define MS  NS_PER_MS

/* Knots a second apart, from RAW + `from_ns` on, where the session clock is `slept_ns` ahead of the beginning. */
static void add_segment(struct clock_model *m, enum clock_break cause, int64_t from_ns,
			int64_t slept_ns)
{
	const int64_t offset_ns = RAW - T0 - slept_ns;

	m->segments[m->n_segments++] = (struct clock_segment){
		.cause = cause, .first = m->n_knots, .n = 2, .horizon_ns = 10 * S
	};
	for (int i = 0; i < 2; i++)
		m->knots[m->n_knots++] = (struct clock_knot){ .host_ns = RAW + from_ns + i * S,
							      .offset_ns = offset_ns,
							      .lo_ns = offset_ns - 1000,
							      .hi_ns = offset_ns + 1000 };
}

static struct clock_model awake(void)
{
	struct clock_model m = { .calibrated = true, .at_raw_ns = RAW };

	add_segment(&m, CLOCK_BREAK_NONE, 0, 0);
	return m;
}

/* The last probe before a sleep of a second was at RAW + 1 s, the first one after it at RAW + 3 s: the guess is that the
 * host slept at RAW + 2 s. */
static struct clock_model slept(void)
{
	struct clock_model m = awake();

	add_segment(&m, CLOCK_BREAK_SUSPEND, 3 * S, S);
	return m;
}

/* The host slept at RAW + 2.5 s. The first window was cut before the sleep was known, and the others follow it. */
static void test_sleep_after_an_edge(void)
{
	struct clock_model before = awake(), after = slept();
	struct edges all = { 0 };
	struct window_edges a = edges_place(&all, &before, T0 + S, T0 + 2400 * MS);
	struct window_edges b = edges_place(&all, &after, T0 + 2400 * MS, T0 + 2700 * MS);
	struct window_edges c = edges_place(&all, &after, T0 + 2700 * MS, T0 + 4500 * MS);

	CHECK_EQ(a.to.raw_ns, RAW + 2400 * MS);
	CHECK_EQ(clock_model_raw_of_session(&after, T0 + 2700 * MS), RAW + 2 * S);
	CHECK_EQ(b.from.raw_ns, a.to.raw_ns);
	CHECK_EQ(b.to.raw_ns, b.from.raw_ns + 1);
	CHECK_EQ(c.from.raw_ns, b.to.raw_ns);
	CHECK_EQ(c.to.raw_ns, RAW + 3500 * MS);
	CHECK(edges_distance_ns(&b, &after) >= 0 && edges_distance_ns(&c, &after) >= 0);
}

/* The same, but an earlier window is placed last. */
static void test_sleep_before_an_edge(void)
{
	struct clock_model before = awake(), after = slept();
	struct edges all = { 0 };
	struct window_edges b = edges_place(&all, &before, T0 + 1500 * MS, T0 + 1700 * MS);
	struct window_edges a;

	after.segments[1].cause = CLOCK_BREAK_STEP;
	for (int i = 2; i < 4; i++) { /* a second back, not ahead */
		after.knots[i].offset_ns += 2 * S;
		after.knots[i].lo_ns += 2 * S;
		after.knots[i].hi_ns += 2 * S;
	}
	a = edges_place(&all, &after, T0 + S, T0 + 1500 * MS);
	CHECK_EQ(a.to.raw_ns, b.from.raw_ns);
	CHECK(a.from.raw_ns < a.to.raw_ns);
}

static void test_asleep_all_the_time(void)
{
	struct clock_model m = slept();
	struct edges all = { 0 };
	struct window_edges w = edges_place(&all, &m, T0 + 2200 * MS, T0 + 2800 * MS);

	CHECK_EQ(w.from.raw_ns, RAW + 2 * S);
	CHECK_EQ(w.to.raw_ns, w.from.raw_ns + 1);
	CHECK(edges_distance_ns(&w, &m) >= 0);
}

/* An edge that no bound explains is of a clock that has broken since. */
static void test_edge_of_a_broken_clock(void)
{
	struct clock_model first = awake(), second = awake();
	struct edges all = { 0 };
	struct window_edges a = edges_place(&all, &first, T0, T0 + NS_PER_S), b;

	for (int i = 0; i < 2; i++) {
		second.knots[i].offset_ns += NS_PER_S;
		second.knots[i].lo_ns += NS_PER_S;
		second.knots[i].hi_ns += NS_PER_S;
	}
	CHECK_EQ(edges_distance_ns(&a, &second), -1);
	b = edges_place(&all, &second, T0 + NS_PER_S, T0 + 2 * NS_PER_S);
	CHECK_EQ(b.from.raw_ns, a.to.raw_ns + NS_PER_S);
	CHECK_EQ(edges_distance_ns(&b, &second), 0);
	for (int64_t i = 0; i < 2 * EDGES_KEPT; i++)
		edges_place(&all, &first, T0 + i * NS_PER_S, T0 + (i + 1) * NS_PER_S);
}

int main(void)
{
	test_sleep_after_an_edge();
	test_sleep_before_an_edge();
	test_asleep_all_the_time();
	test_edge_of_a_broken_clock();
	return 0;
}
