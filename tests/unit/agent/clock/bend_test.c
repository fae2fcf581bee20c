/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/clock/bend.h"

#include <math.h>

#include "tests/lib/check.h"
#include "tests/lib/clock_world.h"

#define GAP_NS 250e6
#define TRAINS 60

/* An offset whose rate is `before` until at, then `after` for a time, and then `before` again. It jumps at `at`. */
struct truth {
	double at, before, after, jump, lasts;
};

static double offset_at(const struct truth *w, double x)
{
	double far = x - w->at, more = fmax(far - w->lasts, 0);

	return far < 0 ? far * w->before : (far - more) * w->after + more * w->before + w->jump;
}

/* Trains whose probes take least_ns, and jitter_ns more on average. */
static void probe(const struct truth *w, double least_ns, double jitter_ns, struct bounds *low,
		  struct bounds *high)
{
	for (int i = 0; i < TRAINS; i++) {
		double x = i * GAP_NS, there = least_ns - jitter_ns * log(world_uniform());
		double back = least_ns - jitter_ns * log(world_uniform());

		bounds_add(low, (struct bound){ x, offset_at(w, x) - there }, 1, 0);
		bounds_add(high,
			   (struct bound){ x + there + back,
					   offset_at(w, x + there + back) + back },
			   -1, 0);
	}
}

static bool is_inside(struct interval in, double v)
{
	return v >= in.lo && v <= in.hi;
}

static double width_of(const struct bend *b)
{
	return fmax(b->peak.hi, b->dip.hi) - fmin(b->peak.lo, b->dip.lo);
}

/* A step of the rate, of any size, at any time, and back after up to lasts_ns. */
static void test_truth_is_inside(double least_ns, double jitter_ns, double lasts_ns)
{
	for (int round = 0; round < 100; round++) {
		struct truth w = { .at = world_uniform() * TRAINS * GAP_NS,
				   .before = (2 * world_uniform() - 1) * 490e-6,
				   .after = (2 * world_uniform() - 1) * 490e-6,
				   .lasts = world_uniform() * lasts_ns };
		struct bounds low = { 0 }, high = { 0 };
		struct bend_near near = { 0 };
		struct bend b;

		probe(&w, least_ns, jitter_ns, &low, &high);
		for (int i = 0; i < 100; i++) {
			double x = world_uniform() * TRAINS * GAP_NS;
			bool known = bend_at(&low, &high, x, &near, &b);

			CHECK(known);
			CHECK(is_inside(b.peak, offset_at(&w, x)) ||
			      is_inside(b.dip, offset_at(&w, x)));
		}
		bounds_free(&low);
		bounds_free(&high);
	}
}

/* The interval among quiet probes: as wide as their delays, and hardly more between two of them. */
static void test_interval_is_narrow(void)
{
	struct truth w = { .before = 30e-6, .after = 30e-6 };
	struct bounds low = { 0 }, high = { 0 };
	struct bend_near near = { 0 };
	struct bend b;

	probe(&w, 600, 0, &low, &high);
	CHECK(bend_at(&low, &high, 30 * GAP_NS, &near, &b));
	CHECK(width_of(&b) <= 1300);
	CHECK(bend_at(&low, &high, 30.5 * GAP_NS, &near, &b));
	CHECK(width_of(&b) <= 2200);
	CHECK(b.after.hi < 33e-6 && b.after.lo > 27e-6);
	bounds_free(&low);
	bounds_free(&high);
}

/* Where probes are, the interval is right beside a jump, too. */
static void test_jump(void)
{
	struct truth w = { 30.3 * GAP_NS, 30e-6, 30e-6, 60e3, INFINITY };
	struct bounds low = { 0 }, high = { 0 };
	struct bend_near near = { 0 };
	struct bend b;

	probe(&w, 600, 0, &low, &high);
	for (double x = 28 * GAP_NS; x < 33 * GAP_NS; x += GAP_NS) {
		CHECK(bend_at(&low, &high, x, &near, &b));
		CHECK(is_inside(b.peak, offset_at(&w, x)) || is_inside(b.dip, offset_at(&w, x)));
	}
	bounds_free(&low);
	bounds_free(&high);
}

static void test_nothing_is_known(void)
{
	struct bounds low = { 0 }, high = { 0 };
	struct bend_near near = { 0 };
	struct bend b;

	CHECK(!bend_at(&low, &high, 0, &near, &b));
	bounds_add(&low, (struct bound){ 0, 0 }, 1, 0);
	CHECK(!bend_at(&low, &high, 0, &near, &b));
	bounds_free(&low);
}

int main(void)
{
	world_seed(1);
	test_truth_is_inside(600, 200, INFINITY);
	test_truth_is_inside(20e3, 200e3, INFINITY);
	test_truth_is_inside(600, 200, 10e9);
	test_truth_is_inside(20e3, 200e3, 10e9);
	test_truth_is_inside(20e3, 200e3, 1e9);
	test_interval_is_narrow();
	test_jump();
	test_nothing_is_known();
	return 0;
}
