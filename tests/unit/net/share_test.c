/* SPDX-License-Identifier: Apache-2.0 */
/* What one address may take while others take something, too. */
#include "net/share.h"

#include "base/mem.h"
#include "tests/lib/check.h"

static const struct share_rule rule = { .one = 256, .all = 512, .least = 16 };

static uint64_t limit_of(uint64_t each, size_t n, uint64_t first)
{
	uint64_t *taken = xcalloc(n, sizeof(*taken)), limit;

	for (size_t i = 0; i < n; i++)
		taken[i] = i ? each : first;
	limit = share_limit(&rule, taken, n);
	free(taken);
	return limit;
}

int main(void)
{
	CHECK_EQ(share_limit(&rule, NULL, 0), 256);
	CHECK_EQ(limit_of(0, 1, 1000), 256); /* alone: its own bound holds */
	CHECK_EQ(limit_of(256, 2, 256), 256);
	CHECK_EQ(limit_of(1000, 8, 1000), 64); /* colluding addresses: 8 * 64 */
	CHECK_EQ(limit_of(1, 200, 1000), 256); /* many that take little do not cost the large one */
	CHECK_EQ(limit_of(2, 200, 1000), 64); /* but it makes room for them */
	CHECK_EQ(limit_of(1, 10000, 40), 16); /* a fleet that returns: what each may take is left */
	CHECK_EQ(limit_of(1000, 10000, 1000), 16);
	return 0;
}
