/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who asks, and whether he may: from a route that matches to the call of its function. A token may have to be checked
 * elsewhere, and the marks of a session read from the store: then the request waits for that.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/access/access.h"
#include "aggregator/access/audit.h"
#include "aggregator/access/verbs.h"
#include "aggregator/api/api_impl.h"
#include "aggregator/api/limits.h"
#include "aggregator/api/marks.h"
#include "aggregator/captures/capture.h"
#include "aggregator/sessions/session_store.h"
#include "aggregator/sessions/sessions.h"
#include "base/jobs.h"
#include "base/mem.h"
#include "base/secret.h"
#include "json/json_text.h"
#include "net/http_server.h"
#include "proto/names.h"

/* A request between its route and the route's function. */
struct admission {
	struct api *api;
	struct http_req *req;
	const struct route *route;
	struct path_parts parts;
	struct principal *principal; /* NULL = not known yet */
	void (*answer)(struct admission *a); /* of a refusal, once it is in the audit log */
	struct err why; /* of a token that is not valid, or of a limit */
	int retry_s; /* of a limit */
	struct store *store; /* this and what follows are for the worker that reads the marks */
	json_t *marks;
	int rc;
	struct err e;
};

static void release_principal(void *principal)
{
	principal_unref(principal);
}

struct principal *api_principal(const struct http_req *req)
{
	return http_user(req);
}

const char *api_owner(const struct http_req *req)
{
	return principal_owner(api_principal(req));
}

const struct spaces *api_view_of(const struct http_req *req)
{
	return &api_principal(req)->by_role[ROLE_VIEWER];
}

static void admission_free(struct admission *a)
{
	principal_unref(a->principal);
	json_decref(a->marks);
	free(a);
}

static const char *session_of(const struct admission *a)
{
	return a->parts.part[0];
}

/* ---- answers ---- */

/* What is wrong with the caller's certificate: "you showed no certificate" */
static void describe_certificate(const struct http_req *req, char *out, size_t size)
{
	const char *name = http_identity(req), *error = http_identity_error(req);

	if (*error)
		snprintf(out, size, "yours is not accepted: %s", error);
	else if (*name)
		snprintf(out, size, "yours names '%s'", name);
	else
		snprintf(out, size, "you showed none");
	out[strcspn(out, "\n")] = '\0';
}

static void refuse_anonymous(const struct admission *a)
{
	const struct access *access = a->api->env.access;
	char why[400];

	describe_certificate(a->req, why, sizeof(why));
	if (!access_has_tokens(access) && !access_has_certificates(access))
		http_answer_error(a->req, 403,
				  "this aggregator can be reached from other hosts: start it with "
				  "--tokens FILE or --token-file FILE, or with --http-client NAME "
				  "for a certificate");
	else if (!access_has_certificates(access))
		http_answer_error(
			a->req, 401,
			"this needs the aggregator's token: Authorization: Bearer TOKEN; tutti "
			"--token-file FILE, or tutti login");
	else
		http_answer_error(
			a->req, access_has_tokens(access) ? 401 : 403,
			"this needs %sa certificate that the aggregator's --http-client names "
			"(tutti --cert FILE --key FILE); %s",
			access_has_tokens(access)
				? "a token (tutti --token-file FILE, or tutti login) or "
				: "",
			why);
}

/* ---- the audit log ---- */

#define REQUEST_BYTES 4096 /* of a body that a line has */

static json_t *audit_entry(const struct admission *a)
{
	const struct principal *p = a->principal;
	json_t *o = json_object();

	json_put_text(o, "verb", a->route->verb->name);
	json_put_text(o, "who", p ? p->name : "");
	json_put_text(o, "how", p ? p->how : "");
	json_put_text(o, "role", p ? role_name(principal_role(p)) : "");
	json_put_text(o, "peer", http_peer(a->req));
	if (a->parts.n && name_is_session(session_of(a)))
		json_put_text(o, "session", session_of(a));
	return o;
}

static void put_request(json_t *entry, const struct admission *a)
{
	json_t *doc = NULL;
	size_t len;
	const void *body = http_body(a->req, &len);

	if (len && len <= REQUEST_BYTES && !json_parse(&doc, body, len, NULL))
		json_put(entry, "request", doc);
}

static void on_refusal_noted(void *arg, const struct err *why)
{
	struct admission *a = arg;

	(void)why; /* a refusal stands, whether or not it can be written down */
	a->answer(a);
	admission_free(a);
}

static void refuse_with(struct admission *a, const char *reason,
			void (*answer)(struct admission *a))
{
	json_t *entry = audit_entry(a);

	json_put_text(entry, "outcome", "refused");
	json_put_text(entry, "reason", reason);
	a->answer = answer;
	audit_refusal(a->api->env.audit, entry, on_refusal_noted, a);
}

/* ---- refusals ---- */

static void answer_forbidden(struct admission *a)
{
	const struct verb *v = a->route->verb;
	const struct principal *p = a->principal;

	if (!strcmp(p->how, "anonymous"))
		refuse_anonymous(a);
	else
		http_answer_error(a->req, 403, "%.100s has the role %s, and '%s' needs %s%s",
				  p->name, role_name(principal_role(p)), v->name,
				  role_name(v->role),
				  v->object == VERB_FLEET     ? " in all namespaces"
				  : v->object == VERB_SESSION ? " in the session's namespaces"
							      : "");
}

static void refuse(struct admission *a)
{
	refuse_with(a, "the role is too low", answer_forbidden);
}

/* The same answer as for what is not there. */
static void answer_hidden(struct admission *a)
{
	bool is_capture = strstr(a->route->path, "/captures/") != NULL;

	http_answer_error(a->req, 404, "there is no %s %.64s", is_capture ? "capture" : "session",
			  session_of(a));
}

static void refuse_hidden(struct admission *a)
{
	refuse_with(a, "there is no such session for this caller", answer_hidden);
}

static void answer_bad_token(struct admission *a)
{
	if (a->why.code == ERR_DENIED)
		http_answer_error(
			a->req, 401,
			"%s; this needs the aggregator's token: Authorization: Bearer TOKEN; tutti "
			"--token-file FILE, or tutti login",
			a->why.msg);
	else
		http_answer_error(a->req, 503, "%s", a->why.msg);
}

static void answer_limit(struct admission *a)
{
	http_set_retry_after(a->req, a->retry_s);
	http_answer_error(a->req, 429, "%s", a->why.msg);
}

/* ---- whether he may ---- */

static bool is_start(const struct verb *v)
{
	return v == &verb_start || v == &verb_snapshot || v == &verb_retry;
}

static bool is_stream(const struct route *route)
{
	static const char end[] = "/events";
	size_t len = strlen(route->path);

	return len >= strlen(end) && !strcmp(route->path + len - strlen(end), end);
}

/* Whether the caller has room for one more. */
static int check_limits(struct admission *a)
{
	struct limits *limits = a->api->limits;
	const char *name = principal_owner(a->principal);

	if (is_start(a->route->verb))
		return limits_start(limits, name, &a->retry_s, &a->why);
	if (is_stream(a->route))
		return limits_stream(limits, name, &a->retry_s, &a->why);
	return 0;
}

static void call_route(struct admission *a)
{
	const struct route *route = a->route;
	struct path_parts parts = a->parts;
	struct http_req *req = a->req;
	struct api *api = a->api;
	struct principal *p = principal_ref(a->principal);

	http_set_user(req, principal_ref(p), release_principal);
	admission_free(a);
	route->fn(api, req, parts.n > 0 ? parts.part[0] : NULL, parts.n > 1 ? parts.part[1] : NULL);
	/* a retry reads its session first, and ends its start itself */
	if (is_start(route->verb) && route->verb != &verb_retry)
		limits_end_start(api->limits, principal_owner(p));
	principal_unref(p);
}

static void on_noted(void *arg, const struct err *why)
{
	struct admission *a = arg;
	struct err e;

	if (!why) {
		call_route(a);
		return;
	}
	if (is_start(a->route->verb))
		limits_end_start(a->api->limits, principal_owner(a->principal));
	e = *why;
	err_prefix(&e, "the audit log cannot be written, so nothing was done");
	api_answer_err(a->req, &e);
	admission_free(a);
}

static void grant(struct admission *a)
{
	json_t *entry;

	if (check_limits(a)) {
		refuse_with(a, a->why.msg, answer_limit);
		return;
	}
	if (!a->route->verb->is_audited) {
		call_route(a);
		return;
	}
	entry = audit_entry(a);
	json_put_text(entry, "outcome", "granted");
	put_request(entry, a);
	audit_write(a->api->env.audit, entry, on_noted, a);
}

static void decide(struct admission *a, const struct session_marks *marks);

static void run_marks(void *arg)
{
	struct admission *a = arg;

	a->rc = session_load_marks(a->store, session_of(a), &a->marks, &a->e);
}

static void done_marks(void *arg)
{
	struct admission *a = arg;

	if (a->rc == ERR_NOT_FOUND && a->api->env.leader) {
		api_answer_elsewhere(a->api, a->req);
		admission_free(a);
	} else if (a->rc == ERR_NOT_FOUND) {
		refuse_hidden(a);
	} else if (a->rc) {
		api_answer_record_err(a->req, &a->e);
		admission_free(a);
	} else {
		decide(a, marks_put(a->api->marks, session_of(a), a->marks));
	}
}

/* Of a capture in memory, or of a session that was asked for lately; else they are read. */
static void find_marks(struct admission *a)
{
	struct capture *c = capture_find(a->api->env.captures, session_of(a));
	const struct session_marks *known = marks_find(a->api->marks, session_of(a));

	if (c) {
		const struct session_marks marks = { .owner = c->owner, .spaces = &c->spaces };

		decide(a, &marks);
	} else if (known) {
		decide(a, known);
	} else if (!name_is_session(session_of(a))) {
		refuse_hidden(a);
	} else {
		a->store = a->api->env.store->store;
		jobs_request(a->api->env.jobs, run_marks, done_marks, a);
	}
}

static void decide(struct admission *a, const struct session_marks *marks)
{
	switch (access_decide(a->principal, a->route->verb, marks)) {
	case ACCESS_GRANTED:
		grant(a);
		break;
	case ACCESS_FORBIDDEN:
		refuse(a);
		break;
	case ACCESS_HIDDEN:
		refuse_hidden(a);
		break;
	case ACCESS_NEEDS_MARKS:
		find_marks(a);
		break;
	}
}

/* ---- who asks ---- */

static void on_checked(void *arg, struct principal *p, const struct err *why)
{
	struct admission *a = arg;

	if (p) {
		a->principal = principal_ref(p);
		decide(a, NULL);
		return;
	}
	a->why = *why;
	refuse_with(a, why->msg, answer_bad_token);
}

static void take(struct admission *a, struct principal *principal_taken)
{
	a->principal = principal_taken;
	decide(a, NULL);
}

static void answer_no_csrf(struct admission *a)
{
	http_answer_error(a->req, 403,
			  "a change by a signed-in browser needs the header " LOGIN_CSRF_HEADER
			  ": GET /api/v1/whoami has its value");
}

/* A browser that has signed in; false: it has not. Another site's page can make a browser send its cookie, and cannot read
 * what a change needs besides. */
static bool identify_browser(struct admission *a)
{
	const char *given = http_header(a->req, LOGIN_CSRF_HEADER), *csrf;
	const char *token = login_token(a->api, a->req, &csrf);

	if (!token)
		return false;
	if (strcmp(a->route->method, "GET") && !(given && secret_equal(csrf, given)))
		refuse_with(a, "no " LOGIN_CSRF_HEADER, answer_no_csrf);
	else
		access_check(a->api->env.access, token, on_checked, a);
	return true;
}

static void identify(struct admission *a)
{
	const struct access *access = a->api->env.access;
	const char *authorization = http_header(a->req, "Authorization");
	const char *token = access_bearer(authorization);
	struct principal *certified = access_of_certificate(access, http_identity(a->req));

	if (certified)
		take(a, certified);
	else if (!authorization && identify_browser(a))
		return;
	else if (!authorization || !access_has_tokens(access))
		take(a, access_anonymous(access));
	else if (token)
		access_check(a->api->env.access, token, on_checked, a);
	else
		on_checked(a, NULL,
			   &(struct err){ .code = ERR_DENIED, .msg = "this is no bearer token" });
}

/* Whether a page of another site sent the request, by the Origin that browsers add: such a page may not
 * change anything. */
static bool is_cross_site(const struct http_req *req)
{
	const char *origin = http_header(req, "Origin"), *host = http_header(req, "Host");
	const char *authority = origin ? strstr(origin, "://") : NULL;

	return origin && (!authority || !host || strcmp(authority + 3, host));
}

/* What a proxy and this server might read in different ways. */
static bool is_ambiguous(const struct http_req *req)
{
	return http_header_count(req, "Authorization") > 1 || http_header_count(req, "Cookie") > 1;
}

static void answer_cross_site(struct admission *a)
{
	http_answer_error(a->req, 403, "a page of another site may not do this");
}

static void answer_ambiguous(struct admission *a)
{
	http_answer_error(a->req, 400, "Authorization and Cookie may be sent once");
}

void guard_admit(struct api *api, struct http_req *req, const struct route *route,
		 const struct path_parts *parts)
{
	struct admission *a = xcalloc(1, sizeof(*a));

	*a = (struct admission){ .api = api, .req = req, .route = route, .parts = *parts };
	if (strcmp(route->method, "GET") && is_cross_site(req))
		refuse_with(a, "a page of another site", answer_cross_site);
	else if (is_ambiguous(req))
		refuse_with(a, "two Authorization or Cookie headers", answer_ambiguous);
	else if (route->verb->object == VERB_PUBLIC)
		take(a, access_anonymous(api->env.access));
	else
		identify(a);
}
