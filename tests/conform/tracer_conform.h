/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every tracer must keep of agent/tracer/tracer.h: one suite, run for each driver, for the fakes of the
 * tests and for the simulation's. Ends the program at the first promise broken; the sanitizers find what
 * a run or a tracer leaves behind.
 */
#ifndef TESTS_TRACER_CONFORM_H
#define TESTS_TRACER_CONFORM_H

#include <stdbool.h>

#include "agent/tracer/tracer.h"

struct tracer_subject {
	const struct tracer_ops *ops;
	const char *flags; /* of the agent, for the driver; NULL = defaults */
	struct tracer_env env; /* without conf */
	bool needs_give_up; /* a run is not done before it is given up */
	/* Gives the tracer something to record, stamped with raw_ns; NULL = it finds something by itself. */
	void (*feed)(void *arg, int64_t raw_ns);
	void *arg;
};

void tracer_conform(const struct tracer_subject *subject);

#endif
