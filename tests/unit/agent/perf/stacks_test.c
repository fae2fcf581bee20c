/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/perf/stacks.h"

#include "agent/proc/u32_map.h"
#include "tests/lib/check.h"

static uint32_t push(struct stacks *s, uint32_t parent, uint64_t offset)
{
	return stacks_push(s, parent, &(struct frame){ .image = 3, .offset = offset });
}

static void equal_stacks_are_one_number(void)
{
	struct stacks *s = stacks_new(100);
	uint32_t a = push(s, STACK_EMPTY, 1), b = push(s, a, 2);

	CHECK_EQ(push(s, STACK_EMPTY, 1), a);
	CHECK_EQ(push(s, a, 2), b);
	CHECK(push(s, b, 2) != b);
	CHECK(push(s, STACK_EMPTY, 2) != b);
	CHECK(stacks_push(s, a, &(struct frame){ .image = 4, .offset = 2 }) != b);
	CHECK_EQ(stacks_node(s, b)->parent, a);
	CHECK_EQ(stacks_count(s), 6);
	stacks_free(s);
}

static void full_tree_says_so_and_still_finds(void)
{
	struct stacks *s = stacks_new(5000);
	uint32_t node = STACK_EMPTY;

	for (uint64_t i = 1; i < 5000; i++)
		CHECK_EQ(node = push(s, node, i), i);
	CHECK_EQ(push(s, node, 5000), STACK_FULL);
	CHECK_EQ(push(s, 41, 42), 42);
	stacks_free(s);
}

static void sweeping_keeps_callers_names_and_numbers(void)
{
	struct stacks *s = stacks_new(7);
	uint32_t a = push(s, STACK_EMPTY, 1), b = push(s, a, 2), c = push(s, STACK_EMPTY, 3);
	uint32_t d = push(s, c, 4), e = push(s, d, 5), f = push(s, e, 6);
	bool keep[7] = { false };

	CHECK_EQ(stacks_take_added(s), a);
	CHECK_EQ(stacks_take_added(s), UINT32_MAX);
	stacks_set_name(s, d, 77);
	keep[d] = true;
	stacks_sweep(s, keep);
	CHECK_EQ(stacks_used(s), 3);
	CHECK(!stacks_node(s, a) && !stacks_node(s, b) && !stacks_node(s, e) && !stacks_node(s, f));
	CHECK_EQ(stacks_node(s, d)->parent, c);
	CHECK_EQ(stacks_node(s, d)->offset, 4);
	CHECK_EQ(stacks_name(s, d), 77);
	CHECK_EQ(push(s, STACK_EMPTY, 3), c);
	CHECK_EQ(stacks_take_added(s), UINT32_MAX);

	/* Free numbers are used again, also below their callers'. */
	CHECK_EQ(push(s, d, 9), a);
	CHECK_EQ(stacks_take_added(s), a);
	CHECK_EQ(stacks_name(s, a), 0);
	for (uint64_t i = 10; i < 13; i++)
		CHECK(push(s, a, i) != STACK_FULL);
	CHECK_EQ(push(s, a, 13), STACK_FULL);
	CHECK_EQ(stacks_count(s), 7);

	/* A caller with a higher number than its callee is kept for it. */
	memset(keep, 0, sizeof(keep));
	keep[a] = true;
	stacks_sweep(s, keep);
	CHECK_EQ(stacks_used(s), 4);
	CHECK_EQ(stacks_node(s, a)->parent, d);
	CHECK_EQ(push(s, d, 9), a);
	stacks_free(s);
}

/* Against a plain array, with keys that meet in the table. */
static void map_holds_what_was_put(void)
{
	static char values[512];
	static bool there[512];
	struct u32_map m = { 0 };
	unsigned int seed = 4711;
	size_t n = 0;

	printf("seed %u\n", seed);
	for (int round = 0; round < 100000; round++) {
		uint32_t i = (uint32_t)rand_r(&seed) % 512, key = i << 20 | i;

		if (rand_r(&seed) % 2) {
			u32_map_set(&m, key, &values[i]);
			n += !there[i];
			there[i] = true;
		} else {
			CHECK(u32_map_remove(&m, key) == (there[i] ? &values[i] : NULL));
			n -= there[i];
			there[i] = false;
		}
		i = (uint32_t)rand_r(&seed) % 512;
		CHECK(u32_map_get(&m, i << 20 | i) == (there[i] ? &values[i] : NULL));
		CHECK_EQ(m.n, n);
	}
	u32_map_release(&m);
	CHECK(!u32_map_get(&m, 1));
	CHECK(!u32_map_remove(&m, 1));
}

int main(void)
{
	equal_stacks_are_one_number();
	full_tree_says_so_and_still_finds();
	sweeping_keeps_callers_names_and_numbers();
	map_holds_what_was_put();
	return 0;
}
