/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One exchange of a probe and its reply, or one direction of it: the input of the estimator.
 *
 * Each direction proves something alone: the request, that the offset is at least t1 - t2; the reply, that it
 * is at most t4 - t3. t1 and t3 may be early, never late; t2 and t4 may be late, never early. If a direction
 * is left out, its two times are not used.
 *
 * A better stamp may arrive later than its packet (the kernel's transmit stamp travels in the next reply).
 * That direction is then added once more, alone, as an update; the estimator keeps the tightest.
 */
#ifndef AGENT_CLOCK_SAMPLE_H
#define AGENT_CLOCK_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

struct clock_sample {
	int64_t t1_ns, t4_ns; /* host clock: request sent, reply received */
	int64_t t2_ns, t3_ns; /* session clock: request received, reply sent */
	bool no_request, no_reply; /* this direction is left out */
	bool is_update; /* of a probe that was added before: the probe is not counted again */
};

#endif
