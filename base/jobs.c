/* SPDX-License-Identifier: Apache-2.0 */
#include "base/jobs.h"

#include <stdlib.h>

#include "base/mem.h"

struct job {
	struct jobs *jobs;
	loop_fn run, done;
	void *arg;
};

static void run_job(void *arg)
{
	struct job *job = arg;

	job->run(job->arg);
}

static void done_job(void *arg)
{
	struct job *job = arg;

	job->jobs->n--;
	loop_turn_name(job->jobs->loop, (uintptr_t)job->done);
	job->done(job->arg);
	free(job);
}

static struct job *job_new(struct jobs *j, loop_fn run, loop_fn done, void *arg)
{
	struct job *job = xmalloc(sizeof(*job));

	*job = (struct job){ j, run, done, arg };
	j->n++;
	return job;
}

void jobs_work(struct jobs *j, loop_fn run, loop_fn done, void *arg)
{
	loop_work(j->loop, run_job, done_job, job_new(j, run, done, arg));
}

void jobs_post(struct jobs *j, loop_fn fn, void *arg)
{
	loop_post(j->loop, done_job, job_new(j, NULL, fn, arg));
}

/* ---- requests ---- */

struct jobs_request {
	struct jobs *jobs;
	loop_fn run, done;
	void *arg;
	struct jobs_request *next;
};

static void run_request(void *arg)
{
	struct jobs_request *r = arg;

	r->run(r->arg);
}

static void begin_next(struct jobs *j);

static void done_request(void *arg)
{
	struct jobs_request *r = arg;
	struct jobs *j = r->jobs;

	j->n_requests--;
	begin_next(j);
	j->n--;
	loop_turn_name(j->loop, (uintptr_t)r->done);
	r->done(r->arg);
	free(r);
}

static void begin_next(struct jobs *j)
{
	struct jobs_request *r = j->waiting;

	if (!r || j->n_requests >= JOBS_REQUESTS)
		return;
	j->waiting = r->next;
	j->n_requests++;
	loop_work(j->loop, run_request, done_request, r);
}

void jobs_request(struct jobs *j, loop_fn run, loop_fn done, void *arg)
{
	struct jobs_request *r = xmalloc(sizeof(*r));

	*r = (struct jobs_request){ j, run, done, arg, NULL };
	j->n++;
	if (!j->waiting)
		j->waiting_tail = &j->waiting;
	*j->waiting_tail = r;
	j->waiting_tail = &r->next;
	begin_next(j);
}

void jobs_drain(struct jobs *j)
{
	while (j->n)
		loop_turn(j->loop, 100);
}
