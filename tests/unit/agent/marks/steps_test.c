/* SPDX-License-Identifier: Apache-2.0 */
/* Training steps from marks: which marks are steps, which process is followed, how long steps take. */
#include "agent/marks/steps.h"

#include <stdlib.h>

#include "agent/marks/marks.h"
#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/check.h"

static void add(struct steps *s, int32_t pid, int64_t step, int64_t at_ms)
{
	steps_add(s, &(struct step_mark){ .raw_ns = at_ms * NS_PER_MS, .pid = pid, .step = step });
}

static void test_marks(void)
{
	static const char *const no[] = { "",
					  "#",
					  "##",
					  "step_num=3",
					  "train#step_num=3",
					  "train#step_num=#",
					  "train#step_num=-1#",
					  "train#step_num=3x#",
					  "train#my_step_num=3#",
					  "train#step_num=99999999999999999999#",
					  "barrier 12 begin" };
	int64_t step;
	size_t len;

	for (size_t i = 0; i < ARRAY_SIZE(no); i++)
		CHECK(!step_of_mark(no[i], &step, &len));
	CHECK(step_of_mark("train#step_num=12#", &step, &len) && step == 12 && len == 5);
	CHECK(step_of_mark("a#b#_r=1,step_num=0,x=y#", &step, &len) && step == 0 && len == 3);
	CHECK(step_of_mark("#step_num=7#", &step, &len) && step == 7 && len == 0);
}

static void test_period(void)
{
	struct steps *s = steps_new();
	struct step_state st = steps_state(s);

	CHECK(!st.known);
	add(s, 1, 10, 1000);
	st = steps_state(s);
	CHECK(st.known && st.step == 10 && !st.period_ns);
	for (int i = 1; i < 40; i++)
		add(s, 1, 10 + i, 1000 + 200 * i + (i % 2 ? 20 : 0));
	st = steps_state(s);
	CHECK_EQ(st.step, 49);
	CHECK(llabs(st.period_ns - 200 * NS_PER_MS) < 5 * NS_PER_MS);
	CHECK(llabs(st.jitter_ns - 20 * NS_PER_MS) < 5 * NS_PER_MS);
	add(s, 1, 50, 20000); /* with a checkpoint in it: no usual step */
	st = steps_state(s);
	CHECK(st.raw_ns == 20000 * NS_PER_MS && st.period_ns < 210 * NS_PER_MS);
	steps_free(s);
}

static void count(void *arg)
{
	++*(int *)arg;
}

static void test_one_process_is_followed(void)
{
	struct steps *s = steps_new();
	int begun = 0;

	steps_watch(s, count, &begun);
	add(s, 1, 5, 100);
	add(s, 2, 6, 110); /* another process: ignored */
	add(s, 1, 5, 120); /* sent twice */
	add(s, 1, 6, 200);
	CHECK_EQ(begun, 2);
	CHECK_EQ(steps_state(s).period_ns, 100 * NS_PER_MS);
	add(s, 2, 3, 5000); /* the first process is silent */
	CHECK_EQ(steps_state(s).step, 3);
	CHECK_EQ(steps_state(s).period_ns, 0);
	add(s, 2, 1, 5100); /* restarted */
	CHECK_EQ(steps_state(s).step, 1);
	CHECK_EQ(begun, 4);
	steps_free(s);
}

/* Steps that a process counted itself give way to marks, and do not replace those of a process that marks. */
static void test_counted(void)
{
	struct steps *s = steps_new();

	steps_set_counted(s, 7, 100, 5, 1000 * NS_PER_MS, 1050 * NS_PER_MS);
	CHECK(steps_state(s).known && steps_state(s).counted);
	CHECK_EQ(steps_state(s).step, 105);
	CHECK_EQ(steps_state(s).raw_ns, 1050 * NS_PER_MS);
	CHECK_EQ(steps_state(s).period_ns, 10 * NS_PER_MS);
	steps_set_counted(s, 7, 0, 5, 2000 * NS_PER_MS, 2050 * NS_PER_MS);
	CHECK_EQ(steps_state(s).step, 5);
	add(s, 8, 3, 2060);
	add(s, 8, 4, 2070);
	CHECK(!steps_state(s).counted);
	steps_set_counted(s, 7, 200, 5, 2080 * NS_PER_MS, 2100 * NS_PER_MS);
	CHECK_EQ(steps_state(s).step, 4);
	steps_free(s);
}

int main(void)
{
	test_counted();
	test_marks();
	test_period();
	test_one_process_is_followed();
	return 0;
}
