/* SPDX-License-Identifier: Apache-2.0 */
/* What messages say of the clock: what is not known, what they list, where rings begin. */
#include "agent/link/messages.h"
#include "tests/lib/check.h"

static void test_not_synced_is_unknown(void)
{
	struct clock_model m = { .wall_error_ns = -1 };
	struct message_clock out = { 0 };

	message_clock(&out, &m, 0);
	CHECK(!out.model.wall_synced);
	CHECK(!out.model.rate_known);
}

static void test_unknown_rate(void)
{
	struct clock_model m = { .calibrated = true, .rate = 20e-6 };
	struct message_clock out = { 0 };

	message_clock(&out, &m, 0);
	CHECK(!out.model.rate_known && !out.model.rate_ppb);
	m.rate_known = true;
	message_clock(&out, &m, 0);
	CHECK(out.model.rate_known);
	CHECK_EQ(out.model.rate_ppb, 20000);
}

/* Steps of the wall clock and those that probes found, counted and listed alike. */
static void test_steps_seen_counts_what_steps_lists(void)
{
	struct message_clock out = { 0 };
	struct clock_model m = {
		.calibrated = true,
		.ledger = { .steps_seen = 1, .n_steps = 1 },
		.steps_found = 2,
		.n_segments = 3,
		.n_knots = 3,
		.segments = { { .n = 1 },
			      { .cause = CLOCK_BREAK_STEP, .first = 1, .n = 1 },
			      { .cause = CLOCK_BREAK_RATE, .first = 2, .n = 1 } },
		.knots = { { .host_ns = 10 },
			   { .host_ns = 20, .offset_ns = 5 },
			   { .host_ns = 30, .offset_ns = 4 } },
	};

	message_clock(&out, &m, 0);
	CHECK_EQ(out.model.n_steps, 3);
	CHECK_EQ(out.model.steps_seen, 3);
	CHECK_STR(out.model.steps[1]->kind, "step");
	CHECK_STR(out.model.steps[2]->kind, "rate");
	CHECK_EQ(out.model.steps[2]->delta_ns, -1);
}

/* A break that is only suspected is told while the clock has no model. */
static void test_suspected_break(void)
{
	struct clock_model m = { .suspected = { CLOCK_BREAK_STEP, 10, 20, -5, 30 } };
	struct message_clock out = { 0 };

	message_clock(&out, &m, 0);
	CHECK(!out.model.calibrated && out.model.suspected);
	CHECK_STR(out.model.suspected->kind, "step");
	CHECK_EQ(out.model.suspected->from_ns, 10);
	CHECK_EQ(out.model.suspected->to_ns, 20);
	CHECK_EQ(out.model.suspected->delta_ns, -5);
	CHECK_EQ(out.model.suspected_known_ns, 30);
	m.suspected.cause = CLOCK_BREAK_NONE;
	message_clock(&out, &m, 0);
	CHECK(!out.model.suspected);
}

static int64_t ring_of_1000(const struct tracer *t)
{
	(void)t;
	return 1000;
}

/* The raw clock stood still while the host slept: what is from before that is earlier by the sleep. */
static void test_ring_from_before_a_sleep(void)
{
	static const struct tracer_ops ops = { .name = "ring", .begin_raw_ns = ring_of_1000 };
	static const struct tracer_ops none = { .name = "none" };
	struct tracer t = { .ops = &ops }, without = { .ops = &none };
	struct clock_model m = {
		.offset_ns = -1000000,
		.ledger = { .n_steps = 3,
			    .steps = { { LEDGER_SUSPEND, 400, 500, 70 },
				       { LEDGER_SUSPEND, 2000, 2001, 600 },
				       { LEDGER_SET, 3000, 3001, 5000 } } },
	};

	CHECK_EQ(message_ring_begin_ns(&t, &m), 0); /* the clock is not known */
	m.calibrated = true;
	CHECK_EQ(message_ring_begin_ns(&without, &m), 0);
	CHECK_EQ(message_ring_begin_ns(&t, &m), 1000000 + 1000 - 600);
	m.ledger.steps[1].delta_ns = 2000000; /* before the session clock's zero */
	CHECK_EQ(message_ring_begin_ns(&t, &m), 0);
}

int main(void)
{
	test_not_synced_is_unknown();
	test_unknown_rate();
	test_steps_seen_counts_what_steps_lists();
	test_suspected_break();
	test_ring_from_before_a_sleep();
	return 0;
}
