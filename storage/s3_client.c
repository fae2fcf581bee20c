/* SPDX-License-Identifier: Apache-2.0 */
#include "storage/s3_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "storage/aws_keys.h"
#include "storage/cloud_http.h"
#include "storage/s3_settings.h"

#define EMPTY_HASH "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

struct s3_client {
	struct s3_settings set;
	char *host; /* as in the Host header */
	char *origin; /* "https://host" */
	bool is_tls;
	struct http_pool *http;
	struct keys_chain *keys;
};

/* The port that belongs to the scheme is not in the Host header. */
static char *host_of(const struct s3_settings *set, bool is_tls)
{
	const char *host = strstr(set->endpoint, "://") + 3;
	const char *own_port = is_tls ? ":443" : ":80";
	size_t len = strlen(host), port_len = strlen(own_port);

	if (len > port_len && !strcmp(host + len - port_len, own_port))
		len -= port_len;
	return set->path_style ? xstrndup(host, len)
			       : xasprintf("%s.%.*s", set->bucket, (int)len, host);
}

int s3_client_open(struct s3_client **out, const char *rest, struct err *e)
{
	struct s3_client *c = xcalloc(1, sizeof(*c));
	int rc = s3_settings_read(&c->set, rest, e);

	if (rc) {
		s3_client_free(c);
		return rc;
	}
	c->is_tls = !strncmp(c->set.endpoint, "https", 5);
	c->host = host_of(&c->set, c->is_tls);
	c->origin = xasprintf("http%s://%s", c->is_tls ? "s" : "", c->host);
	c->http = http_pool_new(c->set.ca_file);
	c->keys = aws_chain_new(c->set.profile, c->set.region, c->set.ca_file);
	*out = c;
	return 0;
}

void s3_client_free(struct s3_client *c)
{
	if (!c)
		return;
	http_pool_free(c->http);
	keys_chain_free(c->keys);
	s3_settings_release(&c->set);
	free(c->host);
	free(c->origin);
	free(c);
}

const char *s3_client_prefix(const struct s3_client *c)
{
	return c->set.prefix;
}

const char *s3_client_host(const struct s3_client *c)
{
	return c->host;
}

struct http_pool *s3_client_http(const struct s3_client *c)
{
	return c->http;
}

struct keys_chain *s3_client_keys(const struct s3_client *c)
{
	return c->keys;
}

/* ---- one request ---- */

static size_t count_pairs(const struct sigv4_pair *pairs, size_t max)
{
	size_t n = 0;

	while (n < max && pairs[n].name)
		n++;
	return n;
}

static char *path_of(const struct s3_client *c, const char *key)
{
	const char *bucket = c->set.path_style ? c->set.bucket : "";
	const char *slash = c->set.path_style && key ? "/" : "";

	return xasprintf("/%s%s%s%s", bucket, slash, key ? c->set.prefix : "", key ? key : "");
}

/* The payload hash for the signature: UNSIGNED-PAYLOAD with TLS, which protects the body; else the hash of
 * the body. */
static int hash_body(const struct s3_client *c, const struct store_put *body,
		     char out[SIGV4_HASH_BYTES], struct err *e)
{
	if (!body)
		snprintf(out, SIGV4_HASH_BYTES, "%s", EMPTY_HASH);
	else if (c->is_tls)
		snprintf(out, SIGV4_HASH_BYTES, "%s", SIGV4_UNSIGNED);
	else if (body->fd >= 0)
		return sigv4_hash_file(body->fd, body->offset, body->len, out, e);
	else
		sigv4_hash(body->data, body->len, out);
	return 0;
}

static void add_headers(struct cloud_headers *h, const struct s3_call *call,
			const struct cloud_keys *keys, const struct sigv4_signed *sign,
			const char *payload)
{
	for (size_t i = 0; i < ARRAY_SIZE(call->headers) && call->headers[i].name; i++)
		cloud_headers_add(h, call->headers[i].name, call->headers[i].value);
	cloud_headers_add(h, "x-amz-date", sign->date);
	cloud_headers_add(h, "x-amz-content-sha256", payload);
	cloud_headers_add(h, "Authorization", buf_str(&sign->authorization));
	if (*keys->token)
		cloud_headers_add(h, "x-amz-security-token", keys->token);
}

static int sign(struct s3_client *c, const struct s3_call *call, int64_t unix_s,
		struct cloud_headers *h, char **url, uint64_t *serial, struct err *e)
{
	const struct sigv4_scope scope = { c->set.region, "s3" };
	struct sigv4_signed made = { 0 };
	char payload[SIGV4_HASH_BYTES];
	char *path = path_of(c, call->key);
	const struct sigv4_request req = {
		.method = call->method,
		.host = c->host,
		.path = path,
		.query = call->query,
		.n_query = count_pairs(call->query, ARRAY_SIZE(call->query)),
		.headers = call->headers,
		.n_headers = count_pairs(call->headers, ARRAY_SIZE(call->headers)),
		.payload = payload,
		.unix_s = unix_s,
	};
	struct cloud_keys *keys = NULL;
	struct sigv4_keys view;
	int rc = hash_body(c, call->body, payload, e);

	if (!rc)
		rc = cloud_keys_get(c->keys, &keys, e);
	if (!rc) {
		view = aws_keys_view(keys);
		rc = sigv4_sign(&view, &scope, &req, &made, e);
	}
	if (!rc) {
		add_headers(h, call, keys, &made, payload);
		*url = xasprintf("%s%s", c->origin, buf_str(&made.target));
	}
	if (keys) {
		*serial = keys->serial;
		cloud_keys_put(c->keys, keys);
	}
	sigv4_release(&made);
	free(path);
	return rc;
}

int s3_client_send(struct s3_client *c, const struct s3_call *call, int64_t unix_s,
		   struct cloud_answer *a, struct err *e)
{
	struct cloud_headers h = { 0 };
	struct cloud_request req = { .method = call->method,
				     .headers = &h,
				     .body = call->body,
				     .piece = call->piece,
				     .arg = call->arg,
				     .deadline_mono_ns = call->deadline_mono_ns };
	char *url = NULL;
	int rc;

	cloud_answer_release(a);
	rc = sign(c, call, unix_s, &h, &url, &a->keys_serial, e);
	if (!rc) {
		req.url = url;
		rc = cloud_http_send(c->http, &req, a, e);
	}
	cloud_headers_release(&h);
	free(url);
	return rc;
}

int s3_client_presign(struct s3_client *c, const struct s3_call *call, int64_t unix_s, int life_s,
		      char **url, int64_t *keys_end_s, struct err *e)
{
	const struct sigv4_scope scope = { c->set.region, "s3" };
	char *path = path_of(c, call->key);
	const struct sigv4_request req = {
		.method = call->method,
		.host = c->host,
		.path = path,
		.headers = call->headers,
		.n_headers = count_pairs(call->headers, ARRAY_SIZE(call->headers)),
		.payload = SIGV4_UNSIGNED,
		.unix_s = unix_s,
	};
	struct buf target = BUF_INIT;
	struct cloud_keys *keys = NULL;
	struct sigv4_keys view;
	int rc = cloud_keys_get(c->keys, &keys, e);

	if (!rc) {
		view = aws_keys_view(keys);
		rc = sigv4_presign(&view, &scope, &req, life_s, &target, e);
		if (keys_end_s)
			*keys_end_s = keys->end_s;
		cloud_keys_put(c->keys, keys);
	}
	if (!rc)
		*url = xasprintf("%s%s", c->origin, buf_str(&target));
	if (target.data)
		explicit_bzero(target.data, target.len);
	buf_release(&target);
	free(path);
	return rc;
}

int s3_client_explain(const struct s3_client *c, const struct cloud_answer *a, struct err *e)
{
	if (!*a->region || !strcmp(a->region, c->set.region))
		return 0;
	return err_set(e, ERR_PEER, "the bucket is in region %s: add ?region=%s to the URL",
		       a->region, a->region);
}
