/* SPDX-License-Identifier: Apache-2.0 */
#include "json/packed.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "json/json_text.h"

#define DEPTH \
	3 /* of objects that may have packed arrays: the document, its end, the document of the end */

static json_t *pack(json_t *object_taken)
{
	char *text = json_dumps(object_taken, JSON_COMPACT);
	json_t *packed = json_string_nocheck(text);

	free(text);
	json_decref(object_taken);
	return packed;
}

void packed_append(json_t *array, json_t *object_taken)
{
	json_array_append_new(array, pack(object_taken));
}

void packed_append_text(json_t *array, const char *text)
{
	json_array_append_new(array, json_string_nocheck(text));
}

const char *packed_text(const json_t *array, size_t i)
{
	return json_string_value(json_array_get(array, i));
}

json_t *packed_get(const json_t *array, size_t i)
{
	json_t *item = json_array_get(array, i);

	if (!json_is_string(item))
		return json_incref(item);
	return json_loadb(json_string_value(item), json_string_length(item), 0, NULL);
}

void packed_set(json_t *array, size_t i, json_t *object_taken)
{
	if (json_is_string(json_array_get(array, i)))
		json_array_set_new(array, i, pack(object_taken));
	else
		json_decref(object_taken);
}

/* ---- writing ---- */

static bool is_packed(const char *key, const json_t *value)
{
	return !strcmp(key, "hosts") && json_is_string(json_array_get(value, 0));
}

static bool may_hold_packed(const char *key)
{
	return !strcmp(key, "end") || !strcmp(key, "document");
}

static void write_array(struct buf *out, const json_t *packed)
{
	const char *comma = "";
	json_t *item;
	size_t i;

	buf_add_str(out, "[");
	json_array_foreach(packed, i, item)
	{
		buf_add_str(out, comma);
		buf_add(out, json_string_value(item), json_string_length(item));
		comma = ",";
	}
	buf_add_str(out, "]");
}

static void write_key(struct buf *out, const char *key)
{
	json_t *text = json_text(key);

	json_append(out, text, JSON_ENCODE_ANY);
	json_decref(text);
	buf_add_str(out, ":");
}

static void write_object(struct buf *out, const json_t *doc, int depth)
{
	const char *key, *comma = "";
	json_t *value;

	buf_add_str(out, "{");
	json_object_foreach((json_t *)doc, key, value)
	{
		buf_add_str(out, comma);
		write_key(out, key);
		if (is_packed(key, value))
			write_array(out, value);
		else if (may_hold_packed(key) && json_is_object(value) && depth < DEPTH)
			write_object(out, value, depth + 1);
		else
			json_append(out, value, JSON_ENCODE_ANY);
		comma = ",";
	}
	buf_add_str(out, "}");
}

void packed_write(struct buf *out, const json_t *doc)
{
	write_object(out, doc, 1);
}

/* ---- reading ---- */

/* jansson reads each value; only the brackets and commas around them are read here. */
struct reader {
	const char *at, *end;
};

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static char next_char(struct reader *r)
{
	while (r->at < r->end && is_space(*r->at))
		r->at++;
	return r->at < r->end ? *r->at : '\0';
}

static bool take(struct reader *r, char c)
{
	if (next_char(r) != c)
		return false;
	r->at++;
	return true;
}

static json_t *take_value(struct reader *r)
{
	json_error_t why;
	json_t *value;

	next_char(r);
	value = json_loadb(r->at, (size_t)(r->end - r->at),
			   JSON_DISABLE_EOF_CHECK | JSON_DECODE_ANY, &why);
	if (value)
		r->at += why.position;
	return value;
}

static bool take_packed_item(struct reader *r, json_t *array)
{
	const char *begin;
	json_t *item;
	bool is_object;

	next_char(r);
	begin = r->at;
	item = take_value(r);
	is_object = json_is_object(item);
	json_decref(item);
	if (is_object)
		json_array_append_new(array, json_stringn_nocheck(begin, (size_t)(r->at - begin)));
	return is_object;
}

static json_t *take_packed_array(struct reader *r)
{
	json_t *array = json_array();
	bool good = take(r, '[');

	if (good && take(r, ']'))
		return array;
	do
		good = good && take_packed_item(r, array);
	while (good && take(r, ','));
	if (good && take(r, ']'))
		return array;
	json_decref(array);
	return NULL;
}

static json_t *take_object(struct reader *r, int depth);

static json_t *take_member(struct reader *r, const char *key, int depth)
{
	if (!strcmp(key, "hosts") && next_char(r) == '[')
		return take_packed_array(r);
	if (may_hold_packed(key) && next_char(r) == '{' && depth < DEPTH)
		return take_object(r, depth + 1);
	return take_value(r);
}

static bool take_pair(struct reader *r, json_t *object, int depth)
{
	json_t *key = take_value(r), *value = NULL;

	if (json_is_string(key) && take(r, ':'))
		value = take_member(r, json_string_value(key), depth);
	if (value)
		json_object_set_new_nocheck(object, json_string_value(key), value);
	json_decref(key);
	return value != NULL;
}

static json_t *take_object(struct reader *r, int depth)
{
	json_t *object = json_object();
	bool good = take(r, '{');

	if (good && take(r, '}'))
		return object;
	do
		good = good && take_pair(r, object, depth);
	while (good && take(r, ','));
	if (good && take(r, '}'))
		return object;
	json_decref(object);
	return NULL;
}

json_t *packed_read(const void *text, size_t len)
{
	struct reader r = { text, (const char *)text + len };
	json_t *doc = take_object(&r, 1);

	next_char(&r); /* white space at the end */
	if (doc && r.at == r.end)
		return doc;
	json_decref(doc);
	return NULL;
}
