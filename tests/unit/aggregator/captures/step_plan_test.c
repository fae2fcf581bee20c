/* SPDX-License-Identifier: Apache-2.0 */
/* Predicting training steps: of hosts that tell the truth, scatter, disagree, or lie. */
#include "aggregator/captures/step_plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/check.h"

#define T	   INT64_C(1800000000000000000)
#define MS	   NS_PER_MS
#define HOSTS	   64
#define STEPS_SEEN 16

static struct step_report report(const char *host, int64_t step, int64_t at_ms, int64_t period_ms)
{
	return (struct step_report){ host, step, T + at_ms * MS, period_ms * MS, 0 };
}

static void refused(const struct step_report *r, size_t n, int64_t step, const char *part)
{
	struct step_plan p;
	struct err e = { 0 };

	CHECK_EQ(step_plan_make(&p, r, n, step, 5, T, T + 500 * MS, &e), ERR_INVALID);
	CHECK(strstr(e.msg, part));
}

static void test_steady(void)
{
	const struct step_report r[] = { report("a", 100, -50, 200), report("b", 100, -60, 200) };
	struct step_plan p;
	struct err e;
	int64_t at_ns;

	CHECK_OK(step_plan_make(&p, r, 2, 110, 5, T, T + 500 * MS, &e), e);
	CHECK_EQ(p.begins_ns, T + 1940 * MS); /* the first host */
	CHECK_EQ(p.ends_ns, T + 2950 * MS); /* the last one */
	CHECK_EQ(p.t0_ns, p.begins_ns - 25 * MS);
	CHECK(p.t1_ns > p.ends_ns + 25 * MS);
	CHECK_OK(step_plan_make(&p, r, 2, STEP_NEXT, 1, T, T + 500 * MS, &e), e);
	CHECK_EQ(p.step, 103); /* at 540 ms, 25 ms of guard */
	CHECK_OK(step_plan_make(&p, r, 2, STEP_NEXT, 1, T, T + 520 * MS, &e), e);
	CHECK_EQ(p.step, 104);
	CHECK(step_plan_reached(r, 2, 100, &at_ns) && at_ns == T - 50 * MS);
	CHECK(step_plan_reached(r, 2, 98, &at_ns) && at_ns == T - 450 * MS);
	CHECK(!step_plan_reached(r, 2, 101, &at_ns));
	CHECK(!step_plan_reached(r, 0, 1, &at_ns));
}

static void test_refused(void)
{
	const struct step_report r[] = { report("a", 100, 0, 200), report("b", 97, 0, 200) };

	refused(r, 0, 5, "no host reports");
	refused(r, 1, 100, "step 100 has passed: a is at step 100");
	refused(r, 1, 50, "has passed");
	refused(r, 1, 102, "too soon");
	refused(r, 2, 120, "b is at step 97, a at step 100");
}

/* Far from everything a sum could bear: no overflow, no endless search. */
static void test_absurd(void)
{
	const int64_t big[] = { 0, 1, INT64_C(1000000000000000) };
	const int64_t periods[] = { 1, 24 * 3600 * NS_PER_S };
	struct step_plan p;

	for (size_t i = 0; i < ARRAY_SIZE(big); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(periods); k++) {
			struct step_report r = { "x", big[i], k ? INT64_C(4000000000000000000) : 0,
						 periods[k], periods[k] };

			(void)!step_plan_make(&p, &r, 1, STEP_NEXT, 1000000, T, T + NS_PER_S, NULL);
			(void)!step_plan_make(&p, &r, 1, INT64_MAX - 2000000, 1000000, T,
					      T + NS_PER_S, NULL);
		}
	}
}

static double uniform(unsigned int *seed)
{
	return (double)rand_r(seed) / RAND_MAX;
}

/* A job whose steps take 100 ms +-30 %, all hosts at a time: up to 64 steps ahead the window has whole
 * what it was asked for. */
static void test_scatter(unsigned int seed)
{
	unsigned int state = seed;
	int64_t at_ns[STEPS_SEEN + 100];
	size_t good = 0;

	for (int round = 0; round < 1000; round++) {
		int64_t ahead = 1 + rand_r(&state) % 64, now_ns;
		double sum = 0, squares = 0;
		struct step_report r = { .host = "x", .step = STEPS_SEEN - 1 };
		struct step_plan p;

		at_ns[0] = T;
		for (size_t i = 1; i < ARRAY_SIZE(at_ns); i++)
			at_ns[i] = at_ns[i - 1] + (int64_t)((70 + 60 * uniform(&state)) * MS);
		for (size_t i = 1; i < STEPS_SEEN; i++) {
			double took = (double)(at_ns[i] - at_ns[i - 1]);

			sum += took;
			squares += took * took;
		}
		r.at_ns = now_ns = at_ns[STEPS_SEEN - 1];
		r.period_ns = (int64_t)(sum / (STEPS_SEEN - 1));
		r.jitter_ns = 17 * MS;
		CHECK(!step_plan_make(&p, &r, 1, r.step + ahead + 1, 5, now_ns, now_ns, NULL));
		good += p.t0_ns <= at_ns[p.step] && p.t1_ns >= at_ns[p.step + 5];
	}
	if (good < 985)
		fprintf(stderr, "seed %u: %zu of 1000\n", seed, good);
	CHECK(good >= 985);
}

int main(int argc, char **argv)
{
	test_steady();
	test_refused();
	test_absurd();
	test_scatter(argc > 1 ? (unsigned int)strtoul(argv[1], NULL, 10) : 1);
	return 0;
}
