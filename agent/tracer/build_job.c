/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/build_job.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/loop.h"
#include "base/mem.h"

struct build_parts {
	struct xs_builder *b;
	struct tracer_part *v;
	size_t n;
};

struct running_job {
	struct build_job job;
	struct tracer_run *run; /* loop's thread only; NULL once cancelled */
	struct build_parts parts;
	uint64_t unread;
};

static void finish_part(struct build_parts *parts)
{
	if (parts->n)
		xs_finish(parts->b, &parts->v[parts->n - 1].bytes);
}

struct xs_builder *build_parts_next(struct build_parts *parts, int64_t pid, const char *label)
{
	struct tracer_part *part;

	finish_part(parts);
	parts->v = xrealloc(parts->v, (parts->n + 1) * sizeof(*parts->v));
	part = &parts->v[parts->n++];
	*part = (struct tracer_part){ .base = PART_RAW, .pid = pid };
	snprintf(part->label, sizeof(part->label), "%s", label);
	return parts->b;
}

static void build_parts_of_job(void *arg)
{
	struct running_job *r = arg;

	r->parts.b = xs_builder_new();
	if (r->job.build_each)
		r->unread = r->job.build_each(r->job.snapshot, &r->parts);
	else
		r->unread = r->job.build(r->job.snapshot, build_parts_next(&r->parts, 0, ""));
	finish_part(&r->parts);
	xs_builder_free(r->parts.b);
}

static void on_built(void *arg)
{
	struct running_job *r = arg;
	struct tracer_run *run = r->run;

	for (size_t i = 0; i < r->parts.n; i++) {
		if (run)
			*tracer_run_add_part(run) = r->parts.v[i];
		else
			buf_release(&r->parts.v[i].bytes);
	}
	free(r->parts.v);
	r->job.free(r->job.snapshot);
	if (run) {
		run->lost += r->unread;
		run->arg = NULL;
	}
	free(r);
	if (run)
		run->done(run);
}

void build_job_start(struct loop *l, struct tracer_run *run, const struct build_job *job)
{
	struct running_job *r;

	if (job->is_empty) {
		job->free(job->snapshot);
		run->done(run);
		return;
	}
	r = xmalloc(sizeof(*r));
	*r = (struct running_job){ .job = *job, .run = run };
	run->arg = r;
	if (job->is_small) {
		build_parts_of_job(r);
		on_built(r);
	} else {
		loop_work(l, build_parts_of_job, on_built, r);
	}
}

void build_job_cancel(struct tracer_run *run)
{
	struct running_job *r = run->arg;

	if (r)
		r->run = NULL;
	run->arg = NULL;
}
