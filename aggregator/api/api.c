/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/api/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/access/browsers.h"
#include "aggregator/access/verbs.h"
#include "aggregator/api/api_impl.h"
#include "aggregator/api/events.h"
#include "aggregator/api/host_header.h"
#include "aggregator/api/hosts_text.h"
#include "aggregator/api/limits.h"
#include "aggregator/api/marks.h"
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
#include "base/jobs.h"
#include "base/mem.h"
#include "base/pieces.h"
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

/* An answer of which the client reads as fast as it can. */
struct long_answer {
	struct pieces *text;
	struct http_body *body;
};

static void on_piece(void *arg, struct buf *piece_taken, bool is_last)
{
	struct long_answer *a = arg;

	http_body_add(a->body, piece_taken);
	if (is_last)
		http_body_end(a->body);
	else
		http_body_pause(a->body);
}

static void on_room(void *arg, size_t bytes)
{
	struct long_answer *a = arg;

	pieces_more(a->text, bytes, on_piece, a);
}

static void on_closed(void *arg)
{
	struct long_answer *a = arg;

	pieces_free(a->text);
	free(a);
}

void api_answer_pieces(struct http_req *req, struct pieces *text_taken)
{
	static const struct http_body_events events = { on_room, on_closed };
	struct long_answer *a = xcalloc(1, sizeof(*a));

	a->text = text_taken;
	a->body = http_answer_pieces(req, "application/json", &events, a);
	if (!a->body)
		on_closed(a);
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

/* ---- a follower ---- */

/* "this aggregator stands by: a leads at URL" */
static void add_role(const struct api *api, struct buf *out)
{
	const struct api_env *env = &api->env;

	if (!*env->leader)
		buf_add_str(out, "this aggregator stands by: it is not known yet which one leads");
	else
		buf_addf(out, "this aggregator stands by: %s leads%s%s", env->leader,
			 *env->leader_url ? " at " : "", env->leader_url);
}

void api_answer_elsewhere(struct api *api, struct http_req *req)
{
	struct buf sentence = BUF_INIT, text = BUF_INIT, url = BUF_INIT;
	json_t *doc = json_object();

	add_role(api, &sentence);
	json_put_text(doc, "error", buf_str(&sentence));
	json_put_text(doc, "leader", api->env.leader_url);
	json_write(&text, doc, 0);
	buf_addf(&url, "%s%s", api->env.leader_url, http_target(req));
	if (*api->env.leader_url)
		http_answer_elsewhere(req, buf_str(&url), &text);
	else
		http_answer_take(req, 503, "application/json", &text);
	buf_release(&sentence);
	buf_release(&url);
}

/* What health answers: "ok", and with several aggregators what this one is. */
static void answer_role(const struct api *api, struct http_req *req, int status)
{
	struct buf text = BUF_INIT;

	if (api->env.leader)
		add_role(api, &text);
	else if (api->env.replica && *api->env.replica)
		buf_addf(&text, "ok: %s leads", api->env.replica);
	else
		buf_add_str(&text, "ok");
	buf_add_str(&text, "\n");
	answer_text(req, status, buf_str(&text));
	buf_release(&text);
}

/* ---- short calls ---- */

static void get_hosts(struct api *api, struct http_req *req, const char *id, const char *name)
{
	(void)id;
	(void)name;
	api_answer_pieces(req, hosts_text_new(api->env.registry, api->env.pods, api_view_of(req),
					      api->env.jobs));
}

static void get_settings(struct api *api, struct http_req *req, const char *id, const char *name)
{
	(void)id;
	(void)name;
	api_answer_json(req, 200, tracer_settings_json(registry_settings(api->env.registry)));
}

/* Other viewers that the page leads to; of those that are not configured, an empty text. */
static void get_viewers(struct api *api, struct http_req *req, const char *id, const char *name)
{
	json_t *doc = json_object();

	(void)id;
	(void)name;
	json_put_text(doc, "perfetto", api->env.perfetto_url ? api->env.perfetto_url : "");
	json_put_text(doc, "xprof", api->env.xprof_url ? api->env.xprof_url : "");
	api_answer_json(req, 200, doc);
}

static void get_events(struct api *api, struct http_req *req, const char *id, const char *name)
{
	(void)id;
	(void)name;
	events_open(api->events, req, api_principal(req), login_browser(api, req));
}

static void get_health(struct api *api, struct http_req *req, const char *id, const char *name)
{
	(void)id;
	(void)name;
	answer_role(api, req, 200);
}

static void get_ready(struct api *api, struct http_req *req, const char *id, const char *name)
{
	(void)id;
	(void)name;
	if (api->env.leader || api->env.store->ready)
		answer_role(api, req, api->env.leader ? 503 : 200);
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

static const struct route routes[] = {
	{ "GET", "/api/v1/hosts", &verb_list, get_hosts, false },
	{ "GET", "/api/v1/whoami", &verb_whoami, api_whoami, true },
	{ "POST", "/api/v1/login", &verb_login, api_login, true },
	{ "DELETE", "/api/v1/login", &verb_logout, api_logout, true },
	{ "GET", "/api/v1/settings", &verb_list, get_settings, false },
	{ "GET", "/api/v1/viewers", &verb_list, get_viewers, true },
	{ "GET", "/api/v1/pods", &verb_list, api_pod_list, false },
	{ "GET", "/api/v1/jobs", &verb_list, api_pod_jobs, false },
	{ "GET", "/api/v1/captures", &verb_list, api_capture_list, false },
	{ "POST", "/api/v1/captures", &verb_start, api_capture_begin, false },
	{ "POST", "/api/v1/snapshots", &verb_snapshot, api_snapshot_begin, false },
	{ "GET", "/api/v1/captures/*", &verb_read, api_capture_get, false },
	{ "DELETE", "/api/v1/captures/*", &verb_cancel, api_capture_cancel, false },
	{ "GET", "/api/v1/captures/*/events", &verb_read, api_capture_events, false },
	{ "POST", "/api/v1/captures/*/stop", &verb_stop, api_capture_stop, false },
	{ "GET", "/api/v1/sessions", &verb_list, api_session_list, true },
	{ "GET", "/api/v1/sessions/*", &verb_read, api_session_get, true },
	{ "DELETE", "/api/v1/sessions/*", &verb_delete, api_session_delete, false },
	{ "POST", "/api/v1/sessions/*/retry", &verb_retry, api_session_retry, false },
	{ "PUT", "/api/v1/sessions/*/pin", &verb_pin, api_session_pin, false },
	{ "DELETE", "/api/v1/sessions/*/pin", &verb_pin, api_session_unpin, false },
	{ "GET", "/api/v1/sessions/*/files/*", &verb_read, api_session_file, true },
	{ "POST", "/api/v1/sessions/*/links", &verb_share, api_session_links, false },
	{ "POST", "/api/v1/imports", &verb_import, api_import_begin, false },
	{ "DELETE", "/api/v1/imports/*", &verb_import, api_import_cancel, false },
	{ "PUT", "/api/v1/imports/*/files/*", &verb_import, api_import_add, false },
	{ "POST", "/api/v1/imports/*/commit", &verb_import, api_import_commit, false },
	{ "GET", "/shared/*/*", &verb_public, api_shared_file, false },
	{ "GET", "/s/*", &verb_public, get_session_page, true },
	{ "GET", "/api/v1/sessions/*/view", &verb_read, api_view_open, true },
	{ "GET", "/api/v1/sessions/*/view/tile", &verb_read, api_view_tile, true },
	{ "GET", "/api/v1/sessions/*/view/event", &verb_read, api_view_event, true },
	{ "GET", "/api/v1/sessions/*/view/search", &verb_read, api_view_search, true },
	{ "GET", "/api/v1/sessions/*/view/next", &verb_read, api_view_next, true },
	{ "GET", "/api/v1/sessions/*/view/selection", &verb_read, api_view_selection, true },
	{ "GET", "/api/v1/sessions/*/view/flame", &verb_read, api_view_flame, true },
	{ "GET", "/api/v1/sessions/*/view/spread", &verb_read, api_view_spread, true },
	{ "GET", "/api/v1/sessions/*/view/links", &verb_read, api_view_links, true },
	{ "GET", "/api/v1/sessions/*/view/durations", &verb_read, api_view_durations, true },
	{ "GET", "/api/v1/sessions/*/view/trace", &verb_read, api_view_trace, true },
	{ "POST", "/api/v1/join-tokens", &verb_enrol, api_join_token, false },
	{ "POST", "/api/v1/revocations", &verb_revoke, api_revoke, false },
	{ "GET", "/api/v1/events", &verb_watch, get_events, false },
	{ "GET", "/healthz", &verb_public, get_health, true },
	{ "GET", "/readyz", &verb_public, get_ready, true },
	{ "GET", "/metrics", &verb_metrics, get_metrics, true },
	{ "GET", "/", &verb_public, get_page, true },
};

const struct route *api_routes(size_t *n)
{
	*n = ARRAY_SIZE(routes);
	return routes;
}

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
		if (!len || len >= ROUTE_PART_BYTES || parts->n == ROUTE_PARTS)
			return false;
		memcpy(parts->part[parts->n], path, len);
		parts->part[parts->n++][len] = '\0';
		pattern++;
		path += len;
	}
	return !*pattern && !*path;
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
	for (size_t i = 0; i < ARRAY_SIZE(routes); i++) {
		if (!route_matches(routes[i].path, http_path(req), &parts))
			continue;
		known = true;
		if (strcmp(routes[i].method, method))
			continue;
		loop_turn_name(api->env.jobs->loop, (uintptr_t)routes[i].fn);
		if (api->env.leader && !routes[i].reads)
			api_answer_elsewhere(api, req);
		else
			guard_admit(api, req, &routes[i], &parts);
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

	events_send_session(api->events, session, marks_find(api->marks, session));
	marks_forget(api->marks, session);
	quotas_remove(api->env.quotas, session);
	views_forget(api->env.views, session);
}

void api_note_settled(struct api *api, const char *session)
{
	events_send_session(api->events, session, marks_find(api->marks, session));
	marks_forget(api->marks, session);
	views_forget(api->env.views, session);
	quotas_look(api->env.quotas);
}

struct api *api_new(const struct api_env *env)
{
	struct api *api = xcalloc(1, sizeof(*api));

	api->env = *env;
	api->marks = marks_new();
	api->browsers = browsers_new();
	login_name_cookie(env->link_key, api->cookie);
	api->events = events_new(env->registry, env->pods, env->captures, api->browsers, env->jobs);
	api->limits = limits_new(&env->limits, env->captures, api->events);
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
	limits_free(api->limits);
	events_free(api->events);
	marks_free(api->marks);
	browsers_free(api->browsers);
	free(api);
}
