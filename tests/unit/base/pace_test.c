/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pace.h"

#include "base/now.h"
#include "tests/lib/check.h"

static const struct pace_limits limits = { .first_ns = NS_PER_S, .most_ns = 3600 * NS_PER_S };

/* How often it is due in so long, with a cause five times a second. */
static int count_due(struct pace *p, int64_t from_ns, int64_t for_ns)
{
	int n = 0;

	for (int64_t at_ns = from_ns; at_ns < from_ns + for_ns; at_ns += NS_PER_S / 5)
		n += pace_is_due(p, &limits, at_ns);
	return n;
}

static void test_a_day(void)
{
	struct pace p = { 0 };

	CHECK_EQ(count_due(&p, 0, NS_PER_S), 1);
	CHECK_EQ(count_due(&p, NS_PER_S, 3 * NS_PER_S), 2);
	CHECK_EQ(count_due(&p, 4 * NS_PER_S, 86400 * NS_PER_S), 32);
}

static void test_a_new_cause(void)
{
	struct pace p = { 0 };

	CHECK_EQ(count_due(&p, 0, 100 * NS_PER_S), 7);
	CHECK(pace_is_due(&p, &limits, 1000 * NS_PER_S));
	CHECK_EQ(p.gap_ns, NS_PER_S);
}

int main(void)
{
	test_a_day();
	test_a_new_cause();
	return 0;
}
