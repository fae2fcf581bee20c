/* SPDX-License-Identifier: Apache-2.0 */
#include "net/sigv4.h"

#include <assert.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/hex.h"
#include "base/mem.h"
#include "base/percent.h"

#define SHA256_BYTES   32
#define READ_BYTES     ((size_t)256 << 10)
#define OWN_HEADERS    4 /* host, x-amz-date, x-amz-content-sha256, x-amz-security-token */
#define PRESIGN_PAIRS  6
#define ALGORITHM      "AWS4-HMAC-SHA256"
#define SHA256_OF_HASH GNUTLS_DIG_SHA256

/* What is put together for one signature. */
struct signing {
	const struct sigv4_keys *keys;
	const struct sigv4_scope *scope;
	char date[17];
	struct buf scope_text; /* "20130524/us-east-1/s3/aws4_request" */
	struct buf headers; /* "name:value\n" each */
	struct buf names; /* "host;x-amz-date" */
	struct buf target;
	size_t query_at; /* where the query begins in `target`; its length there if there is none */
};

static void signing_release(struct signing *s)
{
	buf_release(&s->scope_text);
	buf_release(&s->headers);
	buf_release(&s->names);
	buf_release(&s->target);
}

/* ---- hashes ---- */

void sigv4_hash(const void *data, size_t len, char out[SIGV4_HASH_BYTES])
{
	uint8_t digest[SHA256_BYTES];
	int rc = gnutls_hash_fast(SHA256_OF_HASH, len ? data : "", len, digest);

	assert(rc == 0);
	(void)rc;
	hex_text(out, digest, sizeof(digest));
}

void sigv4_content_md5(const void *data, size_t len, char out[SIGV4_MD5_BYTES])
{
	uint8_t digest[16];
	const gnutls_datum_t raw = { digest, sizeof(digest) };
	gnutls_datum_t text = { 0 };
	int rc = gnutls_hash_fast(GNUTLS_DIG_MD5, len ? data : "", len, digest);

	if (!rc)
		rc = gnutls_base64_encode2(&raw, &text);
	assert(rc == 0 && text.size == SIGV4_MD5_BYTES - 1);
	snprintf(out, SIGV4_MD5_BYTES, "%.*s", (int)text.size, text.data);
	gnutls_free(text.data);
}

static int hash_file(gnutls_hash_hd_t hash, int fd, uint64_t offset, uint64_t len, struct err *e)
{
	uint8_t *chunk = xmalloc(READ_BYTES);
	int rc = 0;

	while (!rc && len > 0) {
		size_t n = len < READ_BYTES ? (size_t)len : READ_BYTES;
		ssize_t got = file_read_up_to(fd, offset, chunk, n);

		if (got < 0)
			rc = err_errno(e, "reading the file to put");
		else if ((size_t)got < n)
			rc = err_set(e, ERR_INVALID, "the file to put ends %llu bytes too early",
				     (unsigned long long)(len - (uint64_t)got));
		else if (gnutls_hash(hash, chunk, n))
			rc = err_set(e, ERR_IO, "hashing the file to put failed");
		offset += n;
		len -= n;
	}
	free(chunk);
	return rc;
}

int sigv4_hash_file(int fd, uint64_t offset, uint64_t len, char out[SIGV4_HASH_BYTES],
		    struct err *e)
{
	uint8_t digest[SHA256_BYTES];
	gnutls_hash_hd_t hash;
	int rc;

	if (gnutls_hash_init(&hash, SHA256_OF_HASH))
		return err_set(e, ERR_IO, "hashing the file to put failed");
	rc = hash_file(hash, fd, offset, len, e);
	gnutls_hash_deinit(hash, digest);
	if (!rc)
		hex_text(out, digest, sizeof(digest));
	return rc;
}

static void hmac(const void *key, size_t key_len, const void *text, size_t len,
		 uint8_t out[SHA256_BYTES])
{
	int rc = gnutls_hmac_fast(GNUTLS_MAC_SHA256, key, key_len, text, len, out);

	assert(rc == 0);
	(void)rc;
}

/* ---- the canonical request ---- */

static int compare_pairs(const void *a, const void *b)
{
	const struct sigv4_pair *x = a, *y = b;
	int order = strcmp(x->name, y->name);

	return order ? order : strcmp(x->value, y->value);
}

static char *encoded(const char *text)
{
	struct buf b = BUF_INIT;

	buf_add_str(&b, "");
	percent_encode(&b, text, "");
	return (char *)buf_detach(&b, NULL);
}

/* Sorted as encoded, which is another order than that of the raw names. */
static void add_query(struct buf *out, const struct sigv4_pair *query, size_t n)
{
	struct sigv4_pair pairs[SIGV4_PAIRS_MAX + PRESIGN_PAIRS];

	for (size_t i = 0; i < n; i++) {
		pairs[i].name = encoded(query[i].name);
		pairs[i].value = encoded(query[i].value);
	}
	sort_array(pairs, n, sizeof(*pairs), compare_pairs);
	for (size_t i = 0; i < n; i++) {
		buf_addf(out, "%s%s=%s", i ? "&" : "", pairs[i].name, pairs[i].value);
		free((char *)pairs[i].name);
		free((char *)pairs[i].value);
	}
}

static void add_target(struct signing *s, const char *path, const struct sigv4_pair *query,
		       size_t n)
{
	percent_encode(&s->target, path, "/");
	s->query_at = s->target.len;
	if (!n)
		return;
	buf_add_u8(&s->target, '?');
	s->query_at = s->target.len;
	add_query(&s->target, query, n);
}

/* Appends the value without blanks around it; several blanks inside become one. */
static void add_value(struct buf *out, const char *value)
{
	while (*value == ' ')
		value++;
	for (; *value; value++) {
		if (*value == ' ' && (value[1] == ' ' || value[1] == '\0'))
			continue;
		buf_add_u8(out, (uint8_t)*value);
	}
}

static void add_headers(struct signing *s, struct sigv4_pair *headers, size_t n)
{
	sort_array(headers, n, sizeof(*headers), compare_pairs);
	for (size_t i = 0; i < n; i++) {
		buf_addf(&s->names, "%s%s", i ? ";" : "", headers[i].name);
		buf_addf(&s->headers, "%s:", headers[i].name);
		add_value(&s->headers, headers[i].value);
		buf_add_u8(&s->headers, '\n');
	}
}

static void hash_request(const struct signing *s, const char *method, const char *payload,
			 char out[SIGV4_HASH_BYTES])
{
	struct buf b = BUF_INIT;
	size_t path_len = s->query_at;

	if (path_len < s->target.len)
		path_len--; /* the '?' */
	buf_addf(&b, "%s\n%.*s\n%s\n", method, (int)path_len, buf_str(&s->target),
		 buf_str(&s->target) + s->query_at);
	buf_addf(&b, "%s\n%s\n%s", buf_str(&s->headers), buf_str(&s->names), payload);
	sigv4_hash(b.data, b.len, out);
	buf_release(&b);
}

/* ---- the signature ---- */

static void derive_key(const struct signing *s, uint8_t key[SHA256_BYTES])
{
	struct buf secret = BUF_INIT;
	uint8_t next[SHA256_BYTES];

	buf_addf(&secret, "AWS4%s", s->keys->secret);
	hmac(secret.data, secret.len, s->date, 8, key);
	hmac(key, SHA256_BYTES, s->scope->region, strlen(s->scope->region), next);
	hmac(next, SHA256_BYTES, s->scope->service, strlen(s->scope->service), key);
	hmac(key, SHA256_BYTES, "aws4_request", strlen("aws4_request"), next);
	memcpy(key, next, SHA256_BYTES);
	explicit_bzero(next, sizeof(next));
	explicit_bzero(secret.data, secret.len);
	buf_release(&secret);
}

static void sign_text(const struct signing *s, const char *method, const char *payload,
		      char out[SIGV4_HASH_BYTES])
{
	uint8_t key[SHA256_BYTES], signature[SHA256_BYTES];
	char hash[SIGV4_HASH_BYTES];
	struct buf text = BUF_INIT;

	hash_request(s, method, payload, hash);
	buf_addf(&text, "%s\n%s\n%s\n%s", ALGORITHM, s->date, buf_str(&s->scope_text), hash);
	derive_key(s, key);
	hmac(key, sizeof(key), text.data, text.len, signature);
	hex_text(out, signature, sizeof(signature));
	explicit_bzero(key, sizeof(key));
	buf_release(&text);
}

static int begin(struct signing *s, const struct sigv4_keys *keys, const struct sigv4_scope *scope,
		 const struct sigv4_request *req, struct err *e)
{
	time_t at = (time_t)req->unix_s;
	struct tm tm;

	if (req->n_query > SIGV4_PAIRS_MAX || req->n_headers > SIGV4_PAIRS_MAX)
		return err_set(e, ERR_LIMIT, "more than %d headers or parts of a query to sign",
			       SIGV4_PAIRS_MAX);
	*s = (struct signing){ .keys = keys, .scope = scope };
	gmtime_r(&at, &tm);
	if (!strftime(s->date, sizeof(s->date), "%Y%m%dT%H%M%SZ", &tm))
		return err_set(e, ERR_INVALID, "a date that cannot be signed");
	buf_addf(&s->scope_text, "%.8s/%s/%s/aws4_request", s->date, scope->region, scope->service);
	return 0;
}

static bool has_token(const struct sigv4_keys *keys)
{
	return keys->token && *keys->token;
}

int sigv4_sign(const struct sigv4_keys *keys, const struct sigv4_scope *scope,
	       const struct sigv4_request *req, struct sigv4_signed *out, struct err *e)
{
	struct sigv4_pair headers[SIGV4_PAIRS_MAX + OWN_HEADERS];
	char signature[SIGV4_HASH_BYTES];
	struct signing s;
	size_t n = 0;
	int rc = begin(&s, keys, scope, req, e);

	if (rc)
		return rc;
	for (; n < req->n_headers; n++)
		headers[n] = req->headers[n];
	headers[n++] = (struct sigv4_pair){ "host", req->host };
	headers[n++] = (struct sigv4_pair){ "x-amz-date", s.date };
	headers[n++] = (struct sigv4_pair){ "x-amz-content-sha256", req->payload };
	if (has_token(keys))
		headers[n++] = (struct sigv4_pair){ "x-amz-security-token", keys->token };
	add_headers(&s, headers, n);
	add_target(&s, req->path, req->query, req->n_query);
	sign_text(&s, req->method, req->payload, signature);
	memcpy(out->date, s.date, sizeof(out->date));
	buf_reset(&out->authorization);
	buf_addf(&out->authorization, "%s Credential=%s/%s, SignedHeaders=%s, Signature=%s",
		 ALGORITHM, keys->id, buf_str(&s.scope_text), buf_str(&s.names), signature);
	buf_reset(&out->target);
	buf_add(&out->target, s.target.data, s.target.len);
	signing_release(&s);
	return 0;
}

int sigv4_presign(const struct sigv4_keys *keys, const struct sigv4_scope *scope,
		  const struct sigv4_request *req, int expires_s, struct buf *target, struct err *e)
{
	struct sigv4_pair headers[SIGV4_PAIRS_MAX + OWN_HEADERS];
	struct sigv4_pair query[SIGV4_PAIRS_MAX + PRESIGN_PAIRS];
	char signature[SIGV4_HASH_BYTES], seconds[16];
	struct signing s;
	size_t n = 0;
	char *credential;
	int rc;

	if (expires_s < 1 || expires_s > SIGV4_EXPIRES_MAX)
		return err_set(e, ERR_INVALID, "a presigned request lives 1 to %d s, not %d",
			       SIGV4_EXPIRES_MAX, expires_s);
	rc = begin(&s, keys, scope, req, e);
	if (rc)
		return rc;
	for (; n < req->n_headers; n++)
		headers[n] = req->headers[n];
	headers[n++] = (struct sigv4_pair){ "host", req->host };
	add_headers(&s, headers, n);
	credential = xasprintf("%s/%s", keys->id, buf_str(&s.scope_text));
	snprintf(seconds, sizeof(seconds), "%d", expires_s);
	for (n = 0; n < req->n_query; n++)
		query[n] = req->query[n];
	query[n++] = (struct sigv4_pair){ "X-Amz-Algorithm", ALGORITHM };
	query[n++] = (struct sigv4_pair){ "X-Amz-Credential", credential };
	query[n++] = (struct sigv4_pair){ "X-Amz-Date", s.date };
	query[n++] = (struct sigv4_pair){ "X-Amz-Expires", seconds };
	query[n++] = (struct sigv4_pair){ "X-Amz-SignedHeaders", buf_str(&s.names) };
	if (has_token(keys))
		query[n++] = (struct sigv4_pair){ "X-Amz-Security-Token", keys->token };
	add_target(&s, req->path, query, n);
	sign_text(&s, req->method, SIGV4_UNSIGNED, signature);
	buf_reset(target);
	buf_addf(target, "%s&X-Amz-Signature=%s", buf_str(&s.target), signature);
	free(credential);
	signing_release(&s);
	return 0;
}

void sigv4_release(struct sigv4_signed *s)
{
	buf_release(&s->target);
	buf_release(&s->authorization);
}
