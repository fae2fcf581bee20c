/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the objects of a JSON text that comes in pieces: one object a line, an array of objects, or objects with white
 * space between them; line breaks may be anywhere. Foreign bytes: what is inside an object is not checked. Pure.
 */
#ifndef CLI_IMPORT_SPLIT_H
#define CLI_IMPORT_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define IMPORT_OBJECT_BYTES (1 << 20) /* ERR_LIMIT above */

struct import_split {
	uint64_t offset, line; /* of the next byte; line 0 is the first */
	int depth; /* of braces */
	bool in_text, escaped;
	struct buf object; /* the bytes of the open one that earlier pieces had */
	uint64_t object_line;
};

/* An object: `line` counts from 1. The bytes are borrowed. */
struct import_object {
	const char *text;
	size_t len;
	uint64_t offset, line;
};

typedef int (*import_object_fn)(void *arg, const struct import_object *object, struct err *e);

/* Errors name the line. An error of fn ends the call and is returned. */
MUST_CHECK int import_split_add(struct import_split *s, const void *data, size_t len,
				import_object_fn fn, void *arg, struct err *e);

/* ERR_INVALID if an object is open. */
MUST_CHECK int import_split_end(const struct import_split *s, struct err *e);

void import_split_release(struct import_split *s);

#endif
