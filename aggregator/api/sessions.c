/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions over HTTP: all calls use the store, on a worker. */
#include "aggregator/api/api_impl.h"

#include <stdlib.h>
#include <string.h>

#include "aggregator/access/principal.h"
#include "aggregator/captures/capture.h"
#include "aggregator/api/events.h"
#include "aggregator/api/limits.h"
#include "json/json_text.h"
#include "aggregator/retention/quotas.h"
#include "aggregator/retention/removal.h"
#include "aggregator/sessions/pins.h"
#include "aggregator/sessions/sessions.h"
#include "aggregator/sessions/session_store.h"
#include "base/buf.h"
#include "base/jobs.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/http_server.h"
#include "proto/limits.h"
#include "proto/names.h"
#include "storage/store.h"

#define LIST_DEFAULT 100
#define LIST_MAX     10000

/* One request; the worker uses nothing else. */
struct job {
	struct api *api;
	struct http_req *req;
	struct store *store;
	char *id; /* of a session; may be NULL */
	char *run, *after;
	size_t limit;
	struct spaces within; /* a listing: only sessions of these namespaces */
	json_t *quotas; /* for a listing */
	struct buf text; /* the answer */
	struct retry_source *source; /* of a retry */
	bool pin; /* or unpin */
	int64_t grace_ns; /* of a retry; 0 = as in the session's request */
	struct principal *caller; /* of a retry: a start of his is counted until it is done */
	int rc;
	struct err e;
};

static char *copy_or_null(const char *s)
{
	return s ? xstrdup(s) : NULL;
}

static struct job *job_new(struct api *api, struct http_req *req, const char *id)
{
	struct job *j = xcalloc(1, sizeof(*j));

	*j = (struct job){
		.api = api, .req = req, .store = api->env.store->store, .id = copy_or_null(id)
	};
	return j;
}

static void job_free(struct job *j)
{
	free(j->id);
	free(j->run);
	free(j->after);
	retry_source_free(j->source);
	principal_unref(j->caller);
	spaces_release(&j->within);
	json_decref(j->quotas);
	buf_release(&j->text);
	free(j);
}

void api_answer_session_err(struct api *api, struct http_req *req, const char *id,
			    const struct err *e)
{
	if (!id || e->code != ERR_NOT_FOUND || !api_refuse_unrecovered(api, req, id))
		api_answer_record_err(req, e);
}

static void answer_err(const struct job *j)
{
	api_answer_session_err(j->api, j->req, j->id, &j->e);
}

/* The end of most calls: answers with the text or the error. */
static void done_text(void *arg)
{
	struct job *j = arg;

	if (j->rc)
		answer_err(j);
	else
		api_answer_text(j->req, &j->text);
	job_free(j);
}

bool api_is_session(struct http_req *req, const char *id)
{
	if (name_is_session(id))
		return true;
	http_answer_error(req, 404, "'%.64s' is not the id of a session", id);
	return false;
}

/* Claims the session, since only one request at a time may delete, pin or retry it. If false, the request is
 * answered. */
static bool claim_session(struct api *api, struct http_req *req, const char *id)
{
	if (!api_is_session(req, id))
		return false;
	if (removals_claim(api->env.removals, id))
		return true;
	http_answer_error(req, 409, "session %.64s is being deleted, pinned or retried", id);
	return false;
}

static void release_session(struct job *j)
{
	removals_release(j->api->env.removals, j->id);
}

/* ---- list ---- */

static void mark_pinned(json_t *sessions, const struct session_keys *pins)
{
	json_t *summary;
	size_t i;

	json_array_foreach(sessions, i, summary)
	{
		if (session_keys_have(pins, json_get_text(summary, "session")))
			json_put_bool(summary, "pinned", true);
	}
}

/* A session whose marks cannot be read now is left out, as one that the caller may not see. */
static bool is_within(void *arg, const char *session)
{
	const struct job *j = arg;
	struct spaces spaces;
	json_t *marks = NULL;
	bool is_seen;

	if (session_load_marks(j->store, session, &marks, NULL))
		return false;
	spaces_read(&spaces, json_object_get(marks, "namespaces"));
	is_seen = spaces_cover(&j->within, &spaces);
	spaces_release(&spaces);
	json_decref(marks);
	return is_seen;
}

static void run_list(void *arg)
{
	struct job *j = arg;
	const struct session_query query = { .run = j->run,
					     .after = j->after,
					     .limit = j->limit,
					     .wanted = j->within.all ? NULL : is_within,
					     .arg = j };
	struct session_keys pins = { 0 };
	json_t *doc;

	j->rc = session_list_pins(j->store, &pins, &j->e);
	if (!j->rc)
		j->rc = session_list(j->store, &query, &doc, &j->e);
	if (!j->rc) {
		mark_pinned(json_object_get(doc, "sessions"), &pins);
		if (json_array_size(j->quotas))
			json_put(doc, "quotas", json_incref(j->quotas));
		json_write(&j->text, doc, 0);
	}
	session_keys_release(&pins);
}

static int read_limit(const char *text, size_t *out, struct err *e)
{
	char *end;
	unsigned long v;

	*out = LIST_DEFAULT;
	if (!text)
		return 0;
	v = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || v < 1 || v > LIST_MAX)
		return err_set(e, ERR_INVALID, "limit '%.20s': use 1 to %d", text, LIST_MAX);
	*out = v;
	return 0;
}

void api_session_list(struct api *api, struct http_req *req, const char *id, const char *name)
{
	const char *run = http_query(req, "run"), *after = http_query(req, "after");
	struct err e = { 0 };
	struct job *j;
	size_t limit;
	int rc = read_limit(http_query(req, "limit"), &limit, &e);

	(void)id;
	(void)name;
	if (!rc && run && *run)
		rc = name_check_run(run, &e);
	if (!rc && after && !name_is_session(after))
		rc = err_set(&e, ERR_INVALID, "after '%.64s': not the id of a session", after);
	if (rc) {
		api_answer_err(req, &e);
		return;
	}
	j = job_new(api, req, NULL);
	j->run = copy_or_null(run);
	j->after = copy_or_null(after);
	j->limit = limit;
	spaces_copy(&j->within, api_view_of(req));
	if (j->within.all && !api->env.leader)
		j->quotas = quotas_json(api->env.quotas);
	jobs_request(api->env.jobs, run_list, done_text, j);
}

/* ---- one ---- */

static void run_get(void *arg)
{
	struct job *j = arg;

	j->rc = session_read_manifest(j->store, j->id, &j->text, &j->e);
}

bool api_refuse_unrecovered(struct api *api, struct http_req *req, const char *id)
{
	const struct session_store *store = api->env.store;
	struct err e;

	if (api->env.leader) { /* it may be under way there */
		api_answer_elsewhere(api, req);
		return true;
	}
	if (store->listed && !session_store_has_left(store, id))
		return false;
	err_set(&e, ERR_BUSY,
		"captures of an earlier run of the aggregator are not recovered yet%s%s",
		store->listed ? "" : ": ", store->listed ? "" : store->not_ready.msg);
	api_answer_store_err(req, &e);
	return true;
}

void api_session_get(struct api *api, struct http_req *req, const char *id, const char *name)
{
	(void)name;
	if (api_is_session(req, id))
		jobs_request(api->env.jobs, run_get, done_text, job_new(api, req, id));
}

/* A capture that is no longer in memory: if it failed, the store has its record. */
static void run_failure(void *arg)
{
	struct job *j = arg;

	j->rc = session_read_failure(j->store, j->id, &j->text, &j->e);
}

void api_answer_failure(struct api *api, struct http_req *req, const char *id)
{
	if (api_is_session(req, id))
		jobs_request(api->env.jobs, run_failure, done_text, job_new(api, req, id));
}

/* ---- deleting and pinning ---- */

static void answer_change(struct job *j, const char *change)
{
	json_t *doc = json_object();

	json_put_text(doc, change, j->id);
	api_answer_json(j->req, 200, doc);
}

static void done_delete(void *arg, enum removal_end end, const struct err *e)
{
	struct job *j = arg;

	if (end == REMOVAL_REFUSED) {
		http_answer_error(j->req, 409, "%s", e->msg);
	} else if (end == REMOVAL_FAILED) {
		j->rc = e->code;
		j->e = *e;
		answer_err(j);
	} else {
		answer_change(j, "deleted");
	}
	job_free(j);
}

void api_session_delete(struct api *api, struct http_req *req, const char *id, const char *name)
{
	(void)name;
	if (api_is_session(req, id))
		removals_begin(api->env.removals, id, http_peer(req), done_delete,
			       job_new(api, req, id));
}

static void run_pin(void *arg)
{
	struct job *j = arg;

	j->rc = j->pin ? session_pin(j->store, j->id, &j->e)
		       : session_unpin(j->store, j->id, &j->e);
}

static void done_pin(void *arg)
{
	struct job *j = arg;

	release_session(j);
	if (j->rc) {
		answer_err(j);
	} else {
		log_info("AGG-PIN", "session=%s pinned=%d peer=%s", j->id, j->pin,
			 http_peer(j->req));
		answer_change(j, j->pin ? "pinned" : "unpinned");
	}
	job_free(j);
}

static void change_pin(struct api *api, struct http_req *req, const char *id, bool pin)
{
	struct job *j;

	if (!claim_session(api, req, id))
		return;
	j = job_new(api, req, id);
	j->pin = pin;
	jobs_request(api->env.jobs, run_pin, done_pin, j);
}

void api_session_pin(struct api *api, struct http_req *req, const char *id, const char *name)
{
	(void)name;
	change_pin(api, req, id, true);
}

void api_session_unpin(struct api *api, struct http_req *req, const char *id, const char *name)
{
	(void)name;
	change_pin(api, req, id, false);
}

/* ---- retry ---- */

static void run_retry(void *arg)
{
	struct job *j = arg;

	j->rc = retry_source_read(j->store, j->id, &j->source, &j->e);
}

static void answer_begun(void *arg, struct capture *c, const struct err *not_durable)
{
	if (not_durable)
		api_answer_err(arg, not_durable);
	else
		capture_make_text(c, false, api_accept_text, arg);
}

static void done_retry(void *arg)
{
	struct job *j = arg;
	struct capture *c;

	release_session(j);
	if (j->rc) {
		answer_err(j);
	} else if (capture_retry(j->api->env.captures, j->source, j->grace_ns, &c, &j->e)) {
		api_answer_err(j->req, &j->e);
	} else {
		capture_set_retried_by(c, api_owner(j->req));
		capture_when_durable(c, answer_begun, j->req);
	}
	limits_end_start(j->api->limits, principal_owner(j->caller));
	job_free(j);
}

/* False: it is answered. */
static bool begin_retry(struct api *api, struct http_req *req, const char *id,
			struct principal *caller)
{
	int64_t grace_ns = 0;
	struct err e;
	struct job *j;

	if (api_read_retry(req, &grace_ns, &e)) {
		api_answer_err(req, &e);
		return false;
	}
	if (!claim_session(api, req, id))
		return false;
	j = job_new(api, req, id);
	j->grace_ns = grace_ns;
	j->caller = principal_ref(caller);
	jobs_request(api->env.jobs, run_retry, done_retry, j);
	return true;
}

void api_session_retry(struct api *api, struct http_req *req, const char *id, const char *name)
{
	struct principal *caller = principal_ref(api_principal(req));

	(void)name;
	if (!begin_retry(api, req, id, caller))
		limits_end_start(api->limits, principal_owner(caller));
	principal_unref(caller);
}
