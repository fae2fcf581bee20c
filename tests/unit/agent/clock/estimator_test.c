/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The estimator in simulated worlds: at every checked instant the truth must lie inside the bound,
 * and where the link allows it the error must be small. tests/bench/clock checks more worlds, with
 * figures.
 */
#include <math.h>
#include <stdlib.h>

#include "agent/clock/estimator.h"
#include "base/now.h"
#include "tests/lib/check.h"
#include "tests/lib/clock_worlds.h"

#define SEED 20261121

static const struct clock_world quiet = {
	.name = "quiet",
	.offset_ns = 1234567000,
	.drift_ppm = 30,
	.there_ns = 600,
	.back_ns = 600,
	.jitter = JITTER_SPIKES,
	.jitter_ns = 200,
	.every_ns = 10 * NS_PER_MS,
	.train = 1,
};

static double quantile(const struct world_judge *j, double *v, double share)
{
	return world_quantile(v, j->n, share);
}

static void check_goal(const struct world_case *c, struct world_judge *j)
{
	const double limits[] = { c->goal.p50, c->goal.p99, c->goal.bound };
	double found[3];

	found[0] = quantile(j, j->error_ns, 0.5);
	found[1] = quantile(j, j->error_ns, 0.99);
	found[2] = quantile(j, j->bound_ns, 0.99);
	printf("%-28s error p50 %9.2f us, p99 %9.2f us; bound p99 %9.2f us\n", c->world.name,
	       found[0] / 1e3, found[1] / 1e3, found[2] / 1e3);
	for (size_t i = 0; i < 3; i++)
		CHECK(!limits[i] || found[i] <= limits[i]);
}

/* A rate that changes by no more than it may stray is no break. */
static enum clock_break break_in(const struct clock_world *w)
{
	if (w->step_ns)
		return CLOCK_BREAK_STEP;
	return fabs(w->rate_step_ppm) > 120 ? CLOCK_BREAK_RATE : CLOCK_BREAK_NONE;
}

static size_t run_case(const struct world_case *c)
{
	struct world_judge all = { 0 }, inner = { 0 };
	enum clock_break cause = break_in(&c->world);
	struct clock_model last;
	size_t n;

	world_judge_after(&c->world, 60 * NS_PER_S, 40 * NS_PER_MS, &all, &inner, &last);
	clock_model_free(&last);
	check_goal(c, &inner);
	world_judge_ahead(&c->world, 60 * NS_PER_S, &all);
	CHECK_EQ(all.outside, 0);
	if (!c->world.is_excursion) { /* its way back may be a break, too */
		CHECK_EQ(last.n_segments, cause == CLOCK_BREAK_NONE    ? 1
					  : c->world.step_again_ns > 0 ? 3
								       : 2);
		CHECK_EQ(last.segments[last.n_segments - 1].cause, cause);
	}
	n = all.n;
	world_judge_free(&all);
	world_judge_free(&inner);
	return n;
}

static void test_truth_is_inside(void)
{
	size_t n = 0;

	for (size_t i = 0; i < n_world_cases; i++)
		n += run_case(&world_cases[i]);
	printf("%zu instants\n", n);
	CHECK(n > 100000);
}

static void feed(struct clock_estimator *est, const struct clock_world *w, int64_t from_ns,
		 int64_t to_ns)
{
	struct world_samples samples = { 0 };

	world_probe(w, from_ns, to_ns, &samples);
	for (size_t i = 0; i < samples.n; i++)
		CHECK(clock_estimator_add(est, &samples.at[i].s));
	free(samples.at);
}

static bool get(const struct clock_estimator *est, const struct clock_world *w, int64_t t,
		struct clock_model *m)
{
	*m = (struct clock_model){ .at_raw_ns = world_host_ns(w, t) };
	m->calibrated = clock_estimator_make_model(est, m->at_raw_ns, m);
	return m->calibrated;
}

/* 20 probes in 0.2 s are enough for a good bound. */
static void test_cold_start(void)
{
	struct clock_estimator *est = clock_estimator_new();
	struct clock_model m;

	world_seed(12345); /* one probe in twenty is late: not the last one */
	feed(est, &quiet, 0, 200 * NS_PER_MS);
	CHECK(get(est, &quiet, 191 * NS_PER_MS, &m));
	printf("cold start: %u probes, bound %" PRId64 " ns\n", m.probes, m.bound_ns);
	CHECK_EQ(m.probes, 20);
	CHECK(m.bound_ns <= 1500);
	clock_estimator_free(est);
}

/* Over a long silence only assumption 1 holds, not the rate of before. */
static void test_silence(void)
{
	struct clock_estimator *est = clock_estimator_new();
	struct world_judge j = { 0 };
	struct clock_model m = { .calibrated = true };

	feed(est, &quiet, 0, 20 * NS_PER_S);
	feed(est, &quiet, 200 * NS_PER_S, 220 * NS_PER_S);
	CHECK(clock_estimator_make_window_model(est, world_host_ns(&quiet, 220 * NS_PER_S),
						world_host_ns(&quiet, 0),
						world_host_ns(&quiet, 220 * NS_PER_S), &m));
	for (int64_t t = 0; t < 220 * NS_PER_S; t += 777 * NS_PER_MS)
		world_check(&j, &quiet, &m, t);
	CHECK_EQ(j.outside, 0);
	CHECK_EQ(m.n_segments, 1);
	clock_model_free(&m);
	world_judge_free(&j);
	clock_estimator_free(est);
}

/* Requests that are all held up until the path is open again prove next to nothing; the good
 * probes before and after hold all the same. */
static void test_hold_up(void)
{
	struct clock_estimator *est = clock_estimator_new();
	struct world_judge j = { 0 };
	struct clock_model m = { .calibrated = true };
	int64_t from = 4 * NS_PER_S, to = 14 * NS_PER_S;

	feed(est, &quiet, 0, from);
	for (int64_t t = from; t < to; t += 500 * NS_PER_MS) {
		struct clock_sample s = { .t1_ns = world_host_ns(&quiet, t),
					  .t4_ns = world_host_ns(&quiet, to) + 1000,
					  .t2_ns = world_session_ns(to),
					  .t3_ns = world_session_ns(to) };

		CHECK(clock_estimator_add(est, &s));
	}
	feed(est, &quiet, to, to + 2 * NS_PER_S);
	CHECK(clock_estimator_make_window_model(est, world_host_ns(&quiet, to + 2 * NS_PER_S),
						world_host_ns(&quiet, from),
						world_host_ns(&quiet, to), &m));
	for (int64_t t = from; t < to; t += 77 * NS_PER_MS)
		world_check(&j, &quiet, &m, t);
	CHECK_EQ(j.outside, 0);
	CHECK(clock_model_bound_over(&m, world_host_ns(&quiet, from), world_host_ns(&quiet, to)) <
	      NS_PER_MS);
	clock_model_free(&m);
	world_judge_free(&j);
	clock_estimator_free(est);
}

/* The slack of a window is allowed at each of its times. */
static void check_slack(const struct clock_model *m, int64_t from_ns, int64_t to_ns)
{
	struct clock_slack all = clock_model_slack_over(m, from_ns, to_ns);

	CHECK(all.earlier_ns > 0 && all.later_ns > 0);
	for (int64_t at = from_ns; at <= to_ns; at += (to_ns - from_ns) / 1000) {
		struct clock_slack one = clock_model_slack_over(m, at, at);
		int64_t bound = clock_model_bound_at(m, at);

		CHECK(all.earlier_ns <= one.earlier_ns + 1 && all.later_ns <= one.later_ns + 1);
		CHECK_EQ(one.earlier_ns > one.later_ns ? one.earlier_ns : one.later_ns, bound);
	}
}

static int64_t growth(const struct clock_model *m, int64_t from_ns, int64_t to_ns)
{
	return clock_model_bound_at(m, to_ns) - clock_model_bound_at(m, from_ns);
}

/* Beyond the last probe the bound of a window's map grows as fast as that of a model of now. */
static void test_beyond_the_last_probe(void)
{
	struct clock_estimator *est = clock_estimator_new();
	struct clock_model map = { .calibrated = true }, now;
	int64_t end = 20 * NS_PER_S, host_end = world_host_ns(&quiet, end);

	feed(est, &quiet, 0, end);
	CHECK(get(est, &quiet, end, &now));
	CHECK(clock_estimator_make_window_model(est, host_end, world_host_ns(&quiet, end / 2),
						host_end, &map));
	for (int64_t t = host_end + NS_PER_MS; t < host_end + 3 * NS_PER_S; t += 50 * NS_PER_MS)
		CHECK(growth(&map, host_end, t) >= growth(&now, host_end, t) - 2);
	clock_model_free(&map);
	clock_estimator_free(est);
}

/* An hour of history is kept, and its map is as good as that of a minute. */
static void test_long_history(void)
{
	struct clock_world w = quiet;
	struct clock_estimator *est = clock_estimator_new();
	struct world_judge j = { 0 };
	struct clock_model m = { .calibrated = true };
	int64_t end = 5000 * NS_PER_S;

	w.every_ns = 250 * NS_PER_MS;
	feed(est, &w, 0, end);
	CHECK(clock_estimator_make_window_model(est, world_host_ns(&w, end),
						world_host_ns(&w, end / 2), world_host_ns(&w, end),
						&m));
	for (int64_t t = end / 2; t < end - w.every_ns; t += 777 * NS_PER_MS)
		world_check(&j, &w, &m, t);
	CHECK_EQ(j.outside, 0);
	CHECK(m.n_knots > CLOCK_KNOTS / 2);
	check_slack(&m, world_host_ns(&w, end / 2), world_host_ns(&w, end + NS_PER_S));
	CHECK(world_quantile(j.bound_ns, j.n, 0.99) < 3500);
	CHECK(world_quantile(j.bound_ns, j.n, 1) < 30000);
	CHECK(world_quantile(j.error_ns, j.n, 0.99) < 1000);
	clock_model_free(&m);
	world_judge_free(&j);
	clock_estimator_free(est);
}

/* ---- breaks ---- */

static void test_announced_break(void)
{
	struct clock_estimator *est = clock_estimator_new();
	struct clock_world after = quiet;
	struct clock_slack slack;
	struct clock_model m;
	int64_t at = 10 * NS_PER_S;

	after.offset_ns += 3000; /* too small to contradict the history at once */
	clock_estimator_break(est, 0, 0, CLOCK_BREAK_SUSPEND); /* no history: no break */
	feed(est, &quiet, 0, at - 50 * NS_PER_MS);
	feed(est, &after, at - 30 * NS_PER_MS, at); /* after the break, but it is not known yet */
	clock_estimator_break(est, world_host_ns(&quiet, at - 40 * NS_PER_MS),
			      world_host_ns(&after, at), CLOCK_BREAK_SUSPEND);
	CHECK(!get(est, &after, at, &m));
	feed(est, &quiet, at - 2 * NS_PER_MS,
	     at); /* sent before, arrived late: not of this segment */
	CHECK(!get(est, &after, at, &m));
	feed(est, &after, at + NS_PER_MS, 2 * at);
	CHECK(clock_estimator_make_window_model(est, world_host_ns(&after, 2 * at),
						world_host_ns(&after, 0),
						world_host_ns(&after, 2 * at), &m));
	CHECK_EQ(m.n_segments, 2);
	CHECK_EQ(m.segments[1].cause, CLOCK_BREAK_SUSPEND);
	m.calibrated = true;
	for (int64_t t = 0; t < 2 * at; t += 7 * NS_PER_MS) {
		const struct clock_world *w = t < at ? &quiet : &after;
		struct world_judge j = { 0 };

		world_check(&j, w, &m, t);
		CHECK_EQ(j.outside, 0);
		world_judge_free(&j);
	}
	check_slack(&m, world_host_ns(&quiet, 0), world_host_ns(&quiet, at - NS_PER_S));
	check_slack(&m, world_host_ns(&after, at + NS_PER_S), world_host_ns(&after, 2 * at));
	slack = clock_model_slack_over(&m, world_host_ns(&quiet, 0), world_host_ns(&after, 2 * at));
	CHECK(!slack.earlier_ns && !slack.later_ns); /* no single number fits both sides */
	clock_model_free(&m);
	clock_estimator_free(est);
}

/* More breaks than a model can hold: the oldest are forgotten. */
static void test_many_breaks(void)
{
	struct clock_estimator *est = clock_estimator_new();
	struct clock_world w = quiet;
	struct clock_model m;

	for (int i = 0; i < 24; i++) {
		feed(est, &w, i * NS_PER_S, i * NS_PER_S + 900 * NS_PER_MS);
		w.offset_ns += 50 * NS_PER_MS;
	}
	w.offset_ns -= 50 * NS_PER_MS;
	CHECK(clock_estimator_make_window_model(est, world_host_ns(&w, 24 * NS_PER_S),
						world_host_ns(&quiet, 0),
						world_host_ns(&w, 24 * NS_PER_S), &m));
	CHECK_EQ(m.n_segments, 8);
	CHECK(m.n_knots <= CLOCK_KNOTS_LONG);
	CHECK_EQ(m.steps_found, 23);
	clock_model_free(&m);
	CHECK(get(est, &w, 23 * NS_PER_S + 900 * NS_PER_MS, &m) && m.bound_ns < 10000);
	clock_estimator_free(est);
}

/* Beyond any rate that a clock has, what would be steps of one sign is no map at all. */
static void test_runaway_rate_has_no_map(void)
{
	struct clock_estimator *est = clock_estimator_new();
	struct clock_world w = quiet;
	struct clock_model m;

	w.drift_ppm = 700;
	w.train = 4;
	w.gap_ns = 7000;
	w.every_ns = NS_PER_S;
	feed(est, &w, 0, 60 * NS_PER_S);
	CHECK(!get(est, &w, 60 * NS_PER_S, &m));
	clock_estimator_free(est);
}

/* A step in a long gap that only a rate beyond any clock's could explain, though not far from the mean
 * rate: a step, not a clock without a map. */
static void test_step_in_a_long_gap(void)
{
	struct clock_estimator *est = clock_estimator_new();
	struct clock_world w = quiet;
	struct world_judge j = { 0 };
	struct clock_model m = { .calibrated = true };
	int64_t end = 112 * NS_PER_S, host_end;

	w.drift_ppm = 471;
	w.step_at_ns = 97 * NS_PER_S;
	w.step_ns = 1500 * NS_PER_US;
	w.every_ns = 16 * NS_PER_S;
	w.train = 4;
	w.gap_ns = 7000;
	feed(est, &w, 0, 97 * NS_PER_S);
	w.every_ns = 250 * NS_PER_MS;
	feed(est, &w, 110 * NS_PER_S, end);
	host_end = world_host_ns(&w, end);
	CHECK(clock_estimator_make_window_model(est, host_end, world_host_ns(&w, 111 * NS_PER_S),
						host_end, &m));
	CHECK_EQ(m.n_segments, 2);
	CHECK_EQ(m.segments[1].cause, CLOCK_BREAK_STEP);
	for (int64_t t = 80 * NS_PER_S; t < end; t += 77 * NS_PER_MS)
		world_check(&j, &w, &m, t);
	CHECK_EQ(j.outside, 0);
	clock_model_free(&m);
	world_judge_free(&j);
	clock_estimator_free(est);
}

/* Windows as agents map them, in all worlds, links and clocks that change within included. */
static void test_windows_of_agents(void)
{
	struct world_judge j = { 0 };

	for (size_t i = 0; i < n_world_cases; i++) {
		for (int k = 0; k < 3; k++)
			world_judge_capture(&world_cases[i].world, 200, &j);
	}
	CHECK(j.n > 10000);
	CHECK_EQ(j.outside, 0);
	CHECK_EQ(j.unknown, 0);
	world_judge_free(&j);
}

/* An hour of dense probes; during [at, at + 10 s) the clock runs so much faster. */
static void run_hour(double more_ppm, double p99_ns)
{
	struct clock_estimator *est = clock_estimator_new();
	int64_t at = 1000 * NS_PER_S, end = 3600 * NS_PER_S;
	struct world_judge j = { 0 }, inside = { 0 };
	struct clock_model m = { .calibrated = true };
	struct clock_world w = quiet;

	w.every_ns = 250 * NS_PER_MS;
	w.train = 2;
	w.gap_ns = 7000;
	w.wander_ppm = 0.3;
	w.wander_s = 600;
	w.rate_step = (struct clock_event){ at, 10 * NS_PER_S };
	w.rate_step_ppm = more_ppm;
	feed(est, &w, 0, end);
	CHECK(clock_estimator_make_window_model(est, world_host_ns(&w, end), world_host_ns(&w, 0),
						world_host_ns(&w, end), &m));
	for (int64_t t = 0; t < end; t += 77 * NS_PER_MS)
		world_check(t > at && t < at + 10 * NS_PER_S ? &inside : &j, &w, &m, t);
	CHECK_EQ(j.outside + inside.outside, 0);
	printf("an hour, %g ppm more for 10 s: error p99 %.0f ns, then %.0f ns\n", more_ppm,
	       world_quantile(j.error_ns, j.n, 0.99),
	       world_quantile(inside.error_ns, inside.n, 0.99));
	CHECK(world_quantile(j.error_ns, j.n, 0.99) <= p99_ns);
	CHECK(world_quantile(inside.error_ns, inside.n, 0.99) <= 2 * p99_ns);
	clock_model_free(&m);
	world_judge_free(&j);
	world_judge_free(&inside);
	clock_estimator_free(est);
}

static void test_hour_window(void)
{
	run_hour(0, 1000);
}

static void test_hour_window_follows_an_excursion(void)
{
	run_hour(5, 1500);
}

/* Of 20 ms, found at t by a probe; the one before it was 10 ms earlier. */
static void check_suspicion(const struct clock_suspicion *s, int64_t t)
{
	CHECK_EQ(s->cause, CLOCK_BREAK_STEP);
	CHECK(llabs(s->to_ns - world_session_ns(t)) < 10000);
	CHECK(s->to_ns - s->from_ns > 9 * NS_PER_MS && s->to_ns - s->from_ns < 11 * NS_PER_MS);
	CHECK(s->delta_ns > 19 * NS_PER_MS && s->delta_ns < 21 * NS_PER_MS);
	CHECK_EQ(s->known_ns, s->to_ns + NS_PER_S);
}

/* One sample against all others is false; while it could be a step, there is no model. */
static void test_false_sample(void)
{
	struct clock_estimator *est = clock_estimator_new();
	struct clock_sample wrong = { 0 };
	struct clock_model m;
	int64_t t = 10 * NS_PER_S;

	feed(est, &quiet, 0, t);
	wrong.t1_ns = world_host_ns(&quiet, t);
	wrong.t4_ns = wrong.t1_ns + 5000;
	wrong.t2_ns = wrong.t3_ns = world_session_ns(t) - 20 * NS_PER_MS;
	CHECK(clock_estimator_add(est, &wrong));
	CHECK(!get(est, &quiet, t, &m));
	check_suspicion(&m.suspected, t);
	feed(est, &quiet, t + 10 * NS_PER_MS, t + 20 * NS_PER_MS);
	CHECK(get(est, &quiet, t + 20 * NS_PER_MS, &m));
	CHECK_EQ(m.suspected.cause, CLOCK_BREAK_NONE);
	CHECK_EQ(m.bad_samples, 1);
	CHECK_EQ(m.n_segments, 1);
	CHECK(m.bound_ns < 2000);
	clock_estimator_free(est);
}

static int64_t bound_at(const struct clock_model *m, const struct clock_world *w, int64_t t)
{
	return clock_model_bound_at(m, world_host_ns(w, t));
}

/* A clock that jumps and is back before its break is confirmed: three probes met it. Files say how far it
 * may have been off in the gap between the probes around, and nowhere else. */
static void test_jump_that_comes_back(void)
{
	struct clock_estimator *est = clock_estimator_new();
	struct clock_world w = quiet, away = quiet;
	struct world_judge j = { 0 };
	struct clock_model m = { .calibrated = true };
	int64_t at = 10 * NS_PER_S, end = 20 * NS_PER_S;

	away.offset_ns += 20 * NS_PER_MS;
	feed(est, &w, 0, at);
	feed(est, &away, at + 100 * NS_PER_MS, at + 125 * NS_PER_MS);
	feed(est, &w, at + 200 * NS_PER_MS, end);
	CHECK(clock_estimator_make_window_model(est, world_host_ns(&w, end), world_host_ns(&w, 0),
						world_host_ns(&w, end), &m));
	for (int64_t t = 0; t < at; t += 777 * NS_PER_US)
		world_check(&j, &w, &m, t);
	for (int64_t t = at + 50 * NS_PER_MS; t < at + 150 * NS_PER_MS; t += 777 * NS_PER_US)
		world_check(&j, &away, &m, t);
	for (int64_t t = at + 200 * NS_PER_MS; t < end; t += 777 * NS_PER_US)
		world_check(&j, &w, &m, t);
	CHECK_EQ(j.outside, 0);
	CHECK(bound_at(&m, &w, at - NS_PER_S) < 2000);
	CHECK(bound_at(&m, &w, at + 100 * NS_PER_MS) < 21 * NS_PER_MS);
	CHECK(bound_at(&m, &w, at + 500 * NS_PER_MS) < 2000);
	CHECK_EQ(m.bad_samples, 3);
	CHECK_EQ(m.steps_found, 0);
	clock_model_free(&m);
	world_judge_free(&j);
	clock_estimator_free(est);
}

/* A clock that stops while a probe is under way there or back: its request is of before that, its reply of after. */
static void check_stop_under_way(int64_t there_ns, int64_t back_ns, int64_t late_ns,
				 int64_t stop_ns)
{
	struct clock_estimator *est = clock_estimator_new();
	const int64_t at = 10 * NS_PER_S, end = 20 * NS_PER_S;
	struct clock_world w = quiet;
	struct clock_model m = { .calibrated = true };
	struct clock_sample s = { 0 };
	struct world_judge j = { 0 };

	w.there_ns = there_ns;
	w.back_ns = back_ns;
	w.step_at_ns = at + 2 * NS_PER_MS;
	w.step_ns = -stop_ns;
	feed(est, &w, 0, at);
	s.t1_ns = world_host_ns(&w, at);
	s.t2_ns = s.t3_ns = world_session_ns(at + late_ns);
	s.t4_ns = world_host_ns(&w, at + late_ns + back_ns);
	CHECK(clock_estimator_add(est, &s));
	feed(est, &w, at + 40 * NS_PER_MS, end);
	CHECK(clock_estimator_make_window_model(est, world_host_ns(&w, end), world_host_ns(&w, 0),
						world_host_ns(&w, end), &m));
	for (int64_t t = 0; t < end; t += 77 * NS_PER_US)
		world_check(&j, &w, &m, t);
	CHECK(j.n > 100000);
	CHECK_EQ(j.outside, 0);
	CHECK(bound_at(&m, &w, at - NS_PER_S) < there_ns + back_ns);
	CHECK(bound_at(&m, &w, at + NS_PER_S) < there_ns + back_ns);
	CHECK_EQ(m.steps_found, 1);
	clock_model_free(&m);
	world_judge_free(&j);
	clock_estimator_free(est);
}

static void test_stop_under_way(void)
{
	/* contradicted by what is before it and by what follows */
	check_stop_under_way(600, 15 * NS_PER_MS, 15 * NS_PER_MS, 20 * NS_PER_MS);
	/* only by what is before it */
	check_stop_under_way(NS_PER_MS, 12 * NS_PER_MS, 5 * NS_PER_MS, 14 * NS_PER_MS);
}

/* Of a window whose last probes contradict the others nothing is certain after them; it has a map. */
static void test_window_ends_in_doubt(void)
{
	struct clock_estimator *est = clock_estimator_new();
	struct clock_world w = quiet, away = quiet;
	struct world_judge j = { 0 };
	struct clock_model m = { .calibrated = true };
	int64_t at = 10 * NS_PER_S, end = at + 60 * NS_PER_MS;

	away.offset_ns += 20 * NS_PER_MS;
	feed(est, &w, 0, at);
	feed(est, &away, at + 40 * NS_PER_MS, end);
	CHECK(!get(est, &away, end, &m));
	m.calibrated = true;
	CHECK(clock_estimator_make_window_model(est, world_host_ns(&w, end), world_host_ns(&w, 0),
						world_host_ns(&w, end), &m));
	for (int64_t t = 0; t < at + 20 * NS_PER_MS; t += 777 * NS_PER_US)
		world_check(&j, &w, &m, t);
	for (int64_t t = at; t < end + NS_PER_S; t += 777 * NS_PER_US) {
		world_check(&j, &w, &m, t);
		world_check(&j, &away, &m, t);
	}
	CHECK_EQ(j.outside, 0);
	CHECK(bound_at(&m, &w, at - NS_PER_S) < 2000);
	CHECK(bound_at(&m, &w, end) < 21 * NS_PER_MS);
	clock_model_free(&m);
	world_judge_free(&j);
	clock_estimator_free(est);
}

/* ---- samples ---- */

static void test_impossible_samples(void)
{
	struct clock_estimator *est = clock_estimator_new();
	const struct clock_sample bad[] = {
		{ .t1_ns = 100, .t4_ns = 99, .t2_ns = 50, .t3_ns = 50 },
		{ .t1_ns = 100, .t4_ns = 200, .t2_ns = 50, .t3_ns = 49 },
		{ .t1_ns = 100, .t4_ns = 200, .t2_ns = 50, .t3_ns = 151 },
		{ .t1_ns = 100, .t4_ns = 200, .t2_ns = INT64_MIN, .t3_ns = INT64_MAX },
		{ .t1_ns = INT64_MIN, .t4_ns = INT64_MAX, .t2_ns = 0, .t3_ns = 1 },
		{ .t1_ns = INT64_MIN, .t2_ns = 0, .no_reply = true },
		{ .t4_ns = INT64_MIN, .t3_ns = 0, .no_request = true },
		{ .no_request = true, .no_reply = true },
	};
	struct clock_model m = { 0 };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(!clock_estimator_add(est, &bad[i]));
	CHECK(!clock_estimator_make_model(est, 1000, &m));
	clock_estimator_free(est);
}

static void check_one(const struct clock_estimator *est)
{
	struct clock_model m = { 0 };

	CHECK(clock_estimator_make_model(est, 1010000 + NS_PER_S, &m));
	CHECK(llabs(m.offset_ns - 1009500) <= 6); /* L counts from t1, U from t4 */
	CHECK(m.rate == 0);
	CHECK_EQ(m.probes, 1);
	CHECK(!m.rate_known);
	/* Half the round trip, and 500 ppm of a second. */
	CHECK(m.bound_ns > 510000 && m.bound_ns < 510200);
	CHECK(m.bound_rate > 499e-6 && m.bound_rate < 501e-6);
}

static void test_one_sample(void)
{
	struct clock_estimator *est = clock_estimator_new();
	struct clock_sample s = { .t1_ns = 1000000, .t4_ns = 1020000, .t2_ns = 500, .t3_ns = 500 };
	struct clock_model m = { 0 };

	CHECK(clock_estimator_add(est, &s));
	check_one(est);
	clock_estimator_reset(est);
	CHECK(!clock_estimator_make_model(est, 0, &m));

	s.no_reply = true; /* one direction gives no bound on the other side */
	CHECK(clock_estimator_add(est, &s));
	CHECK(!clock_estimator_make_model(est, 1010000, &m));
	s = (struct clock_sample){
		.t3_ns = 500, .t4_ns = 1020000, .no_request = true, .is_update = true
	};
	CHECK(clock_estimator_add(est, &s));
	check_one(est);
	clock_estimator_free(est);
}

int main(void)
{
	printf("seed %d\n", SEED);
	world_seed(SEED);
	test_truth_is_inside();
	test_cold_start();
	test_silence();
	test_hold_up();
	test_beyond_the_last_probe();
	test_long_history();
	test_announced_break();
	test_many_breaks();
	test_runaway_rate_has_no_map();
	test_step_in_a_long_gap();
	test_windows_of_agents();
	test_hour_window();
	test_hour_window_follows_an_excursion();
	test_false_sample();
	test_jump_that_comes_back();
	test_stop_under_way();
	test_window_ends_in_doubt();
	test_impossible_samples();
	test_one_sample();
	return 0;
}
