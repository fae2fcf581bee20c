/* SPDX-License-Identifier: Apache-2.0 */
/* Values of JSON, for the exits that write it. Private to xspace/exits/. */
#ifndef XSPACE_EXITS_JSON_OUT_H
#define XSPACE_EXITS_JSON_OUT_H

#include "base/buf.h"
#include "xspace/exits/lanes.h"

/* Cleaned, as foreign text is; at most EXIT_NAME_MAX bytes. */
void json_out_string(struct buf *out, const char *s, size_t len);

void json_out_uint(struct buf *out, uint64_t v);
void json_out_us(struct buf *out,
		 int64_t ns); /* as microseconds with three digits behind the dot */
void json_out_double(
	struct buf *out,
	double v); /* the shortest text that is read as `v`; null if it is not finite */

/* A stat's value; references are numbers of `names`. */
void json_out_stat(struct buf *out, const struct lanes_names *names, const struct xs_stat *s);

/* A plane's names as they are written, as long as they are few: most events share theirs. Zeros are none. */
struct json_out_names {
	struct buf text;
	struct json_out_place {
		uint32_t at, len; /* len 0: not yet */
	} * places; /* by number */
	size_t n;
};
void json_out_names_reset(struct json_out_names *k); /* another plane begins */
void json_out_names_release(struct json_out_names *k);

/* A name by its number, as a string. */
void json_out_name(struct buf *out, struct json_out_names *k, const struct lanes_names *names,
		   uint32_t number);

/* Whether the event's i-th stat may be written: its name is known, and none of the same name follows. */
bool json_out_is_member(const struct lane_event *ev, size_t i);

#endif
