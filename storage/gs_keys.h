/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access tokens for Google Cloud Storage, from the first source that has some. Private to storage/.
 *
 *     file        GOOGLE_APPLICATION_CREDENTIALS, or what `gcloud auth application-default login` leaves: a service account, a user, or
 *                 workload identity federation (external_account with a token in a file)
 *     metadata    the metadata server of GCE and of GKE's workload identity, at GCE_METADATA_HOST; off with NO_GCE_CHECK=true
 */
#ifndef STORAGE_GS_KEYS_H
#define STORAGE_GS_KEYS_H

#include "storage/cloud_keys.h"

/* `ca_file` NULL = the system's; copied. */
struct keys_chain *gs_chain_new(const char *ca_file);

/* What the file of a service account signs to get a token: {"client_email", "private_key", "token_uri"}. Appends the form. Pure; for the
 * fuzz target, too. ERR_INVALID names what the file lacks. */
struct buf;
MUST_CHECK int gs_service_account_form(const void *text, size_t len, int64_t unix_s,
				       struct buf *form, struct err *e);

#endif
