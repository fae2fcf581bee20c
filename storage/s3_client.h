/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One bucket of an S3 server: settings from the URL, signed requests, when to try again. Private to storage/.
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
#include "storage/s3_answer.h"
#include "storage/store.h"

#define S3_PUT_MAX    (UINT64_C(5) << 30) /* of one request, as AWS has it */
#define S3_ANSWER_MAX ((size_t)8 << 20) /* a page of 1000 keys of 1024 escaped characters fits */

struct s3_client;

/* Opens "BUCKET/PREFIX?...". No request is sent. ERR_INVALID names the setting that is wrong. */
MUST_CHECK int s3_client_open(struct s3_client **out, const char *rest, struct err *e);
void s3_client_free(struct s3_client *c); /* NULL is fine */

const char *s3_client_prefix(const struct s3_client *c); /* "" or "some/prefix/" */

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

/* One attempt. 0 when a whole answer came, whatever answer->status; errors as in net/http_client_pool.h, and those of keys.
 * `a` is emptied first. */
MUST_CHECK int s3_client_send(struct s3_client *c, const struct s3_call *call, struct s3_answer *a,
			      struct err *e);

/* Attempts of one call; begins zeroed. */
struct s3_tries {
	int n; /* that have failed */
};

/* To be called after an attempt. If another one may succeed, waits for a pause where one is needed, and
 * returns true. */
bool s3_client_tries_again(struct s3_client *c, struct s3_tries *tries, int rc,
			   const struct s3_answer *a, int64_t deadline_mono_ns);

/* Repeats attempts until one succeeds or fails for good, or until attempts or time run out. */
MUST_CHECK int s3_client_call(struct s3_client *c, const struct s3_call *call,
			      struct s3_tries *tries, struct s3_answer *a, struct err *e);

/* The error for a status that means failure. 404 is ERR_NOT_FOUND if the key is missing, ERR_PEER if the bucket is; 412 ERR_EXISTS;
 * 401 and 403 ERR_DENIED; a quota or a disk that is full ERR_FULL; all else ERR_PEER. */
int s3_client_error(const struct s3_client *c, const struct s3_answer *a, struct err *e);

#endif
