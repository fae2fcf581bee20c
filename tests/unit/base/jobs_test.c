/* SPDX-License-Identifier: Apache-2.0 */
#include "base/jobs.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "tests/lib/check.h"
#include "tests/lib/run_until.h"

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

/* ---- requests ---- */

struct hung {
	atomic_bool go;
	struct jobs jobs;
	int n_done, others_done;
};

static void hang(void *arg)
{
	struct hung *h = arg;

	while (!atomic_load(&h->go))
		usleep(1000);
}

static void request_done(void *arg)
{
	struct hung *h = arg;

	h->n_done++;
}

static void no_wait(void *arg)
{
	(void)arg;
}

static void other_done(void *arg)
{
	struct hung *h = arg;

	h->others_done++;
}

/* However many requests hang: other work finds a worker. Each of them is done in the end. */
static void test_requests_hang(void)
{
	struct hung *h = xcalloc(1, sizeof(*h));
	struct err e;

	CHECK_OK(loop_new(&h->jobs.loop, JOBS_REQUESTS + 1, &e), e);
	for (int i = 0; i < 3 * JOBS_REQUESTS; i++)
		jobs_request(&h->jobs, hang, request_done, h);
	for (int i = 0; i < 3; i++)
		jobs_work(&h->jobs, no_wait, other_done, h);
	RUN_UNTIL(h->jobs.loop, h->others_done == 3);
	CHECK_EQ(h->n_done, 0);
	CHECK_EQ(h->jobs.n, 3 * JOBS_REQUESTS);
	CHECK_EQ(h->jobs.n_requests, JOBS_REQUESTS);
	atomic_store(&h->go, true);
	jobs_drain(&h->jobs);
	CHECK_EQ(h->n_done, 3 * JOBS_REQUESTS);
	CHECK_EQ(h->jobs.n_requests, 0);
	jobs_request(&h->jobs, no_wait, other_done, h);
	jobs_drain(&h->jobs);
	CHECK_EQ(h->others_done, 4);
	loop_free(h->jobs.loop);
	free(h);
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
	test_requests_hang();
	return 0;
}
