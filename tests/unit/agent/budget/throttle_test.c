/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/budget/throttle.h"
#include "tests/lib/check.h"

/* One value a second, until a move is due or `seconds` are over; the move is done. Returns how many were given. */
static int run(struct throttle *t, int64_t *now_ns, double value, int seconds,
	       enum throttle_move *move)
{
	for (int i = 1; i <= seconds; i++) {
		*now_ns += NS_PER_S;
		*move = throttle_add(t, *now_ns, value);
		if (*move != THROTTLE_STAY) {
			throttle_done(t, *now_ns, *move);
			return i;
		}
	}
	return seconds;
}

static void a_mean_above_the_limit_is_a_step(void)
{
	struct throttle t = { .limit = 1 };
	enum throttle_move move;
	int64_t now = 0;

	CHECK_EQ(run(&t, &now, 1, 100, &move), 100); /* the limit itself is allowed */
	CHECK_EQ(move, THROTTLE_STAY);
	CHECK_EQ(run(&t, &now, 6, 1, &move), 1); /* one second of ten */
	CHECK_EQ(move, THROTTLE_DOWN);
	CHECK_EQ(run(&t, &now, 1.5, 100, &move), THROTTLE_WINDOW); /* a new mean */
	CHECK_EQ(move, THROTTLE_DOWN);
	CHECK_EQ(t.steps, 2);
	t = (struct throttle){ .limit = 0 };
	CHECK_EQ(run(&t, &now, 1e9, 100, &move), 100);
	CHECK_EQ(move, THROTTLE_STAY);
}

static void a_calm_minute_is_a_step_back(void)
{
	struct throttle t = { .limit = 1 };
	enum throttle_move move;
	int64_t now = 0;

	run(&t, &now, 2, 100, &move);
	CHECK_EQ(run(&t, &now, 0.9, 1000, &move), 1000); /* too near */
	CHECK_EQ(run(&t, &now, 0, 59, &move), 59);
	CHECK_EQ(move, THROTTLE_STAY);
	run(&t, &now, 0, 10, &move);
	CHECK_EQ(move, THROTTLE_UP);
	CHECK_EQ(t.steps, 0);
	CHECK_EQ(run(&t, &now, 0, 1000, &move), 1000); /* none is left */
}

/* Steps up that must be taken back soon come ever later: no swinging. */
static void patience_doubles(void)
{
	struct throttle t = { .limit = 1 };
	enum throttle_move move;
	int64_t now = 0;
	int last = 0, seconds;

	run(&t, &now, 2, 100, &move);
	for (int i = 0; i < 10; i++) {
		seconds = run(&t, &now, 0.1, 10000, &move);
		CHECK_EQ(move, THROTTLE_UP);
		CHECK(seconds <= 3600 + THROTTLE_WINDOW);
		CHECK(seconds >= 2 * last - THROTTLE_WINDOW || seconds >= 3600);
		last = seconds;
		CHECK_EQ(run(&t, &now, 2, 100, &move), THROTTLE_WINDOW);
		CHECK_EQ(move, THROTTLE_DOWN);
	}
	/* One that lasted is forgotten. */
	run(&t, &now, 0.1, 10000, &move);
	run(&t, &now, 0.1, 10000, &move);
	run(&t, &now, 2, 100, &move);
	CHECK(run(&t, &now, 0.1, 10000, &move) <= 60 + THROTTLE_WINDOW);
}

int main(void)
{
	a_mean_above_the_limit_is_a_step();
	a_calm_minute_is_a_step_back();
	patience_doubles();
	return 0;
}
