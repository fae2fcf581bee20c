/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/clock/bend.h"

#include <math.h>

#include "tests/lib/check.h"
#include "tests/lib/clock_world.h"

#define GAP_NS 250e6
#define TRAINS 60

/* An offset that bends once: its rate is `before` until at, then `after`, and jumps there. */
struct truth {
	double at, before, after, jump;
};

static double offset_at(const struct truth *w, double x)
{
	double far = x - w->at;

	return far < 0 ? far * w->before : far * w->after + w->jump;
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

/* One step of the rate, of any size, at any time. */
static void test_truth_is_inside(double least_ns, double jitter_ns)
{
	for (int round = 0; round < 300; round++) {
		struct truth w = { world_uniform() * TRAINS * GAP_NS,
				   (2 * world_uniform() - 1) * 490e-6,
				   (2 * world_uniform() - 1) * 490e-6, 0 };
		struct bounds low = { 0 }, high = { 0 };
		struct bend b;

		probe(&w, least_ns, jitter_ns, &low, &high);
		for (int i = 0; i < 200; i++) {
			double x = world_uniform() * TRAINS * GAP_NS;
			bool known = bend_at(&low, &high, x, &b);

			CHECK(known);
			CHECK(is_inside(b.at, offset_at(&w, x)));
		}
		bounds_free(&low);
		bounds_free(&high);
	}
}

/* The interval among quiet probes: as wide as their delays, and hardly more between two of them. */
static void test_interval_is_narrow(void)
{
	struct truth w = { 0, 30e-6, 30e-6, 0 };
	struct bounds low = { 0 }, high = { 0 };
	struct bend b;

	probe(&w, 600, 0, &low, &high);
	CHECK(bend_at(&low, &high, 30 * GAP_NS, &b));
	CHECK(b.at.hi - b.at.lo <= 1300);
	CHECK(bend_at(&low, &high, 30.5 * GAP_NS, &b));
	CHECK(b.at.hi - b.at.lo <= 2200);
	CHECK(b.after.hi < 33e-6 && b.after.lo > 27e-6);
	bounds_free(&low);
	bounds_free(&high);
}

/* No way of bending explains a jump: the interval has both sides of it. */
static void test_jump(void)
{
	struct truth w = { 30.3 * GAP_NS, 30e-6, 30e-6, 60e3 };
	struct bounds low = { 0 }, high = { 0 };
	struct bend b;

	probe(&w, 600, 0, &low, &high);
	for (double x = 28 * GAP_NS; x < 33 * GAP_NS; x += GAP_NS / 7) {
		CHECK(bend_at(&low, &high, x, &b));
		CHECK(is_inside(b.at, offset_at(&w, x)));
	}
	bounds_free(&low);
	bounds_free(&high);
}

static void test_nothing_is_known(void)
{
	struct bounds low = { 0 }, high = { 0 };
	struct bend b;

	CHECK(!bend_at(&low, &high, 0, &b));
	bounds_add(&low, (struct bound){ 0, 0 }, 1, 0);
	CHECK(!bend_at(&low, &high, 0, &b));
	bounds_free(&low);
}

int main(void)
{
	world_seed(1);
	test_truth_is_inside(600, 200);
	test_truth_is_inside(20e3, 200e3);
	test_interval_is_narrow();
	test_jump();
	test_nothing_is_known();
	return 0;
}
