/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/clock_worlds.h"

#include <math.h>
#include <stdlib.h>

#include "agent/clock/estimator.h"
#include "base/now.h"

#define US    1000
#define PAIRS .every_ns = 200 * NS_PER_MS, .train = 2, .gap_ns = 20 * US
/* as agents probe a path that jitters */
#define APART  .every_ns = 80 * NS_PER_MS, .train = 2, .gap_ns = 3 * NS_PER_MS
#define TRAINS .every_ns = 250 * NS_PER_MS, .train = 4, .gap_ns = 7 * US
#define CALM   .every_ns = 2 * NS_PER_S, .train = 4, .gap_ns = 7 * US
#define KERNEL .there_ns = 600, .back_ns = 600, .jitter = JITTER_SPIKES, .jitter_ns = 200
#define USERSPACE \
	.there_ns = 9 * US, .back_ns = 12 * US, .jitter = JITTER_SPIKES, .jitter_ns = 5 * US
#define EXP200 .there_ns = 20 * US, .back_ns = 20 * US, .jitter_ns = 200 * US
#define QUEUE200 \
	.there_ns = 20 * US, .back_ns = 20 * US, .jitter = JITTER_QUEUE, .jitter_ns = 200 * US
#define ASYMMETRIC .there_ns = 1020 * US, .back_ns = 20 * US, .jitter_ns = 2 * US
#define OFFSET	   .offset_ns = 1234567000
#define WANDER	   .drift_ppm = 30, .wander_ppm = 2.618, .wander_s = 60
#define WANDER8	   .drift_ppm = -17, .wander_ppm = 8, .wander_s = 60

#define SOME_NS	       33333333333
#define RATE_STEP(ppm) .rate_step = { SOME_NS, 0 }, .rate_step_ppm = (ppm)
#define EXCURSION \
	.rate_step = { SOME_NS, 10 * NS_PER_S }, .rate_step_ppm = 300, .is_excursion = true
/* as among 10,000 hosts */
#define SELDOM .pair_gap_ns = 500 * NS_PER_MS
/* probes over the control stream: processes stamp them, other messages come first */
#define STREAM \
	.there_ns = 60 * US, .back_ns = 60 * US, .jitter = JITTER_PARETO, .jitter_ns = 300 * US, \
	.by_stream = true
#define CUT .cut = { 5 * NS_PER_S, 25 * NS_PER_S }
#define WORSE \
	.bad = { SOME_NS, 20 * NS_PER_S }, .bad_there_jitter_ns = 200 * US, \
	.bad_back_jitter_ns = 200 * US

/* clang-format off */
const struct world_case world_cases[] = {
	{ { "idle, kernel stamps",		KERNEL, PAIRS, OFFSET, WANDER },	{ 200, 500, 2000 } },
	{ { "idle, trains of the agent",	KERNEL, TRAINS, OFFSET, WANDER },	{ 200, 500, 2000 } },
	{ { "idle, every 2 s",			KERNEL, CALM, OFFSET, WANDER },		{ 0, 0, 0 } },
	{ { "idle, user stamps",		USERSPACE, PAIRS, OFFSET, WANDER },	{ 0, 30 * US, 0 } },
	{ { "late kernel stamps",		KERNEL, PAIRS, OFFSET, WANDER,
						.late_stamps = true },			{ 200, 500, 2000 } },
	{ { "exp 200 us",			EXP200, APART, OFFSET, WANDER },	{ 10 * US, 30 * US, 150 * US } },
	{ { "queue 200 us",			QUEUE200, APART, OFFSET, WANDER },	{ 1 * US, 3 * US, 0 } },
	{ { "asymmetric 1 ms",			ASYMMETRIC, PAIRS, OFFSET, WANDER },	{ 540 * US, 540 * US, 0 } },
	{ { "asymmetric 1 ms, quiet",		.there_ns = 600, .back_ns = 1000 * US, .jitter = JITTER_SPIKES, .jitter_ns = 200, PAIRS, OFFSET, WANDER8 },	{ 0, 0, 0 } },
	{ { "wander 8 ppm",			KERNEL, PAIRS, OFFSET, WANDER8 },	{ 0, 0, 0 } },
	{ { "wander 8 ppm in 20 s",		KERNEL, PAIRS, .wander_ppm = 8, .wander_s = 20 }, { 0, 0, 0 } },
	{ { "wander 8 ppm, exp 200 us",		EXP200, PAIRS, OFFSET, WANDER8 },	{ 0, 0, 0 } },
	{ { "wander 8 ppm, user stamps",	USERSPACE, PAIRS, OFFSET, WANDER8 },	{ 0, 0, 0 } },
	{ { "wander 0.1 ppm",			KERNEL, PAIRS, .wander_ppm = 0.1, .wander_s = 300 }, { 100, 500, 1500 } },
	{ { "+100 ppm, 5 s ahead",		KERNEL, TRAINS, .offset_ns = 5 * NS_PER_S, .drift_ppm = 100 }, { 200, 500, 2000 } },
	{ { "-100 ppm, 5 s behind",		KERNEL, TRAINS, .offset_ns = -5 * NS_PER_S, .drift_ppm = -100 }, { 200, 500, 2000 } },
	{ { "+100 ppm, exp 200 us",		EXP200, TRAINS, .offset_ns = -5 * NS_PER_S, .drift_ppm = 100,
						.wander_ppm = 8, .wander_s = 90 },	{ 0, 0, 0 } },
	{ { "step +50 ms",			KERNEL, PAIRS, OFFSET, WANDER, .step_at_ns = 33333333333, .step_ns = 50 * NS_PER_MS }, { 0, 0, 0 } },
	{ { "step +300 us",			KERNEL, PAIRS, OFFSET, WANDER, .step_at_ns = 33333333333, .step_ns = 300 * US }, { 0, 0, 0 } },
	{ { "stopped for 50 ms",		KERNEL, PAIRS, OFFSET, WANDER, .step_at_ns = 33333333333, .step_ns = -50 * NS_PER_MS }, { 0, 0, 0 } },
	{ { "stopped for 5 s, exp 200 us",	EXP200, PAIRS, OFFSET, WANDER, .step_at_ns = 33333333333, .step_ns = -5 * NS_PER_S }, { 0, 0, 0 } },
	{ { "loss 20 %",			KERNEL, PAIRS, OFFSET, WANDER, .loss = 0.2 }, { 200, 500, 0 } },
	{ { "loss, late, twice",		EXP200, PAIRS, OFFSET, WANDER, .loss = 0.2, .late = 0.1, .twice = 0.1 }, { 0, 0, 0 } },
	{ { "loss, late, twice, kernel",	KERNEL, PAIRS, OFFSET, WANDER, .loss = 0.2, .late = 0.1, .twice = 0.1 }, { 0, 0, 0 } },
	{ { "far and noisy",			.there_ns = 20 * NS_PER_MS, .back_ns = 23 * NS_PER_MS, .jitter_ns = 5 * NS_PER_MS,
						TRAINS, .offset_ns = 3 * NS_PER_S, WANDER8, .loss = 0.3 }, { 0, 0, 0 } },
	{ { "+500 ppm",				KERNEL, TRAINS, OFFSET, .drift_ppm = 500 }, { 200, 500, 2000 } },
	{ { "-450 ppm, exp 200 us",		EXP200, TRAINS, OFFSET, .drift_ppm = -450, .wander_ppm = 8, .wander_s = 90 }, { 0, 0, 0 } },
	{ { "rate step 90 ppm",			KERNEL, PAIRS, OFFSET, WANDER, RATE_STEP(90) }, { 0, 0, 0 } },
	{ { "rate step 90 ppm, user stamps",	USERSPACE, PAIRS, OFFSET, WANDER, RATE_STEP(90) }, { 0, 0, 0 } },
	{ { "rate step 90 ppm, exp 200 us",	EXP200, PAIRS, OFFSET, WANDER, RATE_STEP(90) }, { 0, 0, 0 } },
	{ { "rate step 90 ppm, queue 200 us",	QUEUE200, PAIRS, OFFSET, WANDER, RATE_STEP(90) }, { 0, 0, 0 } },
	{ { "rate step 400 ppm",		KERNEL, PAIRS, OFFSET, WANDER, RATE_STEP(400) }, { 0, 0, 0 } },
	{ { "rate step 400 ppm, exp 200 us",	EXP200, PAIRS, OFFSET, WANDER, RATE_STEP(400) }, { 0, 0, 0 } },
	{ { "rate step 400 ppm, Pareto",	EXP200, .jitter = JITTER_PARETO, PAIRS, OFFSET, WANDER, RATE_STEP(400) }, { 0, 0, 0 } },
	{ { "rate step 90 ppm, far",		.there_ns = 5 * NS_PER_MS, .back_ns = 6 * NS_PER_MS, .jitter_ns = NS_PER_MS, TRAINS, OFFSET, WANDER, RATE_STEP(90) }, { 0, 0, 0 } },
	{ { "5 ppm more for 10 s",		KERNEL, PAIRS, OFFSET, .drift_ppm = 30, .rate_step = { SOME_NS, 10 * NS_PER_S }, .rate_step_ppm = 5 }, { 0, 0, 0 } },
	{ { "there and back",			KERNEL, PAIRS, OFFSET, WANDER, EXCURSION }, { 0, 0, 0 } },
	{ { "there and back, user stamps",	USERSPACE, PAIRS, OFFSET, WANDER, EXCURSION }, { 0, 0, 0 } },
	{ { "there and back, exp 200 us",	EXP200, PAIRS, OFFSET, WANDER, EXCURSION }, { 0, 0, 0 } },
	{ { "there and back, queue 200 us",	QUEUE200, PAIRS, OFFSET, WANDER, EXCURSION }, { 0, 0, 0 } },
	{ { "there and back, Pareto",		EXP200, .jitter = JITTER_PARETO, PAIRS, OFFSET, WANDER, EXCURSION }, { 0, 0, 0 } },
	{ { "queue 200 us, load 0.9",		QUEUE200, .load = 0.9, PAIRS, OFFSET, WANDER }, { 0, 0, 0 } },
	{ { "Pareto 200 us",			EXP200, .jitter = JITTER_PARETO, PAIRS, OFFSET, WANDER }, { 0, 0, 0 } },
	{ { "loss in bursts",			EXP200, PAIRS, OFFSET, WANDER, .loss = 0.3, .burst = 20 }, { 0, 0, 0 } },
	{ { "another route one way",		KERNEL, PAIRS, OFFSET, WANDER, .bad = { SOME_NS, 0 }, .bad_there_ns = 500 * US }, { 0, 0, 0 } },
	{ { "congested one way for a while",	KERNEL, PAIRS, OFFSET, WANDER, .bad = { SOME_NS, 20 * NS_PER_S }, .bad_there_jitter_ns = 2 * NS_PER_MS }, { 0, 0, 0 } },
	{ { "asymmetry drifts to 2 ms",		KERNEL, PAIRS, OFFSET, WANDER, .moving = { 0, 60 * NS_PER_S }, .moving_there_ns = 2 * NS_PER_MS }, { 0, 0, 0 } },
	{ { "a worse link for a while",		KERNEL, PAIRS, OFFSET, WANDER, WORSE }, { 0, 0, 0 } },
	{ { "the same, rate step 90 ppm",	KERNEL, PAIRS, OFFSET, WANDER, WORSE, RATE_STEP(90) }, { 0, 0, 0 } },
	{ { "a counter of 24 MHz",		KERNEL, PAIRS, OFFSET, WANDER, .ticks_mhz = 24 }, { 200, 500, 2000 } },
	{ { "24 MHz, a path of 30 ns",		.there_ns = 30, .back_ns = 30, .jitter = JITTER_SPIKES, .jitter_ns = 5, PAIRS, OFFSET, WANDER, .ticks_mhz = 24 }, { 0, 0, 0 } },
	{ { "a counter of 1 MHz",		KERNEL, PAIRS, OFFSET, WANDER, .ticks_mhz = 1 }, { 0, 0, 0 } },
	{ { "satellite",			.there_ns = 300 * NS_PER_MS, .back_ns = 290 * NS_PER_MS, .jitter_ns = 2 * NS_PER_MS, TRAINS, OFFSET, WANDER }, { 0, 0, 0 } },
	{ { "loss 60 %",			KERNEL, PAIRS, OFFSET, WANDER, .loss = 0.6 }, { 0, 0, 0 } },
	{ { "there and back, loss 60 %",	KERNEL, PAIRS, OFFSET, WANDER, EXCURSION, .loss = 0.6 }, { 0, 0, 0 } },
	{ { "loss 60 % in bursts, exp 200 us",	EXP200, PAIRS, OFFSET, WANDER, .loss = 0.6, .burst = 20 }, { 0, 0, 0 } },
	{ { "suspended for 20 s",		KERNEL, PAIRS, OFFSET, WANDER, .step_at_ns = 33333333333, .step_ns = -20 * NS_PER_S }, { 0, 0, 0 } },
	{ { "moved: a step and another rate",	KERNEL, PAIRS, OFFSET, WANDER, RATE_STEP(90), .step_at_ns = SOME_NS, .step_ns = 50 * NS_PER_MS, .is_moved = true }, { 0, 0, 0 } },
	{ { "two steps within 5 s",		KERNEL, PAIRS, OFFSET, WANDER, .step_at_ns = SOME_NS, .step_ns = 50 * NS_PER_MS, .step_again_ns = 5 * NS_PER_S }, { 0, 0, 0 } },
	{ { "longer one way for a while",	KERNEL, PAIRS, OFFSET, WANDER, .bad = { SOME_NS, 20 * NS_PER_S }, .bad_there_ns = 500 * US }, { 0, 0, 0 } },
	{ { "packets pass each other",		EXP200, APART, OFFSET, WANDER, .reorders = true }, { 0, 0, 0 } },
	{ { "a pair each 500 ms",		KERNEL, PAIRS, OFFSET, WANDER, SELDOM }, { 200, 500, 2000 } },
	{ { "the same, there and back",		KERNEL, PAIRS, OFFSET, WANDER, SELDOM, EXCURSION }, { 0, 0, 0 } },
	{ { "each 500 ms, exp 200 us, rate step",	EXP200, APART, OFFSET, WANDER, SELDOM, RATE_STEP(90) }, { 0, 0, 0 } },
	{ { "each 500 ms, exp 200 us, and back",	EXP200, APART, OFFSET, WANDER, SELDOM, EXCURSION }, { 0, 0, 0 } },
	{ { "control stream",			STREAM, APART, OFFSET, WANDER }, { 0, 0, 0 } },
	{ { "control stream, rate step 400 ppm",	STREAM, APART, OFFSET, WANDER, RATE_STEP(400) }, { 0, 0, 0 } },
	{ { "control stream, there and back",	STREAM, APART, OFFSET, WANDER, EXCURSION }, { 0, 0, 0 } },
	{ { "cut off for a while",		KERNEL, PAIRS, OFFSET, WANDER, CUT }, { 0, 0, 0 } },
	{ { "cut off, rate step 400 ppm",	KERNEL, PAIRS, OFFSET, WANDER, CUT, RATE_STEP(400) }, { 0, 0, 0 } },
	{ { "cut off, there and back",		EXP200, PAIRS, OFFSET, WANDER, CUT, EXCURSION }, { 0, 0, 0 } },
	{ { "routes swap each minute",		KERNEL, PAIRS, OFFSET, WANDER, .bad_there_ns = 500 * US, .swaps_ns = 60 * NS_PER_S }, { 0, 0, 0 } },
	{ { "routes swap each 3 s, rate step",	EXP200, PAIRS, OFFSET, WANDER, RATE_STEP(90), .bad_there_ns = NS_PER_MS, .swaps_ns = 3 * NS_PER_S }, { 0, 0, 0 } },
	{ { "wireless, a receiver that sleeps",	.there_ns = NS_PER_MS, .back_ns = NS_PER_MS, .jitter = JITTER_PARETO, .jitter_ns = NS_PER_MS, .beacon_ns = 102400 * US, .loss = 0.1, .burst = 5, PAIRS, OFFSET, WANDER }, { 0, 0, 0 } },
	{ { "windows of the past",		KERNEL, CALM, OFFSET, WANDER, .is_past = true }, { 0, 0, 0 } },
	{ { "of the past, rate step 400 ppm",	KERNEL, CALM, OFFSET, WANDER, RATE_STEP(400), .is_past = true }, { 0, 0, 0 } },
	{ { "of the past, there and back",	KERNEL, CALM, OFFSET, WANDER, EXCURSION, .is_past = true }, { 0, 0, 0 } },
	{ { "of the past, queue, there and back",	QUEUE200, CALM, OFFSET, WANDER, EXCURSION, .is_past = true }, { 0, 0, 0 } },
	{ { "of the past, step +50 ms",		KERNEL, CALM, OFFSET, WANDER, .step_at_ns = SOME_NS, .step_ns = 50 * NS_PER_MS, .is_past = true }, { 0, 0, 0 } },
	{ { "frozen for 5 s",			KERNEL, PAIRS, OFFSET, WANDER, .frozen = { SOME_NS, 5 * NS_PER_S } }, { 0, 0, 0 } },
};
/* clang-format on */
const size_t n_world_cases = sizeof(world_cases) / sizeof(world_cases[0]);

#define EDGE_NS		(6 * NS_PER_S)
#define MADE_NS		(250 * NS_PER_MS) /* after its window a map is made, */
#define MADE_LATE_NS	(700 * NS_PER_MS) /* or so long on a link that jitters */
#define STEP_KNOWN_NS	NS_PER_S
#define RATE_KNOWN_NS	(10 * NS_PER_S)
#define RATE_BREAKS_PPM 120
#define NEAR_NS		8e9

struct judges {
	const struct clock_world *world;
	int64_t length_ns, step_ns;
	struct world_judge *all, *inner;
};

static void check_map(const struct judges *j, const struct clock_estimator *est, int64_t from_ns,
		      int64_t to_ns, struct clock_model *m)
{
	int64_t from = world_host_ns(j->world, from_ns), to = world_host_ns(j->world, to_ns);

	*m = (struct clock_model){ .at_raw_ns = to };
	m->calibrated = clock_estimator_make_window_model(est, to, from, to, m);
	for (int64_t t = from_ns; t < to_ns; t += j->step_ns) {
		int64_t at = t + (int64_t)(world_uniform() * (double)j->step_ns);

		world_check(j->all, j->world, m, at);
		if (at > EDGE_NS && at < j->length_ns - EDGE_NS)
			world_check(j->inner, j->world, m, at);
	}
}

void world_judge_after(const struct clock_world *w, int64_t length_ns, int64_t step_ns,
		       struct world_judge *all, struct world_judge *inner, struct clock_model *last)
{
	const struct judges j = { w, length_ns, step_ns, all, inner };
	struct clock_estimator *est = clock_estimator_new();
	struct world_samples samples = { 0 };

	world_probe(w, 0, length_ns, &samples);
	for (size_t i = 0; i < samples.n; i++)
		clock_estimator_add(est, &samples.at[i].s);
	for (int64_t t = 0; t < length_ns; t += 10 * NS_PER_S) {
		check_map(&j, est, t, t + 10 * NS_PER_S, last);
		clock_model_free(last);
	}
	check_map(&j, est, 0, length_ns, last);
	free(samples.at);
	clock_estimator_free(est);
}

/* ---- drawn ---- */

static double between(double least, double most)
{
	return least + (most - least) * world_uniform();
}

/* Small ones as often as large ones. */
static double between_log(double least, double most)
{
	return exp(between(log(least), log(most)));
}

static double either_sign(double v)
{
	return world_uniform() < 0.5 ? -v : v;
}

struct clock_world world_vary(const struct clock_world *w, int64_t from_ns, int64_t to_ns)
{
	struct clock_world out = *w;

	out.offset_ns = llround(between(-5e9, 5e9));
	out.rate_step_ppm = either_sign(w->rate_step_ppm * between(0.44, 1));
	out.drift_ppm = either_sign(between(0, 490 - fabs(w->rate_step_ppm)));
	out.wander_turn = world_uniform();
	out.step_at_ns = llround(between((double)from_ns, (double)to_ns));
	if (w->step_ns > 0)
		out.step_ns = llround((double)w->step_ns * between_log(1, 20));
	out.rate_step.at_ns = llround(between((double)from_ns, (double)to_ns));
	if (w->is_moved)
		out.rate_step.at_ns = out.step_at_ns;
	if (w->is_excursion) {
		out.rate_step_ppm = either_sign(between_log(10, w->rate_step_ppm));
		out.rate_step.for_ns = llround(between_log(0.3e9, (double)w->rate_step.for_ns));
		out.drift_ppm = either_sign(between(0, 490 - fabs(out.rate_step_ppm)));
	}
	out.frozen.at_ns = llround(between((double)from_ns, (double)to_ns));
	out.bad.at_ns = llround(between((double)from_ns, (double)to_ns));
	if (w->bad.for_ns)
		out.bad.for_ns = llround(between_log(1e9, (double)(to_ns - from_ns)));
	if (w->cut.for_ns) {
		out.cut.at_ns = llround(between((double)from_ns, (double)to_ns));
		out.cut.for_ns = llround(between_log(1e9, (double)w->cut.for_ns));
	}
	return out;
}

/* The last jump. */
static int64_t jumped_at(const struct clock_world *w)
{
	return w->step_at_ns + w->step_again_ns;
}

/* Happened so recently that nothing can show it yet. */
static bool is_recent(int64_t at_ns, int64_t now_ns, int64_t known_ns)
{
	return at_ns <= now_ns && now_ns < at_ns + known_ns;
}

/* A clock that broke has no map until probes have confirmed it. */
static bool is_just_broken(const struct clock_world *w, int64_t now_ns)
{
	return (w->step_ns && is_recent(w->step_at_ns, now_ns,
					STEP_KNOWN_NS + (w->step_ns < 0 ? -w->step_ns : 0))) ||
	       (w->step_again_ns && is_recent(jumped_at(w), now_ns, STEP_KNOWN_NS)) ||
	       (fabs(w->rate_step_ppm) > RATE_BREAKS_PPM &&
		(is_recent(w->rate_step.at_ns, now_ns, 2 * STEP_KNOWN_NS) ||
		 (w->rate_step.for_ns &&
		  is_recent(w->rate_step.at_ns + w->rate_step.for_ns, now_ns, 2 * STEP_KNOWN_NS))));
}

/* Half of the instants of a world with a step of the rate are within NEAR_NS of it. */
static int64_t draw_instant(const struct clock_world *w, int64_t t0_ns, int64_t t1_ns)
{
	double from = (double)t0_ns, to = (double)t1_ns;

	if (w->rate_step_ppm != 0 && world_uniform() < 0.5) {
		double end = (double)(w->rate_step.at_ns + w->rate_step.for_ns) + NEAR_NS;

		from = fmin(to, fmax(from, (double)w->rate_step.at_ns - NEAR_NS));
		to = fmax(from, fmin(to, end));
	}
	return llround(between(from, to));
}

/* A window, and when the agent is armed for it. */
struct drawn_window {
	int64_t armed_ns, t0_ns, t1_ns;
};

static struct drawn_window draw_window(const struct clock_world *kind)
{
	int64_t armed_ns = llround(between_log(0.1e9, 300e9));
	int64_t t0_ns = armed_ns + 2 * NS_PER_S;

	if (!kind->is_past)
		return (struct drawn_window){ armed_ns, t0_ns,
					      t0_ns + llround(between_log(10e6, 3600e9)) };
	armed_ns += 60 * NS_PER_S;
	t0_ns = armed_ns - llround(between_log(10e6, (double)armed_ns - 30e9));
	return (struct drawn_window){
		armed_ns, t0_ns, t0_ns + llround(world_uniform() * (double)(armed_ns - t0_ns))
	};
}

void world_judge_capture(const struct clock_world *kind, size_t instants, struct world_judge *j)
{
	struct drawn_window drawn = draw_window(kind);
	int64_t armed_ns = drawn.armed_ns, t0_ns = drawn.t0_ns, t1_ns = drawn.t1_ns;
	int64_t end_ns = kind->is_past ? armed_ns
				       : t1_ns; /* of the probes, but for the last ones */
	struct clock_world w = world_vary(kind, (kind->is_past ? t0_ns : armed_ns) - NS_PER_S,
					  t1_ns);
	int64_t made_ns = end_ns + (world_is_jittery(kind) ? MADE_LATE_NS : MADE_NS);
	int64_t host_now = world_host_ns(&w, made_ns);
	struct clock_estimator *est = clock_estimator_new();
	struct clock_model m = { .at_raw_ns = host_now };
	struct world_samples samples = { 0 };

	world_probe_capture(&w, armed_ns, end_ns, &samples);
	for (size_t i = 0; i < samples.n && samples.at[i].at_ns < made_ns; i++)
		clock_estimator_add(est, &samples.at[i].s);
	m.calibrated = clock_estimator_make_window_model(est, host_now, world_host_ns(&w, t0_ns),
							 world_host_ns(&w, t1_ns), &m);
	if (m.calibrated || (samples.n && !is_just_broken(&w, end_ns))) {
		for (size_t i = 0; i < instants; i++)
			world_check(j, &w, &m, draw_instant(&w, t0_ns, t1_ns));
	}
	clock_model_free(&m);
	free(samples.at);
	clock_estimator_free(est);
}

/* ---- ahead ---- */

/* Rare trains meet a step later. */
static int64_t step_known_ns(const struct clock_world *w)
{
	return STEP_KNOWN_NS + (w->every_ns > NS_PER_S ? w->every_ns : 0);
}

/* When what happened at at_ns is known: known_ns later, or so long after the link works again. */
static int64_t known_at(const struct clock_world *w, int64_t at_ns, int64_t known_ns)
{
	int64_t cut_end_ns = w->cut.at_ns + w->cut.for_ns;

	if (w->cut.for_ns && at_ns < cut_end_ns && at_ns + known_ns > w->cut.at_ns)
		at_ns = cut_end_ns;
	return at_ns + known_ns;
}

/* A step is unknown until probes have met it, a rate until it has moved the offset out of the bound. */
static bool is_unknown_step(const struct clock_world *w, int64_t now_ns, int64_t at_ns)
{
	int64_t end_ns = jumped_at(w) + (w->step_ns < 0 ? -w->step_ns : 0);
	int64_t rate_end_ns = w->rate_step.at_ns + w->rate_step.for_ns;

	if (w->step_ns && at_ns >= w->step_at_ns && now_ns < known_at(w, end_ns, step_known_ns(w)))
		return true;
	return w->rate_step_ppm != 0 && at_ns >= w->rate_step.at_ns &&
	       now_ns < known_at(w, rate_end_ns, RATE_KNOWN_NS);
}

static void judge_beyond(const struct clock_world *w, const struct clock_model *m, int64_t t,
			 struct world_judge *j)
{
	for (int64_t at = t; at <= t + 10 * NS_PER_S; at += 250 * NS_PER_MS) {
		if (!is_unknown_step(w, t, at))
			world_check(j, w, m, at);
	}
}

/* The model of now, and the map of a window that ends now. */
void world_judge_ahead(const struct clock_world *w, int64_t length_ns, struct world_judge *j)
{
	struct clock_estimator *est = clock_estimator_new();
	struct world_samples samples = { 0 };
	size_t i = 0;

	world_probe(w, 0, length_ns, &samples);
	for (int64_t t = 0; t < length_ns; t += 500 * NS_PER_MS) {
		struct clock_model m = { .at_raw_ns = world_host_ns(w, t) };
		int64_t now_ns = m.at_raw_ns;

		while (i < samples.n && samples.at[i].at_ns <= t)
			clock_estimator_add(est, &samples.at[i++].s);
		if (!i)
			continue;
		m.calibrated = clock_estimator_make_model(est, now_ns, &m);
		judge_beyond(w, &m, t, j);
		m.calibrated = clock_estimator_make_window_model(est, now_ns, now_ns - NS_PER_S,
								 now_ns, &m);
		judge_beyond(w, &m, t, j);
		clock_model_free(&m);
	}
	free(samples.at);
	clock_estimator_free(est);
}
