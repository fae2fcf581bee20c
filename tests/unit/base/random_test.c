/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"

#include "base/now.h"
#include "tests/lib/check.h"

static void test_bytes(void)
{
	uint8_t bytes[64] = { 0 };
	int zeros = 0;

	random_bytes(bytes, sizeof(bytes));
	for (size_t i = 0; i < sizeof(bytes); i++)
		zeros += bytes[i] == 0;
	CHECK(zeros < 32);
	random_bytes(bytes, 0);
}

/* Within its range, and both halves of it come up. */
static void test_pause(void)
{
	int shorter = 0;

	for (int i = 0; i < 1000; i++) {
		int64_t ns = random_pause_ns(NS_PER_S);

		CHECK(ns >= NS_PER_S / 2 && ns <= NS_PER_S * 3 / 2);
		shorter += ns < NS_PER_S;
	}
	CHECK(shorter > 300 && shorter < 700);
	CHECK_EQ(random_pause_ns(0), 0);
}

int main(void)
{
	test_bytes();
	test_pause();
	return 0;
}
