/* SPDX-License-Identifier: Apache-2.0 */
/* Parses an HTTP request line, and checks its headers; no I/O. Private to net/. */
#ifndef NET_HTTP_PARSE_H
#define NET_HTTP_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/percent.h"

struct pair {
	char *name, *value;
};

struct pairs {
	struct pair *items;
	size_t n;
};

/* Checks that all readers of these headers agree where the body ends and which host is meant. ERR_INVALID for
 * both Content-Length and Transfer-Encoding, for two of either or two Hosts, for a length that is not a plain
 * number, an encoding other than "chunked", a name that is no token, and HTTP/1.1 without Host. */
MUST_CHECK int http_check_framing(const struct pairs *headers, const char *version, struct err *e);

enum range_kind {
	RANGE_WHOLE, /* no range, several, or one not understood: the whole file */
	RANGE_PART, /* [*first, *first + *len) */
	RANGE_OUTSIDE, /* nothing of it is in the file */
};

/* The part of a file of `size` bytes that "bytes=..." asks for; NULL = no such header. */
enum range_kind range_parse(const char *text, uint64_t size, uint64_t *first, uint64_t *len);

#endif
