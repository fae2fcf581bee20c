/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/check.h"
#include "tests/unit/xspace/samples.h"

static struct xs_summary summarize(struct xs_builder *b)
{
	struct buf bytes = BUF_INIT;
	struct xs_source in;
	struct xs_summary sum;
	struct err e = { 0 };

	xs_finish(b, &bytes);
	in = source_of(&bytes);
	CHECK_OK(xs_summarize(&in, &sum, &e), e);
	buf_release(&bytes);
	xs_builder_free(b);
	return sum;
}

static void test_counts_and_times(void)
{
	struct xs_builder *b = xs_builder_new();
	struct xs_summary sum;

	xs_plane(b, 1, "/host:CPU");
	xs_stat_uint(b, "profile_start_time", 99);
	xs_line(b, 1, "a", 1000);
	xs_event(b, "e", 5000, 1);
	xs_event(b, "e", 7000, 2500);
	xs_line(b, 2, "b", 1001);
	xs_event(b, "e", -1, 0);
	xs_line(b, 3, "empty", 1);
	xs_plane(b, 0, "Task Environment");
	xs_stat_uint(b, "profile_start_time", UINT64_C(1760000000000000000));
	xs_stat_uint(b, "profile_stop_time", UINT64_C(1760000002000000000));
	sum = summarize(b);
	CHECK_EQ(sum.planes, 2);
	CHECK_EQ(sum.lines, 3);
	CHECK_EQ(sum.events, 3);
	CHECK_EQ(sum.first_ns, 1000);
	CHECK_EQ(sum.last_ns, 1010);
	CHECK_EQ(sum.profile_start_ns, UINT64_C(1760000000000000000));
	CHECK_EQ(sum.profile_stop_ns, UINT64_C(1760000002000000000));
}

static void test_nothing_timed(void)
{
	struct xs_builder *b = xs_builder_new();
	struct xs_summary sum;

	xs_plane(b, 1, "p");
	xs_line(b, 1, "l", 1000);
	sum = summarize(b);
	CHECK_EQ(sum.lines, 1);
	CHECK_EQ(sum.first_ns, 0);
	CHECK_EQ(sum.last_ns, 0);
	CHECK_EQ(sum.profile_start_ns, 0);
}

static void test_before_zero(void)
{
	struct xs_builder *b = xs_builder_new();
	struct xs_summary sum;

	xs_plane(b, 1, "p");
	xs_line(b, 1, "l", -10);
	xs_event(b, "e", 1, 1);
	sum = summarize(b);
	CHECK_EQ(sum.first_ns, -10);
	CHECK_EQ(sum.last_ns, -9);
}

int main(void)
{
	test_counts_and_times();
	test_nothing_timed();
	test_before_zero();
	return 0;
}
