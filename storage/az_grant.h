/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Permissions to create or to read one blob (SAS), signed with the account's key, or with a key that the service delegates to whoever has a
 * token ("user delegation"). Private to storage/.
 */
#ifndef STORAGE_AZ_GRANT_H
#define STORAGE_AZ_GRANT_H

#include "base/buf.h"
#include "storage/cloud_keys.h"

#define AZ_DELEGATION_S (6 * 3600) /* life of a delegated key */

enum az_may { AZ_MAY_CREATE, AZ_MAY_READ };

/* A blob, what may be done with it, and until when. */
struct az_grant {
	const char *account, *container;
	const char *blob; /* with the prefix; not encoded */
	enum az_may may;
	int64_t end_s; /* Unix time */
};

/* Appends the SAS, a URL's query without '?'. `keys`: the account's, or those of az_delegation_read(). */
MUST_CHECK int az_grant_sign(const struct az_grant *grant, const struct cloud_keys *keys,
			     struct buf *query, struct err *e);

/* The body of "Get User Delegation Key", for AZ_DELEGATION_S from the Unix time on. */
void az_delegation_ask(int64_t unix_s, struct buf *body);

/* Its answer as keys: `secret` signs, `token` has what a SAS says of the key. ERR_PEER for what is none. Foreign bytes. */
MUST_CHECK int az_delegation_read(struct cloud_keys *out, const void *data, size_t len,
				  struct err *e);

#endif
