/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/job.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/marks/marks.h"
#include "base/loop.h"
#include "base/mem.h"
#include "tests/sim/sim.h"

#define LIVES_MAX     64
#define NUMBERS_APART 100000 /* the first steps of two lives */
#define PID	      4711

/* From one start of the job to the next. */
struct life {
	int64_t from_ns, period_ns, first_step;
};

static struct {
	struct life lives[LIVES_MAX];
	size_t n;
} job;

struct job_process {
	struct loop *loop;
	struct marks *marks;
	struct sim_host *host;
	int64_t marked; /* the latest step */
	struct loop_timer timer;
};

/* ---- steps ---- */

static void begin_life(int64_t from_ns)
{
	if (job.n == LIVES_MAX)
		return;
	job.lives[job.n] = (struct life){
		.from_ns = from_ns,
		.period_ns = rng_scale(&sim.rng, 50 * NS_PER_MS, 2 * NS_PER_S),
		.first_step = (int64_t)job.n * NUMBERS_APART,
	};
	job.n++;
}

void job_new(void)
{
	job.n = 0;
	begin_life(rng_scale(&sim.rng, NS_PER_S, 10 * NS_PER_S));
}

void job_restart(void)
{
	sim_note("the job is restarted");
	begin_life(sim.now_ns + rng_scale(&sim.rng, 100 * NS_PER_MS, 20 * NS_PER_S));
}

static const struct life *life_of(int64_t step)
{
	int64_t i = step / NUMBERS_APART;

	return step >= 0 && i < (int64_t)job.n ? &job.lives[i] : NULL;
}

/* Hosts begin a step within a hundredth of it. */
static int64_t begin_ns(const struct sim_host *h, const struct life *l, int64_t step)
{
	uint64_t x = ((uint64_t)step + (uint64_t)h->raw0_ns) * UINT64_C(0x9e3779b97f4a7c15);

	return l->from_ns + (step - l->first_step) * l->period_ns +
	       (int64_t)((x >> 33) % (uint64_t)(l->period_ns / 100));
}

/* A job that is restarted begins no further step. */
bool job_step_ns(const struct sim_host *h, int64_t step, int64_t *true_ns)
{
	const struct life *l = life_of(step);

	if (!l)
		return false;
	*true_ns = begin_ns(h, l, step);
	return l == &job.lives[job.n - 1] || *true_ns < l[1].from_ns;
}

int64_t job_step_now(void)
{
	const struct life *l = &job.lives[job.n - 1];

	while (l > job.lives && l->from_ns > sim.now_ns)
		l--;
	return l->first_step +
	       (sim.now_ns > l->from_ns ? (sim.now_ns - l->from_ns) / l->period_ns : 0);
}

/* ---- processes ---- */

static void on_step(void *arg);

static void schedule(struct job_process *p)
{
	int64_t next_ns, now_ns = sim_here_ns();

	while (!job_step_ns(p->host, p->marked + 1, &next_ns)) /* the last life has no end */
		p->marked = ((p->marked + 1) / NUMBERS_APART + 1) * NUMBERS_APART - 1;
	if (next_ns < now_ns)
		next_ns = now_ns;
	loop_timer_at(p->loop, &p->timer, host_mono_ns(p->host, next_ns) + 1, on_step, p);
}

static void mark(struct job_process *p, int64_t step, int64_t at_ns)
{
	char text[64];
	const struct mark m = {
		.raw_ns = host_raw_ns(p->host, at_ns),
		.pid = PID,
		.tid = PID,
		.text = text,
	};

	snprintf(text, sizeof(text), "train#step_num=%" PRId64 "#", step);
	if (!host_is_asleep(p->host, at_ns))
		marks_add(p->marks, &m);
}

static void on_step(void *arg)
{
	struct job_process *p = arg;
	int64_t at_ns;

	while (job_step_ns(p->host, p->marked + 1, &at_ns) && at_ns <= sim_here_ns())
		mark(p, ++p->marked, at_ns);
	schedule(p);
}

struct job_process *job_process_new(struct loop *loop, struct marks *marks)
{
	struct job_process *p = xcalloc(1, sizeof(*p));

	p->loop = loop;
	p->marks = marks;
	p->host = sim.host;
	p->marked = job_step_now();
	schedule(p);
	return p;
}

void job_process_free(struct job_process *p)
{
	if (!p)
		return;
	loop_timer_cancel(p->loop, &p->timer);
	free(p);
}
