/* SPDX-License-Identifier: Apache-2.0 */
/* Captures that an aggregator on another machine has begun, on a session clock with which this one's goes on. */
#include "tests/unit/aggregator/fleet.h"

#define BOUND_NS  2000 /* of the fake agent's clock */
#define CHANGE_NS (3 * NS_PER_MS)

/* The clock of now began now, and until now the former one was in use. */
static void change_clock(struct fleet *f)
{
	struct session_clock *c = &f->agg.clock;
	int64_t now_ns = session_clock_now(c);

	c->n_changes = 1;
	c->changes[0] = (struct session_clock_change){ .epoch = c->epoch + 1,
						       .shift_ns = c->shift_ns + 1,
						       .from_ns = now_ns,
						       .at_ns = now_ns,
						       .bound_ns = CHANGE_NS };
}

/* One host may have used the former clock at a time for which another one used this. */
static void test_bound(bool window_is_over, int64_t want_ns)
{
	struct fake a = { .auto_arm = true };
	struct capture *c;
	struct fleet f;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	WAIT(&f, a.arms && (!window_is_over ||
			    session_clock_now(&f.agg.clock) > a.t0_ns + a.duration_ns));
	change_clock(&f);
	CHECK_EQ(fake_upload(&a, 1, 10, FLAW_NONE), RPC_OK);
	fake_result(&a, true, "", "");
	fleet_wait_over(&f, a.session);
	CHECK_EQ(c->state, CAP_COMMITTED);
	CHECK(fleet_result(c, 0).clock_bound_ns >= want_ns);
	CHECK(fleet_result(c, 0).clock_bound_ns < want_ns + NS_PER_MS);
	fleet_stop(&f);
}

int main(void)
{
	test_bound(false, BOUND_NS + CHANGE_NS);
	test_bound(true, BOUND_NS);
	return 0;
}
