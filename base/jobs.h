/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work of a loop that its owner can wait for: counts loop_work() and loop_post(), so that a daemon that
 * stops frees its parts only after the last `done` has run. Loop thread.
 */
#ifndef BASE_JOBS_H
#define BASE_JOBS_H

#include "base/loop.h"

struct jobs_request;

struct jobs {
	struct loop *loop;
	unsigned int n; /* started and not yet done */
	unsigned int n_requests; /* that a worker has */
	struct jobs_request *waiting, **waiting_tail; /* for a worker; first come first served */
};

void jobs_work(struct jobs *j, loop_fn run, loop_fn done, void *arg); /* as loop_work() */
void jobs_post(struct jobs *j, loop_fn fn, void *arg); /* as loop_post() */

/*
 * As jobs_work(), for what callers ask for: JOBS_REQUESTS workers at most have such work, the rest of it waits.
 * Requests that hang in a store so leave workers for what is under way.
 */
#define JOBS_REQUESTS 4
void jobs_request(struct jobs *j, loop_fn run, loop_fn done, void *arg);

/* Turns the loop until all are done, also those started meanwhile. */
void jobs_drain(struct jobs *j);

#endif
