/* SPDX-License-Identifier: Apache-2.0 */
#include "net/share.h"

static uint64_t sum_up_to(const uint64_t *taken, size_t n, uint64_t limit)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += taken[i] < limit ? taken[i] : limit;
	return sum;
}

uint64_t share_limit(const struct share_rule *rule, const uint64_t *taken, size_t n)
{
	uint64_t limit = rule->one;

	while (limit / 2 >= rule->least && sum_up_to(taken, n, limit) > rule->all)
		limit /= 2;
	return limit;
}
