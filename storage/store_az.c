/* SPDX-License-Identifier: Apache-2.0 */
/*
 * az://: a container of Azure Blob Storage, or the part of it below a prefix. An object is one block blob of one
 * request. Listings cannot begin in the middle: pages before `after` are read and skipped.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/now.h"
#include "storage/az_client.h"
#include "storage/cloud.h"
#include "storage/kinds.h"

struct store_az {
	struct cloud cloud;
	struct az_client *client;
};

static struct az_client *client_of(const struct cloud *c)
{
	return ((const struct store_az *)c)->client;
}

/* ---- requests ---- */

static void describe_put(struct az_call *out, const struct cloud_call *call)
{
	out->method = "PUT";
	out->body = call->put;
	out->headers[0] = (struct sigv4_pair){ "x-ms-blob-type", "BlockBlob" };
	out->headers[1] = (struct sigv4_pair){ "x-ms-meta-tuttiput", call->nonce };
	if (call->put->flags & STORE_ABSENT)
		out->headers[2] = (struct sigv4_pair){ "if-none-match", "*" };
}

static void describe_get(struct az_call *out, const struct cloud_call *call, char match[128])
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

static void describe_list(struct az_call *out, const struct cloud_call *call)
{
	out->method = "GET";
	out->query[0] = (struct sigv4_pair){ "restype", "container" };
	out->query[1] = (struct sigv4_pair){ "comp", "list" };
	out->query[2] = (struct sigv4_pair){ "prefix", call->prefix };
	if (call->page)
		out->query[3] = (struct sigv4_pair){ "marker", call->page };
}

static int az_send(struct cloud *c, const struct cloud_call *call, struct cloud_answer *a,
		   struct err *e)
{
	struct az_call out = { .key = call->key, .deadline_mono_ns = call->deadline_mono_ns };
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
		return err_set(e, ERR_UNSUPPORTED, "no such request");
	}
	return az_client_send(client_of(c), &out, cloud_now_s(c), a, e);
}

static const struct cloud_ops az_requests = {
	.send = az_send,
	.read_page = az_page_read,
};

/* ---- the store ---- */

static int az_open(struct store **out, const char *rest, struct err *e)
{
	struct store_az *s = xcalloc(1, sizeof(*s));
	int rc = az_client_open(&s->client, rest, e);

	if (rc) {
		free(s);
		return rc;
	}
	s->cloud.base.ops = &store_az_ops;
	s->cloud.base.grants = true;
	s->cloud.base.http = az_client_http(s->client);
	s->cloud.base.links = true;
	s->cloud.ops = &az_requests;
	s->cloud.host = az_client_host(s->client);
	s->cloud.prefix = az_client_prefix(s->client);
	s->cloud.place = "container";
	s->cloud.key_max = AZ_KEY_MAX;
	s->cloud.put_max = AZ_PUT_MAX;
	s->cloud.keys = az_client_keys(s->client);
	*out = &s->cloud.base;
	return 0;
}

static void az_free(struct store *store)
{
	struct store_az *s = (struct store_az *)store;

	az_client_free(s->client);
	free(s);
}

/* ---- grants ---- */

/* The server holds to the key, the end and the condition, which is part of the permission "create"; not to the size: whoever
 * made the grant looks at the object afterwards. A key that may be there is looked for before, because the server's refusal (403)
 * does not tell it from others. */
static int az_grant(struct store *store, const struct store_grant_request *req,
		    struct store_grant *out, struct err *e)
{
	struct cloud *c = (struct cloud *)store;
	int64_t life_s = (req->life_ns + NS_PER_S - 1) / NS_PER_S;
	int64_t end_s = cloud_now_s(c) + life_s;
	struct store_stat there;
	int rc = cloud_check_put(c, req->key, req->len, e);

	if (!rc && life_s < 1)
		rc = err_set(e, ERR_INVALID, "a grant lives a second at least");
	if (!rc && !req->is_new) {
		rc = cloud_stat(store, req->key, req->deadline_mono_ns, &there, e);
		if (!rc)
			return err_set(e, ERR_EXISTS, "the key exists already");
		rc = rc == ERR_NOT_FOUND ? 0 : rc;
	}
	if (!rc)
		rc = az_client_sign_url(client_of(c), req->key, AZ_MAY_CREATE, &end_s, &out->url,
					e);
	if (rc)
		return rc;
	out->method = "PUT";
	out->life_ns = life_s * NS_PER_S;
	out->headers[0] = xstrdup("x-ms-blob-type: BlockBlob");
	out->headers[1] = xasprintf("x-ms-meta-tutticrc32c: %08x", (unsigned int)req->crc32c);
	out->headers[2] = xstrdup("If-None-Match: *");
	return 0;
}

static int az_link(struct store *store, const char *key, int64_t life_ns, char **url,
		   int64_t *until_s, struct err *e)
{
	const struct cloud *c = (const struct cloud *)store;

	*until_s = cloud_now_s(c) + (life_ns + NS_PER_S - 1) / NS_PER_S;
	return az_client_sign_url(client_of(c), key, AZ_MAY_READ, until_s, url, e);
}

const struct store_ops store_az_ops = {
	.scheme = "az",
	.open = az_open,
	.put = cloud_put,
	.get = cloud_get,
	.stat = cloud_stat,
	.list = cloud_list,
	.remove = cloud_remove,
	.remove_all = cloud_remove_all,
	.grant = az_grant,
	.link = az_link,
	.free = az_free,
};
