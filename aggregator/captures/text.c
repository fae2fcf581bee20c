/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CAPTURE as text. For 10,000 hosts that takes a tenth of a second: a worker writes it from a copy, so that the
 * loop does not wait.
 */
#include "aggregator/captures/capture_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define AT_ONCE_HOSTS 200 /* up to so many are written at once, on the loop */

struct text_job {
	struct captures *captures;
	struct capture **copies;
	size_t n, n_hosts;
	bool list;
	struct buf text;
	json_text_fn fn;
	void *arg;
};

/* ---- copies ---- */

/* The copy borrows strings: each is set once and lives as long as the capture. */
struct capture *capture_copy(struct capture *c)
{
	struct capture *copy = xmalloc(sizeof(*copy));

	*copy = *c;
	copy->original = c;
	copy->hosts = xmalloc(c->n_hosts * sizeof(*c->hosts));
	memcpy(copy->hosts, c->hosts, c->n_hosts * sizeof(*c->hosts));
	copy->warnings = json_deep_copy(c->warnings);
	c->n_copies++;
	return copy;
}

void capture_copy_free(struct capture *copy)
{
	struct capture *c = copy->original;

	json_decref(copy->warnings);
	free(copy->hosts);
	free(copy);
	if (!--c->n_copies && c->free_pending)
		capture_free(c);
}

/* ---- jobs ---- */

static void run_text(void *arg)
{
	struct text_job *job = arg;

	if (job->list)
		buf_add_str(&job->text, "{\"captures\":[");
	for (size_t i = 0; i < job->n; i++) {
		if (i)
			buf_add_str(&job->text, ",");
		capture_write(&job->text, job->copies[i]);
	}
	if (job->list)
		buf_add_str(&job->text, "]}");
}

static void done_text(void *arg)
{
	struct text_job *job = arg;

	for (size_t i = 0; i < job->n; i++)
		capture_copy_free(job->copies[i]);
	job->fn(job->arg, buf_str(&job->text), job->text.len);
	buf_release(&job->text);
	free(job->copies);
	free(job);
}

static void job_start(struct text_job *job)
{
	if (job->n_hosts > AT_ONCE_HOSTS) {
		jobs_work(job->captures->env.jobs, run_text, done_text, job);
		return;
	}
	run_text(job);
	done_text(job);
}

static struct text_job *job_new(struct captures *cs, size_t n, json_text_fn fn, void *arg)
{
	struct text_job *job = xcalloc(1, sizeof(*job));

	job->captures = cs;
	job->copies = xcalloc(n + 1, sizeof(*job->copies));
	job->fn = fn;
	job->arg = arg;
	return job;
}

static void job_add(struct text_job *job, struct capture *c)
{
	job->copies[job->n++] = capture_copy(c);
	job->n_hosts += c->n_hosts;
}

void capture_make_text(struct capture *c, bool shared, json_text_fn fn, void *arg)
{
	struct text_job *job = job_new(c->captures, 1, fn, arg);

	job_add(job, c);
	job->copies[0]->shared = shared;
	job_start(job);
}

void captures_make_text(struct captures *cs, json_text_fn fn, void *arg)
{
	struct text_job *job = job_new(cs, cs->n_active + cs->n_ended, fn, arg);
	struct capture *c;

	job->list = true;
	TAILQ_FOREACH (c, &cs->all, entry)
		job_add(job, c);
	job_start(job);
}
