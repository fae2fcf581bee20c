/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions of windows that are over, requested by this agent itself: the aggregator is asked until it answers, for a minute
 * at most. At most ten are requested in a minute, what is beyond is left out with a log line. Loop thread.
 */
#ifndef AGENT_PAST_REQUEST_H
#define AGENT_PAST_REQUEST_H

#include <stdint.h>

struct clock;
struct control;
struct loop;
struct past_requests;

/* Both are borrowed, and there until past_requests_free(). */
struct past_requests *past_requests_new(struct loop *loop, const struct clock *clock,
					struct control *control);
void past_requests_free(struct past_requests *ps); /* NULL is fine */

/* [from, to) on this host's wall clock. `run` may be any text: what is no name of a run is left out. */
void past_request(struct past_requests *ps, int64_t from_real_ns, int64_t to_real_ns,
		  const char *run);

#endif
