/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/build_job.h"

#include <stdlib.h>

#include "base/loop.h"
#include "base/mem.h"

struct running_job {
	struct build_job job;
	struct tracer_run *run; /* loop's thread only; NULL once cancelled */
	struct buf bytes;
	uint64_t unread;
};

static void build_part(void *arg)
{
	struct running_job *r = arg;
	struct xs_builder *b = xs_builder_new();

	r->unread = r->job.build(r->job.snapshot, b);
	xs_finish(b, &r->bytes);
	xs_builder_free(b);
}

static void on_built(void *arg)
{
	struct running_job *r = arg;
	struct tracer_run *run = r->run;

	if (run) {
		struct tracer_part *part = tracer_run_add_part(run);

		part->base = PART_RAW;
		part->bytes = r->bytes;
		r->bytes = (struct buf)BUF_INIT;
		run->lost += r->unread;
		run->arg = NULL;
	}
	buf_release(&r->bytes);
	r->job.free(r->job.snapshot);
	free(r);
	if (run)
		run->done(run);
}

void build_job_start(struct loop *l, struct tracer_run *run, const struct build_job *job)
{
	struct running_job *r = xmalloc(sizeof(*r));

	*r = (struct running_job){ .job = *job, .run = run };
	run->arg = r;
	loop_work(l, build_part, on_built, r);
}

void build_job_cancel(struct tracer_run *run)
{
	struct running_job *r = run->arg;

	if (r)
		r->run = NULL;
	run->arg = NULL;
}
