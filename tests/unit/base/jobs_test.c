/* SPDX-License-Identifier: Apache-2.0 */
#include "base/jobs.h"

#include "tests/lib/check.h"

struct work {
	struct jobs jobs;
	int ran, done;
};

static void run(void *arg)
{
	struct work *w = arg;

	w->ran++;
}

static void done(void *arg)
{
	struct work *w = arg;

	w->done++;
	CHECK_EQ(w->ran, 1);
	CHECK_EQ(w->jobs.n, 0);
}

/* What is begun by the end of another is waited for, too. */
static void begin_work(void *arg)
{
	struct work *w = arg;

	CHECK_EQ(w->done, 0);
	jobs_work(&w->jobs, run, done, w);
	CHECK_EQ(w->jobs.n, 1);
}

int main(void)
{
	struct work w = { 0 };
	struct err e;

	CHECK_OK(loop_new(&w.jobs.loop, 1, &e), e);
	jobs_drain(&w.jobs);
	jobs_post(&w.jobs, begin_work, &w);
	CHECK_EQ(w.jobs.n, 1);
	jobs_drain(&w.jobs);
	CHECK_EQ(w.done, 1);
	loop_free(w.jobs.loop);
	return 0;
}
