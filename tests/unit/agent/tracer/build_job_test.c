/* SPDX-License-Identifier: Apache-2.0 */
/* The slow half of a gather(): its parts, and the records that it could not read, get to the run, by whatever way. */
#include "agent/tracer/build_job.h"

#include <stdlib.h>

#include "base/loop.h"
#include "tests/lib/check.h"
#include "tests/lib/run_until.h"

struct ending {
	bool is_done, is_freed;
};

static void on_done(struct tracer_run *run)
{
	struct ending *end = run->done_arg;

	CHECK(!end->is_done);
	end->is_done = true;
}

static void free_snapshot(void *snapshot)
{
	struct ending *end = snapshot;

	CHECK(!end->is_freed);
	end->is_freed = true;
}

static uint64_t build(void *snapshot, struct xs_builder *b)
{
	CHECK(!((struct ending *)snapshot)->is_freed);
	xs_plane(b, 0, "one");
	return 5;
}

static uint64_t build_each(void *snapshot, struct build_parts *parts)
{
	CHECK(!((struct ending *)snapshot)->is_freed);
	for (int64_t pid = 1; pid <= 3; pid++)
		xs_plane(build_parts_next(parts, pid, "part"), 0, "one of several");
	return 7;
}

static void release(struct tracer_run *run)
{
	for (size_t i = 0; i < run->n_parts; i++)
		buf_release(&run->parts[i].bytes);
	free(run->parts);
}

static void test_a_run(struct loop *l, bool is_each, bool is_small)
{
	struct ending end = { 0 };
	struct tracer_run run = { .lost = 2, .done = on_done, .done_arg = &end };
	struct build_job job = { .free = free_snapshot, .snapshot = &end, .is_small = is_small };

	if (is_each)
		job.build_each = build_each;
	else
		job.build = build;
	build_job_start(l, &run, &job);
	CHECK(end.is_done == is_small);
	RUN_UNTIL(l, end.is_done);
	CHECK(end.is_freed && !run.arg);
	CHECK_EQ(run.lost, is_each ? 9 : 7); /* with those that were lost before */
	CHECK_EQ(run.n_parts, is_each ? 3 : 1);
	for (size_t i = 0; i < run.n_parts; i++) {
		CHECK_EQ(run.parts[i].base, PART_RAW);
		CHECK_EQ(run.parts[i].pid, is_each ? (int64_t)i + 1 : 0);
		CHECK_STR(run.parts[i].label, is_each ? "part" : "");
		CHECK(run.parts[i].bytes.len > 0);
	}
	CHECK_EQ(run.result, RUN_OK);
	release(&run);
}

static void test_nothing_to_build(struct loop *l)
{
	struct ending end = { 0 };
	struct tracer_run run = { .lost = 2, .done = on_done, .done_arg = &end };

	build_job_start(l, &run,
			&(struct build_job){ .build = build,
					     .free = free_snapshot,
					     .snapshot = &end,
					     .is_empty = true });
	CHECK(end.is_done && end.is_freed);
	CHECK_EQ(run.lost, 2);
	CHECK_EQ(run.n_parts, 0);
}

/* The worker ends, its parts are dropped, and the run is not touched. */
static void test_cancelled(struct loop *l)
{
	struct ending end = { 0 };
	struct tracer_run run = { .lost = 2, .done = on_done, .done_arg = &end };

	build_job_start(l, &run,
			&(struct build_job){ .build_each = build_each,
					     .free = free_snapshot,
					     .snapshot = &end });
	build_job_cancel(&run);
	build_job_cancel(&run);
	RUN_UNTIL(l, end.is_freed);
	CHECK(!end.is_done);
	CHECK_EQ(run.lost, 2);
	CHECK_EQ(run.n_parts, 0);
}

int main(void)
{
	struct loop *l;
	struct err e;

	CHECK_OK(loop_new(&l, 2, &e), e);
	for (int i = 0; i < 4; i++)
		test_a_run(l, i & 1, i & 2);
	test_nothing_to_build(l);
	test_cancelled(l);
	loop_free(l);
	return 0;
}
