/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Acceptance tests that need simulated clocks: a wall clock that is set and slewed (9), and
 * collectives of hosts whose clocks are known (17). One line of JSON each.
 *
 *   clock_sim steps | collectives SEEDS
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/clock/estimator.h"
#include "agent/clock/ledger.h"
#include "aggregator/evidence/refine.h"
#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/clock_world.h"

#define EPOCH	    INT64_C(1790000000000000000)
#define LENGTH_NS   (20 * NS_PER_S)
#define SNAPSHOT_NS (50 * NS_PER_MS) /* twenty snapshots a second, as around a capture */
#define EVENT_NS    NS_PER_MS
#define WIDTH_NS    70 /* of a snapshot */

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

	for (int64_t raw = 0; raw <= LENGTH_NS; raw += SNAPSHOT_NS) {
		const struct ledger_point p = { { raw, real_of(w, raw), WIDTH_NS }, 0, 0, 0 };

		(void)ledger_add(&l, &p);
	}
	return l;
}

/*
 * The largest error of a translated event, in the gap between the two snapshots around the change,
 * and elsewhere. Times that a clock showed twice, because it was set back, belong to the gap: they
 * are ambiguous.
 */
static void judge(const struct wall *w, const struct clock_ledger *l, int64_t *outside_ns,
		  int64_t *gap_ns)
{
	int64_t snapshot = w->at_ns / SNAPSHOT_NS * SNAPSHOT_NS, gap_to = snapshot + SNAPSHOT_NS;
	int64_t gap_from = w->step_ns < 0 ? snapshot + w->step_ns : snapshot;

	*outside_ns = *gap_ns = 0;
	for (int64_t raw = EVENT_NS / 2; raw < LENGTH_NS; raw += EVENT_NS) {
		int64_t error = llabs(ledger_raw_of_real(l, real_of(w, raw)) - raw);
		int64_t *worst = raw >= gap_from && raw <= gap_to ? gap_ns : outside_ns;

		if (error > *worst)
			*worst = error;
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

#define RANKS	   8
#define WINDOWS	   10 /* captures of six seconds, one after the other */
#define PER_WINDOW 40
#define GAP_NS	   (150 * NS_PER_MS)
#define LAST_NS	   ((int64_t)WINDOWS * PER_WINDOW * GAP_NS)

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
	world_probe(&r->world, 0, LAST_NS, &samples);
	for (size_t i = 0; i < samples.n; i++)
		clock_estimator_add(est, &samples.at[i].s);
	end = world_host_ns(&r->world, LAST_NS);
	r->model = (struct clock_model){ .at_raw_ns = end };
	r->model.calibrated = clock_estimator_make_window_model(
		est, end, world_host_ns(&r->world, 0), end, &r->model);
	free(samples.at);
	clock_estimator_free(est);
}

/* Time since the world began, by the rank's map. */
static int64_t mapped_ns(const struct rank *r, int64_t t_ns)
{
	return clock_model_session_of_raw(&r->model, world_host_ns(&r->world, t_ns)) -
	       world_session_ns(0);
}

/* Collectives of one capture's window. */
struct window {
	struct rank *ranks;
	int64_t from_ns, to_ns;
	struct xs_seen seen[PER_WINDOW * RANKS];
	int64_t at_ns[PER_WINDOW * RANKS]; /* when the rank really left */
	struct refine_clock clocks[RANKS];
	struct refined refined[RANKS];
};

/* Of all windows of all seeds. Pairs are of two ranks at one collective. */
struct tally {
	size_t pairs, backwards, violations; /* with the maps alone */
	size_t windows, refused, refined_backwards, refined_violations;
	size_t times, outside_hard, outside_bound; /* of the refined ones */
	double *before_ns, *after_ns; /* errors of pairs, of refined windows */
	size_t n_errors;
};

/* Ranks leave after the last has arrived. */
static void run_collective(struct window *w, size_t k, int64_t t)
{
	int64_t arrived[RANKS], last = 0;

	for (size_t i = 0; i < RANKS; i++) {
		arrived[i] = t + llround(-200e3 * log(world_uniform()));
		last = arrived[i] > last ? arrived[i] : last;
	}
	for (size_t i = 0; i < RANKS; i++) {
		const struct rank *r = &w->ranks[i];
		size_t at = k * RANKS + i;

		w->at_ns[at] = last + 5000 + llround(-3e3 * log(world_uniform()));
		w->seen[at] = (struct xs_seen){
			.key = (uint32_t)k,
			.host = (uint32_t)i,
			.has_start = true,
			.has_end = true,
			.start_ns = mapped_ns(r, arrived[i]),
			.end_ns = mapped_ns(r, w->at_ns[at]),
		};
	}
}

static void set_clocks(struct window *w)
{
	for (size_t i = 0; i < RANKS; i++) {
		const struct rank *r = &w->ranks[i];
		int64_t from = world_host_ns(&r->world, w->from_ns);
		int64_t to = world_host_ns(&r->world, w->to_ns);
		struct clock_slack slack = clock_model_slack_over(&r->model, from, to);

		w->clocks[i] = (struct refine_clock){
			.bound_ns = clock_model_bound_over(&r->model, from, to),
			.earlier_ns = slack.earlier_ns,
			.later_ns = slack.later_ns,
		};
	}
}

/* Pairs that run backwards by the maps: at all, and beyond the bounds. */
static void judge_order(const struct window *w, size_t *backwards, size_t *violations)
{
	for (size_t at = 0; at < PER_WINDOW * RANKS; at++) {
		const struct xs_seen *a = &w->seen[at], *b = &w->seen[at / RANKS * RANKS];

		for (size_t j = 0; j < RANKS; j++) {
			int64_t end = a->end_ns + w->refined[a->host].offset_ns;
			int64_t start = b[j].start_ns + w->refined[j].offset_ns;

			*backwards += end < start;
			*violations += end + w->clocks[a->host].bound_ns <
				       start - w->clocks[j].bound_ns;
		}
	}
}

static double error_of(const struct window *w, size_t at, bool refined)
{
	const struct xs_seen *s = &w->seen[at];

	return (double)(s->end_ns + (refined ? w->refined[s->host].offset_ns : 0) - w->at_ns[at]);
}

static void judge_errors(const struct window *w, struct tally *t)
{
	for (size_t at = 0; at < PER_WINDOW * RANKS; at++) {
		size_t host = w->seen[at].host, first = at - host;
		const struct rank *r = &w->ranks[host];
		const struct refined *x = &w->refined[host];
		int64_t raw = world_host_ns(&r->world, w->at_ns[at]);
		struct clock_slack slack = clock_model_slack_over(&r->model, raw, raw);

		t->times++;
		t->outside_hard += x->offset_ns < -slack.earlier_ns ||
				   x->offset_ns > slack.later_ns;
		t->outside_bound += fabs(error_of(w, at, true)) > (double)x->bound_ns;
		for (size_t other = first; other < at; other++) {
			t->before_ns[t->n_errors] = fabs(error_of(w, at, false) -
							 error_of(w, other, false));
			t->after_ns[t->n_errors++] = fabs(error_of(w, at, true) -
							  error_of(w, other, true));
		}
	}
}

static void judge_window(struct window *w, struct tally *t)
{
	struct refinement out;
	enum refine_result result;

	memset(w->refined, 0, sizeof(w->refined));
	set_clocks(w);
	judge_order(w, &t->backwards, &t->violations);
	result = refine(w->clocks, RANKS, w->seen, PER_WINDOW * RANKS, w->refined, &out);
	t->pairs += PER_WINDOW * RANKS * RANKS;
	t->windows++;
	t->refused += result != REFINE_DONE;
	judge_order(w, &t->refined_backwards, &t->refined_violations);
	if (result == REFINE_DONE)
		judge_errors(w, t);
}

static void print_errors(const char *name, double *v, size_t n)
{
	printf(", \"%s\": {\"p50\": %.3f, \"p99\": %.3f, \"max\": %.3f}", name,
	       world_quantile(v, n, 0.5) / 1e3, world_quantile(v, n, 0.99) / 1e3,
	       world_quantile(v, n, 1) / 1e3);
}

static void print_tally(struct tally *t)
{
	printf("{\"pairs\": %zu, \"backwards\": %zu, \"violations\": %zu", t->pairs, t->backwards,
	       t->violations);
	printf(", \"windows\": %zu, \"refused\": %zu, \"refined_backwards\": %zu, "
	       "\"refined_violations\": %zu",
	       t->windows, t->refused, t->refined_backwards, t->refined_violations);
	printf(", \"times\": %zu, \"outside_hard\": %zu, \"outside_bound\": %zu", t->times,
	       t->outside_hard, t->outside_bound);
	if (t->n_errors) {
		print_errors("before_us", t->before_ns, t->n_errors);
		print_errors("after_us", t->after_ns, t->n_errors);
	}
	puts("}");
}

static int collectives(size_t seeds)
{
	size_t most = seeds * WINDOWS * PER_WINDOW * RANKS * (RANKS - 1) / 2;
	struct tally t = { .before_ns = xcalloc(most, sizeof(double)),
			   .after_ns = xcalloc(most, sizeof(double)) };
	struct window *w = xcalloc(1, sizeof(*w));

	w->ranks = xcalloc(RANKS, sizeof(*w->ranks));
	for (size_t seed = 1; seed <= seeds; seed++) {
		world_seed(seed);
		for (size_t i = 0; i < RANKS; i++)
			start_rank(&w->ranks[i]);
		for (size_t i = 0; i < WINDOWS; i++) {
			w->from_ns = (int64_t)(i * PER_WINDOW) * GAP_NS;
			w->to_ns = w->from_ns + PER_WINDOW * GAP_NS;
			for (size_t k = 0; k < PER_WINDOW; k++)
				run_collective(w, k, w->from_ns + (int64_t)k * GAP_NS + GAP_NS / 2);
			judge_window(w, &t);
		}
		for (size_t i = 0; i < RANKS; i++)
			clock_model_free(&w->ranks[i].model);
	}
	print_tally(&t);
	free(t.before_ns);
	free(t.after_ns);
	free(w->ranks);
	free(w);
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
