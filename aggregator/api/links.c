/* SPDX-License-Identifier: Apache-2.0 */
/* Links to the files of a session, good for a time, for people who cannot ask the aggregator for them. */
#include <stdlib.h>
#include <string.h>

#include "aggregator/api/api_impl.h"
#include "aggregator/api/files.h"
#include "aggregator/api/link_key.h"
#include "aggregator/sessions/session_store.h"
#include "aggregator/sessions/sessions.h"
#include "base/buf.h"
#include "base/jobs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "json/json_text.h"
#include "json/packed.h"
#include "net/http_server.h"
#include "proto/names.h"
#include "storage/store.h"

/* One request; the worker uses nothing else. */
struct job {
	struct api *api;
	struct http_req *req;
	struct store *store;
	const char *key; /* of the aggregator's own links */
	char *id;
	int64_t life_ns;
	int64_t until_s; /* when the first of the links ends */
	struct buf text;
	int rc;
	struct err e;
};

/* ---- links ---- */

static int store_url(struct job *j, const char *run, const char *file, struct buf *url,
		     struct err *e)
{
	char folder[SESSION_KEY_BYTES];
	char *key, *link = NULL;
	int64_t until_s;
	int rc;

	session_directory(j->id, run, folder);
	key = xasprintf("%s%s", folder, file);
	rc = store_link(j->store, key, j->life_ns, &link, &until_s, e);
	if (!rc) {
		buf_add_str(url, link);
		j->until_s = until_s < j->until_s ? until_s : j->until_s;
	}
	store_free_link(link);
	free(key);
	return rc;
}

/* A store that makes no links: one of the aggregator. */
static int make_url(struct job *j, const char *run, const char *file, struct buf *url,
		    struct err *e)
{
	int rc = ERR_UNSUPPORTED;

	if (j->api->env.has_links)
		rc = store_url(j, run, file, url, e);
	return rc == ERR_UNSUPPORTED ? link_make(j->key, j->id, file, j->until_s, url, e) : rc;
}

static int add_file(struct job *j, const char *run, const json_t *host, const char *file,
		    json_t *files, struct err *e)
{
	struct buf url = BUF_INIT;
	json_t *o;
	int rc = name_check_file(file, e);

	if (!rc)
		rc = make_url(j, run, file, &url, e);
	if (!rc) {
		o = json_object();
		json_put_text(o, "host", json_get_text(host, "host"));
		json_put_text(o, "file", file);
		json_put_text(o, "url", buf_str(&url));
		json_array_append_new(files, o);
	}
	if (url.data)
		explicit_bzero(url.data, url.len);
	buf_release(&url);
	return rc;
}

static int add_all(struct job *j, const json_t *manifest, json_t *files, struct err *e)
{
	const json_t *hosts = json_object_get(manifest, "hosts");
	const char *run = json_get_text(manifest, "run");
	int rc = 0;

	for (size_t i = 0; i < json_array_size(hosts) && !rc; i++) {
		json_t *host = packed_get(hosts, i);
		const json_t *names = json_object_get(host, "files");

		for (size_t k = 0; k < json_array_size(names) && !rc; k++) {
			const char *name = json_string_value(json_array_get(names, k));

			rc = add_file(j, run, host, name ? name : "", files, e);
		}
		json_decref(host);
	}
	return rc;
}

static void run_links(void *arg)
{
	struct job *j = arg;
	json_t *manifest, *files, *doc;

	j->until_s = (now_real_ns() + j->life_ns) / NS_PER_S;
	j->rc = session_load_manifest(j->store, j->id, &manifest, &j->e);
	if (j->rc)
		return;
	files = json_array();
	j->rc = add_all(j, manifest, files, &j->e);
	json_decref(manifest);
	doc = json_object();
	json_put_text(doc, "session", j->id);
	json_put_int(doc, "until_ns", j->until_s * NS_PER_S);
	json_object_set_new(doc, "page", json_sprintf("/s/%s", j->id));
	json_put(doc, "files", files);
	if (!j->rc)
		json_write(&j->text, doc, 0);
	else
		json_decref(doc);
}

static void done_links(void *arg)
{
	struct job *j = arg;

	if (j->rc) {
		api_answer_session_err(j->api, j->req, j->id, &j->e);
	} else {
		log_info("AGG-SHARE", "session=%s peer=%s until=%lld", j->id, http_peer(j->req),
			 (long long)j->until_s);
		api_answer_text(j->req, &j->text);
	}
	buf_release(&j->text);
	free(j->id);
	free(j);
}

/* ---- requests ---- */

/* Nothing, or {"for_ns": N}. */
static int read_request(struct http_req *req, int64_t *life_ns, struct err *e)
{
	json_t *doc = NULL;
	size_t len;
	const void *body = http_body(req, &len);
	int rc = len ? json_parse(&doc, body, len, e) : 0;

	*life_ns = STORE_LINK_MAX_NS;
	if (!rc && doc) {
		const json_t *life = json_object_get(doc, "for_ns");

		if (!json_is_object(doc) || json_object_size(doc) != (life ? 1 : 0) ||
		    (life && !json_is_integer(life)))
			rc = err_set(e, ERR_INVALID, "send nothing, or {\"for_ns\": NANOSECONDS}");
		else if (life)
			*life_ns = json_integer_value(life);
	}
	if (!rc && (*life_ns < NS_PER_S || *life_ns > STORE_LINK_MAX_NS))
		rc = err_set(e, ERR_INVALID, "for_ns: links are good for 1 s to 7 days");
	json_decref(doc);
	return rc;
}

void api_session_links(struct api *api, struct http_req *req, const char *id, const char *name)
{
	int64_t life_ns;
	struct err e;
	struct job *j;

	(void)name;
	if (read_request(req, &life_ns, &e)) {
		api_answer_err(req, &e);
		return;
	}
	if (!api_is_session(req, id))
		return;
	j = xcalloc(1, sizeof(*j));
	*j = (struct job){ .api = api,
			   .req = req,
			   .store = api->env.store->store,
			   .key = api->env.link_key,
			   .id = xstrdup(id),
			   .life_ns = life_ns };
	jobs_request(api->env.jobs, run_links, done_links, j);
}

void api_shared_file(struct api *api, struct http_req *req, const char *id, const char *name)
{
	struct err e;
	int rc;

	if (!api_is_session(req, id))
		return;
	rc = link_check(api->env.link_key, id, name, http_query(req, "until"),
			http_query(req, "sig"), now_real_ns() / NS_PER_S, &e);
	if (rc)
		api_answer_err(req, &e);
	else
		api_file_begin(api, req, id, name, false);
}
