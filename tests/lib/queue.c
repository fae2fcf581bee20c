/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/queue.h"

#include <math.h>

#include "base/now.h"

#define LOAD_USUAL 0.7
#define CALM_NS	   (40 * NS_PER_MS) /* after this long a queue has forgotten what it was */

static double exponential(double mean, double (*uniform)(void))
{
	return -log(uniform()) * mean;
}

double queue_wait(struct queue *q, double mean_ns, int64_t t_ns, double (*uniform)(void))
{
	double load = q->load > 0 ? q->load : LOAD_USUAL;
	double service = mean_ns * (1 - load), left = (double)(t_ns - q->seen_ns);

	if (left > CALM_NS || left < 0) {
		q->backlog_ns = uniform() < load ? exponential(mean_ns, uniform) : 0;
		left = 0;
	}
	q->seen_ns = t_ns;
	for (;;) {
		double next = exponential(service / load, uniform);

		if (next > left)
			break;
		q->backlog_ns = fmax(q->backlog_ns - next, 0) + exponential(service, uniform);
		left -= next;
	}
	q->backlog_ns = fmax(q->backlog_ns - left, 0);
	return q->backlog_ns;
}
