/* SPDX-License-Identifier: Apache-2.0 */
#include "storage/gs_client.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/percent.h"
#include "storage/cloud_settings.h"
#include "storage/gs_keys.h"
#include "storage/keys_service.h"

#define BUCKET_MIN 3
#define BUCKET_MAX 222 /* with dots; each part has 63 at most */

enum setting { ENDPOINT, CA, N_SETTINGS };

static const char *const names[N_SETTINGS] = { "endpoint", "ca" };

struct gs_client {
	char *bucket, *prefix;
	char *origin; /* "https://storage.googleapis.com" */
	struct http_pool *http;
	struct keys_chain *keys; /* NULL = an emulator's, which wants none */
};

/* ---- settings ---- */

static int check_bucket(const char *bucket, struct err *e)
{
	size_t len = strlen(bucket);

	if (len < BUCKET_MIN || len > BUCKET_MAX ||
	    strspn(bucket, "abcdefghijklmnopqrstuvwxyz0123456789.-_") != len || *bucket == '.' ||
	    *bucket == '-')
		return err_set(e, ERR_INVALID,
			       "bucket \"%.70s\": expected gs://BUCKET/PREFIX, with a bucket of %d "
			       "to %d of a-z 0-9 . - _",
			       bucket, BUCKET_MIN, BUCKET_MAX);
	return 0;
}

static int set_origin(struct gs_client *c, const char *given, struct err *e)
{
	const char *emulator = keys_setting("STORAGE_EMULATOR_HOST");

	if (given)
		c->origin = xstrdup(given);
	else if (emulator)
		c->origin = strstr(emulator, "://") ? xstrdup(emulator)
						    : xasprintf("http://%s", emulator);
	else
		c->origin = xstrdup("https://storage.googleapis.com");
	return cloud_check_endpoint(c->origin, e);
}

static int read_settings(struct gs_client *c, const char *rest, char *values[N_SETTINGS],
			 struct err *e)
{
	const char *query = strchr(rest, '?');
	size_t path_len = query ? (size_t)(query - rest) : strlen(rest);
	size_t bucket_len = strcspn(rest, "/?");
	size_t at = bucket_len < path_len ? bucket_len + 1 : path_len;
	int rc;

	c->bucket = xstrndup(rest, bucket_len);
	rc = check_bucket(c->bucket, e);
	if (!rc)
		rc = cloud_take_prefix(&c->prefix, rest + at, path_len - at, e);
	if (!rc && query)
		rc = cloud_read_settings(query + 1, names, N_SETTINGS, values, e);
	return rc ? rc : set_origin(c, values[ENDPOINT], e);
}

int gs_client_open(struct gs_client **out, const char *rest, struct err *e)
{
	struct gs_client *c = xcalloc(1, sizeof(*c));
	char *values[N_SETTINGS] = { 0 };
	int rc = read_settings(c, rest, values, e);

	if (!rc) {
		c->http = http_pool_new(values[CA]);
		if (values[ENDPOINT] || !keys_setting("STORAGE_EMULATOR_HOST"))
			c->keys = gs_chain_new(values[CA]);
		*out = c;
	} else {
		gs_client_free(c);
	}
	for (size_t i = 0; i < N_SETTINGS; i++)
		free(values[i]);
	return rc;
}

void gs_client_free(struct gs_client *c)
{
	if (!c)
		return;
	http_pool_free(c->http);
	keys_chain_free(c->keys);
	free(c->bucket);
	free(c->prefix);
	free(c->origin);
	free(c);
}

const char *gs_client_prefix(const struct gs_client *c)
{
	return c->prefix;
}

const char *gs_client_host(const struct gs_client *c)
{
	return strstr(c->origin, "://") + 3;
}

struct http_pool *gs_client_http(const struct gs_client *c)
{
	return c->http;
}

struct keys_chain *gs_client_keys(const struct gs_client *c)
{
	return c->keys;
}

/* ---- requests ---- */

void gs_client_url(const struct gs_client *c, const char *key, struct buf *url)
{
	buf_addf(url, "%s/storage/v1/b/%s/o", c->origin, c->bucket);
	if (!key)
		return;
	buf_add_u8(url, '/');
	percent_encode(url, c->prefix, "");
	percent_encode(url, key, "");
}

void gs_client_upload_url(const struct gs_client *c, const char *key, struct buf *url)
{
	buf_addf(url, "%s/upload/storage/v1/b/%s/o?uploadType=resumable&name=", c->origin,
		 c->bucket);
	percent_encode(url, c->prefix, "");
	percent_encode(url, key, "");
}

int gs_client_send(struct gs_client *c, struct cloud_request *req, struct cloud_headers *headers,
		   struct cloud_answer *a, struct err *e)
{
	struct cloud_keys *keys;
	char *bearer;
	int rc;

	cloud_answer_release(a);
	req->headers = headers;
	if (c->keys) {
		rc = service_check_url(c->origin, "a token is for", e);
		if (!rc)
			rc = cloud_keys_get(c->keys, &keys, e);
		if (rc)
			return rc;
		bearer = xasprintf("Bearer %s", keys->token);
		cloud_headers_add(headers, "Authorization", bearer);
		cloud_wipe_text(bearer);
		a->keys_serial = keys->serial;
		cloud_keys_put(c->keys, keys);
	}
	return cloud_http_send(c->http, req, a, e);
}

int gs_client_send_session(struct gs_client *c, struct cloud_request *req, struct cloud_answer *a,
			   struct err *e)
{
	size_t len = strlen(c->origin);

	if (strncmp(req->url, c->origin, len) || req->url[len] != '/')
		return err_set(e, ERR_PEER, "%s offers an upload at another server",
			       gs_client_host(c));
	return cloud_http_send(c->http, req, a, e);
}
