/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts loop_work() and loop_post(), so that a daemon that stops can wait for the last `done` before it
 * frees its parts. Loop thread.
 */
#ifndef BASE_JOBS_H
#define BASE_JOBS_H

#include "base/loop.h"

struct jobs_request;

struct jobs {
	struct loop *loop;
	unsigned int n; /* started and not yet done */
	unsigned int n_requests; /* requests that a worker has */
	/* requests that wait for a worker; first come first served */
	struct jobs_request *waiting, **waiting_tail;
};

void jobs_work(struct jobs *j, loop_fn run, loop_fn done, void *arg); /* as loop_work() */
void jobs_post(struct jobs *j, loop_fn fn, void *arg); /* as loop_post() */

/*
 * As jobs_work(), for work that a caller of the daemon requested: at most JOBS_REQUESTS of the workers do
 * such work, the rest waits. So requests that hang in a store leave workers free for captures under way.
 */
#define JOBS_REQUESTS 4
void jobs_request(struct jobs *j, loop_fn run, loop_fn done, void *arg);

/* Turns the loop until all jobs are done, also those that start meanwhile. */
void jobs_drain(struct jobs *j);

#endif
