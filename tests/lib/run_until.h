/* SPDX-License-Identifier: Apache-2.0 */
/* Running a loop until something holds: the same on a real loop and in virtual time (virtual_time.h). */
#ifndef TESTS_RUN_UNTIL_H
#define TESTS_RUN_UNTIL_H

#include "base/loop.h"
#include "base/now.h"
#include "tests/lib/check.h"

#define RUN_LIMIT_NS (60 * NS_PER_S)
#define RUN_TURN_MS  20

/* Turns the loop until cond, which is evaluated after each turn; fails the test after RUN_LIMIT_NS. */
#define RUN_UNTIL(loop, cond) \
	do { \
		int64_t run_end_ns = now_mono_ns() + RUN_LIMIT_NS; \
		while (!(cond)) { \
			loop_turn((loop), RUN_TURN_MS); \
			if (now_mono_ns() > run_end_ns) \
				CHECK(!"in time: " #cond); \
		} \
	} while (0)

/* Turns the loop for so long. */
static inline void run_for(struct loop *l, int64_t ns)
{
	int64_t end_ns = now_mono_ns() + ns;

	while (now_mono_ns() < end_ns)
		loop_turn(l, 1);
}

#endif
