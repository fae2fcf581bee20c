/* SPDX-License-Identifier: Apache-2.0 */
/* Signed tokens (JWT, RFC 7515) as a service account proves itself with. No I/O and no clock. */
#ifndef NET_JWT_SIGN_H
#define NET_JWT_SIGN_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

/* Appends header, claims and their RS256 signature in the compact form. `pem` is an RSA private key. ERR_INVALID, without a word of the
 * key, if it cannot be used. */
MUST_CHECK int jwt_sign_rs256(const char *header_json, const char *claims_json, const char *pem,
			      struct buf *out, struct err *e);

#endif
