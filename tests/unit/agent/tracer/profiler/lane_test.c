/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that hang take two workers, and no more. */
#include "agent/tracer/profiler/lane.h"

#include <stdatomic.h>
#include <unistd.h>

#include "base/loop.h"
#include "base/now.h"
#include "tests/lib/check.h"

#define JOBS	5
#define WORKERS 4

struct job {
	int pipe[2]; /* it ends when that is closed */
	atomic_bool begun; /* on a worker */
	bool done;
};

static void run(void *arg)
{
	struct job *j = arg;
	char byte;

	j->begun = true;
	CHECK_EQ(read(j->pipe[0], &byte, 1), 0);
}

static void on_done(void *arg)
{
	((struct job *)arg)->done = true;
}

static void do_nothing(void *arg)
{
	(void)arg;
}

static void turn_until(struct loop *loop, const bool *what)
{
	int64_t until_ns = now_mono_ns() + 20 * NS_PER_S;

	while (!*what && now_mono_ns() < until_ns)
		loop_turn(loop, 10);
	CHECK(*what);
}

int main(void)
{
	struct job jobs[JOBS] = { 0 }, other = { 0 };
	struct loop *loop;
	struct lane *lane;
	struct err e;

	CHECK_OK(loop_new(&loop, WORKERS, &e), e);
	lane = lane_new(loop);
	for (int i = 0; i < JOBS; i++) {
		CHECK(!pipe(jobs[i].pipe));
		lane_work(lane, run, on_done, &jobs[i]);
	}
	loop_work(loop, do_nothing, on_done, &other);
	turn_until(loop, &other.done);
	CHECK(!jobs[2].begun && !jobs[0].done && !lane_is_stuck(lane));
	close(jobs[1].pipe[1]);
	turn_until(loop, &jobs[1].done);
	close(jobs[2].pipe[1]); /* the next one */
	turn_until(loop, &jobs[2].done);
	CHECK(!jobs[0].done && !jobs[4].begun);
	lane_free(lane);
	CHECK(jobs[4].done && !jobs[4].begun); /* it waited */
	close(jobs[0].pipe[1]);
	close(jobs[3].pipe[1]);
	turn_until(loop, &jobs[0].done);
	turn_until(loop, &jobs[3].done);
	loop_free(loop);
	for (int i = 0; i < JOBS; i++)
		close(jobs[i].pipe[0]);
	close(jobs[4].pipe[1]);
	return 0;
}
