/* SPDX-License-Identifier: Apache-2.0 */
/* Sources of keys: the rows of the table in aws_keys.c. Private to storage/. */
#ifndef STORAGE_AWS_SOURCE_H
#define STORAGE_AWS_SOURCE_H

#include <stdbool.h>

#include "storage/cloud_keys.h"

int aws_from_environment(const struct keys_env *env, struct cloud_keys *out, struct err *e);
int aws_from_profile(const struct keys_env *env, struct cloud_keys *out, struct err *e);
int aws_from_web_identity(const struct keys_env *env, struct cloud_keys *out, struct err *e);
int aws_from_container(const struct keys_env *env, struct cloud_keys *out, struct err *e);
int aws_from_instance(const struct keys_env *env, struct cloud_keys *out, struct err *e);

/* Reads {"AccessKeyId", "SecretAccessKey", `token_name`, "Expiration"}, as processes and services give them, and overwrites the
 * text. */
MUST_CHECK int aws_take_json(struct cloud_keys *out, char *text, size_t len, const char *token_name,
			     struct err *e);

/* Writes the region of a profile; false if it has none. */
bool aws_profile_region(const char *profile, char *out, size_t size);

#endif
