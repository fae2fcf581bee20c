/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads JSON from memory value by value, without a tree: for documents of hundreds of megabytes. The text is
 * not trusted; ERR_INVALID names the offset. Private to xspace/.
 *
 * 	scan_enter(s, '{', e);
 * 	while ((rc = scan_member(s, &key, e)) > 0)
 * 		rc = text_equals(key.s, key.len, "ts") ? scan_number(s, &ts, e) : scan_skip(s, NULL, e);
 *
 * Each member or element must be read or skipped before the next one. Numbers must have JSON's form. Of a
 * string only the end is found; scan_unescape() decodes what is inside.
 */
#ifndef XSPACE_SCAN_H
#define XSPACE_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define SCAN_DEPTH_MAX 64 /* of values within values that are skipped */

struct scan {
	const char *begin, *at, *end;
	bool is_first; /* nothing of the innermost object or array has been read yet */
};

/* A piece of the input: borrowed from it, no NUL. Of a string: without its quotes, escapes as they are. */
struct scan_text {
	const char *s;
	size_t len;
	bool has_escapes;
};

void scan_init(struct scan *s, const void *data, size_t len);

/* The first character of the next value: '"' '{' '[' 't' 'f' 'n', '-' or a digit; 0 at the end. */
char scan_peek(struct scan *s);

/* Begins an object ('{') or an array ('['). */
MUST_CHECK int scan_enter(struct scan *s, char open, struct err *e);

/* 1: a member, whose value is next; 0: the object has ended. */
MUST_CHECK int scan_member(struct scan *s, struct scan_text *key, struct err *e);

/* 1: an element is next; 0: the array has ended. */
MUST_CHECK int scan_element(struct scan *s, struct err *e);

MUST_CHECK int scan_string(struct scan *s, struct scan_text *out, struct err *e);
MUST_CHECK int scan_number(struct scan *s, struct scan_text *out, struct err *e);

/* Any value; `out` may be NULL. */
MUST_CHECK int scan_skip(struct scan *s, struct scan_text *out, struct err *e);

/* Nothing but white space is left. */
MUST_CHECK int scan_end(struct scan *s, struct err *e);

/* Appends the string with its escapes decoded; a malformed escape becomes a '?'. */
void scan_unescape(const struct scan_text *t, struct buf *out);

/* `number` times 10^shift, exact, rounded toward 0; false if it has an exponent or is out of range. */
bool scan_decimal(const struct scan_text *number, unsigned int shift, int64_t *out);

#endif
