/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The estimator on simulated links: at every checked instant the truth must lie inside the bound.
 * Clocks are simulated in whole nanoseconds; the seed is printed.
 */
#include <math.h>

#include "agent/clock.h"
#include "base/now.h"
#include "tests/lib/check.h"

struct link {
	const char *name;
	int64_t offset_ns; /* host - session at session time 0 */
	double drift_ppm;
	int64_t there_ns, back_ns; /* least delay of each way: lopsided if they differ */
	double jitter_ns; /* mean of an exponential on top */
	double loss;
};

static const struct link links[] = {
	{ "quiet loopback", 0, 0, 20000, 20000, 2000, 0 },
	{ "ahead, fast", 5 * NS_PER_S, 100, 50000, 50000, 20000, 0.01 },
	{ "behind, slow", -5 * NS_PER_S, -100, 50000, 50000, 20000, 0.01 },
	{ "lopsided", 1234567890, 30, 1200000, 200000, 100000, 0.05 },
	{ "lopsided the other way", -987654321, -55, 100000, 3000000, 400000, 0.05 },
	{ "far and noisy", 3 * NS_PER_S, 12.5, 20000000, 20000000, 5000000, 0.3 },
};

static uint64_t seed = 20260821;

/* xorshift64*; uniform in (0, 1]. */
static double uniform(void)
{
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;
	return (double)((seed * UINT64_C(2685821657736338717)) >> 11) / 9007199254740992.0 + 1e-17;
}

static int64_t delay(const struct link *l, int64_t least_ns)
{
	return least_ns - (int64_t)(log(uniform()) * l->jitter_ns);
}

/* Session time `base + s` on the host's clock. */
static const int64_t base_ns = INT64_C(1790000000000000000);

static int64_t host_at(const struct link *l, int64_t s)
{
	return base_ns + s + l->offset_ns + llround((double)s * l->drift_ppm * 1e-6);
}

static int64_t probe(struct clock_estimator *est, const struct link *l, int64_t at)
{
	int64_t arrives = at + delay(l, l->there_ns);
	int64_t leaves = arrives + 3000;
	int64_t returns = leaves + delay(l, l->back_ns);
	struct clock_sample sample = { .t1_ns = host_at(l, at), .t4_ns = host_at(l, returns) };

	sample.t2_ns = base_ns + arrives;
	sample.t3_ns = base_ns + leaves;
	if (uniform() > l->loss)
		CHECK(clock_estimator_add(est, &sample));
	return returns;
}

/* Returns the bound, or -1 while nothing is known. */
static int64_t check_truth(struct clock_estimator *est, const struct link *l, int64_t at)
{
	int64_t host = host_at(l, at);
	int64_t truth = host - (base_ns + at);
	struct clock_model m = { 0 };
	int64_t error;

	if (!clock_estimator_get(est, host, &m))
		return -1;
	error = m.offset_ns - truth;
	if (llabs(error) > m.bound_ns) {
		fprintf(stderr, "%s: error %" PRId64 " beyond bound %" PRId64 " at %g s\n", l->name,
			error, m.bound_ns, (double)at / 1e9);
		exit(1);
	}
	return m.bound_ns;
}

/* 60 s of bursts as the agent sends them, then 10 s of silence. */
static void run_link(const struct link *l)
{
	struct clock_estimator *est = clock_estimator_new();
	int64_t ideal = (l->there_ns + l->back_ns) / 2;
	int64_t bound = -1;
	int64_t checked = 0;

	for (int64_t at = 0; at < 60 * NS_PER_S;
	     at += at < NS_PER_S / 4 ? 80000000 : 2 * NS_PER_S) {
		int64_t end = at;

		for (int i = 0; i < 4; i++)
			end = probe(est, l, end);
		for (int64_t t = end; t < at + 2 * NS_PER_S;
		     t += 50000000 + (int64_t)(uniform() * 1e6))
			checked += (bound = check_truth(est, l, t)) >= 0;
	}
	for (int64_t t = 60 * NS_PER_S; t < 70 * NS_PER_S; t += NS_PER_S / 10)
		bound = check_truth(est, l, t);
	CHECK(checked > 1000);
	/* The rate is known by now: a bound that grew by 100 ppm would be 1 ms wider. */
	CHECK(bound < 2 * ideal + (int64_t)(4 * l->jitter_ns) + 400000);
	clock_estimator_free(est);
}

static void test_truth_is_inside(void)
{
	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		for (int again = 0; again < 20; again++)
			run_link(&links[i]);
	}
}

static void test_impossible_samples(void)
{
	struct clock_estimator *est = clock_estimator_new();
	const struct clock_sample bad[] = {
		{ .t1_ns = 100, .t4_ns = 99, .t2_ns = 50, .t3_ns = 50 },
		{ .t1_ns = 100, .t4_ns = 200, .t2_ns = 50, .t3_ns = 49 },
		{ .t1_ns = 100, .t4_ns = 200, .t2_ns = 50, .t3_ns = 151 },
		{ .t1_ns = 100, .t4_ns = 200, .t2_ns = INT64_MIN, .t3_ns = INT64_MAX },
		{ .t1_ns = INT64_MIN, .t4_ns = INT64_MAX, .t2_ns = 0, .t3_ns = 1 },
	};
	struct clock_model m = { 0 };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(!clock_estimator_add(est, &bad[i]));
	CHECK(!clock_estimator_get(est, 1000, &m));
	clock_estimator_free(est);
}

static void test_one_sample(void)
{
	struct clock_estimator *est = clock_estimator_new();
	struct clock_sample s = { .t1_ns = 1000000, .t4_ns = 1020000, .t2_ns = 500, .t3_ns = 500 };
	struct clock_model m = { 0 };

	CHECK(clock_estimator_add(est, &s));
	CHECK(clock_estimator_get(est, 1010000 + NS_PER_S, &m));
	CHECK_EQ(m.offset_ns, 1009500);
	CHECK(m.rate == 0);
	CHECK_EQ(m.rtt_min_ns, 20000);
	CHECK_EQ(m.probes, 1);
	/* Half the round trip, and 100 ppm of a second. */
	CHECK(m.bound_ns > 110000 && m.bound_ns < 110200);
	CHECK(m.bound_rate > 100e-6 && m.bound_rate < 101e-6);
	clock_estimator_reset(est);
	CHECK(!clock_estimator_get(est, 0, &m));
	clock_estimator_free(est);
}

/* A clock that jumps (a migrated machine) must not be averaged with what it was. */
static void test_step(void)
{
	struct clock_estimator *est = clock_estimator_new();
	struct link l = { "step", 0, 10, 50000, 50000, 1000, 0 };

	for (int64_t at = 0; at < 10 * NS_PER_S; at += NS_PER_S)
		probe(est, &l, at);
	l.offset_ns += 50 * NS_PER_MS;
	for (int64_t at = 10 * NS_PER_S; at < 20 * NS_PER_S; at += NS_PER_S) {
		int64_t end = probe(est, &l, at);

		CHECK(check_truth(est, &l, end) >= 0);
	}
	clock_estimator_free(est);
}

int main(void)
{
	printf("seed %" PRIu64 "\n", seed);
	test_truth_is_inside();
	test_impossible_samples();
	test_one_sample();
	test_step();
	return 0;
}
