/* SPDX-License-Identifier: Apache-2.0 */
/* Parses an HTTP request line and its Range header; no I/O. Private to net/. */
#ifndef NET_HTTP_PARSE_H
#define NET_HTTP_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* %XX to bytes, and '+' to a space if `plus_is_space`. `out` needs len + 1 bytes. ERR_INVALID for a bad
 * escape or a NUL. */
MUST_CHECK int percent_decode(const char *text, size_t len, bool plus_is_space, char *out,
			      struct err *e);

enum range_kind {
	RANGE_WHOLE, /* no range, several, or one not understood: the whole file */
	RANGE_PART, /* [*first, *first + *len) */
	RANGE_OUTSIDE, /* nothing of it is in the file */
};

/* The part of a file of `size` bytes that "bytes=..." asks for; NULL = no such header. */
enum range_kind range_parse(const char *text, uint64_t size, uint64_t *first, uint64_t *len);

#endif
