/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/profiler/lane.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"

struct lane_job {
	struct lane_job *next;
	struct lane *lane; /* loop's thread only; NULL when it is gone */
	int64_t begin_mono_ns;
	void (*run)(void *arg);
	void (*done)(void *arg);
	void *arg;
};

struct lane {
	struct loop *loop;
	struct lane_job *running[LANE_JOBS]; /* NULL = free */
	struct lane_job *first, *last; /* that wait */
};

static void run_job(void *arg)
{
	struct lane_job *j = arg;

	j->run(j->arg);
}

static void on_done(void *arg);

static void begin_jobs(struct lane *l)
{
	for (int i = 0; i < LANE_JOBS && l->first; i++) {
		struct lane_job *j = l->first;

		if (l->running[i])
			continue;
		l->first = j->next;
		l->running[i] = j;
		j->begin_mono_ns = now_mono_ns();
		loop_work(l->loop, run_job, on_done, j);
	}
}

static void on_done(void *arg)
{
	struct lane_job *j = arg;
	struct lane *l = j->lane;

	for (int i = 0; l && i < LANE_JOBS; i++)
		if (l->running[i] == j)
			l->running[i] = NULL;
	if (l)
		begin_jobs(l);
	j->done(j->arg);
	free(j);
}

struct lane *lane_new(struct loop *loop)
{
	struct lane *l = xcalloc(1, sizeof(*l));

	l->loop = loop;
	return l;
}

void lane_free(struct lane *l)
{
	if (!l)
		return;
	while (l->first) {
		struct lane_job *j = l->first;

		l->first = j->next;
		j->done(j->arg);
		free(j);
	}
	for (int i = 0; i < LANE_JOBS; i++)
		if (l->running[i])
			l->running[i]->lane = NULL;
	free(l);
}

void lane_work(struct lane *l, void (*run)(void *arg), void (*done)(void *arg), void *arg)
{
	struct lane_job *j = xmalloc(sizeof(*j));

	*j = (struct lane_job){ .lane = l, .run = run, .done = done, .arg = arg };
	if (l->first)
		l->last->next = j;
	else
		l->first = j;
	l->last = j;
	begin_jobs(l);
}

bool lane_is_stuck(const struct lane *l)
{
	int64_t now_ns = now_mono_ns();

	for (int i = 0; i < LANE_JOBS; i++)
		if (l->running[i] && now_ns - l->running[i]->begin_mono_ns > LANE_STUCK_NS)
			return true;
	return false;
}
