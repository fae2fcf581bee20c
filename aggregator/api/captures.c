/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/api/api_impl.h"

#include <string.h>

#include "aggregator/access/principal.h"
#include "aggregator/captures/capture.h"
#include "aggregator/api/events.h"
#include "aggregator/sessions/session_store.h"
#include "json/json_text.h"
#include "base/mem.h"
#include "net/http_server.h"
#include "proto/limits.h"
#include "base/now.h"

#define DEFAULT_DURATION_NS (2 * NS_PER_S)
#define DEFAULT_LAST_NS	    (30 * NS_PER_S)

/* ---- the body of a POST ---- */

enum member_kind {
	MEMBER_TEXT,
	MEMBER_DURATION,
	MEMBER_WAIT,
	MEMBER_INSTANT,
	MEMBER_AGE,
	MEMBER_GRACE,
	MEMBER_STEP,
	MEMBER_COUNT,
	MEMBER_ARRAY,
	MEMBER_OBJECT
};

enum {
	OF_CAPTURE = 1, /* POST /api/v1/captures */
	OF_SNAPSHOT = 2, /* POST /api/v1/snapshots */
	OF_BOTH = OF_CAPTURE | OF_SNAPSHOT,
	OF_RETRY = 4 /* POST /api/v1/sessions/ID/retry */
};

struct member {
	int of;
	const char *name;
	enum member_kind kind;
	size_t offset; /* in struct capture_request */
	const char *expected;
};

#define MEMBER(of, name, kind, field, expected) \
	{ \
		of, name, kind, offsetof(struct capture_request, field), expected \
	}
#define NANOSECONDS "an integer of nanoseconds"

static const struct member members[] = {
	MEMBER(OF_BOTH, "hosts", MEMBER_TEXT, hosts, "a selector"),
	MEMBER(OF_BOTH, "run", MEMBER_TEXT, run, "a name"),
	MEMBER(OF_CAPTURE, "duration_ns", MEMBER_DURATION, duration_ns, NANOSECONDS " above 0"),
	MEMBER(OF_SNAPSHOT, "known", MEMBER_ARRAY, known, "an array of names"),
	MEMBER(OF_SNAPSHOT, "expected", MEMBER_ARRAY, expected, "an array of names"),
	MEMBER(OF_SNAPSHOT, "last_ns", MEMBER_DURATION, duration_ns, NANOSECONDS " above 0"),
	MEMBER(OF_SNAPSHOT, "ending_at_ns", MEMBER_INSTANT, ending_at_ns,
	       "an instant in nanoseconds of Unix time, above 0"),
	MEMBER(OF_SNAPSHOT, "ago_ns", MEMBER_AGE, ago_ns, NANOSECONDS ", 0 or above"),
	MEMBER(OF_CAPTURE, "wait_ns", MEMBER_WAIT, wait_ns, NANOSECONDS ", 0 or above"),
	MEMBER(OF_BOTH | OF_RETRY, "grace_ns", MEMBER_GRACE, grace_ns,
	       NANOSECONDS ", from 1 s to 2 h"),
	MEMBER(OF_BOTH, "refine", MEMBER_TEXT, refine, "\"events\""),
	MEMBER(OF_CAPTURE, "at_step", MEMBER_STEP, at_step, "a step's number or \"next\""),
	MEMBER(OF_CAPTURE, "steps", MEMBER_COUNT, n_steps, "a number of steps, 1 to 1000000"),
	MEMBER(OF_BOTH, "tracers", MEMBER_ARRAY, tracers, "an array of names"),
	MEMBER(OF_BOTH, "settings", MEMBER_OBJECT, settings, "an object"),
};

static const struct member *member_find(int of, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		if (members[i].of & of && !strcmp(members[i].name, name))
			return &members[i];
	}
	return NULL;
}

static bool set_step(struct capture_request *req, const json_t *value)
{
	bool next = json_is_string(value) && !strcmp(json_string_value(value), "next");

	req->by_step = true;
	req->at_step = next ? STEP_NEXT : json_integer_value(value);
	return next || (json_is_integer(value) && req->at_step >= 0);
}

static bool set_member(struct capture_request *req, const struct member *m, json_t *value)
{
	void *at = (char *)req + m->offset;

	switch (m->kind) {
	case MEMBER_TEXT:
		*(const char **)at = json_string_value(value);
		return json_is_string(value);
	case MEMBER_DURATION:
	case MEMBER_INSTANT: /* 0 is the default: there is none */
		*(int64_t *)at = json_integer_value(value);
		return json_is_integer(value) && json_integer_value(value) > 0;
	case MEMBER_AGE:
		*(int64_t *)at = json_integer_value(value);
		return json_is_integer(value) && json_integer_value(value) >= 0;
	case MEMBER_GRACE:
		*(int64_t *)at = json_integer_value(value);
		return json_integer_value(value) >= NS_PER_S &&
		       json_integer_value(value) <= LIMIT_GRACE_NS;
	/* 0 in JSON means "do not wait": in the struct that is -1, because 0 is the default */
	case MEMBER_WAIT:
		*(int64_t *)at = json_integer_value(value) ? json_integer_value(value) : -1;
		return json_is_integer(value) && json_integer_value(value) >= 0;
	case MEMBER_STEP:
		return set_step(req, value);
	case MEMBER_COUNT:
		*(int64_t *)at = json_integer_value(value);
		return json_integer_value(value) > 0 && json_integer_value(value) <= LIMIT_STEPS;
	case MEMBER_ARRAY:
		*(json_t **)at = value;
		return json_is_array(value);
	case MEMBER_OBJECT:
		*(json_t **)at = value;
		return json_is_object(value);
	}
	return false;
}

static int read_body(struct capture_request *req, int of, json_t *body, struct err *e)
{
	const char *name;
	json_t *value;

	if (!json_is_object(body))
		return err_set(e, ERR_INVALID, "the body is not a JSON object");
	json_object_foreach(body, name, value)
	{
		const struct member *m = member_find(of, name);

		if (!m)
			return err_set(e, ERR_INVALID, "unknown member '%.60s'", name);
		if (!set_member(req, m, value))
			return err_set(e, ERR_INVALID, "'%s' is not %s", name, m->expected);
	}
	return 0;
}

static int load_body(struct http_req *http, json_t **body, struct err *e)
{
	size_t len;
	const void *data = http_body(http, &len);
	int rc = 0;

	if (len)
		rc = json_parse(body, data, len, e);
	else
		*body = json_object();
	return rc ? err_prefix(e, "the body") : 0;
}

/* A 2xx answer waits until the request is durable: then a crash cannot undo it. */
static void answer_begun(void *arg, struct capture *c, const struct err *not_durable)
{
	if (c->state == CAP_REFUSED)
		api_answer_err(arg, &c->error);
	else if (not_durable)
		api_answer_store_err(arg, not_durable);
	else
		capture_make_text(c, false, api_accept_text, arg);
}

/* For a caller that shares an earlier capture. */
static void answer_shared(void *arg, struct capture *c, const struct err *not_durable)
{
	if (not_durable)
		api_answer_store_err(arg, not_durable);
	else
		capture_make_text(c, true, api_accept_text, arg);
}

/* For a caller that stopped or cancelled it. */
static void answer_ended(void *arg, struct capture *c, const struct err *not_durable)
{
	if (not_durable)
		api_answer_err(arg, not_durable);
	else
		capture_make_text(c, false, api_accept_text, arg);
}

/* Completes `req` from the body and begins the capture. */
static void begin(struct api *api, struct http_req *http, int of, struct capture_request *req)
{
	struct capture *c = NULL;
	json_t *body = NULL;
	struct err e = { 0 };
	int rc = load_body(http, &body, &e);

	req->origin = "api";
	req->owner = api_owner(http);
	req->within = &api_principal(http)->by_role[ROLE_OPERATOR];
	if (!rc)
		rc = read_body(req, of, body, &e);
	if (!rc)
		rc = capture_begin(api->env.captures, req, &c, &e);
	if (rc && e.code == ERR_BUSY && !api->env.store->ready)
		api_answer_store_err(http, &e);
	else if (rc)
		api_answer_err(http, &e);
	else
		capture_when_durable(c, c->callers > 1 ? answer_shared : answer_begun, http);
	json_decref(body);
}

void api_capture_begin(struct api *api, struct http_req *http, const char *id, const char *name)
{
	struct capture_request req = { .duration_ns = DEFAULT_DURATION_NS };

	(void)id;
	(void)name;
	begin(api, http, OF_CAPTURE, &req);
}

void api_snapshot_begin(struct api *api, struct http_req *http, const char *id, const char *name)
{
	struct capture_request req = { .duration_ns = DEFAULT_LAST_NS, .snapshot = true };

	(void)id;
	(void)name;
	begin(api, http, OF_SNAPSHOT, &req);
}

int api_read_retry(struct http_req *http, int64_t *grace_ns, struct err *e)
{
	struct capture_request req = { 0 };
	json_t *body = NULL;
	int rc = load_body(http, &body, e);

	if (!rc)
		rc = read_body(&req, OF_RETRY, body, e);
	*grace_ns = req.grace_ns;
	json_decref(body);
	return rc;
}

/* ---- the other calls ---- */

/* NULL, and the request is answered, if there is no such capture. */
static struct capture *find_or_refuse(struct api *api, struct http_req *http, const char *id)
{
	struct capture *c = capture_find(api->env.captures, id);

	if (!c && !api_refuse_unrecovered(api, http, id))
		http_answer_error(http, 404, "there is no capture %.64s", id);
	return c;
}

void api_capture_list(struct api *api, struct http_req *http, const char *id, const char *name)
{
	(void)id;
	(void)name;
	api_answer_pieces(http, captures_text_new(api->env.captures, api_view_of(http)));
}

void api_capture_get(struct api *api, struct http_req *http, const char *id, const char *name)
{
	struct capture *c = capture_find(api->env.captures, id);

	(void)name;
	if (c)
		api_answer_pieces(http, capture_text_new(c));
	else if (!api_refuse_unrecovered(api, http, id))
		api_answer_failure(api, http, id);
}

void api_capture_events(struct api *api, struct http_req *http, const char *id, const char *name)
{
	struct capture *c = find_or_refuse(api, http, id);

	(void)name;
	if (c)
		events_open_capture(api->events, http, api_principal(http),
				    login_browser(api, http), c);
}

void api_capture_stop(struct api *api, struct http_req *http, const char *id, const char *name)
{
	struct capture *c = find_or_refuse(api, http, id);

	(void)name;
	if (!c)
		return;
	if (capture_has_ended(c)) {
		http_answer_error(http, 409, "capture %.64s has ended", id);
		return;
	}
	capture_stop(c);
	capture_when_durable(c, answer_ended, http);
}

void api_capture_cancel(struct api *api, struct http_req *http, const char *id, const char *name)
{
	struct capture *c = find_or_refuse(api, http, id);

	(void)name;
	if (!c)
		return;
	if (capture_cancel(c))
		capture_when_durable(c, answer_ended, http);
	else
		http_answer_error(http, 409, "capture %.64s is being committed, or has ended", id);
}
