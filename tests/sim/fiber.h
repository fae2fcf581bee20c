/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A function with a stack of its own, which can stop in the middle and go on later: what a worker of the
 * simulation is, because its calls of a store take time. There is one thread; a fiber runs inside fiber_run().
 */
#ifndef SIM_FIBER_H
#define SIM_FIBER_H

#include <stdbool.h>

struct fiber;

struct fiber *fiber_new(void (*fn)(void *arg), void *arg); /* fn does not begin yet */

/* Runs it until it stops or ends. True if it has ended: then it is freed. */
bool fiber_run(struct fiber *f);

void fiber_stop(void); /* inside a fiber: returns at its next fiber_run() */

#endif
