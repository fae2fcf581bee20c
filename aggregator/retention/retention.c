/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/retention/retention.h"

#include <inttypes.h>
#include <stdlib.h>

#include "aggregator/sessions/session_store.h"
#include "aggregator/time/session_clock.h"
#include "base/jobs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"

#define FIRST_LOOK_NS (2 * NS_PER_S) /* after the start: agents and recovery come first */

static void begin_look(void *arg);

static void look_in(struct retention *r, int64_t ns)
{
	if (!r->stopping)
		loop_timer_in(r->env.jobs->loop, &r->timer, ns, begin_look, r);
}

/* ---- removing ---- */

static void remove_next(void *arg);

/* Not for what is this session's own: it is damaged, or its removal would free nothing of a full store. */
static bool must_wait_for_store(const struct retention *r, const struct err *e)
{
	return !r->env.store->ready && e->code != ERR_NOT_FOUND && e->code != ERR_INVALID &&
	       e->code != ERR_UNSUPPORTED && e->code != ERR_FULL;
}

static void on_removed(void *arg, enum removal_end end, const struct err *e)
{
	struct retention *r = arg;

	r->stats.removed += end == REMOVAL_DONE;
	if (end == REMOVAL_FAILED && e->code != ERR_NOT_FOUND)
		log_error("AGG-RETENTION", "action=remove session=%s reason=\"%s\"",
			  r->view.old.items[r->next], e->msg);
	if (end == REMOVAL_FAILED && must_wait_for_store(r, e)) {
		look_in(r, random_pause_ns(r->env.period_ns));
		return;
	}
	r->next++; /* one that cannot be removed, because it is damaged, keeps no other one */
	/* not from here: a removal that is refused has called this before removals_begin() returns */
	jobs_post(r->env.jobs, remove_next, r);
}

static void remove_next(void *arg)
{
	struct retention *r = arg;

	if (r->stopping)
		return;
	if (r->next < r->view.old.n)
		removals_begin(r->env.removals, r->view.old.items[r->next], "retention", on_removed,
			       r);
	else
		look_in(r, random_pause_ns(r->env.period_ns));
}

/* ---- looking ---- */

struct look_job {
	struct retention *retention; /* while the job works, it owns `view` */
	int64_t now_ns;
	int rc;
	struct err e;
};

static void run_look(void *arg)
{
	struct look_job *job = arg;
	struct retention *r = job->retention;

	job->rc = retention_look(r->env.store->store, &r->rules, job->now_ns, &r->view, &job->e);
}

static void done_look(void *arg)
{
	struct look_job *job = arg;
	struct retention *r = job->retention;
	const struct retention_view *v = &r->view;

	if (job->rc && !r->env.store->ready) {
		look_in(r, random_pause_ns(FIRST_LOOK_NS)); /* AGG-STORE has said why */
	} else if (job->rc) {
		log_error("AGG-RETENTION", "action=look reason=\"%s\"", job->e.msg);
		look_in(r, random_pause_ns(r->env.period_ns));
	} else {
		r->stats.looked = true;
		r->stats.sessions = v->sessions;
		r->stats.pinned = v->pinned;
		r->stats.bytes = v->bytes;
		if (v->old.n)
			log_info("AGG-RETENTION",
				 "action=look sessions=%zu pinned=%zu bytes=%" PRIu64 " old=%zu",
				 v->sessions, v->pinned, v->bytes, v->old.n);
		r->next = 0;
		remove_next(r);
	}
	free(job);
}

/* Whether the store is ready or not: rules are what gives a full one its room back. */
static void begin_look(void *arg)
{
	struct retention *r = arg;
	struct look_job *job = xcalloc(1, sizeof(*job));

	job->retention = r;
	job->now_ns = session_clock_now(r->env.clock);
	jobs_work(r->env.jobs, run_look, done_look, job);
}

void retention_start(struct retention *r, const struct retention_env *env)
{
	r->env = *env;
	if (retention_has_rules(&r->rules))
		look_in(r, FIRST_LOOK_NS);
}

void retention_stop(struct retention *r)
{
	r->stopping = true;
	if (r->env.jobs)
		loop_timer_cancel(r->env.jobs->loop, &r->timer);
}

void retention_release(struct retention *r)
{
	retention_view_release(&r->view);
	retention_rules_release(&r->rules);
}
