/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys for AWS and compatible servers, from the first source that has some, in the order of AWS's own tools.
 * Private to storage/.
 *
 *     environment      AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
 *     web identity     AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN (EKS): STS
 *     profile          ~/.aws/credentials and ~/.aws/config, AWS_PROFILE: keys, or credential_process
 *     container        AWS_CONTAINER_CREDENTIALS_FULL_URI or _RELATIVE_URI (EKS Pod Identity, ECS)
 *     instance         the metadata service of EC2, by IMDSv2 only; off with AWS_EC2_METADATA_DISABLED=true
 */
#ifndef STORAGE_AWS_KEYS_H
#define STORAGE_AWS_KEYS_H

#include "net/sigv4.h"
#include "storage/cloud_keys.h"

/* `profile` NULL = AWS_PROFILE, or "default"; `region` is for STS; `ca_file` NULL = the system's. All are copied. */
struct keys_chain *aws_chain_new(const char *profile, const char *region, const char *ca_file);

/* For net/sigv4.h; borrows. */
struct sigv4_keys aws_keys_view(const struct cloud_keys *keys);

#endif
