/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pool.h"

#include <stdint.h>

#include "tests/lib/check.h"

#define MANY 20000

/* Nothing moves or is overwritten, however many blocks follow. */
static void test_keeps(void)
{
	static const char *texts[MANY];
	static uint64_t *numbers[MANY];
	struct pool p = { 0 };
	char text[24];

	for (uint64_t i = 0; i < MANY; i++) {
		snprintf(text, sizeof(text), "host-%" PRIu64, i);
		texts[i] = pool_text(&p, text);
		numbers[i] = pool_copy(&p, &i, sizeof(i));
		CHECK_EQ((uintptr_t)numbers[i] % _Alignof(max_align_t), 0);
	}
	for (uint64_t i = 0; i < MANY; i++) {
		snprintf(text, sizeof(text), "host-%" PRIu64, i);
		CHECK_STR(texts[i], text);
		CHECK_EQ(*numbers[i], i);
	}
	pool_release(&p);
	CHECK(!p.blocks && !p.n_free);
}

static void test_sizes(void)
{
	struct pool p = { 0 };
	char *large;

	CHECK(!pool_alloc(&p, 0) && !pool_copy(&p, NULL, 0));
	CHECK_STR(pool_text(&p, ""), "");
	CHECK(!p.blocks);
	CHECK_STR(pool_text(&p, "a"), "a");
	large = pool_alloc(&p, 1 << 20);
	for (size_t i = 0; i < 1 << 20; i++)
		CHECK(!large[i]);
	memset(large, 1, 1 << 20);
	CHECK_STR(pool_text(&p, "b"), "b");
	pool_release(&p);
	pool_release(&p);
}

int main(void)
{
	test_keeps();
	test_sizes();
	return 0;
}
