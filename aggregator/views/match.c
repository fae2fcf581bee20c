/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that a search finds. A pattern comes from outside: those that could take memory or time without a bound are
 * refused before they are compiled, and what is left has a second of CPU time.
 */
#include <ctype.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/views/view.h"
#include "base/mem.h"
#include "base/now.h"

#define REPEAT_MAX \
	1000 /* the product of a pattern's counts: compiling writes a part out so often */
#define NESTED_MAX  32
#define TIME_MAX_NS NS_PER_S
#define CHECK_NAMES 256 /* between two looks at the time */

static uint8_t fold_case(uint8_t c, bool exact)
{
	return exact ? c : (uint8_t)tolower(c);
}

static bool has_text(const char *text, size_t len, const struct view_search *s, size_t want_len)
{
	const uint8_t *t = (const uint8_t *)text, *want = (const uint8_t *)s->text;
	uint8_t first = fold_case(*want, s->exact_case);

	for (size_t i = 0; i + want_len <= len; i++) {
		size_t k = 1;

		if (fold_case(t[i], s->exact_case) != first)
			continue;
		while (k < want_len &&
		       fold_case(t[i + k], s->exact_case) == fold_case(want[k], s->exact_case))
			k++;
		if (k == want_len)
			return true;
	}
	return false;
}

static int refuse(struct err *e, const char *why)
{
	return err_set(e, ERR_INVALID, "the pattern %s", why);
}

/* Back references make matching exponential, nested counts make compiling so. */
static int check_pattern(const char *text, struct err *e)
{
	unsigned long repeats = 1, count;
	int depth = 0;

	if (strlen(text) > VIEW_PATTERN_MAX)
		return refuse(e, "is longer than 200 bytes");
	for (const char *p = text; *p; p++) {
		if (*p == '\\') {
			if (p[1] >= '1' && p[1] <= '9')
				return refuse(e, "has a back reference");
			p += p[1] != 0;
		} else if (*p == '(' && ++depth > NESTED_MAX) {
			return refuse(e, "has too many nested groups");
		} else if (*p == ')') {
			depth--;
		} else if (*p == '{') {
			for (p++; *p && *p != '}'; p++) {
				if (*p < '0' || *p > '9')
					continue;
				count = strtoul(p, (char **)(uintptr_t)&p, 10);
				p--;
				repeats *= count > REPEAT_MAX ? REPEAT_MAX + 1 : count + 1;
				if (repeats > REPEAT_MAX)
					return refuse(e, "repeats too often");
			}
			if (!*p)
				break;
		}
	}
	return 0;
}

static int compile(regex_t *re, const struct view_search *s, struct err *e)
{
	char why[120];
	int rc = check_pattern(s->text, e);

	if (rc)
		return rc;
	rc = regcomp(re, s->text, REG_EXTENDED | REG_NOSUB | (s->exact_case ? 0 : REG_ICASE));
	if (!rc)
		return 0;
	regerror(rc, re, why, sizeof(why));
	return err_set(e, ERR_INVALID, "the pattern is malformed: %s", why);
}

static bool fits(const regex_t *re, const char *text, size_t len)
{
	regmatch_t whole = { .rm_so = 0, .rm_eo = (regoff_t)len };

	return !regexec(re, text, 1, &whole, REG_STARTEND);
}

int view_match_names(const struct tvx *x, const struct view_search *s, bool **out, struct err *e)
{
	size_t n = tvx_names(x), want_len = strlen(s->text), len;
	int64_t until = now_thread_cpu_ns() + TIME_MAX_NS;
	bool *found = xcalloc(n + 1, sizeof(*found));
	regex_t re;
	int rc = s->is_pattern ? compile(&re, s, e) : 0;

	if (rc) {
		free(found);
		return rc;
	}
	for (uint32_t i = 0; !rc && i < n; i++) {
		const char *text = tvx_name(x, i, &len);

		found[i] = s->is_pattern ? fits(&re, text, len) : has_text(text, len, s, want_len);
		if (i % CHECK_NAMES)
			continue;
		rc = view_check_stop(s->stop, e);
		if (!rc && now_thread_cpu_ns() > until)
			rc = err_set(e, ERR_LIMIT, "the pattern takes too long on these names");
	}
	if (s->is_pattern)
		regfree(&re);
	if (rc)
		free(found);
	else
		*out = found;
	return rc;
}
