/* SPDX-License-Identifier: Apache-2.0 */
#include "json/json_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clean_text.h"
#include "base/mem.h"

json_t *json_text(const char *s)
{
	json_t *text = json_string(s ? s : "");
	char *plain;

	if (text)
		return text;
	plain = xstrdup(s);
	for (char *p = plain; *p; p++)
		*p = (unsigned char)*p < 0x80 ? *p : '?';
	text = json_string(plain);
	free(plain);
	return text;
}

static int add_text(const char *text, size_t len, void *out)
{
	buf_add(out, text, len);
	return 0;
}

int json_parse(json_t **out, const void *text, size_t len, struct err *e)
{
	json_error_t why;

	*out = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
	if (!*out)
		return err_set(e, ERR_INVALID, "no JSON: line %d: %s", why.line, why.text);
	return 0;
}

/* Returns what follows the string that begins at `at`. */
static size_t skip_string(const char *text, size_t len, size_t at)
{
	for (at++; at < len && text[at] != '"'; at++)
		at += text[at] == '\\';
	return at + 1;
}

bool json_is_whole(const char *text, size_t len)
{
	size_t depth = 0, at = 0;

	if (!len || text[0] != '{')
		return false;
	do {
		char ch = text[at];

		depth += ch == '{' || ch == '[';
		depth -= ch == '}' || ch == ']';
		at = ch == '"' ? skip_string(text, len, at) : at + 1;
	} while (depth && at < len);
	return !depth && at == len;
}

static char *clean_copy(const char *s)
{
	size_t size = strlen(s) + 1;
	char *copy = xmalloc(size);

	clean_text(copy, size, s, size - 1);
	return copy;
}

static json_t *clean_object(const json_t *object)
{
	json_t *copy = json_object(), *value;
	const char *key;

	json_object_foreach((json_t *)object, key, value)
	{
		char *name = clean_copy(key);

		json_object_set_new(copy, name, json_clean(value));
		free(name);
	}
	return copy;
}

/* Recursive: json_parse() bounds how deep a document is. */
json_t *json_clean(const json_t *doc)
{
	json_t *copy, *item;
	char *text;
	size_t i;

	if (json_is_object(doc))
		return clean_object(doc);
	if (json_is_string(doc)) {
		text = clean_copy(json_string_value(doc));
		copy = json_string(text);
		free(text);
		return copy;
	}
	if (!json_is_array(doc))
		return json_incref((json_t *)doc);
	copy = json_array();
	json_array_foreach(doc, i, item) json_array_append_new(copy, json_clean(item));
	return copy;
}

void json_append(struct buf *out, const json_t *doc, size_t flags)
{
	json_dump_callback(doc, add_text, out, JSON_COMPACT | flags);
}

void json_write(struct buf *out, json_t *doc_taken, size_t flags)
{
	json_append(out, doc_taken, flags);
	json_decref(doc_taken);
}

void json_put(json_t *object, const char *key, json_t *value_taken)
{
	json_object_set_new(object, key, value_taken);
}

void json_put_text(json_t *object, const char *key, const char *s)
{
	json_put(object, key, json_text(s));
}

void json_put_int(json_t *object, const char *key, int64_t v)
{
	json_put(object, key, json_integer(v));
}

void json_put_bool(json_t *object, const char *key, bool v)
{
	json_put(object, key, json_boolean(v));
}

const char *json_get_text(const json_t *object, const char *key)
{
	const char *s = json_string_value(json_object_get(object, key));

	return s ? s : "";
}

int64_t json_get_int(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

bool json_get_bool(const json_t *object, const char *key)
{
	return json_is_true(json_object_get(object, key));
}
