/* SPDX-License-Identifier: Apache-2.0 */
/* Members of a JSON object as stats of the event that is open in a builder. Private to xspace/. */
#ifndef XSPACE_JSON_STAT_H
#define XSPACE_JSON_STAT_H

#include "base/buf.h"
#include "xspace/scan.h"
#include "xspace/xspace.h"

#define JSON_STAT_NAME_BYTES 64
#define JSON_STAT_TEXT_MAX   4096 /* bytes of a text; longer ones are cut */

/* A stat's name, plain ASCII; `scratch` is the caller's. */
void json_stat_name(const struct scan_text *key, char out[JSON_STAT_NAME_BYTES],
		    struct buf *scratch);

/* The value, whose first character is `kind` (scan_peek()). Strings are without their quotes; null adds nothing; arrays and
 * objects are texts. */
void json_stat_put(struct xs_builder *b, const char *name, char kind, const struct scan_text *value,
		   struct buf *scratch);

/* Reads the next value: a string without its quotes, anything else as it is. */
MUST_CHECK int json_stat_read(struct scan *s, char *kind, struct scan_text *value, struct err *e);

double json_stat_double(const struct scan_text *number);

#endif
