/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/fleet/selector.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "proto/names.h"

#define NAME_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
#define KEY_CHARS  NAME_CHARS "/"
#define GLOB_CHARS "*?"

/* The text and the place in it. The text is the selector's own copy: words in it are ended with NUL once the
 * character behind them was read. */
struct reading {
	struct selector *selector;
	char *begin, *at;
	size_t n_values; /* of the whole selector */
};

/* "selector, character 7: ..." */
static int wrong_at(const struct reading *r, const char *at, struct err *e)
{
	return err_prefix(e, "selector, character %zu", (size_t)(at - r->begin) + 1);
}

static void skip_blanks(struct reading *r)
{
	r->at += strspn(r->at, " \t");
}

static void cut_blanks(char *word)
{
	size_t len = strlen(word);

	while (len && strchr(" \t", word[len - 1]))
		word[--len] = '\0';
}

/* ---- values ---- */

static int add_value(struct reading *r, struct selector_values *values, const char *text,
		     struct selector_value **out, struct err *e)
{
	if (strlen(text) > SELECTOR_VALUE_BYTES) {
		err_set(e, ERR_LIMIT, "a value of more than %d bytes", SELECTOR_VALUE_BYTES);
		return wrong_at(r, text, e);
	}
	if (r->n_values == SELECTOR_VALUES) {
		err_set(e, ERR_LIMIT, "more than %d names and values", SELECTOR_VALUES);
		return wrong_at(r, text, e);
	}
	r->n_values++;
	r->selector->pattern_bytes += strpbrk(text, GLOB_CHARS) ? strlen(text) : 0;
	if (!(values->n & (values->n + 1))) /* 0, 1, 3, 7, ...: all places are taken */
		values->items = xrealloc(values->items,
					 (2 * values->n + 1) * sizeof(*values->items));
	*out = &values->items[values->n++];
	**out = (struct selector_value){ .text = text, .is_glob = strpbrk(text, GLOB_CHARS) };
	return 0;
}

/* "3" or "0-7" */
static int read_rank(struct reading *r, struct selector_value *v, struct err *e)
{
	static const char digits[] = "0123456789";
	size_t len = strspn(v->text, digits);
	const char *to = v->text + len;
	size_t to_len;

	to = *to == '-' ? to + 1 : v->text;
	to_len = strspn(to, digits);
	if (!len || len > 9 || !to_len || to_len > 9 || to[to_len]) {
		err_set(e, ERR_INVALID, "rank '%.40s': use a number or a range as 0-7", v->text);
		return wrong_at(r, v->text, e);
	}
	v->is_glob = true; /* not to be found by its text */
	v->from = strtoll(v->text, NULL, 10);
	v->to = strtoll(to, NULL, 10);
	if (v->from > v->to) {
		err_set(e, ERR_INVALID, "rank '%.40s': the range ends before it begins", v->text);
		return wrong_at(r, v->text, e);
	}
	return 0;
}

static int add_term_value(struct reading *r, struct selector_term *t, char *text, struct err *e)
{
	struct selector_value *v;
	int rc;

	cut_blanks(text);
	rc = add_value(r, &t->values, text, &v, e);
	return !rc && t->key == SELECTOR_RANK ? read_rank(r, v, e) : rc;
}

static int compare_values(const void *a, const void *b)
{
	const struct selector_value *x = a, *y = b;

	if (x->is_glob != y->is_glob)
		return x->is_glob ? 1 : -1;
	return strcmp(x->text, y->text);
}

static void sort_values(struct selector_values *values)
{
	sort_array(values->items, values->n, sizeof(*values->items), compare_values);
	while (values->n_exact < values->n && !values->items[values->n_exact].is_glob)
		values->n_exact++;
}

/* ---- terms ---- */

static int check_key(const struct reading *r, const char *key, struct err *e)
{
	const char *slash = strchr(key, '/'), *name = slash ? slash + 1 : key;
	const char *bad = key + strspn(key, KEY_CHARS);

	if (*bad)
		err_set(e, ERR_INVALID, "a label has no '%c' in its key", *bad);
	else if (!*name || slash == key)
		err_set(e, ERR_INVALID, "no label before '='");
	else if (strchr(name, '/'))
		err_set(e, ERR_INVALID, "a label has one '/' in its key at most");
	else if (slash && slash - key > SELECTOR_PREFIX_BYTES)
		err_set(e, ERR_LIMIT, "a label's key has at most %d bytes before the '/'",
			SELECTOR_PREFIX_BYTES);
	else if (strlen(name) > SELECTOR_KEY_BYTES)
		err_set(e, ERR_LIMIT, "a label's key has at most %d bytes%s", SELECTOR_KEY_BYTES,
			slash ? " behind the '/'" : "");
	else
		return 0;
	return wrong_at(r, *bad ? bad : key, e);
}

static enum selector_key key_of(const char *word)
{
	static const struct {
		const char *word;
		enum selector_key key;
	} keys[] = {
		{ "pod", SELECTOR_POD },   { "namespace", SELECTOR_NAMESPACE },
		{ "job", SELECTOR_JOB },   { "rank", SELECTOR_RANK },
		{ "node", SELECTOR_NODE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (!strcmp(word, keys[i].word))
			return keys[i].key;
	return SELECTOR_LABEL;
}

static int add_term(struct reading *r, const char *key, bool is_negative,
		    struct selector_term **out, struct err *e)
{
	struct selector *s = r->selector;
	int rc = check_key(r, key, e);

	if (rc)
		return rc;
	s->terms = xrealloc(s->terms, (s->n_terms + 1) * sizeof(*s->terms));
	*out = &s->terms[s->n_terms++];
	**out = (struct selector_term){ .key = key_of(key),
					.label = key,
					.is_negative = is_negative };
	return 0;
}

/* The place is behind "key in (": reads to behind the ')'. */
static int read_list(struct reading *r, struct selector_term *t, struct err *e)
{
	char end = ',';
	int rc = 0;

	while (!rc && end == ',') {
		char *value;

		skip_blanks(r);
		value = r->at;
		r->at += strcspn(r->at, ",()");
		end = *r->at;
		if (end != ',' && end != ')') {
			err_set(e, ERR_INVALID, "a list of values ends with ')'");
			return wrong_at(r, r->at, e);
		}
		*r->at++ = '\0';
		rc = add_term_value(r, t, value, e);
	}
	return rc;
}

/* The place is behind "key=": the value goes to the next comma. Leaves the place there, and the value without an
 * end: the caller ends it. */
static int read_value(struct reading *r, struct selector_term *t, struct err *e)
{
	char *value, end;
	int rc;

	skip_blanks(r);
	value = r->at;
	r->at += strcspn(r->at, ",");
	end = *r->at;
	*r->at = '\0';
	rc = add_term_value(r, t, value, e);
	*r->at = end;
	return rc;
}

static int add_name(struct reading *r, char *name, bool is_negative, struct err *e)
{
	struct selector_values *names = is_negative ? &r->selector->without : &r->selector->names;
	const char *bad = name + strspn(name, NAME_CHARS GLOB_CHARS);
	struct selector_value *v;

	if (*bad) {
		err_set(e, ERR_INVALID, "'%.80s' is no name of a host", name);
		return wrong_at(r, bad, e);
	}
	if (!strpbrk(name, GLOB_CHARS) && name_check_host(name, e))
		return wrong_at(r, name, e);
	return add_value(r, names, name, &v, e);
}

/* Whether the words "in (" or "notin (" follow; then the place is behind the '('. */
static bool take_in(struct reading *r, bool *is_negative)
{
	char *at = r->at;
	bool is_not = !strncmp(at, "not", 3);

	at += is_not ? 3 : 0;
	if (strncmp(at, "in", 2))
		return false;
	at += 2 + strspn(at + 2, " \t");
	if (*at != '(')
		return false;
	r->at = at + 1;
	*is_negative ^= is_not;
	return true;
}

/* One term; leaves the place at the comma behind it, or at the end. */
static int read_term(struct reading *r, struct err *e)
{
	struct selector_term *t;
	bool is_negative = false;
	char *word, *word_end, behind;
	int rc;

	skip_blanks(r);
	if (*r->at == '!') {
		is_negative = true;
		r->at++;
		skip_blanks(r);
	}
	word = r->at;
	r->at += strcspn(r->at, " \t,=!()");
	word_end = r->at;
	skip_blanks(r);
	behind = *r->at;
	if (word == word_end && behind != '=' && behind != '!') {
		err_set(e, ERR_INVALID, "a name, or label=value, is missing here");
		return wrong_at(r, word, e);
	}
	if (behind == '=' || (behind == '!' && r->at[1] == '=')) {
		r->at += behind == '=' ? 1 : 2;
		*word_end = '\0';
		rc = add_term(r, word, is_negative ^ (behind == '!'), &t, e);
		return rc ? rc : read_value(r, t, e);
	}
	if (r->at > word_end && take_in(r, &is_negative)) {
		*word_end = '\0';
		rc = add_term(r, word, is_negative, &t, e);
		if (!rc)
			rc = read_list(r, t, e);
		skip_blanks(r);
		behind = *r->at;
	} else {
		*word_end = '\0'; /* `behind` has what was there */
		rc = add_name(r, word, is_negative, e);
	}
	if (!rc && behind && behind != ',') {
		err_set(e, ERR_INVALID, "a comma is missing before '%c'", behind);
		return wrong_at(r, r->at, e);
	}
	return rc;
}

/* Terms with commas between them. The end of each is its comma, which becomes NUL. */
static int read_terms(struct reading *r, const char *text, struct err *e)
{
	const char *end = r->begin + strlen(text);
	int rc = read_term(r, e);

	while (!rc && r->at < end) {
		*r->at++ = '\0';
		rc = read_term(r, e);
	}
	return rc;
}

int selector_parse(struct selector *out, const char *text, struct err *e)
{
	struct reading r = { .selector = out };
	int rc;

	*out = (struct selector){ .text = xstrdup(text) };
	if (!strcmp(text, "all"))
		return 0;
	r.begin = r.at = out->text;
	rc = read_terms(&r, text, e);
	if (rc)
		return rc;
	sort_values(&out->names);
	sort_values(&out->without);
	for (size_t i = 0; i < out->n_terms; i++)
		sort_values(&out->terms[i].values);
	return 0;
}

void selector_release(struct selector *s)
{
	for (size_t i = 0; i < s->n_terms; i++)
		free(s->terms[i].values.items);
	free(s->terms);
	free(s->names.items);
	free(s->without.items);
	free(s->text);
	*s = (struct selector){ 0 };
}

/* ---- matching ---- */

#define TERM_BYTES 32 /* what a term costs, as bytes of a pattern */

int selector_check_work(const struct selector *s, size_t n_subjects, struct err *e)
{
	size_t bytes = s->pattern_bytes + TERM_BYTES * s->n_terms;

	if (bytes * n_subjects <= SELECTOR_WORK)
		return 0;
	return err_set(
		e, ERR_INVALID,
		"a selector with %zu terms and %zu characters of patterns takes too long here: "
		"use lists of whole names, or fewer patterns",
		s->n_terms, s->pattern_bytes);
}

bool selector_glob_matches(const char *pattern, const char *text)
{
	const char *star = NULL, *resume = NULL; /* behind the last '*', and where its match ends */

	while (*text) {
		if (*pattern == '*') {
			star = ++pattern;
			if (!*star) /* most patterns end with their '*' */
				return true;
			resume = text;
		} else if (*pattern == '?' || *pattern == *text) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star;
			text = ++resume;
		} else {
			return false;
		}
	}
	return !pattern[strspn(pattern, "*")];
}

static bool has_exact(const struct selector_values *values, const char *text)
{
	size_t low = 0, high = values->n_exact;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(values->items[middle].text, text);

		if (!order)
			return true;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

static bool matches_glob(const struct selector_values *values, const char *text)
{
	for (size_t i = values->n_exact; i < values->n; i++)
		if (selector_glob_matches(values->items[i].text, text))
			return true;
	return false;
}

static bool has_text(const struct selector_values *values, const char *text)
{
	return has_exact(values, text) || matches_glob(values, text);
}

/* The same for texts in their order; `at` is the place of the one before. */
static bool has_next_text(const struct selector_values *values, const char *text, size_t *at)
{
	int order = 1;

	while (*at < values->n_exact && (order = strcmp(values->items[*at].text, text)) < 0)
		++*at;
	return (*at < values->n_exact && !order) || matches_glob(values, text);
}

static bool has_rank(const struct selector_values *values, const char *text)
{
	char *end;
	long long rank = strtoll(text, &end, 10);

	for (size_t i = 0; *text && !*end && i < values->n; i++)
		if (values->items[i].from <= rank && rank <= values->items[i].to)
			return true;
	return false;
}

static bool term_is_true(const struct selector_term *t, const struct selector_subject *subject)
{
	const char *value = subject->get(subject->arg, t->key, t->label);
	bool has = value && (t->key == SELECTOR_RANK ? has_rank(&t->values, value)
						     : has_text(&t->values, value));

	return has != t->is_negative;
}

static bool terms_are_true(const struct selector *s, const struct selector_subject *subject)
{
	for (size_t i = 0; i < s->n_terms; i++)
		if (!term_is_true(&s->terms[i], subject))
			return false;
	return true;
}

bool selector_matches(const struct selector *s, const struct selector_subject *subject)
{
	return (!s->names.n || has_text(&s->names, subject->host)) &&
	       (!s->without.n || !has_text(&s->without, subject->host)) &&
	       terms_are_true(s, subject);
}

bool selector_matches_next(const struct selector *s, const struct selector_subject *subject,
			   struct selector_walk *walk)
{
	return (!s->names.n || has_next_text(&s->names, subject->host, &walk->name)) &&
	       (!s->without.n || !has_next_text(&s->without, subject->host, &walk->without)) &&
	       terms_are_true(s, subject);
}
