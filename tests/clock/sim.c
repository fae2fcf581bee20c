/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Acceptance tests that need clocks no machine would lend: a wall clock that is set and slewed (9), and
 * collectives of hosts whose clocks are known (17). One line of JSON each.
 *
 *   clock_sim steps | collectives SEEDS
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/clock_ledger.h"
#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/clock_world.h"

#define EPOCH	  INT64_C(1790000000000000000)
#define LENGTH_NS (20 * NS_PER_S)
#define LOOK_NS	  (50 * NS_PER_MS) /* twenty snapshots a second, as around a capture */
#define EVENT_NS  NS_PER_MS
#define WIDTH_NS  70 /* of a snapshot */

/* ---- 9: the wall clock is set, or slewed ---- */

struct wall {
	const char *name;
	int64_t at_ns, step_ns;
	double slew_ppm; /* from at_ns on */
};

static const struct wall walls[] = {
	{ "+50 ms", 10012345678, 50 * NS_PER_MS, 0 },
	{ "-50 ms", 10012345678, -50 * NS_PER_MS, 0 },
	{ "+100 us", 10012345678, 100 * NS_PER_US, 0 },
	{ "500 ppm", 10012345678, 0, 500 },
};

static int64_t real_of(const struct wall *w, int64_t raw_ns)
{
	int64_t past = raw_ns - w->at_ns;

	if (past < 0)
		return EPOCH + raw_ns;
	return EPOCH + raw_ns + w->step_ns + llround((double)past * w->slew_ppm * 1e-6);
}

static struct clock_ledger watch(const struct wall *w)
{
	struct clock_ledger l = { 0 };

	for (int64_t raw = 0; raw <= LENGTH_NS; raw += LOOK_NS) {
		const struct ledger_point p = { raw, real_of(w, raw), WIDTH_NS, 0, 0 };

		(void)ledger_add(&l, &p);
	}
	return l;
}

/*
 * How wrong events are translated, in the snapshot gap in which it happened, and elsewhere. Times that a clock
 * showed twice, because it was set back, are of the gap: which of the two was meant nothing can tell.
 */
static void judge(const struct wall *w, const struct clock_ledger *l, int64_t *outside_ns,
		  int64_t *gap_ns)
{
	int64_t look = w->at_ns / LOOK_NS * LOOK_NS, gap_to = look + LOOK_NS;
	int64_t gap_from = w->step_ns < 0 ? look + w->step_ns : look;

	*outside_ns = *gap_ns = 0;
	for (int64_t raw = EVENT_NS / 2; raw < LENGTH_NS; raw += EVENT_NS) {
		int64_t wrong = llabs(ledger_raw_of_real(l, real_of(w, raw)) - raw);
		int64_t *worst = raw >= gap_from && raw <= gap_to ? gap_ns : outside_ns;

		if (wrong > *worst)
			*worst = wrong;
	}
}

static int steps(void)
{
	printf("[");
	for (size_t i = 0; i < sizeof(walls) / sizeof(walls[0]); i++) {
		struct clock_ledger l = watch(&walls[i]);
		const struct ledger_step *s = l.n_steps ? &l.steps[0] : NULL;
		int64_t outside_ns, gap_ns;

		judge(&walls[i], &l, &outside_ns, &gap_ns);
		printf("%s{\"name\": \"%s\", \"steps\": %u, \"found_ms\": %.3f, "
		       "\"delta_us\": %.3f, \"outside_us\": %.3f, \"gap_us\": %.3f}",
		       i ? ", " : "", walls[i].name, l.steps_seen,
		       s ? (double)(s->to_raw_ns - walls[i].at_ns) / 1e6 : -1,
		       s ? (double)s->delta_ns / 1e3 : 0, (double)outside_ns / 1e3,
		       (double)gap_ns / 1e3);
	}
	puts("]");
	return 0;
}

/* ---- 17: collectives ---- */

#define RANKS	    8
#define COLLECTIVES 400
#define GAP_NS	    (150 * NS_PER_MS)

struct rank {
	struct clock_world world;
	struct clock_model model;
};

/* A link with 200 us of jitter each way, and another clock for each. */
static void start_rank(struct rank *r)
{
	struct clock_estimator *est = clock_estimator_new();
	struct world_samples samples = { 0 };
	int64_t end;

	r->world = (struct clock_world){
		.there_ns = 20000,
		.back_ns = 20000,
		.jitter_ns = 200000,
		.every_ns = 200 * NS_PER_MS,
		.train = 2,
		.gap_ns = 20000,
		.offset_ns = llround((2 * world_uniform() - 1) * 5e9),
		.drift_ppm = (2 * world_uniform() - 1) * 100,
		.wander_ppm = 2.618,
		.wander_s = 60,
		.wander_turn = world_uniform(),
	};
	world_probe(&r->world, 0, (int64_t)COLLECTIVES * GAP_NS, &samples);
	for (size_t i = 0; i < samples.n; i++)
		clock_estimator_add(est, &samples.at[i].s);
	end = world_host_ns(&r->world, (int64_t)COLLECTIVES * GAP_NS);
	r->model = (struct clock_model){ .at_raw_ns = end };
	r->model.calibrated = clock_estimator_map(est, end, world_host_ns(&r->world, 0), end,
						  &r->model);
	free(samples.at);
	clock_estimator_free(est);
}

/* Nobody leaves before the last has come: what the maps make of it, beyond their bounds and without. */
static void meet(struct rank *ranks, int64_t t, size_t *raw, size_t *violations)
{
	int64_t come[RANKS], go[RANKS], bound[RANKS], last = 0;

	for (size_t i = 0; i < RANKS; i++) {
		int64_t at = t + llround(-200e3 * log(world_uniform()));

		last = at > last ? at : last;
		come[i] = world_host_ns(&ranks[i].world, at);
	}
	for (size_t i = 0; i < RANKS; i++) {
		const struct clock_model *m = &ranks[i].model;
		int64_t left = last + 5000 + llround(-3e3 * log(world_uniform()));

		go[i] = world_host_ns(&ranks[i].world, left);
		bound[i] = clock_model_bound_at(m, go[i]);
		go[i] = clock_model_session_of_raw(m, go[i]);
		come[i] = clock_model_session_of_raw(m, come[i]);
	}
	for (size_t i = 0; i < RANKS; i++) {
		for (size_t j = 0; j < RANKS; j++) {
			*raw += go[i] < come[j];
			*violations += go[i] + bound[i] < come[j] - bound[j];
		}
	}
}

static int collectives(size_t seeds)
{
	size_t raw = 0, violations = 0;
	struct rank *ranks = xcalloc(RANKS, sizeof(*ranks));

	for (size_t seed = 1; seed <= seeds; seed++) {
		world_seed(seed);
		for (size_t i = 0; i < RANKS; i++)
			start_rank(&ranks[i]);
		for (int k = 1; k < COLLECTIVES; k++)
			meet(ranks, k * GAP_NS, &raw, &violations);
	}
	printf("{\"pairs\": %zu, \"backwards\": %zu, \"violations\": %zu}\n",
	       seeds * (COLLECTIVES - 1) * RANKS * RANKS, raw, violations);
	free(ranks);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "steps"))
		return steps();
	if (argc == 3 && !strcmp(argv[1], "collectives"))
		return collectives((size_t)atoll(argv[2]));
	fprintf(stderr, "usage: clock_sim steps | collectives SEEDS\n");
	return 2;
}
