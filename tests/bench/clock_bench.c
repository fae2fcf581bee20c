/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures of the clock estimator in simulated worlds whose truth is known: beside simpler
 * estimators on the same probes, in every world of tests/lib/clock_worlds.c, and its CPU time. See
 * tests/bench/clock.
 *
 *   clock_bench compare REPEATS | campaign INSTANTS [SEED [WORLD]] | worlds | cost REPEATS | windows SECONDS
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/clock/estimator.h"
#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/clock_worlds.h"

#define LENGTH_NS   (60 * NS_PER_S)
#define CAPTURE_NS  (10 * NS_PER_S)
#define EDGE_NS	    (6 * NS_PER_S)
#define REPEATS	    99
#define CHECKS	    2000 /* of each window */
#define CHECKS_FEW  200
#define FEW	    100000 /* instants: a short run, which checks maps of the past more coarsely */
#define HOUR_P99_NS 1000 /* on a clean path, of windows of any length */

/* ---- side by side ---- */

/* The offset from the first n probes. */
typedef double (*guess_fn)(const struct world_samples *s, size_t n);

static double middle(const struct clock_sample *s)
{
	return (double)(s->t1_ns - s->t2_ns) / 2 + (double)(s->t4_ns - s->t3_ns) / 2;
}

static double guess_one(const struct world_samples *s, size_t n)
{
	return middle(&s->at[n - 1].s);
}

static double guess_two(const struct world_samples *s, size_t n)
{
	return (middle(&s->at[n - 1].s) + middle(&s->at[n - 2].s)) / 2;
}

static int64_t rtt(const struct clock_sample *s)
{
	return (s->t4_ns - s->t1_ns) - (s->t3_ns - s->t2_ns);
}

static double guess_min8(const struct world_samples *s, size_t n)
{
	size_t best = n - 1;

	for (size_t i = n > 8 ? n - 8 : 0; i < n; i++) {
		if (rtt(&s->at[i].s) < rtt(&s->at[best].s))
			best = i;
	}
	return middle(&s->at[best].s);
}

static const struct way {
	const char *name;
	guess_fn guess; /* NULL = ours */
	bool held; /* estimated once, at the start of each capture of 10 s */
} ways[] = {
	{ "one exchange, held for 10 s", guess_one, true },
	{ "mean of last two, held for 10 s", guess_two, true },
	{ "minimum RTT of 8, held for 10 s", guess_min8, true },
	{ "one exchange, always the last", guess_one, false },
	{ "mean of last two, always", guess_two, false },
	{ "minimum RTT of last 8, always", guess_min8, false },
	{ "ours", NULL, false },
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

static size_t arrived(const struct world_samples *s, int64_t t)
{
	size_t n = 0;

	while (n < s->n && s->at[n].at_ns <= t)
		n++;
	return n;
}

static void judge_simple(const struct clock_world *w, const struct world_samples *s,
			 const struct way *way, struct world_judge *j)
{
	double guess = 0;
	int64_t next = EDGE_NS;
	size_t n = arrived(s, EDGE_NS);

	for (int64_t t = EDGE_NS; t < LENGTH_NS - EDGE_NS; t += 10 * NS_PER_MS) {
		int64_t host = world_host_ns(w, t);
		struct clock_model m = { .calibrated = true, .at_raw_ns = host };

		while (n < s->n && s->at[n].at_ns <= t)
			n++;
		if (t >= next || !way->held)
			guess = way->guess(s, n);
		next = t >= next ? next + CAPTURE_NS : next;
		m.offset_ns = llround(guess);
		world_check(j, w, &m, t);
	}
}

static void judge_ours(const struct clock_world *w, const struct world_samples *s,
		       struct world_judge *j)
{
	struct clock_estimator *est = clock_estimator_new();
	int64_t end = world_host_ns(w, LENGTH_NS - EDGE_NS);
	struct clock_model m = { .at_raw_ns = end };

	for (size_t i = 0; i < s->n; i++)
		clock_estimator_add(est, &s->at[i].s);
	m.calibrated = clock_estimator_make_window_model(est, end, world_host_ns(w, EDGE_NS), end,
							 &m);
	for (int64_t t = EDGE_NS; t < LENGTH_NS - EDGE_NS; t += 10 * NS_PER_MS)
		world_check(j, w, &m, t);
	clock_model_free(&m);
	clock_estimator_free(est);
}

struct figures {
	double p50[REPEATS], p99[REPEATS], bound[REPEATS];
};

static void run_repeat(const struct clock_world *w, int repeat, struct figures f[WAYS])
{
	struct world_samples samples = { 0 };

	world_seed((uint64_t)repeat + 1);
	world_probe(w, 0, LENGTH_NS, &samples);
	for (size_t i = 0; i < WAYS; i++) {
		struct world_judge j = { 0 };

		if (ways[i].guess)
			judge_simple(w, &samples, &ways[i], &j);
		else
			judge_ours(w, &samples, &j);
		f[i].p50[repeat] = world_quantile(j.error_ns, j.n, 0.5);
		f[i].p99[repeat] = world_quantile(j.error_ns, j.n, 0.99);
		f[i].bound[repeat] = world_quantile(j.bound_ns, j.n, 1);
		world_judge_free(&j);
	}
	free(samples.at);
}

static void compare_in(const struct clock_world *w, size_t repeats)
{
	struct figures *f = xcalloc(WAYS, sizeof(*f));
	const struct figures *ours = &f[WAYS - 1];

	for (size_t k = 0; k < repeats; k++)
		run_repeat(w, (int)k, f);
	printf("%-34s %9s %9s %9s %9s %9s\n", w->name, "p50 us", "p99 us", "p50 ratio", "p99 ratio",
	       "bound us");
	for (size_t i = 0; i < WAYS; i++) {
		double p50 = world_quantile(f[i].p50, repeats, 0.5);
		double p99 = world_quantile(f[i].p99, repeats, 0.5);

		printf("  %-32s %9.2f %9.2f %9.1f %9.1f ", ways[i].name, p50 / 1e3, p99 / 1e3,
		       p50 / world_quantile((double *)ours->p50, repeats, 0.5),
		       p99 / world_quantile((double *)ours->p99, repeats, 0.5));
		if (ways[i].guess)
			printf("%9s\n", "none");
		else
			printf("%9.2f\n", world_quantile(f[i].bound, repeats, 0.5) / 1e3);
	}
	free(f);
}

static int compare(size_t repeats)
{
	repeats = repeats < 1 ? 1 : repeats > REPEATS ? REPEATS : repeats;
	printf("medians over %zu minutes of the same probes; ratio = error / ours\n", repeats);
	for (size_t i = 0; i < n_world_cases; i++) {
		const struct clock_world *w = &world_cases[i].world;

		if (!w->step_ns && !w->late_stamps)
			compare_in(w, repeats);
	}
	return 0;
}

/* ---- the campaign ---- */

/* Of all worlds. */
struct tally {
	size_t checked, outside, unknown, inaccurate;
};

static void print_judge(const char *what, struct world_judge *j)
{
	printf("  %-6s %9zu %8zu %8zu", what, j->n, j->outside, j->unknown);
	for (double share = 0.5; share < 1; share += 0.49)
		printf(" %10.2f", world_quantile(j->error_ns, j->n, share) / 1e3);
	for (double share = 0.5; share < 1; share += 0.49)
		printf(" %10.2f", world_quantile(j->bound_ns, j->n, share) / 1e3);
	printf(" %10.2f\n", world_quantile(j->bound_ns, j->n, 1) / 1e3);
}

static void judge_goal(const struct world_case *c, struct world_judge *inner, struct tally *t)
{
	const struct world_goal *g = &c->goal;
	double p50 = world_quantile(inner->error_ns, inner->n, 0.5);
	double p99 = world_quantile(inner->error_ns, inner->n, 0.99);

	if ((g->p50 <= 0 || p50 <= g->p50) && (g->p99 <= 0 || p99 <= g->p99))
		return;
	printf("  errors are above the goal: p50 %.2f, p99 %.2f\n", g->p50 / 1e3, g->p99 / 1e3);
	t->inaccurate++;
}

static void campaign_in(size_t index, size_t instants, uint64_t seed, struct tally *t)
{
	struct world_judge all = { 0 }, inner = { 0 }, ahead = { 0 }, files = { 0 };
	const struct clock_world *kind = &world_cases[index].world;

	for (uint64_t k = 0; files.n + files.unknown < instants; k++) {
		struct clock_model last;
		struct clock_world w;

		world_seed(seed * 1000000007 + index * 1000003 + k);
		world_judge_capture(kind, instants < FEW ? CHECKS_FEW : CHECKS, &files);
		if (k % (instants < FEW ? 64 : 16))
			continue;
		/* A host that stops for 5 s is probed again before the end. */
		w = world_vary(kind, 10 * NS_PER_S, LENGTH_NS - 10 * NS_PER_S);
		world_judge_after(&w, LENGTH_NS, instants < FEW ? 50 * NS_PER_MS : 5 * NS_PER_MS,
				  &all, &inner, &last);
		clock_model_free(&last);
		world_judge_ahead(&w, LENGTH_NS, &ahead);
	}
	printf("%s\n", kind->name);
	print_judge("files", &files);
	print_judge("after", &all);
	print_judge("inner", &inner);
	print_judge("ahead", &ahead);
	fflush(stdout);
	judge_goal(&world_cases[index], &inner, t);
	t->checked += files.n + all.n + ahead.n;
	t->outside += files.outside + all.outside + ahead.outside;
	t->unknown += files.unknown + all.unknown + ahead.unknown;
	world_judge_free(&files);
	world_judge_free(&all);
	world_judge_free(&inner);
	world_judge_free(&ahead);
}

static int campaign(size_t instants, uint64_t seed, const char *name)
{
	struct tally t = { 0 };

	printf("us; files: windows of 10 ms to 1 h, as agents map them; after: maps of the past "
	       "(inner: not the first and last 6 s); ahead: from the past\n");
	printf("  %-6s %9s %8s %8s %10s %10s %10s %10s %10s\n", "", "instants", "outside",
	       "unknown", "err p50", "err p99", "bound p50", "bound p99", "bound max");
	for (size_t i = 0; i < n_world_cases; i++) {
		if (!name || !strcmp(name, world_cases[i].world.name))
			campaign_in(i, instants, seed, &t);
	}
	printf("%zu instants, the truth outside the bound in %zu, no bound in %zu, errors above "
	       "the "
	       "goal in %zu worlds\n",
	       t.checked, t.outside, t.unknown, t.inaccurate);
	return !t.checked || t.outside || t.unknown || t.inaccurate;
}

static int list_worlds(void)
{
	for (size_t i = 0; i < n_world_cases; i++)
		puts(world_cases[i].world.name);
	return 0;
}

/* ---- long windows ---- */

/* One window on an idle path, after two minutes, as an agent maps it. */
static bool map_window(int64_t length_ns)
{
	const struct clock_world *w = &world_cases[0].world;
	int64_t t0 = 122 * NS_PER_S, t1 = t0 + length_ns, now = world_host_ns(w, t1 + NS_PER_S);
	struct clock_estimator *est = clock_estimator_new();
	struct clock_model m = { .at_raw_ns = now };
	struct world_samples samples = { 0 };
	struct world_judge j = { 0 };
	int64_t start, took;
	bool good;

	world_probe_capture(w, t0 - 2 * NS_PER_S, t1, &samples);
	for (size_t i = 0; i < samples.n; i++)
		clock_estimator_add(est, &samples.at[i].s);
	start = now_raw_ns();
	m.calibrated = clock_estimator_make_window_model(est, now, world_host_ns(w, t0),
							 world_host_ns(w, t1), &m);
	took = now_raw_ns() - start;
	for (int64_t t = t0; t < t1; t += length_ns / 100000)
		world_check(&j, w, &m, t);
	good = m.calibrated && !j.outside && world_quantile(j.error_ns, j.n, 0.99) <= HOUR_P99_NS;
	printf("%6.0f s: error p50 %.2f p99 %.2f max %.2f us, bound p50 %.2f max %.2f us, inside "
	       "%zu/%zu, %u knots, %.1f ms\n",
	       (double)length_ns / 1e9, world_quantile(j.error_ns, j.n, 0.5) / 1e3,
	       world_quantile(j.error_ns, j.n, 0.99) / 1e3,
	       world_quantile(j.error_ns, j.n, 1) / 1e3, world_quantile(j.bound_ns, j.n, 0.5) / 1e3,
	       world_quantile(j.bound_ns, j.n, 1) / 1e3, j.n - j.outside, j.n, m.n_knots,
	       (double)took / 1e6);
	clock_model_free(&m);
	world_judge_free(&j);
	free(samples.at);
	clock_estimator_free(est);
	return good;
}

static int windows(size_t most_s)
{
	bool good = true;

	for (size_t s = 1; s <= most_s; s *= 60) {
		world_seed(s);
		good = map_window((int64_t)s * NS_PER_S) && good;
	}
	return !good;
}

/* ---- the cost ---- */

static int cost(size_t repeats)
{
	struct clock_world w = world_cases[0].world;
	struct world_samples samples = { 0 };
	double took[REPEATS];

	repeats = repeats < 1 ? 1 : repeats > REPEATS ? REPEATS : repeats;
	/* as agents probe in a window */
	w.every_ns = 125 * NS_PER_MS;
	w.train = 2;
	world_probe(&w, 0, LENGTH_NS, &samples);
	for (size_t k = 0; k < repeats; k++) {
		struct clock_estimator *est = clock_estimator_new();
		struct clock_model m;
		int64_t start = now_thread_cpu_ns();

		for (size_t i = 0; i < samples.n; i++)
			clock_estimator_add(est, &samples.at[i].s);
		clock_estimator_make_window_model(est, world_host_ns(&w, LENGTH_NS),
						  world_host_ns(&w, 0),
						  world_host_ns(&w, LENGTH_NS), &m);
		took[k] = (double)(now_thread_cpu_ns() - start);
		clock_model_free(&m);
		clock_estimator_free(est);
		if (!k)
			printf("%zu probes, %u knots: ", samples.n, m.n_knots);
	}
	printf("%.0f us per host, median of %zu\n", world_quantile(took, repeats, 0.5) / 1e3,
	       repeats);
	free(samples.at);
	return 0;
}

int main(int argc, char **argv)
{
	size_t n = argc >= 3 ? (size_t)atoll(argv[2]) : 0;

	if (argc == 2 && !strcmp(argv[1], "worlds"))
		return list_worlds();
	if (n && !strcmp(argv[1], "compare"))
		return compare(n);
	if (n && !strcmp(argv[1], "campaign"))
		return campaign(n, argc > 3 ? (uint64_t)atoll(argv[3]) : 1,
				argc > 4 ? argv[4] : NULL);
	if (n && !strcmp(argv[1], "windows"))
		return windows(n);
	if (n && !strcmp(argv[1], "cost"))
		return cost(n);
	fprintf(stderr,
		"usage: clock_bench compare REPEATS | campaign INSTANTS [SEED [WORLD]] | worlds | "
		"cost REPEATS | windows SECONDS\n");
	return 2;
}
