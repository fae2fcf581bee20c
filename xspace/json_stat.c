/* SPDX-License-Identifier: Apache-2.0 */
#include "xspace/json_stat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void json_stat_name(const struct scan_text *key, char out[JSON_STAT_NAME_BYTES],
		    struct buf *scratch)
{
	size_t len;

	buf_reset(scratch);
	scan_unescape(key, scratch);
	len = scratch->len < JSON_STAT_NAME_BYTES ? scratch->len : JSON_STAT_NAME_BYTES - 1;
	for (size_t i = 0; i < len; i++) {
		char c = (char)scratch->data[i];

		out[i] = c >= ' ' && c < 0x7f && c != '"' && c != '\\' ? c : '_';
	}
	out[len] = 0;
}

double json_stat_double(const struct scan_text *number)
{
	char text[64];

	snprintf(text, sizeof(text), "%.*s", (int)(number->len < 63 ? number->len : 63), number->s);
	return strtod(text, NULL);
}

static void put_number(struct xs_builder *b, const char *name, const struct scan_text *v)
{
	int64_t i;

	if (memchr(v->s, '.', v->len) || !scan_decimal(v, 0, &i))
		xs_stat_double(b, name, json_stat_double(v));
	else
		xs_stat_int(b, name, i);
}

static void put_text(struct xs_builder *b, const char *name, struct scan_text v, bool is_string,
		     struct buf *scratch)
{
	if (v.len > JSON_STAT_TEXT_MAX)
		v.len = JSON_STAT_TEXT_MAX;
	buf_reset(scratch);
	if (is_string)
		scan_unescape(&v, scratch);
	else
		buf_add(scratch, v.s, v.len);
	xs_stat_str(b, name, buf_str(scratch));
}

void json_stat_put(struct xs_builder *b, const char *name, char kind, const struct scan_text *value,
		   struct buf *scratch)
{
	if (kind == 'n')
		return;
	if (kind == '"' || kind == '{' || kind == '[')
		put_text(b, name, *value, kind == '"', scratch);
	else if (kind == 't' || kind == 'f')
		xs_stat_int(b, name, kind == 't');
	else
		put_number(b, name, value);
}

int json_stat_read(struct scan *s, char *kind, struct scan_text *value, struct err *e)
{
	*kind = scan_peek(s);
	return *kind == '"' ? scan_string(s, value, e) : scan_skip(s, value, e);
}
