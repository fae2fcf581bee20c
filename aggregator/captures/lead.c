/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/captures/lead.h"

#include <stdlib.h>
#include <string.h>

#include "base/now.h"

#define MARGIN	3
#define MOST_NS (5 * NS_PER_S)

void lead_add(struct lead *l, int64_t took_ns)
{
	l->took_ns[l->n++ % LEAD_SAMPLES] = took_ns > 0 ? took_ns : 0;
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int64_t p99(const struct lead *l)
{
	size_t n = l->n < LEAD_SAMPLES ? l->n : LEAD_SAMPLES;
	int64_t sorted[LEAD_SAMPLES];

	if (!n)
		return 0;
	memcpy(sorted, l->took_ns, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), compare);
	return sorted[n * 99 / 100];
}

int64_t lead_choose(const struct lead *l, int64_t floor_ns, int64_t clock_bound_ns)
{
	int64_t slow_ns = p99(l);
	int64_t lead_ns = MARGIN * (slow_ns < MOST_NS ? slow_ns : MOST_NS) +
			  (clock_bound_ns < MOST_NS ? clock_bound_ns : MOST_NS);

	if (lead_ns > MOST_NS)
		lead_ns = MOST_NS;
	return lead_ns > floor_ns ? lead_ns : floor_ns;
}
