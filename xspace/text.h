/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cleans foreign text for a proto3 string: C++ readers refuse a whole file for one byte that is not
 * UTF-8. Private to xspace/.
 */
#ifndef XSPACE_TEXT_H
#define XSPACE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"

/* How many of the bytes, from the first on, are whole characters of UTF-8. */
size_t text_valid(const uint8_t *p, size_t len);

/* `s` itself if its `len` bytes are UTF-8, else a copy of that length in `scratch`, with '?' for each
 * wrong byte: borrowed until the next change of `scratch`. */
const char *text_clean(const char *s, size_t len, struct buf *scratch);

static inline bool text_equals(const char *s, size_t len, const char *expected)
{
	return len == strlen(expected) && !memcmp(s, expected, len);
}

#endif
