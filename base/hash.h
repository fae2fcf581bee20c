/* SPDX-License-Identifier: Apache-2.0 */
/* A number for a text: FNV-1a. For tables and for "is it the same text?", not against anybody who wants a collision. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stdint.h>

static inline uint64_t hash_text(const char *text)
{
	uint64_t hash = UINT64_C(14695981039346656037);

	for (; *text; text++)
		hash = (hash ^ (uint8_t)*text) * UINT64_C(1099511628211);
	return hash;
}

#endif
