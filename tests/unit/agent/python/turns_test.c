/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that cost little are sampled in every round, whatever the others cost. */
#include "agent/python/turns.h"

#include "tests/lib/check.h"

#define US INT64_C(1000)
#define MS (1000 * US)

static void there_is_enough_for_all(void)
{
	static const int64_t costs[] = { 0, 30 * US, 70 * US };

	CHECK_EQ(python_turns_part(costs, 3, 100 * US), PYTHON_PART_ALL);
	CHECK_EQ(python_turns_part(costs, 0, 100 * US), PYTHON_PART_ALL);
	CHECK_EQ(python_turns_part(costs, 3, 90 * US), 60 * US);
}

static void what_others_leave_goes_to_the_largest(void)
{
	static const int64_t costs[] = { 10 * US, 40 * US, 16 * MS, 20 * US, 900 * US };

	CHECK_EQ(python_turns_part(costs, 5, 200 * US), 65 * US);
}

static void a_part_is_never_nothing(void)
{
	static const int64_t costs[] = { 10 * US, 40 * US };

	CHECK_EQ(python_turns_part(costs, 2, 1), 1);
	CHECK_EQ(python_turns_part(costs, 2, 0), 1);
}

/* Runs rounds of processes with these costs; returns the CPU time of all, and how often each was sampled. */
static int64_t run(const int64_t *costs, size_t n, int rounds, int64_t budget_ns, int *sampled)
{
	struct python_turn turns[8] = { 0 };
	int64_t spent = 0;

	for (int r = 0; r < rounds; r++) {
		int64_t known[8], part;

		for (size_t i = 0; i < n; i++)
			known[i] = turns[i].cost_ns;
		part = python_turns_part(known, n, budget_ns);
		for (size_t i = 0; i < n; i++) {
			if (!python_turn_begin(&turns[i], part))
				continue;
			/* The last one needs all of its cost in one sample of two, and nothing in the other. */
			python_turn_end(&turns[i], i + 1 == n && sampled[i] % 2 ? 0 : costs[i]);
			spent += i + 1 == n && sampled[i] % 2 ? 0 : costs[i];
			sampled[i]++;
		}
	}
	return spent;
}

static void a_process_with_many_threads_slows_only_itself(void)
{
	static const int64_t costs[] = { 30 * US, 50 * US, 16 * MS, 10 * US };
	int sampled[4] = { 0 };
	int64_t spent = run(costs, 4, 10000, 200 * US, sampled);

	CHECK(sampled[0] >= 9990 && sampled[1] >= 9990 && sampled[3] >= 9990);
	CHECK(sampled[2] > 60 && sampled[2] < 80); /* 115 us a round */
	CHECK(spent < 10000 * 200 * US + 20 * MS);
}

static void one_that_needs_now_much_now_nothing_keeps_to_its_part(void)
{
	static const int64_t costs[] = { 30 * US, 50 * US, 50 * MS };
	int sampled[3] = { 0 };
	int64_t spent = run(costs, 3, 100000, 200 * US, sampled);

	CHECK(sampled[0] >= 99000 && sampled[1] >= 99000);
	CHECK(spent < 100000 * 200 * US + 100 * MS);
}

static void equal_processes_have_equal_turns(void)
{
	static const int64_t costs[] = { 100 * US, 100 * US, 100 * US, 100 * US, 0 };
	int sampled[5] = { 0 };

	run(costs, 5, 1000, 200 * US, sampled);
	for (int i = 0; i < 4; i++)
		CHECK(sampled[i] >= 495 && sampled[i] <= 505);
}

static void the_next_turn_is_known(void)
{
	struct python_turn t = { 0 };

	CHECK(python_turn_begin(&t, 10 * US));
	python_turn_end(&t, 5 * US);
	CHECK_EQ(python_turn_rounds(&t, 10 * US), 1);
	CHECK(python_turn_begin(&t, 10 * US));
	python_turn_end(&t, 45 * US);
	CHECK_EQ(python_turn_rounds(&t, 10 * US), 4); /* 35 us above its part */
	for (int i = 0; i < 3; i++)
		CHECK(!python_turn_begin(&t, 10 * US));
	CHECK(python_turn_begin(&t, 10 * US));
	python_turn_end(&t, 3600 * 1000 * MS);
	CHECK_EQ(python_turn_rounds(&t, 1), UINT32_MAX);
	CHECK(python_turn_begin(&t, PYTHON_PART_ALL));
}

/* The first sample costs what no later one does: the second one says what is usual. */
static void the_first_sample_is_no_measure(void)
{
	struct python_turn t = { 0 };

	python_turn_end(&t, 20 * MS);
	CHECK_EQ(python_turn_every(&t, 1, 100 * US), 0);
	CHECK_EQ(python_turn_every(&t, 1000, 100 * US), 200);
	python_turn_end(&t, 40 * US);
	CHECK_EQ(python_turn_every(&t, 1, 100 * US), 0);
	python_turn_end(&t, 840 * US);
	CHECK_EQ(python_turn_every(&t, 1, 100 * US), 3);
}

int main(void)
{
	there_is_enough_for_all();
	what_others_leave_goes_to_the_largest();
	a_part_is_never_nothing();
	a_process_with_many_threads_slows_only_itself();
	one_that_needs_now_much_now_nothing_keeps_to_its_part();
	equal_processes_have_equal_turns();
	the_next_turn_is_known();
	the_first_sample_is_no_measure();
	return 0;
}
