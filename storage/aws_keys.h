/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credentials for AWS and compatible servers, from the first source that has some, in the order of AWS's
 * own tools. Private to storage/.
 *
 *     environment      AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
 *     web identity     AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN (EKS): STS
 *     profile          ~/.aws/credentials and ~/.aws/config, AWS_PROFILE: keys, or credential_process
 *     container        AWS_CONTAINER_CREDENTIALS_FULL_URI or _RELATIVE_URI (EKS Pod Identity, ECS)
 *     instance         the metadata service of EC2, by IMDSv2 only; off with AWS_EC2_METADATA_DISABLED=true
 *
 * Keys that expire are fetched again AWS_EARLY_S before they expire. While fetching fails, the old keys
 * stay in use until they expire. They lie in pages of their own that no core dump has, and are overwritten
 * when nothing uses them any more.
 */
#ifndef STORAGE_AWS_KEYS_H
#define STORAGE_AWS_KEYS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "net/sigv4.h"

#define AWS_EARLY_S	    300
#define AWS_ID_MAX	    255
#define AWS_SECRET_MAX	    255
#define AWS_TOKEN_MAX	    16383
#define AWS_NO_END	    INT64_MAX
#define AWS_KEYS_PATIENCE_S 20 /* for one source */

struct aws_keys {
	char id[AWS_ID_MAX + 1], secret[AWS_SECRET_MAX + 1], token[AWS_TOKEN_MAX + 1];
	int64_t end_s; /* Unix time, or AWS_NO_END */
	const char *source; /* "environment" */
	unsigned int refs; /* the chain's, and one for each user; under its lock */
};

struct aws_chain_conf {
	const char *profile; /* NULL = AWS_PROFILE, or "default" */
	const char *region; /* for STS */
	const char *ca_file; /* NULL = the system's */
};

/* Copies `conf`; asks no source yet. The caller frees it when no keys are in use. */
struct aws_chain *aws_chain_new(const struct aws_chain_conf *conf);
void aws_chain_free(struct aws_chain *chain); /* NULL is fine */

/* The present keys; give them back with aws_keys_put(). May ask a source, and blocks meanwhile. ERR_DENIED if no source has
 * any: the message says where they were looked for. Any thread. */
MUST_CHECK int aws_keys_get(struct aws_chain *chain, struct aws_keys **out, struct err *e);
void aws_keys_put(struct aws_chain *chain, struct aws_keys *keys);

/* For net/sigv4.h; borrows. */
struct sigv4_keys aws_keys_view(const struct aws_keys *keys);

#endif
