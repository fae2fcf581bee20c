/* SPDX-License-Identifier: Apache-2.0 */
/* The budget with fake tracers, which take what a table says, in virtual time. */
#include "agent/budget/budget.h"

#include "base/loop.h"
#include "base/now.h"
#include "tests/lib/check.h"
#include "tests/lib/run_until.h"

#define MIB ((uint64_t)1 << 20)

enum { DEAR, CHEAP, FIXED, FAKES };

/* In per cent of a CPU; each step halves. */
static struct fake {
	struct tracer base;
	double percent;
	unsigned int step, max_step;
	int64_t cpu_ns, at_mono_ns;
} fakes[FAKES];

static struct budget_usage process, others;

static int64_t fake_cpu_ns(const struct tracer *t)
{
	struct fake *f = (struct fake *)t;
	int64_t now = now_mono_ns();

	f->cpu_ns += (int64_t)((double)(now - f->at_mono_ns) * f->percent / 100) >> f->step;
	f->at_mono_ns = now;
	return f->cpu_ns;
}

static struct budget_usage usage(void)
{
	return process;
}

static struct budget_usage usage_of_others(void *arg)
{
	(void)arg;
	return others;
}

static bool limit(struct tracer *t, unsigned int step)
{
	struct fake *f = (struct fake *)t;

	if (step > f->max_step)
		return false;
	CHECK(step + 1 == f->step || step == f->step + 1);
	f->step = step;
	return true;
}

static void state(const struct tracer *t, struct tracer_state *out)
{
	(void)t;
	*out = (struct tracer_state){ .health = TRACER_OK };
}

static const struct tracer_ops ops[FAKES] = {
	[DEAR] = { .name = "dear", .state = state, .limit = limit },
	[CHEAP] = { .name = "cheap", .state = state, .limit = limit },
	[FIXED] = { .name = "fixed", .state = state },
};

static struct tracer *const set[] = { &fakes[DEAR].base, &fakes[CHEAP].base, &fakes[FIXED].base,
				      NULL };

static struct budget *up(struct loop *l, double max_percent, uint64_t max_bytes)
{
	struct budget *b;

	for (int i = 0; i < FAKES; i++)
		fakes[i] = (struct fake){ .base.ops = &ops[i],
					  .max_step = 3,
					  .at_mono_ns = now_mono_ns() };
	process = (struct budget_usage){ .resident_bytes = 20 * MIB };
	others = (struct budget_usage){ 0 };
	b = budget_new(&(struct budget_conf){ .loop = l,
					      .max_cpu_percent = max_percent,
					      .max_rss_bytes = max_bytes,
					      .usage = usage,
					      .others = usage_of_others,
					      .tracer_cpu_ns = fake_cpu_ns });
	budget_watch(b, set);
	return b;
}

static void run_seconds(struct loop *l, int seconds)
{
	run_for(l, seconds * NS_PER_S);
}

static void the_dearest_steps_down_and_up(struct loop *l)
{
	struct budget *b = up(l, 1, 0);
	struct tracer_state s;
	int64_t began_ns = now_raw_ns();

	fakes[DEAR].percent = 0.6;
	fakes[CHEAP].percent = 0.3;
	run_seconds(l, 120);
	CHECK(!fakes[DEAR].step && !fakes[CHEAP].step);
	tracer_get_state(&fakes[DEAR].base, &s);
	CHECK_EQ(s.health, TRACER_OK);

	fakes[DEAR].percent = 1.2; /* 1.5 in all; 0.9 after a step */
	run_seconds(l, 60);
	CHECK_EQ(fakes[DEAR].step, 1);
	CHECK_EQ(fakes[CHEAP].step, 0);
	tracer_get_state(&fakes[DEAR].base, &s);
	CHECK_EQ(s.health, TRACER_DEGRADED);
	CHECK(strstr(s.reason, "--max-cpu is 1%"));
	CHECK(tracer_was_limited(&fakes[DEAR].base, now_raw_ns() - NS_PER_S, now_raw_ns()));
	CHECK(!tracer_was_limited(&fakes[DEAR].base, began_ns, began_ns + 60 * NS_PER_S));
	CHECK(!tracer_was_limited(&fakes[CHEAP].base, began_ns, now_raw_ns()));

	fakes[DEAR].percent = 0.6;
	run_seconds(l, 90);
	CHECK_EQ(fakes[DEAR].step, 0);
	tracer_get_state(&fakes[DEAR].base, &s);
	CHECK_EQ(s.health, TRACER_OK);
	/* A window that it was limited in stays marked. */
	CHECK(tracer_was_limited(&fakes[DEAR].base, now_raw_ns() - 80 * NS_PER_S, now_raw_ns()));
	CHECK(!tracer_was_limited(&fakes[DEAR].base, now_raw_ns() - NS_PER_S, now_raw_ns()));
	budget_free(b);
}

static void without_a_step_left_it_goes_on(struct loop *l)
{
	struct budget *b = up(l, 1, 0);

	fakes[FIXED].percent = 5; /* cannot do less */
	fakes[DEAR].percent = 2;
	fakes[CHEAP].percent = 0.04; /* not worth it */
	run_seconds(l, 300);
	CHECK_EQ(fakes[DEAR].step, 3);
	CHECK_EQ(fakes[CHEAP].step, 0);
	fakes[FIXED].percent = 0;
	run_seconds(l, 600);
	CHECK_EQ(fakes[DEAR].step,
		 2); /* 0.5 %: a further step up was one too many, and is tried later */
	budget_watch(b, NULL);
	run_seconds(l, 60);
	budget_free(b);
}

static void where_one_can_do_no_less_the_next_one_steps_down(struct loop *l)
{
	struct budget *b = up(l, 1, 0);

	fakes[DEAR].percent = 2;
	fakes[DEAR].max_step = 1;
	fakes[CHEAP].percent = 0.8;
	run_seconds(l, 300);
	CHECK_EQ(fakes[DEAR].step, 1);
	CHECK_EQ(fakes[CHEAP].step, 3);
	budget_free(b);
}

static void memory_halves_the_rings(struct loop *l)
{
	struct budget *b = up(l, 0, 64 * MIB);
	const unsigned int *halvings = budget_halvings(b);

	run_seconds(l, 30);
	CHECK_EQ(*halvings, 0);
	CHECK_STR(budget_sentence(b), "");
	process.resident_bytes = 80 * MIB;
	run_seconds(l, 15);
	CHECK_EQ(*halvings, 1);
	CHECK(strstr(budget_sentence(b), "--max-rss is 64 MiB"));
	run_seconds(l, 300);
	CHECK_EQ(*halvings, BUDGET_HALVINGS_MAX);
	process.resident_bytes = 30 * MIB;
	run_seconds(l, 300);
	CHECK_EQ(*halvings, 0);
	CHECK_STR(budget_sentence(b), "");
	others.resident_bytes = 50 * MIB; /* of the agent's other processes */
	run_seconds(l, 15);
	CHECK_EQ(*halvings, 1);
	budget_free(b);
}

int main(void)
{
	struct loop *l;
	struct err e;

	CHECK_OK(loop_new(&l, 1, &e), e);
	the_dearest_steps_down_and_up(l);
	without_a_step_left_it_goes_on(l);
	where_one_can_do_no_less_the_next_one_steps_down(l);
	memory_halves_the_rings(l);
	loop_free(l);
	return 0;
}
