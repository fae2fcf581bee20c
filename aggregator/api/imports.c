/* SPDX-License-Identifier: Apache-2.0 */
/* Imports over HTTP: a list of files, their bytes piece by piece, and the commit. */
#include "aggregator/imports/imports.h"

#include <errno.h>
#include <stdlib.h>

#include "aggregator/api/api_impl.h"
#include "aggregator/api/events.h"
#include "aggregator/retention/quotas.h"
#include "aggregator/sessions/session_store.h"
#include "base/mem.h"
#include "json/json_text.h"
#include "net/http_server.h"

struct call {
	struct api *api;
	struct http_req *req;
	int status; /* of success */
	char *commits; /* the session that is counted for quotas from the commit on; NULL = none */
};

static struct call *call_new(struct api *api, struct http_req *req, int status)
{
	struct call *c = xcalloc(1, sizeof(*c));

	*c = (struct call){ .api = api, .req = req, .status = status };
	return c;
}

static void note_session(struct api *api, const json_t *manifest)
{
	const char *session = json_get_text(manifest, "session");

	events_send_session(api->events, session, NULL);
	quotas_add(api->env.quotas, session, json_get_text(manifest, "run"),
		   (uint64_t)json_get_int(manifest, "bytes"));
}

/* What the store has of it is committed or removed later: until then it counts. */
static void note_failure(const struct call *c)
{
	const struct api_env *env = &c->api->env;

	if (!session_store_has_left(env->store, c->commits))
		quotas_remove(env->quotas, c->commits);
}

static void answer(void *arg, const json_t *doc, const struct err *e)
{
	struct call *c = arg;

	if (e) {
		if (c->commits)
			note_failure(c);
		api_answer_err(c->req, e);
	} else {
		if (c->commits)
			note_session(c->api, doc);
		api_answer_json(c->req, c->status, json_deep_copy(doc));
	}
	free(c->commits);
	free(c);
}

/* What it says that its files have; a request that is wrong is refused later. */
static uint64_t bytes_of(const json_t *request)
{
	const json_t *file;
	uint64_t bytes = 0;
	size_t i;

	json_array_foreach(json_object_get(request, "files"), i, file)
	{
		int64_t n = json_get_int(file, "bytes");

		bytes += n > 0 ? (uint64_t)n : 0;
	}
	return bytes;
}

void api_import_begin(struct api *api, struct http_req *req, const char *id, const char *name)
{
	json_t *request;
	const void *body;
	struct err e;
	size_t len;

	(void)id;
	(void)name;
	body = http_body(req, &len);
	if (json_parse(&request, body, len, &e)) {
		api_answer_err(req, &e);
		return;
	}
	if (quotas_check(api->env.quotas, json_get_text(request, "run"), bytes_of(request), &e))
		api_answer_err(req, &e);
	else
		imports_begin(api->env.imports, request, http_peer(req), answer,
			      call_new(api, req, 201));
	json_decref(request);
}

void api_import_add(struct api *api, struct http_req *req, const char *id, const char *name)
{
	const char *text = http_query(req, "offset");
	unsigned long long offset;
	const void *body;
	char *end = NULL;
	size_t len;

	errno = 0;
	offset = text ? strtoull(text, &end, 10) : 0;
	if (!text || *text < '0' || *text > '9' || *end || errno) {
		http_answer_error(req, 400, "offset: say where in the file these bytes belong");
		return;
	}
	body = http_body(req, &len);
	imports_add(api->env.imports, id, name, offset, body, len, answer, call_new(api, req, 200));
}

/* Imports that began together may be more than fit: who commits first is in. */
void api_import_commit(struct api *api, struct http_req *req, const char *id, const char *name)
{
	struct call *c;
	const char *run;
	uint64_t bytes;
	struct err e;

	(void)name;
	if (imports_look(api->env.imports, id, &run, &bytes)) {
		if (quotas_check(api->env.quotas, run, bytes, &e)) {
			api_answer_err(req, &e);
			return;
		}
		quotas_add(api->env.quotas, id, run, bytes);
		c = call_new(api, req, 200);
		c->commits = xstrdup(id);
	} else {
		c = call_new(api, req, 200);
	}
	imports_commit(api->env.imports, id, answer, c);
}

void api_import_cancel(struct api *api, struct http_req *req, const char *id, const char *name)
{
	(void)name;
	imports_cancel(api->env.imports, id, answer, call_new(api, req, 200));
}
