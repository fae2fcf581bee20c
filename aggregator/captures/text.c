/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes CAPTURE as text. For 10,000 hosts that takes a tenth of a second, so a worker writes it from a copy
 * while the loop goes on. With several captures, the next one is copied when the one before is written.
 */
#include "aggregator/captures/capture_impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define AT_ONCE_HOSTS 200 /* captures with up to this many hosts are written at once, on the loop */

struct text_job {
	struct captures *captures;
	char **sessions; /* to be written, in order */
	size_t n, next;
	struct capture *held; /* to be copied next, or NULL */
	struct capture *copy; /* the copy that is being written */
	bool list, shared, at_once, is_first;
	struct buf text;
	json_text_fn fn;
	void *arg;
};

/* ---- copies ---- */

void capture_hold(struct capture *c)
{
	c->n_holds++;
}

void capture_unhold(struct capture *c)
{
	if (c && !--c->n_holds && c->free_pending)
		capture_free(c);
}

/* The copy borrows everything that does not change while the capture lives. */
struct capture *capture_copy(struct capture *c)
{
	struct capture *copy = xmalloc(sizeof(*copy));

	*copy = *c;
	copy->original = c;
	copy->hosts = xmalloc(c->n_hosts * sizeof(*c->hosts));
	memcpy(copy->hosts, c->hosts, c->n_hosts * sizeof(*c->hosts));
	copy->warnings = json_deep_copy(c->warnings);
	capture_hold(c);
	return copy;
}

void capture_copy_free(struct capture *copy)
{
	struct capture *c = copy->original;

	json_decref(copy->warnings);
	free(copy->hosts);
	free(copy);
	capture_unhold(c);
}

/* ---- jobs ---- */

static void write_copy(void *arg)
{
	struct text_job *job = arg;

	if (!job->is_first)
		buf_add_str(&job->text, ",");
	job->is_first = false;
	capture_write(&job->text, job->copy);
	free(job->copy->hosts); /* here, because this may be a worker */
	job->copy->hosts = NULL;
}

static void drop_copy(struct text_job *job)
{
	capture_copy_free(job->copy);
	job->copy = NULL;
}

static void end_job(struct text_job *job)
{
	if (job->list)
		buf_add_str(&job->text, "]}");
	job->fn(job->arg, &job->text);
	for (size_t i = 0; i < job->n; i++)
		free(job->sessions[i]);
	free(job->sessions);
	free(job);
}

static void copy_held(struct text_job *job)
{
	job->copy = capture_copy(job->held);
	capture_unhold(job->held);
	job->held = NULL;
}

/* False at the end. A capture that was forgotten meanwhile is left out. */
static bool copy_next(struct text_job *job)
{
	if (job->held)
		copy_held(job);
	while (!job->copy && job->next < job->n) {
		struct capture *c = capture_find(job->captures, job->sessions[job->next++]);

		if (c)
			job->copy = capture_copy(c);
	}
	if (job->copy)
		job->copy->shared = job->shared;
	return job->copy != NULL;
}

static void go_on(struct text_job *job);

static void done_copy(void *arg)
{
	struct text_job *job = arg;

	drop_copy(job);
	go_on(job);
}

static void go_on(struct text_job *job)
{
	while (copy_next(job)) {
		if (!job->at_once) {
			jobs_work(job->captures->env.jobs, write_copy, done_copy, job);
			return;
		}
		write_copy(job);
		drop_copy(job);
	}
	end_job(job);
}

static struct text_job *job_new(struct captures *cs, size_t n, json_text_fn fn, void *arg)
{
	struct text_job *job = xcalloc(1, sizeof(*job));

	job->captures = cs;
	job->sessions = xcalloc(n + 1, sizeof(char *));
	job->is_first = true;
	job->fn = fn;
	job->arg = arg;
	return job;
}

static void job_add(struct text_job *job, const struct capture *c)
{
	job->sessions[job->n++] = xstrdup(c->session);
}

static void begin_job(void *arg)
{
	go_on(arg);
}

/* The caller may have done much already, so a large capture is copied in a callback of its own. */
static void start(struct text_job *job, size_t n_hosts)
{
	job->at_once = n_hosts <= AT_ONCE_HOSTS;
	if (job->at_once)
		go_on(job);
	else
		jobs_post(job->captures->env.jobs, begin_job, job);
}

void capture_make_text(struct capture *c, bool shared, json_text_fn fn, void *arg)
{
	struct text_job *job = job_new(c->captures, 0, fn, arg);

	job->held = c; /* it may be in no list any more */
	job->shared = shared;
	capture_hold(c);
	start(job, c->n_hosts);
}

void captures_make_text(struct captures *cs, const struct spaces *within, json_text_fn fn,
			void *arg)
{
	struct text_job *job = job_new(cs, cs->n_active + cs->n_ended, fn, arg);
	struct capture *c;
	size_t n_hosts = 0;

	job->list = true;
	buf_addf(&job->text, "{\"now_ns\":%" PRId64 ",\"captures\":[", captures_now(cs));
	TAILQ_FOREACH (c, &cs->all, entry) {
		if (within && !spaces_cover(within, &c->spaces))
			continue;
		job_add(job, c);
		n_hosts += c->n_hosts;
	}
	start(job, n_hosts);
}
