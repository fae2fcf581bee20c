/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/retention/removal.h"

#include <stdlib.h>

#include <jansson.h>

#include "aggregator/captures/capture.h"
#include "aggregator/sessions/pins.h"
#include "aggregator/sessions/session_store.h"
#include "aggregator/sessions/sessions.h"
#include "base/jobs.h"
#include "base/log.h"
#include "base/mem.h"
#include "json/json_text.h"

struct removals {
	struct removals_env env;
	json_t *claimed; /* an object whose members are the claimed sessions */
	void (*fn)(void *arg, const char *session);
	void *arg;
};

struct removals *removals_new(const struct removals_env *env)
{
	struct removals *r = xcalloc(1, sizeof(*r));

	r->env = *env;
	r->claimed = json_object();
	return r;
}

void removals_free(struct removals *r)
{
	if (!r)
		return;
	json_decref(r->claimed);
	free(r);
}

void removals_watch(struct removals *r, void (*fn)(void *arg, const char *session), void *arg)
{
	r->fn = fn;
	r->arg = arg;
}

bool removals_claim(struct removals *r, const char *session)
{
	if (json_object_get(r->claimed, session))
		return false;
	json_put_bool(r->claimed, session, true);
	return true;
}

void removals_release(struct removals *r, const char *session)
{
	json_object_del(r->claimed, session);
}

/* ---- one removal ---- */

/* The worker uses `store`, `session`, and what it sets. */
struct job {
	struct removals *removals;
	struct store *store;
	char *session, *by;
	removal_done done;
	void *arg;
	bool is_pinned, begun;
	int rc;
	struct err e;
};

static void run_removal(void *arg)
{
	struct job *j = arg;

	j->rc = session_is_pinned(j->store, j->session, &j->is_pinned, &j->e);
	if (!j->rc && j->is_pinned)
		j->rc = err_set(&j->e, ERR_DENIED,
				"session %.64s is pinned: tutti unpin %.64s, then delete it",
				j->session, j->session);
	if (!j->rc)
		j->rc = session_delete(j->store, j->session, &j->begun, &j->e);
}

static void done_removal(void *arg)
{
	struct job *j = arg;
	struct removals *r = j->removals;

	removals_release(r, j->session);
	if (!j->rc) {
		log_info("AGG-DELETED", "session=%s by=%s", j->session, j->by);
		captures_session_deleted(r->env.captures, j->session);
		if (r->fn)
			r->fn(r->arg, j->session);
	} else if (j->begun) {
		session_store_take_up(r->env.store, j->session);
	}
	j->done(j->arg,
		!j->rc	       ? REMOVAL_DONE
		: j->is_pinned ? REMOVAL_REFUSED
			       : REMOVAL_FAILED,
		&j->e);
	free(j->session);
	free(j->by);
	free(j);
}

/* Claims the session. ERR_BUSY if it is in use. */
static int claim_unused(struct removals *r, const char *session, struct err *e)
{
	const struct capture *c = capture_find(r->env.captures, session);

	if (c && !capture_has_ended(c))
		return err_set(e, ERR_BUSY, "session %.64s is being captured", session);
	return removals_claim(r, session)
		       ? 0
		       : err_set(e, ERR_BUSY, "session %.64s is being deleted, pinned or retried",
				 session);
}

void removals_begin(struct removals *r, const char *session, const char *by, removal_done done,
		    void *arg)
{
	struct job *j;
	struct err e;

	if (claim_unused(r, session, &e)) {
		done(arg, REMOVAL_REFUSED, &e);
		return;
	}
	j = xcalloc(1, sizeof(*j));
	*j = (struct job){ .removals = r,
			   .store = r->env.store->store,
			   .session = xstrdup(session),
			   .by = xstrdup(by),
			   .done = done,
			   .arg = arg };
	jobs_request(r->env.jobs, run_removal, done_removal, j);
}
