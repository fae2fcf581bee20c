/* SPDX-License-Identifier: Apache-2.0 */
/* What a packet waits at a link that others, in a Poisson stream, keep busy for a share of the time. */
#ifndef TESTS_QUEUE_H
#define TESTS_QUEUE_H

#include <stdint.h>

struct queue {
	double backlog_ns; /* at seen_ns */
	int64_t seen_ns;
	double load; /* the share; 0 = 0.7 */
};

/* How long a packet that comes at t_ns waits: mean_ns in the mean. Calls in the order of t_ns; `uniform`
 * gives numbers in (0, 1). */
double queue_wait(struct queue *q, double mean_ns, int64_t t_ns, double (*uniform)(void));

#endif
