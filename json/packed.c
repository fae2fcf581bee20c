/* SPDX-License-Identifier: Apache-2.0 */
#include "json/packed.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "json/json_text.h"

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

/* ---- text ---- */

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

void packed_write(struct buf *out, const json_t *doc)
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
		else if (may_hold_packed(key) && json_is_object(value))
			packed_write(out, value);
		else
			json_append(out, value, JSON_ENCODE_ANY);
		comma = ",";
	}
	buf_add_str(out, "}");
}
