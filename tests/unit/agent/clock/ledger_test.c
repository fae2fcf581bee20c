/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger, with simulated clocks. */
#include "agent/clock/ledger.h"

#include <math.h>

#include "base/now.h"
#include "tests/lib/check.h"

#define EPOCH INT64_C(1790000000000000000)

/* A machine's clocks. */
struct world {
	int64_t raw_ns, real_ns, suspended_ns;
	uint64_t source, disruption;
	double ppm; /* rate of the wall clock, above raw */
};

static void run(struct world *w, int64_t ns)
{
	w->raw_ns += ns;
	w->real_ns += ns + (int64_t)((double)ns * w->ppm * 1e-6);
}

static enum ledger_change add_snapshot(struct clock_ledger *l, const struct world *w)
{
	struct ledger_point p = {
		{ w->raw_ns, w->real_ns, 70 }, w->suspended_ns, w->source, w->disruption
	};

	return ledger_add(l, &p);
}

static struct world world_new(struct clock_ledger *l)
{
	struct world w = { .raw_ns = 1000 * NS_PER_S, .real_ns = EPOCH };

	*l = (struct clock_ledger){ 0 };
	CHECK_EQ(add_snapshot(l, &w), LEDGER_NO_CHANGE);
	return w;
}

static void check_near(int64_t got, int64_t want, int64_t within)
{
	if (llabs(got - want) > within)
		CHECK_EQ(got, want);
}

static void test_empty(void)
{
	struct clock_ledger l = { 0 };

	CHECK_EQ(ledger_raw_of_real(&l, 7), 7);
	CHECK_EQ(ledger_real_of_raw(&l, 7), 7);
}

/* An hour of a steered clock takes three knots for each change of the rate and is right to 1 us everywhere. */
static void test_slewing(void)
{
	static const double rates[] = { 0, 12, -30, 500, 1.5, -500, 10 };
	struct clock_ledger l;
	struct world w = world_new(&l);
	struct world past[7 * 600];

	for (int i = 0; i < 7 * 600; i++) {
		w.ppm = rates[i / 600];
		run(&w, NS_PER_S);
		past[i] = w;
		CHECK_EQ(add_snapshot(&l, &w), LEDGER_NO_CHANGE);
	}
	CHECK(l.n_knots <= 1 + 3 * 6);
	CHECK_EQ(l.steps_seen, 0);
	for (int i = 0; i < 7 * 600; i++) {
		check_near(ledger_raw_of_real(&l, past[i].real_ns), past[i].raw_ns, 1000);
		check_near(ledger_real_of_raw(&l, past[i].raw_ns), past[i].real_ns, 1000);
	}
	/* In the near future, and before the beginning. */
	run(&w, 5 * NS_PER_S);
	check_near(ledger_raw_of_real(&l, w.real_ns), w.raw_ns, 1000);
	check_near(ledger_raw_of_real(&l, EPOCH - NS_PER_S), 999 * NS_PER_S, 1000);
}

/* Acceptance test 9 of the design on simulated clocks: steps of +50 ms, -50 ms and +100 us, at 20
 * snapshots a second; times outside of the gap are translated as if there were no step. */
static void test_step(int64_t delta_ns)
{
	const int64_t gap = 50 * NS_PER_MS;
	struct clock_ledger l;
	struct world w = world_new(&l);
	struct world before, after;
	const struct ledger_step *s = &l.steps[0];

	w.ppm = 10;
	for (int i = 0; i < 100; i++) {
		run(&w, gap);
		CHECK_EQ(add_snapshot(&l, &w), LEDGER_NO_CHANGE);
	}
	before = w;
	run(&w, gap / 2);
	w.real_ns += delta_ns;
	run(&w, gap / 2);
	after = w;
	CHECK_EQ(add_snapshot(&l, &w), LEDGER_STEPPED);
	for (int i = 0; i < 100; i++) {
		run(&w, gap);
		CHECK_EQ(add_snapshot(&l, &w), LEDGER_NO_CHANGE);
	}
	CHECK_EQ(l.steps_seen, 1);
	CHECK_EQ(s->kind, LEDGER_SET);
	CHECK_EQ(s->from_raw_ns, before.raw_ns);
	CHECK_EQ(s->to_raw_ns, after.raw_ns);
	check_near(s->delta_ns, delta_ns, 600);
	for (int64_t back = 0; back <= 4 * NS_PER_S; back += NS_PER_S / 10) {
		int64_t lead = (int64_t)(10e-6 * (double)back);

		check_near(ledger_real_of_raw(&l, before.raw_ns - back),
			   before.real_ns - back - lead, 1000);
		check_near(ledger_raw_of_real(&l, after.real_ns + back + lead), after.raw_ns + back,
			   1000);
		/* A clock that was set back showed some times twice: the later is taken. */
		if (delta_ns > 0 || back > gap - delta_ns)
			check_near(ledger_raw_of_real(&l, before.real_ns - back - lead),
				   before.raw_ns - back, 1000);
	}
	/* A skipped time is the time of the jump. */
	if (delta_ns > 3 * gap)
		CHECK_EQ(ledger_raw_of_real(&l, before.real_ns + delta_ns / 2), after.raw_ns);
}

static void test_sleep(void)
{
	struct clock_ledger l;
	struct world w = world_new(&l);

	for (int i = 0; i < 10; i++) {
		run(&w, NS_PER_S);
		add_snapshot(&l, &w);
	}
	run(&w, NS_PER_S);
	w.real_ns += 60 * NS_PER_S;
	w.suspended_ns += 60 * NS_PER_S;
	CHECK_EQ(add_snapshot(&l, &w), LEDGER_SLEPT);
	CHECK_EQ(l.steps[0].kind, LEDGER_SUSPEND);
	CHECK_EQ(l.steps[0].delta_ns, 60 * NS_PER_S);
	check_near(ledger_raw_of_real(&l, w.real_ns), w.raw_ns, 0);
}

/* Another clocksource: neither clock jumps, but raw has another rate from then on. */
static void test_switch(void)
{
	struct clock_ledger l;
	struct world w = world_new(&l);

	for (int i = 0; i < 20; i++) {
		w.source = i < 5 ? 0 : i < 10 ? 7 : 8; /* unknown before or after is no change */
		if (i == 15)
			w.source = 0;
		run(&w, NS_PER_S);
		CHECK_EQ(add_snapshot(&l, &w), i == 10 ? LEDGER_SWITCHED : LEDGER_NO_CHANGE);
	}
	CHECK_EQ(l.n_steps, 1);
	CHECK_EQ(l.steps[0].kind, LEDGER_SOURCE);
	CHECK_EQ(l.steps[0].delta_ns, 0);
	check_near(ledger_raw_of_real(&l, w.real_ns), w.raw_ns, 0);
}

/* The hypervisor moved the machine: the wall clock goes on, raw need not. */
static void test_move(void)
{
	struct clock_ledger l;
	struct world w = world_new(&l);

	for (int i = 0; i < 20; i++) {
		w.disruption = i < 5 ? 0 : i < 10 ? 7 : 8;
		run(&w, NS_PER_S);
		CHECK_EQ(add_snapshot(&l, &w), i == 10 ? LEDGER_DISRUPTED : LEDGER_NO_CHANGE);
	}
	CHECK_EQ(l.n_steps, 1);
	CHECK_EQ(l.steps[0].kind, LEDGER_MOVED);
	CHECK_EQ(l.steps[0].to_raw_ns - l.steps[0].from_raw_ns, NS_PER_S);
}

/* Many steps: the newest are remembered, all are counted, nothing overflows. */
static void test_many_steps(void)
{
	struct clock_ledger l;
	struct world w = world_new(&l);

	for (int i = 0; i < 1000; i++) {
		run(&w, NS_PER_S);
		w.real_ns += i % 2 ? 7 * NS_PER_MS : -9 * NS_PER_MS;
		CHECK_EQ(add_snapshot(&l, &w), LEDGER_STEPPED);
		check_near(ledger_raw_of_real(&l, w.real_ns), w.raw_ns, 0);
	}
	CHECK_EQ(l.steps_seen, 1000);
	CHECK_EQ(l.n_steps, LEDGER_STEPS);
	CHECK_EQ(l.n_knots, LEDGER_KNOTS);
	/* The same instant a second time, and one before it, are ignored. */
	CHECK_EQ(add_snapshot(&l, &w), LEDGER_NO_CHANGE);
	w.raw_ns -= NS_PER_S;
	CHECK_EQ(add_snapshot(&l, &w), LEDGER_NO_CHANGE);
}

/* How a program steers the wall clock: how far that has moved it after this time. */
typedef double (*steer_fn)(double s);

static double slew(double s) /* adjtime(2) */
{
	return s < 30.02 ? 0 : 500e3 * (s - 30.02);
}

static double kernel_loop(double s) /* of ntpd and systemd-timesyncd: a time constant of 256 s */
{
	return 10e6 * (1 - exp(-s / 256));
}

static double servo(double s) /* one that hunts, as of phc2sys */
{
	return 40e3 * sin(2 * M_PI * s / 20);
}

/* Snapshots each gap_ns or up to 1 ms later, read with an error of up to half their width: no time between them is
 * further off than the ledger says, and none is off by more than most_ns. */
static void test_steering(steer_fn steer, int64_t length_ns, int64_t gap_ns, int64_t most_ns)
{
	const int64_t raw0 = 1000 * NS_PER_S;
	struct clock_ledger l = { 0 };
	int64_t at = 0, worst = 0, last = 0;
	uint32_t noise = 1;

	for (; at < length_ns; at += gap_ns + noise % NS_PER_MS) {
		int64_t moved = llround(steer((double)at / 1e9)) + noise % 70 - 35;
		struct ledger_point p = { .pair = { raw0 + at, EPOCH + at + moved, 70 } };

		CHECK_EQ(ledger_add(&l, &p), LEDGER_NO_CHANGE);
		noise = noise * 1664525 + 1013904223;
		last = at;
	}
	for (at = 0; at < last; at += length_ns / 20011) {
		int64_t real = EPOCH + at + llround(steer((double)at / 1e9));
		int64_t off = llabs(ledger_raw_of_real(&l, real) - raw0 - at);

		CHECK(off <= ledger_error_ns(&l, raw0 + at, raw0 + at));
		worst = off > worst ? off : worst;
	}
	CHECK(worst <= most_ns);
	CHECK(worst <= ledger_error_ns(&l, raw0, raw0 + last));
}

/* What a capture needs is found in all of its window, however long, and its error is known. */
static void test_steered(void)
{
	const int64_t dense = 50 * NS_PER_MS, calm = NS_PER_S;

	test_steering(slew, 60 * NS_PER_S, dense, 6500);
	test_steering(slew, 60 * NS_PER_S, calm, 130000);
	test_steering(kernel_loop, 600 * NS_PER_S, dense, 600);
	test_steering(kernel_loop, 3600 * NS_PER_S, dense, 600);
	test_steering(servo, 60 * NS_PER_S, dense, 300);
	test_steering(servo, 60 * NS_PER_S, calm, 1000);
	test_steering(servo, 3600 * NS_PER_S, dense, 20000);
}

/* Where there was no snapshot, the error grows; a break makes it no larger. */
static void test_error_beyond(void)
{
	struct clock_ledger l;
	struct world w = world_new(&l);
	int64_t first = w.raw_ns, error;

	CHECK_EQ(ledger_error_ns(&(struct clock_ledger){ 0 }, 0, NS_PER_S), 0);
	for (int i = 0; i < 10; i++) {
		run(&w, NS_PER_S);
		add_snapshot(&l, &w);
	}
	error = ledger_error_ns(&l, first, w.raw_ns);
	CHECK(error > 0 && error < 1000);
	CHECK_EQ(ledger_error_ns(&l, first - NS_PER_S, w.raw_ns), error + NS_PER_MS);
	CHECK_EQ(ledger_error_ns(&l, first, w.raw_ns + 2 * NS_PER_S), error + 2 * NS_PER_MS);
	run(&w, NS_PER_S);
	w.real_ns += NS_PER_S;
	CHECK_EQ(add_snapshot(&l, &w), LEDGER_STEPPED);
	CHECK_EQ(ledger_error_ns(&l, first, w.raw_ns), error);
}

static void test_wild_input(void)
{
	static const int64_t wild[] = { INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX };
	struct clock_ledger l;
	struct world w = world_new(&l);

	w.ppm = 500;
	for (int i = 0; i < 5; i++) {
		run(&w, NS_PER_S);
		add_snapshot(&l, &w);
	}
	for (size_t i = 0; i < sizeof(wild) / sizeof(wild[0]); i++) {
		(void)ledger_raw_of_real(&l, wild[i]);
		(void)ledger_real_of_raw(&l, wild[i]);
		for (size_t j = 0; j < sizeof(wild) / sizeof(wild[0]); j++)
			CHECK(ledger_error_ns(&l, wild[i], wild[j]) >= 0);
	}
	CHECK(ledger_raw_of_real(&l, INT64_MIN) == INT64_MIN);
	CHECK(ledger_real_of_raw(&l, INT64_MAX) == INT64_MAX);
}

int main(void)
{
	test_empty();
	test_slewing();
	test_step(50 * NS_PER_MS);
	test_step(-50 * NS_PER_MS);
	test_step(100 * NS_PER_US);
	test_step(NS_PER_S);
	test_step(-NS_PER_S);
	test_sleep();
	test_switch();
	test_move();
	test_many_steps();
	test_steered();
	test_error_beyond();
	test_wild_input();
	return 0;
}
