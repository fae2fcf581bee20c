/* SPDX-License-Identifier: Apache-2.0 */
/* s3://: a bucket, or the part of it below a prefix. */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/now.h"
#include "storage/cloud.h"
#include "storage/kinds.h"
#include "storage/s3_client.h"

struct store_s3 {
	struct cloud cloud;
	struct s3_client *client;
};

static struct s3_client *client_of(const struct cloud *c)
{
	return ((const struct store_s3 *)c)->client;
}

/* ---- requests ---- */

static void describe_put(struct s3_call *out, const struct cloud_call *call)
{
	out->method = "PUT";
	out->body = call->put;
	out->headers[0] = (struct sigv4_pair){ "x-amz-meta-tutti-put", call->nonce };
	if (call->put->flags & STORE_ABSENT)
		out->headers[1] = (struct sigv4_pair){ "if-none-match", "*" };
}

static void describe_get(struct s3_call *out, const struct cloud_call *call, char match[128])
{
	size_t n = 0;

	out->method = "GET";
	out->piece = call->piece;
	out->arg = call->arg;
	if (call->range)
		out->headers[n++] = (struct sigv4_pair){ "range", call->range };
	if (call->match) {
		snprintf(match, 128, "\"%s\"", call->match);
		out->headers[n++] = (struct sigv4_pair){ "if-match", match };
	}
}

static void describe_list(struct s3_call *out, const struct cloud_call *call)
{
	out->method = "GET";
	out->query[0] = (struct sigv4_pair){ "list-type", "2" };
	out->query[1] = (struct sigv4_pair){ "encoding-type", "url" };
	out->query[2] = (struct sigv4_pair){ "max-keys", "1000" };
	out->query[3] = (struct sigv4_pair){ "prefix", call->prefix };
	if (call->page)
		out->query[4] = (struct sigv4_pair){ "continuation-token", call->page };
	else if (call->after)
		out->query[4] = (struct sigv4_pair){ "start-after", call->after };
}

/* Keys of a store have no character that XML would change. */
static void add_keys(const struct cloud *c, const struct cloud_call *call, struct buf *body)
{
	buf_add_str(body, "<Delete><Quiet>true</Quiet>");
	for (size_t i = 0; i < call->n_keys; i++)
		buf_addf(body, "<Object><Key>%s%s</Key></Object>", c->prefix, call->keys[i]);
	buf_add_str(body, "</Delete>");
}

static int send_remove_all(struct cloud *c, const struct cloud_call *call, struct cloud_answer *a,
			   struct err *e)
{
	struct buf body = BUF_INIT;
	char md5[SIGV4_MD5_BYTES];
	struct store_put put = { .fd = -1 };
	struct s3_call out = { .method = "POST",
			       .body = &put,
			       .deadline_mono_ns = call->deadline_mono_ns };
	int rc;

	add_keys(c, call, &body);
	sigv4_content_md5(body.data, body.len, md5);
	put.data = body.data;
	put.len = body.len;
	out.query[0] = (struct sigv4_pair){ "delete", "" };
	out.headers[0] = (struct sigv4_pair){ "content-md5", md5 };
	out.headers[1] = (struct sigv4_pair){ "content-type", "application/xml" };
	rc = s3_client_send(client_of(c), &out, cloud_now_s(c), a, e);
	buf_release(&body);
	return rc;
}

static int s3_send(struct cloud *c, const struct cloud_call *call, struct cloud_answer *a,
		   struct err *e)
{
	struct s3_call out = { .key = call->key, .deadline_mono_ns = call->deadline_mono_ns };
	char match[128];

	switch (call->verb) {
	case CLOUD_PUT:
		describe_put(&out, call);
		break;
	case CLOUD_STAT:
		out.method = "HEAD";
		break;
	case CLOUD_GET:
		describe_get(&out, call, match);
		break;
	case CLOUD_LIST:
		describe_list(&out, call);
		break;
	case CLOUD_REMOVE:
		out.method = "DELETE";
		break;
	case CLOUD_REMOVE_ALL:
		return send_remove_all(c, call, a, e);
	}
	return s3_client_send(client_of(c), &out, cloud_now_s(c), a, e);
}

static int s3_explain(const struct cloud *c, const struct cloud_answer *a, struct err *e)
{
	return s3_client_explain(client_of(c), a, e);
}

static const struct cloud_ops s3_requests = {
	.send = s3_send,
	.read_page = s3_page_read,
	.has_removed = s3_removed_read,
	.explain = s3_explain,
};

/* ---- the store ---- */

static int s3_open(struct store **out, const char *rest, struct err *e)
{
	struct store_s3 *s = xcalloc(1, sizeof(*s));
	int rc = s3_client_open(&s->client, rest, e);

	if (rc) {
		free(s);
		return rc;
	}
	s->cloud.base.ops = &store_s3_ops;
	s->cloud.base.grants = true;
	s->cloud.base.http = s3_client_http(s->client);
	s->cloud.base.links = true;
	s->cloud.ops = &s3_requests;
	s->cloud.host = s3_client_host(s->client);
	s->cloud.prefix = s3_client_prefix(s->client);
	s->cloud.place = "bucket";
	s->cloud.key_max = S3_KEY_MAX;
	s->cloud.put_max = S3_PUT_MAX;
	s->cloud.batch_max = S3_BATCH_MAX;
	s->cloud.keys = s3_client_keys(s->client);
	*out = &s->cloud.base;
	return 0;
}

static void s3_free(struct store *store)
{
	struct store_s3 *s = (struct store_s3 *)store;

	s3_client_free(s->client);
	free(s);
}

/* ---- grants ---- */

/* The length is signed, and not among the headers: whoever sends the body sends it anyway. */
static int s3_grant(struct store *store, const struct store_grant_request *req,
		    struct store_grant *out, struct err *e)
{
	struct cloud *c = (struct cloud *)store;
	int64_t life_s = (req->life_ns + NS_PER_S - 1) / NS_PER_S;
	struct s3_call call = { .method = "PUT", .key = req->key };
	char length[24], crc32c[9];
	int rc = cloud_check_put(c, req->key, req->len, e);

	if (rc)
		return rc;
	snprintf(length, sizeof(length), "%llu", (unsigned long long)req->len);
	snprintf(crc32c, sizeof(crc32c), "%08x", (unsigned int)req->crc32c);
	call.headers[0] = (struct sigv4_pair){ "content-length", length };
	call.headers[1] = (struct sigv4_pair){ "if-none-match", "*" };
	call.headers[2] = (struct sigv4_pair){ "x-amz-meta-tutti-crc32c", crc32c };
	rc = s3_client_presign(client_of(c), &call, cloud_now_s(c), (int)life_s, &out->url, NULL,
			       e);
	if (rc)
		return rc;
	out->method = call.method;
	out->life_ns = life_s * NS_PER_S;
	for (size_t i = 1; i < 3; i++)
		out->headers[i - 1] = xasprintf("%s: %s", call.headers[i].name,
						call.headers[i].value);
	return 0;
}

static int s3_link(struct store *store, const char *key, int64_t life_ns, char **url,
		   int64_t *until_s, struct err *e)
{
	const struct cloud *c = (const struct cloud *)store;
	const struct s3_call call = { .method = "GET", .key = key };
	int64_t life_s = (life_ns + NS_PER_S - 1) / NS_PER_S, now_s = cloud_now_s(c);
	int rc = s3_client_presign(client_of(c), &call, now_s, (int)life_s, url, until_s, e);

	if (!rc && *until_s > now_s + life_s)
		*until_s = now_s + life_s;
	return rc;
}

const struct store_ops store_s3_ops = {
	.scheme = "s3",
	.open = s3_open,
	.put = cloud_put,
	.get = cloud_get,
	.stat = cloud_stat,
	.list = cloud_list,
	.remove = cloud_remove,
	.grant = s3_grant,
	.link = s3_link,
	.remove_all = cloud_remove_all,
	.free = s3_free,
};
