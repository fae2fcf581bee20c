/* SPDX-License-Identifier: Apache-2.0 */
#include "storage/s3_client.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"
#include "net/http_client_pool.h"
#include "storage/aws_keys.h"
#include "storage/s3_settings.h"

#define TRIES_MAX      6
#define FIRST_PAUSE_NS (100 * NS_PER_MS)
#define PAUSE_MAX_NS   (10 * NS_PER_S)
#define EMPTY_HASH     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define HEADERS_MAX    9 /* of one request, with the NULL */

struct s3_client {
	struct s3_settings set;
	char *host; /* as in the Host header */
	char *origin; /* "https://host" */
	bool is_tls;
	struct http_pool *http;
	struct aws_chain *keys;
	_Atomic int64_t skew_s; /* the server's clock less ours, once it has refused ours */
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
	c->keys = aws_chain_new(
		&(struct aws_chain_conf){ c->set.profile, c->set.region, c->set.ca_file });
	*out = c;
	return 0;
}

void s3_client_free(struct s3_client *c)
{
	if (!c)
		return;
	http_pool_free(c->http);
	aws_chain_free(c->keys);
	s3_settings_release(&c->set);
	free(c->host);
	free(c->origin);
	free(c);
}

const char *s3_client_prefix(const struct s3_client *c)
{
	return c->set.prefix;
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

struct headers {
	char *items[HEADERS_MAX];
	size_t n;
};

static void add_header(struct headers *h, const char *name, const char *value)
{
	h->items[h->n++] = xasprintf("%s: %s", name, value);
}

/* Overwrites the headers before it frees them, because one holds the session token. */
static void headers_free(struct headers *h)
{
	for (size_t i = 0; i < h->n; i++) {
		explicit_bzero(h->items[i], strlen(h->items[i]));
		free(h->items[i]);
	}
}

static void add_headers(struct headers *h, const struct s3_call *call, const struct aws_keys *keys,
			const struct sigv4_signed *sign, const char *payload)
{
	for (size_t i = 0; i < ARRAY_SIZE(call->headers) && call->headers[i].name; i++)
		add_header(h, call->headers[i].name, call->headers[i].value);
	add_header(h, "x-amz-date", sign->date);
	add_header(h, "x-amz-content-sha256", payload);
	add_header(h, "Authorization", buf_str(&sign->authorization));
	if (*keys->token)
		add_header(h, "x-amz-security-token", keys->token);
}

static int sign(struct s3_client *c, const struct s3_call *call, struct headers *h, char **url,
		struct err *e)
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
		.unix_s = now_real_ns() / NS_PER_S + c->skew_s,
	};
	struct aws_keys *keys = NULL;
	struct sigv4_keys view;
	int rc = hash_body(c, call->body, payload, e);

	if (!rc)
		rc = aws_keys_get(c->keys, &keys, e);
	if (!rc) {
		view = aws_keys_view(keys);
		rc = sigv4_sign(&view, &scope, &req, &made, e);
	}
	if (!rc) {
		add_headers(h, call, keys, &made, payload);
		*url = xasprintf("%s%s", c->origin, buf_str(&made.target));
	}
	if (keys)
		aws_keys_put(c->keys, keys);
	sigv4_release(&made);
	free(path);
	return rc;
}

struct receiving {
	const struct s3_call *call;
	struct s3_answer *answer;
};

static void on_header(void *arg, const char *name, const char *value)
{
	struct receiving *r = arg;

	s3_answer_header(r->answer, name, value);
}

static int on_piece(void *arg, const void *data, size_t len, struct err *e)
{
	struct receiving *r = arg;

	return r->call->piece(r->call->arg, data, len, e);
}

int s3_client_send(struct s3_client *c, const struct s3_call *call, struct s3_answer *a,
		   struct err *e)
{
	struct receiving r = { call, a };
	struct http_request req = { .method = call->method,
				    .header = on_header,
				    .piece = call->piece ? on_piece : NULL,
				    .arg = &r,
				    .fd = -1,
				    .answer_max = S3_ANSWER_MAX,
				    .deadline_mono_ns = call->deadline_mono_ns };
	struct headers h = { 0 };
	char *url = NULL;
	int rc;

	buf_release(&a->body);
	*a = (struct s3_answer){ 0 };
	rc = sign(c, call, &h, &url, e);
	if (rc)
		goto out;
	req.url = url;
	req.headers = (const char *const *)h.items;
	if (call->body) {
		req.has_body = true;
		req.data = call->body->data;
		req.fd = call->body->fd;
		req.offset = call->body->offset;
		req.len = call->body->len;
	}
	rc = http_pool_request(c->http, &req, &a->status, &a->body, e);
	if (rc)
		a->status = 0;
	else if (a->status >= 300)
		s3_answer_read_error(a);
out:
	headers_free(&h);
	free(url);
	return rc;
}

/* ---- again ---- */

static bool is_code(const struct s3_answer *a, const char *code)
{
	return !strcmp(a->code, code);
}

/* The server has refused our clock: sign with its own from now on. False if the new difference is not a
 * minute off the one in use, so that attempts end. */
static bool learn_skew(struct s3_client *c, const struct s3_answer *a)
{
	int64_t skew_s = a->date_s - now_real_ns() / NS_PER_S;

	if (!is_code(a, "RequestTimeTooSkewed") || !a->date_s || llabs(skew_s - c->skew_s) < 60)
		return false;
	c->skew_s = skew_s;
	return true;
}

static bool is_passing(int rc, const struct s3_answer *a)
{
	if (rc)
		return rc == ERR_CLOSED || rc == ERR_TIMEOUT;
	switch (a->status) {
	case 408:
	case 429:
	case 500:
	case 502:
	case 503:
	case 504:
		return true;
	default:
		return is_code(a, "SlowDown") || is_code(a, "RequestTimeout") ||
		       is_code(a, "ConditionalRequestConflict") || is_code(a, "OperationAborted");
	}
}

bool s3_client_tries_again(struct s3_client *c, struct s3_tries *tries, int rc,
			   const struct s3_answer *a, int64_t deadline_mono_ns)
{
	int64_t pause_ns = FIRST_PAUSE_NS << (tries->n < 10 ? tries->n : 10), until_ns;

	if (!rc && learn_skew(c, a))
		return true;
	if (!is_passing(rc, a))
		return false;
	if (++tries->n == TRIES_MAX)
		return false;
	until_ns = now_mono_ns() +
		   random_pause_ns(pause_ns < PAUSE_MAX_NS ? pause_ns : PAUSE_MAX_NS);
	if (until_ns >= deadline_mono_ns)
		return false;
	now_sleep_until_mono(until_ns);
	return true;
}

int s3_client_call(struct s3_client *c, const struct s3_call *call, struct s3_tries *tries,
		   struct s3_answer *a, struct err *e)
{
	int rc;

	do
		rc = s3_client_send(c, call, a, e);
	while (s3_client_tries_again(c, tries, rc, a, call->deadline_mono_ns));
	return rc;
}

/* ---- errors ---- */

static int code_of(const struct s3_answer *a)
{
	if (a->status == 507 || is_code(a, "QuotaExceeded") || is_code(a, "XMinioStorageFull"))
		return ERR_FULL;
	if (a->status == 404 && !is_code(a, "NoSuchBucket"))
		return ERR_NOT_FOUND;
	if (a->status == 412)
		return ERR_EXISTS;
	if (a->status == 401 || a->status == 403)
		return ERR_DENIED;
	return ERR_PEER;
}

int s3_client_error(const struct s3_client *c, const struct s3_answer *a, struct err *e)
{
	int code = code_of(a);

	if (code == ERR_NOT_FOUND)
		return err_set(e, code, "there is no such object");
	if (*a->region && strcmp(a->region, c->set.region))
		return err_set(e, ERR_PEER, "the bucket is in region %s: add ?region=%s to the URL",
			       a->region, a->region);
	if (*a->code)
		return err_set(e, code, "%s answers %d %s: %s", c->host, a->status, a->code,
			       a->message);
	if (code == ERR_DENIED)
		return err_set(e, code, "%s answers %d: these keys may not do that", c->host,
			       a->status);
	return err_set(e, code, "%s answers %d", c->host, a->status);
}
