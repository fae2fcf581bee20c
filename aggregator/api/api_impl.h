/* SPDX-License-Identifier: Apache-2.0 */
/* What the api_*.c files share among themselves. */
#ifndef AGGREGATOR_API_API_IMPL_H
#define AGGREGATOR_API_API_IMPL_H

#include <stdbool.h>

#include <jansson.h>

#include "aggregator/api/api.h"
#include "base/err.h"

struct http_req;

struct api {
	struct api_env env;
	struct events *events;
	json_t *claimed; /* an object: sessions that a worker deletes, or reads for a retry */
	char *token; /* the secret that callers who change something have to show; NULL = none */
	bool stopping; /* every request is refused */
};

/* `id` and `name` are the parts of the path that stood for '*', or NULL. */
typedef void (*api_fn)(struct api *api, struct http_req *req, const char *id, const char *name);

/* To a struct http_req, 200 and 202: as hosts_text() and capture_make_text() want them. */
void api_answer_text(void *req, const char *text, size_t len);
void api_accept_text(void *req, const char *text, size_t len);

void api_answer_json(struct http_req *req, int status, json_t *doc_taken);
void api_answer_err(struct http_req *req, const struct err *e); /* status by its code */

/* api_captures.c */
void api_capture_begin(struct api *api, struct http_req *req, const char *id, const char *name);
void api_capture_list(struct api *api, struct http_req *req, const char *id, const char *name);
void api_capture_get(struct api *api, struct http_req *req, const char *id, const char *name);
void api_capture_events(struct api *api, struct http_req *req, const char *id, const char *name);
void api_capture_stop(struct api *api, struct http_req *req, const char *id, const char *name);
void api_capture_cancel(struct api *api, struct http_req *req, const char *id, const char *name);

/* api_sessions.c */
void api_failed_get(struct api *api, struct http_req *req, const char *id);
void api_session_list(struct api *api, struct http_req *req, const char *id, const char *name);
void api_session_get(struct api *api, struct http_req *req, const char *id, const char *name);
void api_session_delete(struct api *api, struct http_req *req, const char *id, const char *name);
void api_session_retry(struct api *api, struct http_req *req, const char *id, const char *name);
void api_session_file(struct api *api, struct http_req *req, const char *id, const char *name);

#endif
