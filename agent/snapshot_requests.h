/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots that this agent requests itself, for a driver: the aggregator is asked until it takes one, for a minute at
 * most. At most ten are requested in a minute, what is beyond is left out with a log line. Loop thread.
 */
#ifndef AGENT_SNAPSHOT_REQUESTS_H
#define AGENT_SNAPSHOT_REQUESTS_H

#include <stdint.h>

struct clock;
struct control;
struct loop;
struct snapshot_requests;

/* Both are borrowed, and there until snapshot_requests_free(). */
struct snapshot_requests *snapshot_requests_new(struct loop *loop, const struct clock *clock,
						struct control *control);
void snapshot_requests_free(struct snapshot_requests *ps); /* NULL is fine */

/* [from, to) on this host's wall clock. `run` may be any text: what is no name of a run is left out. */
void snapshot_request(struct snapshot_requests *ps, int64_t from_real_ns, int64_t to_real_ns,
		      const char *run);

#endif
