/* SPDX-License-Identifier: Apache-2.0 */
/* A source of keys: one row of the table in aws_keys.c. Private to storage/. */
#ifndef STORAGE_AWS_SOURCE_H
#define STORAGE_AWS_SOURCE_H

#include <stdbool.h>

#include "net/http_client_pool.h"
#include "storage/aws_keys.h"

struct aws_source_env {
	const char *profile; /* never NULL */
	const char *region;
	struct http_pool *http;
};

/* Fills id, secret, token and end_s of `out`, which begins zeroed with end_s AWS_NO_END. ERR_NOT_FOUND: this source is not set up
 * here. Any other error ends the search: what was set up must work. Errors hold no secret. */
struct aws_source {
	const char *name;
	int (*get)(const struct aws_source_env *env, struct aws_keys *out, struct err *e);
};

int aws_from_environment(const struct aws_source_env *env, struct aws_keys *out, struct err *e);
int aws_from_profile(const struct aws_source_env *env, struct aws_keys *out, struct err *e);
int aws_from_web_identity(const struct aws_source_env *env, struct aws_keys *out, struct err *e);
int aws_from_container(const struct aws_source_env *env, struct aws_keys *out, struct err *e);
int aws_from_instance(const struct aws_source_env *env, struct aws_keys *out, struct err *e);

/* The value of an environment variable; NULL if it is unset or empty. */
const char *aws_setting(const char *name);

/* Copies a value into one of the arrays of struct aws_keys; ERR_INVALID, without the value, if it does not fit or has control
 * characters. */
MUST_CHECK int aws_take(char *out, size_t size, const char *value, const char *what, struct err *e);

/* Reads {"AccessKeyId", "SecretAccessKey", `token_name`, "Expiration"}, as processes and services give them, and overwrites the
 * text. */
MUST_CHECK int aws_take_json(struct aws_keys *out, char *text, size_t len, const char *token_name,
			     struct err *e);

/* Writes the region of a profile; false if it has none. */
bool aws_profile_region(const char *profile, char *out, size_t size);

#endif
