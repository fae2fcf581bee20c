/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/fleet/spaces.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "json/json_text.h"

/* The place of the name, or where it belongs. */
static size_t find_place(const struct spaces *s, const char *name, bool *is_there)
{
	size_t low = 0, high = s->n;

	*is_there = false;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(s->names[middle], name);

		if (!order) {
			*is_there = true;
			return middle;
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool is_name(const char *text, size_t len)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789-._";

	return len && len < SPACES_NAME_BYTES && strspn(text, allowed) >= len;
}

bool spaces_add(struct spaces *s, const char *name)
{
	bool is_there;
	size_t at = find_place(s, name, &is_there);

	if (is_there || s->all)
		return true;
	if (s->n == SPACES_MOST || !is_name(name, strlen(name)))
		return false;
	if (!(s->n & (s->n + 1))) /* 0, 1, 3, 7, ...: all places are taken */
		s->names = xrealloc(s->names, (2 * s->n + 1) * sizeof(*s->names));
	memmove(&s->names[at + 1], &s->names[at], (s->n - at) * sizeof(*s->names));
	s->names[at] = xstrdup(name);
	s->n++;
	return true;
}

void spaces_add_all(struct spaces *s, const struct spaces *more)
{
	if (more->all && !s->all) {
		spaces_release(s);
		s->all = true;
	}
	for (size_t i = 0; i < more->n; i++)
		(void)!spaces_add(s, more->names[i]);
}

void spaces_copy(struct spaces *out, const struct spaces *from)
{
	*out = (struct spaces){ 0 };
	spaces_add_all(out, from);
}

void spaces_release(struct spaces *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->names[i]);
	free(s->names);
	*s = (struct spaces){ 0 };
}

bool spaces_are_empty(const struct spaces *s)
{
	return !s->all && !s->n;
}

bool spaces_have(const struct spaces *s, const char *name)
{
	bool is_there;

	find_place(s, name, &is_there);
	return s->all || is_there;
}

bool spaces_cover(const struct spaces *s, const struct spaces *inner)
{
	if (s->all)
		return true;
	if (inner->all || !inner->n)
		return false;
	for (size_t i = 0; i < inner->n; i++)
		if (!spaces_have(s, inner->names[i]))
			return false;
	return true;
}

bool spaces_equal(const struct spaces *a, const struct spaces *b)
{
	if (a->all != b->all || a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->names[i], b->names[i]) != 0)
			return false;
	return true;
}

/* ---- text and JSON ---- */

int spaces_parse(struct spaces *out, const char *text, struct err *e)
{
	*out = (struct spaces){ 0 };
	if (!strcmp(text, "*")) {
		out->all = true;
		return 0;
	}
	for (;; text++) {
		size_t len = strcspn(text, ",");
		char *name;

		if (!is_name(text, len))
			return err_set(e, ERR_INVALID, "'%.*s' is not the name of a namespace",
				       (int)(len < 60 ? len : 60), text);
		if (out->n == SPACES_MOST)
			return err_set(e, ERR_LIMIT, "more than %d namespaces", SPACES_MOST);
		name = xstrndup(text, len);
		(void)!spaces_add(out, name);
		free(name);
		text += len;
		if (!*text)
			return 0;
	}
}

json_t *spaces_json(const struct spaces *s)
{
	json_t *names = json_array();

	for (size_t i = 0; i < s->n; i++)
		json_array_append_new(names, json_text(s->names[i]));
	return names;
}

void spaces_read(struct spaces *out, const json_t *array)
{
	json_t *name;
	size_t i;

	*out = (struct spaces){ 0 };
	json_array_foreach(array, i, name)
	{
		const char *text = json_string_value(name);

		if (!text || !spaces_add(out, text)) {
			spaces_release(out);
			return;
		}
	}
}
