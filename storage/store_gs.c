/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gs://: a bucket of Google Cloud Storage, or the part of it below a prefix, by the JSON API. A version's number
 * ("generation") is its tag. A put is an upload session: opened with the condition and the object's metadata, then one request
 * with the bytes. The session's answer describes the object, so no further look at it is needed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/percent.h"
#include "storage/cloud.h"
#include "storage/gs_client.h"
#include "storage/kinds.h"

#define OBJECT_FIELDS "size,updated,generation,crc32c,metadata"

struct store_gs {
	struct cloud cloud;
	struct gs_client *client;
};

static struct gs_client *client_of(const struct cloud *c)
{
	return ((const struct store_gs *)c)->client;
}

/* Sends what has no body and no headers of its own. */
static int send_plain(struct cloud *c, const char *method, const struct buf *url,
		      const struct cloud_call *call, struct cloud_answer *a, struct err *e)
{
	struct cloud_headers h = { 0 };
	struct cloud_request req = { .method = method,
				     .url = buf_str(url),
				     .piece = call->piece,
				     .arg = call->arg,
				     .deadline_mono_ns = call->deadline_mono_ns };
	int rc;

	if (call->range)
		cloud_headers_add(&h, "range", call->range);
	rc = gs_client_send(client_of(c), &req, &h, a, e);
	cloud_headers_release(&h);
	return rc;
}

static void add_parameter(struct buf *url, const char *name, const char *value)
{
	buf_addf(url, "&%s=", name);
	percent_encode(url, value, "");
}

/* ---- put ---- */

/* What a session is opened for. */
struct session {
	const char *key;
	const char *object; /* what the object is to have, JSON */
	const char *fields; /* what the answer to the bytes is to have of the object */
	uint64_t len;
	bool create_only;
	int64_t deadline_mono_ns;
};

static int open_session(struct cloud *c, const struct session *s, struct cloud_answer *a,
			struct err *e)
{
	struct buf url = BUF_INIT;
	const struct store_put put = { .data = s->object, .fd = -1, .len = strlen(s->object) };
	struct cloud_headers h = { 0 };
	struct cloud_request req = { .method = "POST",
				     .body = &put,
				     .deadline_mono_ns = s->deadline_mono_ns };
	char len[24];
	int rc;

	gs_client_upload_url(client_of(c), s->key, &url);
	if (s->create_only)
		add_parameter(&url, "ifGenerationMatch", "0");
	add_parameter(&url, "fields", s->fields);
	req.url = buf_str(&url);
	snprintf(len, sizeof(len), "%llu", (unsigned long long)s->len);
	cloud_headers_add(&h, "Content-Type", "application/json");
	cloud_headers_add(&h, "X-Upload-Content-Length", len);
	rc = gs_client_send(client_of(c), &req, &h, a, e);
	if (!rc && a->status < 300 && !a->location)
		rc = err_set(e, ERR_PEER, "%s opens no upload session", c->host);
	cloud_headers_release(&h);
	buf_release(&url);
	return rc;
}

/* A session that has ended, or has not taken all, is no answer about the object: the next attempt opens another. */
static int check_session(const struct cloud_answer *a, struct err *e)
{
	if (a->status == 308 || a->status == 404 || a->status == 410)
		return err_set(e, ERR_CLOSED, "the upload session broke off (%d)", a->status);
	return 0;
}

static int send_bytes(struct cloud *c, const struct cloud_call *call, char *session,
		      struct cloud_answer *a, struct err *e)
{
	struct cloud_headers h = { 0 };
	struct cloud_request req = { .method = "PUT",
				     .url = session,
				     .headers = &h,
				     .body = call->put,
				     .deadline_mono_ns = call->deadline_mono_ns };
	int rc;

	if (!call->put->len)
		cloud_headers_add(&h, "Content-Range", "bytes */0");
	rc = gs_client_send_session(client_of(c), &req, a, e);
	cloud_headers_release(&h);
	if (!rc)
		rc = check_session(a, e);
	if (!rc && a->status < 300) {
		rc = gs_object_read(a, a->body.data, a->body.len, e);
		a->is_object = !rc;
	}
	return rc;
}

static int send_put(struct cloud *c, const struct cloud_call *call, struct cloud_answer *a,
		    struct err *e)
{
	char *object = xasprintf("{\"metadata\":{\"tutti-put\":\"%s\"}}", call->nonce);
	const struct session s = { .key = call->key,
				   .object = object,
				   .fields = OBJECT_FIELDS,
				   .len = call->put->len,
				   .create_only = call->put->flags & STORE_ABSENT,
				   .deadline_mono_ns = call->deadline_mono_ns };
	char *session;
	int rc = open_session(c, &s, a, e);

	free(object);
	if (rc || a->status >= 300)
		return rc;
	session = a->location;
	a->location = NULL;
	rc = send_bytes(c, call, session, a, e);
	cloud_wipe_text(session);
	return rc;
}

/* ---- the other requests ---- */

static int send_stat(struct cloud *c, const struct cloud_call *call, struct cloud_answer *a,
		     struct err *e)
{
	struct buf url = BUF_INIT;
	int rc;

	gs_client_url(client_of(c), call->key, &url);
	buf_add_str(&url, "?fields=" OBJECT_FIELDS);
	rc = send_plain(c, "GET", &url, call, a, e);
	if (!rc && a->status == 200)
		rc = gs_object_read(a, a->body.data, a->body.len, e);
	buf_release(&url);
	return rc;
}

static int send_get(struct cloud *c, const struct cloud_call *call, struct cloud_answer *a,
		    struct err *e)
{
	struct buf url = BUF_INIT;
	int rc;

	gs_client_url(client_of(c), call->key, &url);
	buf_add_str(&url, "?alt=media");
	if (call->match)
		add_parameter(&url, "ifGenerationMatch", call->match);
	rc = send_plain(c, "GET", &url, call, a, e);
	buf_release(&url);
	return rc;
}

static int send_list(struct cloud *c, const struct cloud_call *call, struct cloud_answer *a,
		     struct err *e)
{
	struct buf url = BUF_INIT;
	int rc;

	gs_client_url(client_of(c), NULL, &url);
	buf_add_str(&url, "?maxResults=1000&prettyPrint=false"
			  "&fields=items(name,size,updated),nextPageToken");
	add_parameter(&url, "prefix", call->prefix);
	if (call->page)
		add_parameter(&url, "pageToken", call->page);
	if (call->after)
		add_parameter(&url, "startOffset", call->after);
	rc = send_plain(c, "GET", &url, call, a, e);
	buf_release(&url);
	return rc;
}

static int send_remove(struct cloud *c, const struct cloud_call *call, struct cloud_answer *a,
		       struct err *e)
{
	struct buf url = BUF_INIT;
	int rc;

	gs_client_url(client_of(c), call->key, &url);
	rc = send_plain(c, "DELETE", &url, call, a, e);
	buf_release(&url);
	return rc;
}

static int gs_send(struct cloud *c, const struct cloud_call *call, struct cloud_answer *a,
		   struct err *e)
{
	switch (call->verb) {
	case CLOUD_PUT:
		return send_put(c, call, a, e);
	case CLOUD_STAT:
		return send_stat(c, call, a, e);
	case CLOUD_GET:
		return send_get(c, call, a, e);
	case CLOUD_LIST:
		return send_list(c, call, a, e);
	case CLOUD_REMOVE:
		return send_remove(c, call, a, e);
	case CLOUD_REMOVE_ALL:
		break;
	}
	return err_set(e, ERR_UNSUPPORTED, "no such request");
}

static const struct cloud_ops gs_requests = {
	.send = gs_send,
	.read_page = gs_page_read,
};

/* ---- the store ---- */

static int gs_open(struct store **out, const char *rest, struct err *e)
{
	struct store_gs *s = xcalloc(1, sizeof(*s));
	int rc = gs_client_open(&s->client, rest, e);

	if (rc) {
		free(s);
		return rc;
	}
	s->cloud.base.ops = &store_gs_ops;
	s->cloud.base.grants = true;
	s->cloud.base.revokes = true;
	s->cloud.base.http = gs_client_http(s->client);
	s->cloud.ops = &gs_requests;
	s->cloud.host = gs_client_host(s->client);
	s->cloud.prefix = gs_client_prefix(s->client);
	s->cloud.place = "bucket";
	s->cloud.key_max = GS_KEY_MAX;
	s->cloud.put_max = GS_PUT_MAX;
	s->cloud.keys = gs_client_keys(s->client);
	*out = &s->cloud.base;
	return 0;
}

static void gs_free(struct store *store)
{
	struct store_gs *s = (struct store_gs *)store;

	gs_client_free(s->client);
	free(s);
}

/* ---- grants ---- */

/* An open upload session: its URL is the permission. The server holds to the key, the size, the checksum and the condition;
 * it keeps the session for a week, whatever life was asked for. */
static int gs_grant(struct store *store, const struct store_grant_request *req,
		    struct store_grant *out, struct err *e)
{
	struct cloud *c = (struct cloud *)store;
	char crc32c[GS_CRC32C_BYTES], object[40];
	const struct session s = { .key = req->key,
				   .object = object,
				   .fields = "size",
				   .len = req->len,
				   .create_only = true,
				   .deadline_mono_ns = req->deadline_mono_ns };
	struct cloud_tries tries = { 0 };
	struct cloud_answer a = { 0 };
	int rc = cloud_check_put(c, req->key, req->len, e);

	if (rc)
		return rc;
	gs_crc32c_text(req->crc32c, crc32c);
	snprintf(object, sizeof(object), "{\"crc32c\":\"%s\"}", crc32c);
	do
		rc = open_session(c, &s, &a, e);
	while (cloud_tries_again(c, &tries, rc, &a, req->deadline_mono_ns));
	if (!rc && a.status >= 300)
		rc = cloud_error(c, &a, e);
	if (!rc) {
		out->method = "PUT";
		out->url = a.location;
		a.location = NULL;
		out->life_ns = req->life_ns;
		if (!req->len)
			out->headers[0] = xstrdup("Content-Range: bytes */0");
	}
	cloud_answer_release(&a);
	return rc;
}

/* 499 is the answer for a session that this request has ended. One that is complete, has ended or is gone has another
 * (200, 204, 400, 404, 410): no bytes can be sent to it either. */
static bool has_ended(const struct cloud_answer *a)
{
	return a->status < 300 || a->status == 400 || a->status == 404 || a->status == 410 ||
	       a->status == 499;
}

static int gs_revoke(struct store *store, const char *url, int64_t deadline_mono_ns, struct err *e)
{
	struct cloud *c = (struct cloud *)store;
	const struct store_put nothing = { .fd = -1 };
	struct cloud_headers h = { 0 };
	struct cloud_request req = { .method = "DELETE",
				     .url = url,
				     .headers = &h,
				     .body = &nothing,
				     .deadline_mono_ns = deadline_mono_ns };
	struct cloud_tries tries = { 0 };
	struct cloud_answer a = { 0 };
	int rc;

	do
		rc = gs_client_send_session(client_of(c), &req, &a, e);
	while (cloud_tries_again(c, &tries, rc, &a, deadline_mono_ns));
	if (!rc && !has_ended(&a))
		rc = cloud_error(c, &a, e);
	cloud_answer_release(&a);
	return rc;
}

const struct store_ops store_gs_ops = {
	.scheme = "gs",
	.open = gs_open,
	.put = cloud_put,
	.get = cloud_get,
	.stat = cloud_stat,
	.list = cloud_list,
	.remove = cloud_remove,
	.remove_all = cloud_remove_all,
	.grant = gs_grant,
	.revoke = gs_revoke,
	.free = gs_free,
};
