/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop.h"

#include "base/now.h"

const int64_t loop_turn_limits_ns[LOOP_TURN_CLASSES] = {
	NS_PER_MS,	2 * NS_PER_MS,	 5 * NS_PER_MS,	  10 * NS_PER_MS,   20 * NS_PER_MS,
	50 * NS_PER_MS, 100 * NS_PER_MS, 500 * NS_PER_MS, 1000 * NS_PER_MS,
};

void loop_turns_count(struct loop_turns *t, int64_t took_ns, int64_t wall_ns)
{
	size_t i = 0;

	while (i < LOOP_TURN_CLASSES && took_ns > loop_turn_limits_ns[i])
		i++;
	t->n[i]++;
	t->total_ns += took_ns;
	if (took_ns > t->longest_ns)
		t->longest_ns = took_ns;
	if (wall_ns > t->longest_wall_ns)
		t->longest_wall_ns = wall_ns;
}
