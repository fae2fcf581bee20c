/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of this folder only. */
#ifndef AGGREGATOR_API_API_IMPL_H
#define AGGREGATOR_API_API_IMPL_H

#include <stdbool.h>

#include <jansson.h>

#include "aggregator/api/api.h"
#include "aggregator/sessions/sessions.h"
#include "base/err.h"

#define LOGIN_COOKIE_BYTES 20
#define LOGIN_CSRF_HEADER  "X-Tutti-CSRF" /* a change by cookie must have it */

struct browsers;
struct buf;
struct http_req;
struct limits;
struct marks_cache;
struct pieces;
struct principal;
struct spaces;
struct verb;

struct api {
	struct api_env env;
	struct events *events;
	struct limits *limits;
	struct marks_cache *marks;
	struct browsers *browsers;
	char cookie[LOGIN_COOKIE_BYTES]; /* its name */
	bool stopping; /* every request is refused */
};

/* `id` and `name` are the parts of the path that '*' matched, or NULL. */
typedef void (*api_fn)(struct api *api, struct http_req *req, const char *id, const char *name);

#define ROUTE_PARTS	 2
#define ROUTE_PART_BYTES 256

struct route {
	const char *method;
	const char *path; /* '*' matches one part */
	const struct verb *verb; /* who may */
	api_fn fn;
	bool reads; /* a follower answers it, too */
};

/* All of them, for the tests that hold them against the docs. */
const struct route *api_routes(size_t *n);

/* The parts of a path that '*' matched. */
struct path_parts {
	char part[ROUTE_PARTS][ROUTE_PART_BYTES];
	size_t n;
};

/* guard.c: finds out who asks, and calls the route's function, or refuses. Where the verb is about a session, the first part of
 * the path is its id. */
void guard_admit(struct api *api, struct http_req *req, const struct route *route,
		 const struct path_parts *parts);

/* Who asks; borrowed, until the request is answered. */
struct principal *api_principal(const struct http_req *req);

/* The name of who asks, for what he begins; "" for a caller who showed nothing. */
const char *api_owner(const struct http_req *req);

/* Of which namespaces the caller may see something. */
const struct spaces *api_view_of(const struct http_req *req);

/* Two json_text_fn; `req` is the struct http_req. They answer the request with the text: api_answer_text()
 * with status 200, api_accept_text() with 202. */
void api_answer_text(void *req, struct buf *text_taken);
void api_accept_text(void *req, struct buf *text_taken);

void api_answer_json(struct http_req *req, int status, json_t *doc_taken);

/* With a long document, as fast as the client reads. */
void api_answer_pieces(struct http_req *req, struct pieces *text_taken);

/* Chooses the HTTP status by the error's code. */
void api_answer_err(struct http_req *req, const struct err *e);
void api_answer_store_err(struct http_req *req, const struct err *e); /* with the reason "store" */

/* A session could not be read from the store: 404 if there is none, 500 if it is damaged, 503 if the store
 * fails now. */
void api_answer_record_err(struct http_req *req, const struct err *e);

/* A follower's answer to what only the leader knows or does: 307 to the leader; 503 while it is not known where that is. */
void api_answer_elsewhere(struct api *api, struct http_req *req);

/* captures.c */
void api_capture_begin(struct api *api, struct http_req *req, const char *id, const char *name);
void api_snapshot_begin(struct api *api, struct http_req *req, const char *id, const char *name);
void api_capture_list(struct api *api, struct http_req *req, const char *id, const char *name);
void api_capture_get(struct api *api, struct http_req *req, const char *id, const char *name);
void api_capture_events(struct api *api, struct http_req *req, const char *id, const char *name);
void api_capture_stop(struct api *api, struct http_req *req, const char *id, const char *name);
void api_capture_cancel(struct api *api, struct http_req *req, const char *id, const char *name);

/* The body of a retry; `*grace_ns` stays 0 if it names none. */
MUST_CHECK int api_read_retry(struct http_req *req, int64_t *grace_ns, struct err *e);

/* pods.c */
void api_pod_list(struct api *api, struct http_req *req, const char *id, const char *name);
void api_pod_jobs(struct api *api, struct http_req *req, const char *id, const char *name);

/* sessions.c */
void api_answer_failure(struct api *api, struct http_req *req,
			const char *id); /* of a failed capture */
void api_session_list(struct api *api, struct http_req *req, const char *id, const char *name);
void api_session_get(struct api *api, struct http_req *req, const char *id, const char *name);
void api_session_delete(struct api *api, struct http_req *req, const char *id, const char *name);
/* Answers and returns true if this may be a capture of an earlier run that is not recovered yet, or one that the leader has. */
bool api_refuse_unrecovered(struct api *api, struct http_req *req, const char *id);

void api_session_retry(struct api *api, struct http_req *req, const char *id, const char *name);
void api_session_pin(struct api *api, struct http_req *req, const char *id, const char *name);
void api_session_unpin(struct api *api, struct http_req *req, const char *id, const char *name);

/* Whether this may be the id of a session; if not, the request is answered. */
bool api_is_session(struct http_req *req, const char *id);

/* Answers with the error of a call about this session (may be NULL). If there is no manifest, but an earlier run may have left the session
 * unfinished, answers with 503 instead of 404. */
void api_answer_session_err(struct api *api, struct http_req *req, const char *id,
			    const struct err *e);

/* imports.c */
void api_import_begin(struct api *api, struct http_req *req, const char *id, const char *name);
void api_import_add(struct api *api, struct http_req *req, const char *id, const char *name);
void api_import_commit(struct api *api, struct http_req *req, const char *id, const char *name);
void api_import_cancel(struct api *api, struct http_req *req, const char *id, const char *name);

/* enrolment.c */
void api_join_token(struct api *api, struct http_req *req, const char *id, const char *name);
void api_revoke(struct api *api, struct http_req *req, const char *id, const char *name);

/* files.c */
void api_session_file(struct api *api, struct http_req *req, const char *id, const char *name);

/* links.c */
void api_session_links(struct api *api, struct http_req *req, const char *id, const char *name);
void api_shared_file(struct api *api, struct http_req *req, const char *id, const char *name);

/* login.c */

/* The name of this aggregator's cookie. */
void login_name_cookie(const char *link_key, char out[LOGIN_COOKIE_BYTES]);

/* The token that the caller's browser has signed in with, and what its changes must send; borrowed until the next call.
 * NULL: it has not. */
const char *login_token(const struct api *api, const struct http_req *req, const char **csrf);

/* The number of the browser whose cookie says who asks; 0 = none does. */
uint64_t login_browser(const struct api *api, const struct http_req *req);
void api_whoami(struct api *api, struct http_req *req, const char *id, const char *name);
void api_login(struct api *api, struct http_req *req, const char *id, const char *name);
void api_logout(struct api *api, struct http_req *req, const char *id, const char *name);

/* views.c */
void api_view_open(struct api *api, struct http_req *req, const char *id, const char *name);
void api_view_tile(struct api *api, struct http_req *req, const char *id, const char *name);
void api_view_event(struct api *api, struct http_req *req, const char *id, const char *name);
void api_view_search(struct api *api, struct http_req *req, const char *id, const char *name);
void api_view_next(struct api *api, struct http_req *req, const char *id, const char *name);
void api_view_selection(struct api *api, struct http_req *req, const char *id, const char *name);
void api_view_flame(struct api *api, struct http_req *req, const char *id, const char *name);
void api_view_spread(struct api *api, struct http_req *req, const char *id, const char *name);
void api_view_links(struct api *api, struct http_req *req, const char *id, const char *name);
void api_view_durations(struct api *api, struct http_req *req, const char *id, const char *name);
void api_view_trace(struct api *api, struct http_req *req, const char *id, const char *name);

#endif
