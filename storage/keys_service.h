/* SPDX-License-Identifier: Apache-2.0 */
/* Asking a service for keys: metadata servers, token services of clouds. Private to storage/. */
#ifndef STORAGE_KEYS_SERVICE_H
#define STORAGE_KEYS_SERVICE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "storage/cloud_keys.h"

/* how long to connect to a metadata service: most machines have none */
#define SERVICE_METADATA_NS INT64_C(1000000000)

struct service_request {
	const char *method, *url;
	const char *header; /* one, or NULL */
	const struct buf *body; /* NULL = none */
	const char *type; /* of the body: SERVICE_FORM, SERVICE_JSON; NULL = none */
	bool is_remote; /* a proxy may be used: not a service of the host or its own network */
	int64_t connect_ns; /* 0 = the usual patience */
};

#define SERVICE_FORM "Content-Type: application/x-www-form-urlencoded"
#define SERVICE_JSON "Content-Type: application/json"

/* As http_pool_request(), within KEYS_PATIENCE_S. */
MUST_CHECK int service_ask(const struct keys_env *env, const struct service_request *ask,
			   int *status, struct buf *answer, struct err *e);

/* Appends "&name=value", encoded, to a form. */
void service_add_field(struct buf *form, const char *name, const char *value);

/* Appends a file of 64 KiB at most; the caller wipes it. ERR_INVALID if there is none. */
MUST_CHECK int service_load_file(const char *path, struct buf *out, struct err *e);

/* Appends the file's text without blanks at its end; the caller wipes it. It is read each time: such tokens are replaced. */
MUST_CHECK int service_load_token(const char *path, struct buf *out, struct err *e);

/* Takes {"access_token", "expires_in"} of OAuth as keys of kind KEYS_BEARER, and overwrites the answer. An answer that is none, or
 * has another status than 200, is an error that begins with `who`. */
MUST_CHECK int service_take_bearer(struct cloud_keys *out, const char *who, int status,
				   struct buf *answer, struct err *e);

/* Sets and returns the error for an answer that is a refusal, with what it says of the cause. */
int service_refusal(const char *who, int status, const struct buf *answer, struct err *e);

/* Where a token service may be: https, or this host. ERR_INVALID names `what`. */
MUST_CHECK int service_check_url(const char *url, const char *what, struct err *e);

/* The host of a URL that begins with http://, without its port; an IPv6 address has its brackets. False for any other
 * URL, and for one that names a user. */
#define SERVICE_HOST_BYTES 64
bool service_host(const char *url, char out[SERVICE_HOST_BYTES]);

/* Whether the URL is http:// to an address of this host's loopback. */
bool service_is_loopback(const char *url);

/* Overwrites before it releases. */
void service_wipe(struct buf *b);

/* Overwrites the texts of an object, and releases it; NULL is fine. */
void service_wipe_json(json_t *o_taken);

#endif
