/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the session clocks of this seed truly read. One that goes on with another machine's is the same clock, which steps a
 * little when it is handed over.
 */
#ifndef SIM_SESSION_TIME_H
#define SIM_SESSION_TIME_H

#include <stdint.h>

struct sim_host;

/* The session clock of the aggregator that leads, which is up: its shift is its name. */
int64_t session_time_in_use(void);

/* The clock of `from` goes on as one of `to`, from now on. */
void session_time_goes_on(int64_t from_shift_ns, const struct sim_host *from, int64_t to_shift_ns,
			  const struct sim_host *to);

/* What that clock read at this true time: it, or the one before or after it. */
int64_t session_time_ns(int64_t shift_ns, int64_t true_ns);

void session_time_free(void);

#endif
