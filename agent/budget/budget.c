/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/budget/budget.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/budget/throttle.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/memory.h"
#include "base/now.h"

#define MIB	    ((double)(1 << 20))
#define LABEL_BYTES 32

/* A tracer that takes less than this part of the limit is not worth a step. */
#define WORTH_A_STEP 0.05

enum { CPU, MEMORY, STEPS, COLUMNS };
static const char *const columns[COLUMNS] = { "cpu %", "mem MB", "steps down" };

struct watched {
	struct tracer *tracer;
	int64_t cpu_ns; /* at the last measurement */
	double percent; /* of a CPU, since the one before */
	double mean; /* over some ten measurements */
};

struct budget {
	struct budget_conf conf;
	struct loop_timer timer;
	struct counters *counters;
	struct watched *v;
	size_t n;
	struct tracer **steps; /* whose step was taken, in order */
	size_t n_steps;
	struct throttle cpu, memory;
	unsigned int halvings;
	int64_t raw_ns; /* of the last measurement */
	struct budget_usage usage; /* then */
	double percent; /* of a CPU, of the process, since the one before */
	bool warned_no_step_left[2]; /* [0]: of CPU, [1]: of memory */
	char sentence[200];
};

/* ---- measuring ---- */

static struct budget_usage process_usage(void)
{
	return (struct budget_usage){ now_process_cpu_ns(), memory_resident_bytes() };
}

static int64_t account_cpu_ns(const struct tracer *t)
{
	return t->account ? loop_account_cpu_ns(t->account) : 0;
}

static const char *column_name(size_t column, char text[COUNTERS_NAME_BYTES])
{
	(void)text;
	return columns[column];
}

static void add_rows(void *arg, int64_t raw_ns, struct counters_reading *reading)
{
	const struct budget *b = arg;
	double *row = counters_add_row(reading, "agent");

	(void)raw_ns;
	row[CPU] = b->percent;
	row[MEMORY] = (double)b->usage.resident_bytes * 1e-6;
	row[STEPS] = b->halvings;
	for (size_t i = 0; i < b->n; i++) {
		row = counters_add_row(reading, b->v[i].tracer->ops->name);
		row[CPU] = b->v[i].percent;
		row[STEPS] = b->v[i].tracer->limit.step;
	}
}

static void free_nothing(void *arg)
{
	(void)arg;
}

static double percent_of(int64_t cpu_ns, int64_t ns)
{
	return ns > 0 ? 100 * (double)cpu_ns / (double)ns : 0;
}

/* Returns what the tracers take, in per cent of a CPU. */
static double measure(struct budget *b)
{
	int64_t raw_ns = now_raw_ns(), passed_ns = raw_ns - b->raw_ns;
	struct budget_usage usage = b->conf.usage();
	struct budget_usage others = { 0 };
	double sum = 0;

	if (b->conf.others)
		others = b->conf.others(b->conf.others_arg);
	usage.cpu_ns += others.cpu_ns;
	usage.resident_bytes += others.resident_bytes;
	b->percent = percent_of(usage.cpu_ns - b->usage.cpu_ns, passed_ns);
	b->usage = usage;
	b->raw_ns = raw_ns;
	for (size_t i = 0; i < b->n; i++) {
		struct watched *w = &b->v[i];
		int64_t cpu_ns = b->conf.tracer_cpu_ns(w->tracer);

		w->percent = percent_of(cpu_ns - w->cpu_ns, passed_ns);
		w->mean += (w->percent - w->mean) / THROTTLE_WINDOW;
		w->cpu_ns = cpu_ns;
		sum += w->percent;
	}
	return sum;
}

/* ---- steps of tracers ---- */

static void set_step(struct budget *b, struct tracer *t, unsigned int step)
{
	struct tracer_limit *l = &t->limit;
	int64_t raw_ns = now_raw_ns();

	if (!l->step)
		l->from_raw_ns = raw_ns;
	l->step = step;
	l->to_raw_ns = step ? INT64_MAX : raw_ns;
	if (step)
		snprintf(l->reason, sizeof(l->reason),
			 "it records less (step %u down): the agent's tracers took %.2f %% of a "
			 "CPU, "
			 "--max-cpu is %g%%",
			 step, throttle_mean(&b->cpu), b->conf.max_cpu_percent);
	log_line(step ? LOG_WARN : LOG_INFO, "AGT-BUDGET",
		 "tracer=%s step=%u tracers_cpu_percent=%.2f max_cpu_percent=%g", t->ops->name,
		 step, throttle_mean(&b->cpu), b->conf.max_cpu_percent);
}

static struct watched *next_to_limit(struct budget *b, double below)
{
	struct watched *best = NULL;

	for (size_t i = 0; i < b->n; i++) {
		struct watched *w = &b->v[i];

		if (w->tracer->ops->limit && w->mean < below && (!best || w->mean > best->mean))
			best = w;
	}
	return best && best->mean >= WORTH_A_STEP * b->conf.max_cpu_percent ? best : NULL;
}

static bool step_down(struct budget *b)
{
	double below = 1e9;
	struct watched *w;

	while ((w = next_to_limit(b, below))) {
		struct tracer *t = w->tracer;

		if (t->ops->limit(t, t->limit.step + 1)) {
			b->steps = xrealloc(b->steps, (b->n_steps + 1) * sizeof(*b->steps));
			b->steps[b->n_steps++] = t;
			set_step(b, t, t->limit.step + 1);
			return true;
		}
		below = w->mean;
	}
	return false;
}

static bool step_up(struct budget *b)
{
	struct tracer *t = b->steps[--b->n_steps];

	t->ops->limit(t, t->limit.step - 1);
	set_step(b, t, t->limit.step - 1);
	return true;
}

/* ---- steps of the rings ---- */

static bool set_halvings(struct budget *b, unsigned int n)
{
	if (n > BUDGET_HALVINGS_MAX)
		return false;
	b->halvings = n;
	if (n)
		snprintf(b->sentence, sizeof(b->sentence),
			 "rings keep 1/%u of what they may: the agent has %.0f MiB, --max-rss is "
			 "%.0f "
			 "MiB",
			 1U << n, throttle_mean(&b->memory) / MIB,
			 (double)b->conf.max_rss_bytes / MIB);
	else
		b->sentence[0] = '\0';
	log_line(n ? LOG_WARN : LOG_INFO, "AGT-BUDGET", "rings=1/%u rss=%.0f max_rss=%" PRIu64,
		 1U << n, throttle_mean(&b->memory), b->conf.max_rss_bytes);
	return true;
}

static bool halve_rings(struct budget *b)
{
	return set_halvings(b, b->halvings + 1);
}

static bool double_rings(struct budget *b)
{
	return set_halvings(b, b->halvings - 1);
}

/* ---- each second ---- */

static void keep_below(struct budget *b, struct throttle *t, double value,
		       bool (*down)(struct budget *), bool (*up)(struct budget *),
		       bool *warned_no_step_left, const char *flag)
{
	int64_t now_ns = now_mono_ns();
	enum throttle_move move = throttle_add(t, now_ns, value);
	bool moved = move == THROTTLE_DOWN ? down(b) : move == THROTTLE_UP && up(b);

	if (move == THROTTLE_DOWN && !moved && !*warned_no_step_left)
		log_warn("AGT-BUDGET",
			 "limit=%s mean=%.2f reason=\"there is nothing left to limit\"", flag,
			 throttle_mean(t));
	if (move != THROTTLE_STAY)
		*warned_no_step_left = !moved;
	if (move != THROTTLE_STAY)
		throttle_done(t, now_ns, moved ? move : THROTTLE_STAY);
}

static void on_due(void *arg)
{
	struct budget *b = arg;
	double sum = measure(b);

	loop_timer_each(b->conf.loop, &b->timer, BUDGET_PERIOD_NS, on_due, b);
	counters_read(b->counters);
	keep_below(b, &b->cpu, sum, step_down, step_up, &b->warned_no_step_left[0], "--max-cpu");
	keep_below(b, &b->memory, (double)b->usage.resident_bytes, halve_rings, double_rings,
		   &b->warned_no_step_left[1], "--max-rss");
}

/* ---- life ---- */

struct budget *budget_new(const struct budget_conf *conf)
{
	struct budget *b = xcalloc(1, sizeof(*b));
	const struct counters_source source = { .plane = "/host:CPU agent",
						.what = "numbers of the agent",
						.columns = COLUMNS,
						.label_bytes = LABEL_BYTES,
						.read = add_rows,
						.name = column_name,
						.free = free_nothing,
						.arg = b };

	b->conf = *conf;
	if (!b->conf.usage)
		b->conf.usage = process_usage;
	if (!b->conf.tracer_cpu_ns)
		b->conf.tracer_cpu_ns = account_cpu_ns;
	b->cpu.limit = conf->max_cpu_percent;
	b->memory.limit = (double)conf->max_rss_bytes;
	b->counters = counters_start(conf->loop, &source, 0, &conf->ring);
	if (conf->max_cpu_percent > 0 || conf->max_rss_bytes)
		budget_start(b);
	return b;
}

void budget_start(struct budget *b)
{
	if (loop_timer_armed(&b->timer))
		return;
	measure(b);
	loop_timer_each(b->conf.loop, &b->timer, BUDGET_PERIOD_NS, on_due, b);
}

void budget_free(struct budget *b)
{
	if (!b)
		return;
	loop_timer_cancel(b->conf.loop, &b->timer);
	counters_free(b->counters);
	free(b->steps);
	free(b->v);
	free(b);
}

void budget_watch(struct budget *b, struct tracer *const *tracers)
{
	size_t n = 0;

	while (tracers && tracers[n])
		n++;
	free(b->v);
	b->v = xcalloc(n + 1, sizeof(*b->v));
	b->n = n;
	b->n_steps = 0;
	for (size_t i = 0; i < n; i++)
		b->v[i] = (struct watched){ .tracer = tracers[i],
					    .cpu_ns = b->conf.tracer_cpu_ns(tracers[i]) };
}

const unsigned int *budget_halvings(const struct budget *b)
{
	return &b->halvings;
}

struct counters *budget_counters(const struct budget *b)
{
	return b->counters;
}

const char *budget_sentence(const struct budget *b)
{
	return b->sentence;
}
