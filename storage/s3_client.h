/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One bucket of an S3 server: settings from the URL, signed requests. Private to storage/.
 *
 * s3://BUCKET[/PREFIX][?SETTING=VALUE&...]; what the URL leaves out comes from the environment:
 *
 *     endpoint    http://HOST:PORT or https://; AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL; AWS without any
 *     region      AWS_REGION, AWS_DEFAULT_REGION, the profile's; us-east-1 without any
 *     path-style  true: HOST/BUCKET/KEY; false: BUCKET.HOST/KEY; true by default with an endpoint
 *     ca          a PEM file of certificate authorities; AWS_CA_BUNDLE
 *     profile     of ~/.aws; AWS_PROFILE
 */
#ifndef STORAGE_S3_CLIENT_H
#define STORAGE_S3_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "net/sigv4.h"
#include "storage/cloud_answer.h"
#include "storage/cloud_keys.h"
#include "storage/store.h"

#define S3_BATCH_MAX 1000 /* keys of one DeleteObjects */
#define S3_KEY_MAX   1024 /* with the prefix */
#define S3_PUT_MAX   (UINT64_C(5) << 30) /* of one request, as AWS has it */

struct s3_client;

/* Opens "BUCKET/PREFIX?...". No request is sent. ERR_INVALID names the setting that is wrong. */
MUST_CHECK int s3_client_open(struct s3_client **out, const char *rest, struct err *e);
void s3_client_free(struct s3_client *c); /* NULL is fine */

/* Borrowed, for as long as the client lives. */
const char *s3_client_prefix(const struct s3_client *c); /* "" or "some/prefix/" */
const char *s3_client_host(const struct s3_client *c);
struct http_pool *s3_client_http(const struct s3_client *c);
struct keys_chain *s3_client_keys(const struct s3_client *c);

struct s3_call {
	const char *method;
	const char *key; /* of the store, without the prefix; NULL = the bucket itself */
	struct sigv4_pair query[6], headers[4]; /* NULL names end them; headers in lower case */
	const struct store_put *body; /* NULL = none */
	int (*piece)(void *arg, const void *data, size_t len,
		     struct err *e); /* NULL = into answer->body */
	void *arg;
	int64_t deadline_mono_ns;
};

/* One attempt, signed as of the Unix time. 0 when a whole answer came, whatever answer->status; errors as in
 * net/http_client_pool.h, and those of keys. `a` is emptied first. */
MUST_CHECK int s3_client_send(struct s3_client *c, const struct s3_call *call, int64_t unix_s,
			      struct cloud_answer *a, struct err *e);

/* A URL that lets whoever has it send this request, with the headers of the call and any body, for `life_s` from the
 * Unix time on, but not beyond the end of the keys (`keys_end_s` may be NULL). No request is sent, unless keys have to be fetched. The
 * caller frees it. */
MUST_CHECK int s3_client_presign(struct s3_client *c, const struct s3_call *call, int64_t unix_s,
				 int life_s, char **url, int64_t *keys_end_s, struct err *e);

/* Sets and returns the error for an answer that tells the bucket's region; else 0. */
int s3_client_explain(const struct s3_client *c, const struct cloud_answer *a, struct err *e);

#endif
