/* SPDX-License-Identifier: Apache-2.0 */
#include "net/digest.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdint.h>

#include "base/hex.h"

#define DIGEST_BYTES 32

void digest_sha256(const void *data, size_t len, char out[DIGEST_HEX_BYTES])
{
	uint8_t digest[DIGEST_BYTES] = { 0 };

	/* it fails only for an algorithm that the library does not have */
	if (gnutls_hash_fast(GNUTLS_DIG_SHA256, data, len, digest))
		__builtin_trap();
	hex_text(out, digest, sizeof(digest));
}
