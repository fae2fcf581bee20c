/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SipHash-2-4 with a 64 bit result (Aumasson, Bernstein 2012): a keyed hash for short messages.
 * Without the key the hash of a new message cannot be made. Pure.
 */
#ifndef PROTO_SIPHASH_H
#define PROTO_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

#define SIPHASH_KEY_BYTES 16

struct siphash_key {
	uint8_t bytes[SIPHASH_KEY_BYTES];
};

uint64_t siphash(const struct siphash_key *key, const void *data, size_t len);

#endif
