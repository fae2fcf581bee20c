/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/setting.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static const char *const kinds[] = {
	[SETTING_BOOL] = "bool",
	[SETTING_INT] = "int",
	[SETTING_TEXT] = "text",
};

const char *setting_kind_name(enum setting_kind kind)
{
	return kinds[kind];
}

bool setting_kind_parse(const char *word, enum setting_kind *out)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (!strcmp(kinds[i], word)) {
			*out = (enum setting_kind)i;
			return true;
		}
	}
	return false;
}

static int parse_bool(const char *text, int64_t *out, struct err *e)
{
	bool yes = !strcmp(text, "true") || !strcmp(text, "1");

	if (!yes && strcmp(text, "false") && strcmp(text, "0"))
		return err_set(e, ERR_INVALID, "'%.60s': use true or false", text);
	*out = yes;
	return 0;
}

/* strtoll() would also take blanks and a plus sign. */
static bool parse_int(const char *text, int64_t *out)
{
	const char *digits = *text == '-' ? text + 1 : text;
	char *end;

	if (*digits < '0' || *digits > '9')
		return false;
	errno = 0;
	*out = strtoll(text, &end, 10);
	return !*end && !errno;
}

static int parse_text(const struct setting *s, const char *text, int64_t *out, struct err *e)
{
	int64_t len = (int64_t)strlen(text);

	if (len < s->min || len > s->max)
		return err_set(e, ERR_INVALID,
			       "'%.60s' has %" PRId64 " bytes: use %" PRId64 " to %" PRId64, text,
			       len, s->min, s->max);
	*out = len;
	return 0;
}

int setting_parse(const struct setting *s, const char *text, int64_t *out, struct err *e)
{
	int64_t v;

	if (s->kind == SETTING_BOOL)
		return parse_bool(text, out, e);
	if (s->kind == SETTING_TEXT)
		return parse_text(s, text, out, e);
	if (!parse_int(text, &v) || v < s->min || v > s->max)
		return err_set(e, ERR_INVALID, "'%.60s': use a number from %" PRId64 " to %" PRId64,
			       text, s->min, s->max);
	*out = v;
	return 0;
}

bool setting_is_of_tracer(const char *key)
{
	return strchr(key, '.') && !setting_of_tracer(key, "advanced");
}

const char *setting_of_tracer(const char *key, const char *tracer)
{
	size_t len = strlen(tracer);

	return !strncmp(key, tracer, len) && key[len] == '.' ? key + len + 1 : NULL;
}
