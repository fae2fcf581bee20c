/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/api/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/api/api_impl.h"
#include "aggregator/api/events.h"
#include "aggregator/api/host_header.h"
#include "aggregator/api/hosts_text.h"
#include "aggregator/api/metrics.h"
#include "aggregator/api/page.h"
#include "aggregator/captures/tracer_settings.h"
#include "aggregator/fleet/registry.h"
#include "aggregator/retention/quotas.h"
#include "aggregator/retention/removal.h"
#include "aggregator/sessions/session_store.h"
#include "aggregator/views/views.h"
#include "base/buf.h"
#include "base/conf.h"
#include "base/mem.h"
#include "base/secret.h"
#include "json/json_text.h"
#include "net/http_server.h"
#include "proto/reasons.h"

/* ---- answers ---- */

void api_answer_json(struct http_req *req, int status, json_t *doc_taken)
{
	struct buf text = BUF_INIT;

	json_write(&text, doc_taken, 0);
	http_answer(req, status, "application/json", text.data, text.len);
	buf_release(&text);
}

void api_answer_text(void *req, struct buf *text_taken)
{
	http_answer_take(req, 200, "application/json", text_taken);
}

void api_accept_text(void *req, struct buf *text_taken)
{
	http_answer_take(req, 202, "application/json", text_taken);
}

static int status_of(const struct err *e)
{
	static const struct {
		int code, status;
	} statuses[] = {
		{ ERR_INVALID, 400 }, { ERR_DENIED, 403 },	{ ERR_NOT_FOUND, 404 },
		{ ERR_EXISTS, 409 },  { ERR_CANCELLED, 409 },	{ ERR_LIMIT, 429 },
		{ ERR_BUSY, 503 },    { ERR_UNSUPPORTED, 501 }, { ERR_FULL, 507 },
	};
	int status = 500;

	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++) {
		if (statuses[i].code == e->code)
			status = statuses[i].status;
	}
	return status;
}

static void answer_reason(struct http_req *req, int status, const char *reason, const struct err *e)
{
	json_t *doc = json_object();

	json_put_text(doc, "error", e->msg);
	json_put_text(doc, "reason", reason);
	api_answer_json(req, status, doc);
}

void api_answer_err(struct http_req *req, const struct err *e)
{
	if (e->code == ERR_FULL)
		answer_reason(req, status_of(e), "full", e);
	else
		http_answer_error(req, status_of(e), "%s", e->msg);
}

void api_answer_store_err(struct http_req *req, const struct err *e)
{
	answer_reason(req, status_of(e), REASON_STORE, e);
}

void api_answer_record_err(struct http_req *req, const struct err *e)
{
	switch (e->code) {
	case ERR_NOT_FOUND:
		api_answer_err(req, e);
		break;
	case ERR_INVALID:
		http_answer_error(req, 500, "%s", e->msg);
		break;
	default:
		answer_reason(req, 503, REASON_STORE, e);
	}
}

static void answer_text(struct http_req *req, int status, const char *text)
{
	http_answer(req, status, "text/plain; charset=utf-8", text, strlen(text));
}

/* ---- short calls ---- */

static void get_hosts(struct api *api, struct http_req *req, const char *id, const char *name)
{
	(void)id;
	(void)name;
	hosts_make_text(api->env.registry, api->env.jobs, api_answer_text, req);
}

static void get_settings(struct api *api, struct http_req *req, const char *id, const char *name)
{
	(void)id;
	(void)name;
	api_answer_json(req, 200, tracer_settings_json(registry_settings(api->env.registry)));
}

static void get_events(struct api *api, struct http_req *req, const char *id, const char *name)
{
	(void)id;
	(void)name;
	events_open(api->events, req);
}

static void get_health(struct api *api, struct http_req *req, const char *id, const char *name)
{
	(void)api;
	(void)id;
	(void)name;
	answer_text(req, 200, "ok\n");
}

static void get_ready(struct api *api, struct http_req *req, const char *id, const char *name)
{
	(void)id;
	(void)name;
	if (api->env.store->ready)
		answer_text(req, 200, "ok\n");
	else
		answer_text(req, 503, api->env.store->not_ready.msg);
}

static void get_metrics(struct api *api, struct http_req *req, const char *id, const char *name)
{
	struct buf text = BUF_INIT;

	(void)id;
	(void)name;
	metrics_write(&api->env, events_pages(api->events), &text);
	http_answer(req, 200, "text/plain; version=0.0.4; charset=utf-8", text.data, text.len);
	buf_release(&text);
}

static void get_page(struct api *api, struct http_req *req, const char *id, const char *name)
{
	(void)api;
	(void)id;
	(void)name;
	page_answer(req);
}

/* A short address of a session for people: the page, which opens it. */
static void get_session_page(struct api *api, struct http_req *req, const char *id,
			     const char *name)
{
	char url[SESSION_NAME_BYTES + 8];

	(void)api;
	(void)name;
	if (!api_is_session(req, id))
		return;
	snprintf(url, sizeof(url), "/#/s/%s", id);
	http_answer_redirect(req, url);
}

/* ---- routes ---- */

struct route {
	const char *method;
	const char *path; /* '*' matches one part */
	api_fn fn;
};

static const struct route routes[] = {
	{ "GET", "/api/v1/hosts", get_hosts },
	{ "GET", "/api/v1/settings", get_settings },
	{ "GET", "/api/v1/pods", api_pod_list },
	{ "GET", "/api/v1/jobs", api_pod_jobs },
	{ "GET", "/api/v1/captures", api_capture_list },
	{ "POST", "/api/v1/captures", api_capture_begin },
	{ "POST", "/api/v1/snapshots", api_snapshot_begin },
	{ "GET", "/api/v1/captures/*", api_capture_get },
	{ "DELETE", "/api/v1/captures/*", api_capture_cancel },
	{ "GET", "/api/v1/captures/*/events", api_capture_events },
	{ "POST", "/api/v1/captures/*/stop", api_capture_stop },
	{ "GET", "/api/v1/sessions", api_session_list },
	{ "GET", "/api/v1/sessions/*", api_session_get },
	{ "DELETE", "/api/v1/sessions/*", api_session_delete },
	{ "POST", "/api/v1/sessions/*/retry", api_session_retry },
	{ "PUT", "/api/v1/sessions/*/pin", api_session_pin },
	{ "DELETE", "/api/v1/sessions/*/pin", api_session_unpin },
	{ "GET", "/api/v1/sessions/*/files/*", api_session_file },
	{ "POST", "/api/v1/sessions/*/links", api_session_links },
	{ "POST", "/api/v1/imports", api_import_begin },
	{ "DELETE", "/api/v1/imports/*", api_import_cancel },
	{ "PUT", "/api/v1/imports/*/files/*", api_import_add },
	{ "POST", "/api/v1/imports/*/commit", api_import_commit },
	{ "GET", "/shared/*/*", api_shared_file },
	{ "GET", "/s/*", get_session_page },
	{ "GET", "/api/v1/sessions/*/view", api_view_open },
	{ "GET", "/api/v1/sessions/*/view/tile", api_view_tile },
	{ "GET", "/api/v1/sessions/*/view/event", api_view_event },
	{ "GET", "/api/v1/sessions/*/view/search", api_view_search },
	{ "GET", "/api/v1/sessions/*/view/next", api_view_next },
	{ "GET", "/api/v1/sessions/*/view/selection", api_view_selection },
	{ "GET", "/api/v1/sessions/*/view/flame", api_view_flame },
	{ "GET", "/api/v1/sessions/*/view/durations", api_view_durations },
	{ "GET", "/api/v1/events", get_events },
	{ "GET", "/healthz", get_health },
	{ "GET", "/readyz", get_ready },
	{ "GET", "/metrics", get_metrics },
	{ "GET", "/", get_page },
};

#define MAX_PARTS  2
#define PART_BYTES 256

/* The parts of the path that '*' matched. */
struct path_parts {
	char part[MAX_PARTS][PART_BYTES];
	size_t n;
};

static bool route_matches(const char *pattern, const char *path, struct path_parts *parts)
{
	parts->n = 0;
	while (*pattern && *path) {
		size_t len = strcspn(path, "/");

		if (*pattern != '*') {
			if (*pattern++ != *path++)
				return false;
			continue;
		}
		if (!len || len >= PART_BYTES || parts->n == MAX_PARTS)
			return false;
		memcpy(parts->part[parts->n], path, len);
		parts->part[parts->n++][len] = '\0';
		pattern++;
		path += len;
	}
	return !*pattern && !*path;
}

/* Whether a page of another site sent the request, by the Origin that browsers add: such a page may not
 * change anything. */
static bool is_cross_site(const struct http_req *req)
{
	const char *origin = http_header(req, "Origin"), *host = http_header(req, "Host");
	const char *authority = origin ? strstr(origin, "://") : NULL;

	return origin && (!authority || !host || strcmp(authority + 3, host));
}

static bool has_token(const struct api *api, const struct http_req *req)
{
	return !api->env.token ||
	       secret_is_bearer(api->env.token, http_header(req, "Authorization"));
}

/* Whether the caller's certificate has a listed name: such a certificate replaces the token. */
static bool has_certificate(const struct api *api, const struct http_req *req)
{
	const char *name = http_identity(req);
	bool found = false;

	for (size_t i = 0; *name && i < api->env.http_clients->n && !found; i++)
		found = !strcmp(name, api->env.http_clients->items[i]);
	return found;
}

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

static void refuse_writer(const struct api *api, struct http_req *req)
{
	bool certificates = api->env.http_clients && api->env.http_clients->n;
	char why[400];

	describe_certificate(req, why, sizeof(why));
	if (!certificates && !api->env.token)
		http_answer_error(
			req, 403,
			"this aggregator can be reached from other hosts: start it with "
			"--token-file FILE, or with --http-client NAME for a certificate");
	else if (!certificates)
		http_answer_error(req, 401,
				  "this needs the aggregator's token: Authorization: Bearer TOKEN; "
				  "tutti --token-file FILE");
	else
		http_answer_error(
			req, api->env.token ? 401 : 403,
			"this needs %sa certificate that the aggregator's --http-client names "
			"(tutti --cert FILE --key FILE); %s",
			api->env.token ? "the token (tutti --token-file FILE) or " : "", why);
}

/* Whether the caller may change something. If not, the request is answered. */
static bool may_write(const struct api *api, struct http_req *req)
{
	if (is_cross_site(req))
		http_answer_error(req, 403, "a page of another site may not do this");
	else if (has_certificate(api, req))
		return true;
	else if ((api->env.needs_token && !api->env.token) || !has_token(api, req))
		refuse_writer(api, req);
	else
		return true;
	return false;
}

/* HEAD is answered like GET, without the body. */
static const char *effective_method(const struct http_req *req)
{
	const char *method = http_method(req);

	return strcmp(method, "HEAD") ? method : "GET";
}

void api_handle(struct http_req *req, void *arg)
{
	struct api *api = arg;
	const char *method = effective_method(req);
	bool known = false;
	struct path_parts parts;

	if (api->stopping) {
		http_answer_error(req, 503, "the aggregator is stopping");
		return;
	}
	if (!host_header_allowed(http_header(req, "Host"), api->env.http_address,
				 api->env.http_hosts)) {
		http_answer_error(req, 421,
				  "this aggregator does not serve the name '%.100s': ask it by its "
				  "address, or start it with --http-host NAME",
				  http_header(req, "Host"));
		return;
	}
	if (strcmp(method, "GET") && !may_write(api, req))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(routes); i++) {
		if (!route_matches(routes[i].path, http_path(req), &parts))
			continue;
		known = true;
		if (strcmp(routes[i].method, method))
			continue;
		routes[i].fn(api, req, parts.n > 0 ? parts.part[0] : NULL,
			     parts.n > 1 ? parts.part[1] : NULL);
		return;
	}
	if (known)
		http_answer_error(req, 405, "%.200s does not take %.20s", http_path(req), method);
	else
		http_answer_error(req, 404, "there is no %.200s", http_path(req));
}

/* ---- life ---- */

static void on_removed(void *arg, const char *session)
{
	struct api *api = arg;

	events_send_session(api->events, session);
	quotas_remove(api->env.quotas, session);
	views_forget(api->env.views, session);
}

struct api *api_new(const struct api_env *env)
{
	struct api *api = xcalloc(1, sizeof(*api));

	api->env = *env;
	api->events = events_new(env->registry, env->captures, env->jobs);
	removals_watch(env->removals, on_removed, api);
	return api;
}

void api_begin_stop(struct api *api)
{
	api->stopping = true;
}

void api_free(struct api *api)
{
	if (!api)
		return;
	events_free(api->events);
	free(api);
}
