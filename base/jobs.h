/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work of a loop that its owner can wait for: loop_work() and loop_post() that are counted, so that a daemon
 * which stops finds every part alive until the last `done` has run. Loop thread.
 */
#ifndef BASE_JOBS_H
#define BASE_JOBS_H

#include "base/loop.h"

struct jobs {
	struct loop *loop;
	unsigned int n; /* begun and not yet done */
};

void jobs_work(struct jobs *j, loop_fn run, loop_fn done, void *arg); /* as loop_work() */
void jobs_post(struct jobs *j, loop_fn fn, void *arg); /* as loop_post() */

/* Turns the loop until none is left, also of those that are begun meanwhile. */
void jobs_drain(struct jobs *j);

#endif
