/* SPDX-License-Identifier: Apache-2.0 */
/* Signatures with the key of an Azure storage account (Shared Key), of the service version SHARED_KEY_VERSION. No I/O and
 * no clock. */
#ifndef NET_SHARED_KEY_H
#define NET_SHARED_KEY_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "net/sigv4.h"

/* Later versions sign other texts, which not every server knows. */
#define SHARED_KEY_VERSION   "2021-12-02"
#define SHARED_KEY_MAC_BYTES 45 /* a SHA-256 in base64, and the NUL */

struct shared_key_request {
	const char *account;
	const char *method;
	const char *path; /* as it is sent: encoded, begins with '/' */
	const struct sigv4_pair *query; /* names in lower case; values as they are, not encoded */
	size_t n_query;
	const struct sigv4_pair *headers; /* all that are sent; names in lower case */
	size_t n_headers;
	uint64_t len; /* of the body */
};

/* Writes the signature for "Authorization: SharedKey ACCOUNT:signature". `key` is base64. ERR_INVALID for a key that is none; ERR_LIMIT
 * for more than SIGV4_PAIRS_MAX pairs. */
MUST_CHECK int shared_key_sign(const char *key, const struct shared_key_request *req,
			       char out[SHARED_KEY_MAC_BYTES], struct err *e);

/* HMAC-SHA256 of a text, in base64, with a key in base64: what signs a SAS. ERR_INVALID as above. */
MUST_CHECK int shared_key_mac(const char *key, const char *text, char out[SHARED_KEY_MAC_BYTES],
			      struct err *e);

#endif
