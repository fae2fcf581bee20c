/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/captures/lead.h"
#include "base/now.h"
#include "tests/lib/check.h"

static void test_floor(void)
{
	struct lead l = { 0 };

	CHECK_EQ(lead_choose(&l, 500 * NS_PER_MS, 0), 500 * NS_PER_MS);
	for (int i = 0; i < 1000; i++)
		lead_add(&l, NS_PER_MS);
	CHECK_EQ(lead_choose(&l, 500 * NS_PER_MS, 10 * NS_PER_US), 500 * NS_PER_MS);
	CHECK_EQ(lead_choose(&l, 0, 10 * NS_PER_US), 3 * NS_PER_MS + 10 * NS_PER_US);
}

static void test_slow_hosts(void)
{
	struct lead l = { 0 };

	/* One in a hundred does not count, two do. */
	for (int i = 0; i < 500; i++)
		lead_add(&l, i < 4 ? 400 * NS_PER_MS : NS_PER_MS);
	CHECK_EQ(lead_choose(&l, 0, 0), 3 * NS_PER_MS);
	for (int i = 0; i < 10; i++)
		lead_add(&l, 400 * NS_PER_MS);
	CHECK_EQ(lead_choose(&l, 0, 0), 1200 * NS_PER_MS);
	/* They are forgotten in time. */
	for (int i = 0; i < LEAD_SAMPLES; i++)
		lead_add(&l, NS_PER_MS);
	CHECK_EQ(lead_choose(&l, 0, 0), 3 * NS_PER_MS);
	lead_add(&l, -5);
}

static void test_most(void)
{
	struct lead l = { 0 };

	lead_add(&l, INT64_MAX);
	CHECK_EQ(lead_choose(&l, 0, INT64_MAX), 5 * NS_PER_S);
	CHECK_EQ(lead_choose(&l, 60 * NS_PER_S, 0), 60 * NS_PER_S);
}

int main(void)
{
	test_floor();
	test_slow_hosts();
	test_most();
	return 0;
}
