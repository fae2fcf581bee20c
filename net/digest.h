/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 of bytes: what is kept instead of a token, and what chains the lines of the audit log. Any thread. */
#ifndef NET_DIGEST_H
#define NET_DIGEST_H

#include <stddef.h>

#define DIGEST_HEX_BYTES 65 /* 64 digits and a NUL */

/* Lower-case hexadecimal digits. */
void digest_sha256(const void *data, size_t len, char out[DIGEST_HEX_BYTES]);

#endif
