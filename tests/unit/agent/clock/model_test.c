/* SPDX-License-Identifier: Apache-2.0 */
/* The translations of a model, for models made by hand. */
#include "agent/clock/model.h"

#include "base/mem.h"
#include "base/now.h"
#include <stdlib.h>

#include "tests/lib/check.h"

#define SHIFT INT64_C(1790000000000000000) /* session - raw */

static void test_uncalibrated(void)
{
	struct clock_model m = { .pair_raw_ns = 1000, .pair_real_ns = 5000, .test_offset_ns = 70 };

	CHECK_EQ(clock_model_session_of_raw(&m, 1000), 5070);
	CHECK_EQ(clock_model_raw_of_session(&m, 5070), 1000);
	CHECK_EQ(clock_model_raw_of_real(&m, 5000), 1000);
	CHECK_EQ(clock_model_real_of_raw(&m, 1001), 5001);
}

static void test_round_trip(void)
{
	struct clock_model m = {
		.calibrated = true,
		.at_raw_ns = 123456789012,
		.offset_ns = 123456789012 - SHIFT,
		.rate = -73e-6,
		.bound_ns = 1000,
		.bound_rate = 2e-6,
		.test_start_raw_ns = 1000000,
		.test_drift_ppm = -73,
	};

	for (int64_t raw = 0; raw < 1000 * NS_PER_S; raw += 7777777777) {
		int64_t session = clock_model_session_of_raw(&m, raw);

		CHECK(llabs(clock_model_raw_of_session(&m, session) - raw) <= 1);
	}
	CHECK_EQ(clock_model_bound_at(&m, m.at_raw_ns), 1000);
	CHECK_EQ(clock_model_bound_at(&m, m.at_raw_ns - NS_PER_S), 3000);
}

/* Session times at which the host slept are the last raw time before the sleep, wherever the
 * search begins. */
static void test_slept(void)
{
	struct clock_model m = {
		.calibrated = true,
		.n_segments = 2,
		.n_knots = 2,
		.segments = { { .first = 0, .n = 1 }, { .first = 1, .n = 1 } },
		.knots = { { 1000000, 0, 0, 0 }, { 1000003, -5000000, -5000000, -5000000 } },
	};
	int64_t last_ns = 1000001, woke_ns = last_ns + 1 + 5000000; /* raw, session */

	for (int i = 0; i < 3; i++) {
		m.at_raw_ns = i * 1000000;
		for (int64_t t = last_ns; t < woke_ns; t += 12345)
			CHECK_EQ(clock_model_raw_of_session(&m, t), last_ns);
		CHECK_EQ(clock_model_raw_of_session(&m, last_ns - 1), last_ns - 1);
		CHECK_EQ(clock_model_raw_of_session(&m, woke_ns), last_ns + 1);
	}
}

/* Between two knots the interval of each way is between the lines, and wider by its tents. Both ways count. */
static void test_between_knots(void)
{
	struct clock_model m = {
		.calibrated = true,
		.n_segments = 1,
		.n_knots = 2,
		.segments = { { .first = 0, .n = 2 } },
		.knots = { { 0,
			     0,
			     -10000,
			     10000,
			     { { .above = { 10e-6, 40e-6 } }, { .cut_lo_ns = 1000 } } },
			   { 1000000000, 0, -20000, 20000, { { 0 }, { .cut_hi_ns = 1000 } } } },
	};
	int64_t largest = 0;

	CHECK(llabs(clock_model_bound_at(&m, 500000000) - (15000 + 5000)) <= 2);
	CHECK(llabs(clock_model_bound_at(&m, 900000000) - (19000 + 4000)) <= 2);
	for (int64_t t = 0; t <= 1000000000; t += 1000000) {
		int64_t bound = clock_model_bound_at(&m, t);

		largest = bound > largest ? bound : largest;
	}
	CHECK(clock_model_bound_over(&m, 0, 1000000000) >= largest);
	CHECK(clock_model_bound_over(&m, 0, 1000000000) <= 20000 + 8000 + 4);
}

static void test_slack(void)
{
	struct clock_model m = {
		.calibrated = true,
		.n_segments = 1,
		.n_knots = 2,
		.segments = { { .first = 0, .n = 2 } },
		.knots = { { 0, 0, -10, 10 }, { 1000000, 100, 0, 200 } },
	};
	struct clock_slack slack = clock_model_slack_over(&m, 800000, 900000);

	CHECK(llabs(slack.earlier_ns - (82)) <= 1);
	CHECK(llabs(slack.later_ns - (82)) <= 1);
	slack = clock_model_slack_over(&m, 0, 1000000);
	CHECK_EQ(slack.earlier_ns, 10);
}

/* Times in files of other programs may be anything. */
static void test_any_input(void)
{
	const int64_t edges[] = { INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX };
	struct clock_model m = {
		.calibrated = true,
		.offset_ns = -SHIFT,
		.rate = 1e-3,
		.pair_real_ns = SHIFT,
		.bound_rate = 1e-4,
		.test_drift_ppm = 1000,
	};

	for (int calibrated = 0; calibrated < 2; calibrated++) {
		m.calibrated = calibrated;
		for (size_t i = 0; i < ARRAY_SIZE(edges); i++) {
			clock_model_session_of_raw(&m, edges[i]);
			clock_model_raw_of_session(&m, edges[i]);
			clock_model_raw_of_real(&m, edges[i]);
			clock_model_real_of_raw(&m, edges[i]);
			CHECK(clock_model_bound_at(&m, edges[i]) >= 0);
		}
	}
	CHECK_EQ(clock_model_session_of_raw(&m, INT64_MAX), INT64_MAX);
}

int main(void)
{
	test_uncalibrated();
	test_round_trip();
	test_slept();
	test_between_knots();
	test_slack();
	test_any_input();
	return 0;
}
