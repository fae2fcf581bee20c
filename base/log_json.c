/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log_json.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define KEY_CHARS "abcdefghijklmnopqrstuvwxyz0123456789_-"
#define END_BYTES 4 /* "}}" and the NUL, and a byte to spare */

struct out {
	char *to;
	size_t size, len;
};

static void put(struct out *o, const char *text, size_t len)
{
	if (o->len + len < o->size)
		memcpy(o->to + o->len, text, len);
	o->len += len;
}

static void put_quoted(struct out *o, const char *text, size_t len)
{
	put(o, "\"", 1);
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '"' || text[i] == '\\')
			put(o, "\\", 1);
		put(o, text + i, 1);
	}
	put(o, "\"", 1);
}

/* The length of a key that stands before a '='; 0 = there is none. */
static size_t key_at(const char *at)
{
	size_t len = strspn(at, KEY_CHARS);

	return at[len] == '=' ? len : 0;
}

/* The end of a value: of a quoted one, the quote that is followed by the end or by another pair. */
static const char *end_of_value(const char *value, bool is_quoted)
{
	const char *at;

	if (!is_quoted)
		return value + strcspn(value, " ");
	for (at = value; *at; at++)
		if (*at == '"' && (!at[1] || (at[1] == ' ' && key_at(at + 2))))
			return at;
	return at;
}

/* Reads one pair, or all that is left; returns where the next one begins. */
static const char *read_pair(const char *at, const char **key, size_t *key_len, const char **value,
			     size_t *value_len)
{
	bool is_quoted;
	const char *end;

	*key_len = key_at(at);
	if (!*key_len) {
		*key = "text";
		*key_len = strlen(*key);
		*value = at;
		*value_len = strlen(at);
		return at + *value_len;
	}
	*key = at;
	at += *key_len + 1;
	is_quoted = *at == '"';
	*value = at + is_quoted;
	end = end_of_value(*value, is_quoted);
	*value_len = (size_t)(end - *value);
	return *end ? end + 1 : end;
}

size_t log_json(char *out, size_t size, const char *stamp, const char *level, const char *id,
		const char *text)
{
	struct out o = { out, size - END_BYTES, 0 };
	bool is_first = true;

	o.len = (size_t)snprintf(out, size,
				 "{\"time\":\"%s\",\"level\":\"%s\",\"id\":\"%s\",\"fields\":{",
				 stamp, level, id);
	for (const char *at = text + strspn(text, " "); *at; at += strspn(at, " ")) {
		const char *key, *value;
		size_t key_len, value_len, before = o.len;

		at = read_pair(at, &key, &key_len, &value, &value_len);
		if (!is_first)
			put(&o, ",", 1);
		put_quoted(&o, key, key_len);
		put(&o, ":", 1);
		put_quoted(&o, value, value_len);
		if (o.len >= o.size) {
			o.len = before;
			break;
		}
		is_first = false;
	}
	memcpy(out + o.len, "}}", 3);
	return o.len + 2;
}
