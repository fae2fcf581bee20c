/* SPDX-License-Identifier: Apache-2.0 */
#include "xspace/scan.h"

#include <string.h>

#include "base/hex.h"

void scan_init(struct scan *s, const void *data, size_t len)
{
	*s = (struct scan){ .begin = data, .at = data, .end = (const char *)data + len };
}

static int fail(const struct scan *s, const char *expected, struct err *e)
{
	return err_set(e, ERR_INVALID, "offset %zu: %s expected", (size_t)(s->at - s->begin),
		       expected);
}

static void skip_space(struct scan *s)
{
	while (s->at < s->end &&
	       (*s->at == ' ' || *s->at == '\n' || *s->at == '\t' || *s->at == '\r'))
		s->at++;
}

char scan_peek(struct scan *s)
{
	skip_space(s);
	return s->at < s->end ? *s->at : 0;
}

static bool take(struct scan *s, char c)
{
	if (scan_peek(s) != c)
		return false;
	s->at++;
	return true;
}

int scan_enter(struct scan *s, char open, struct err *e)
{
	if (!take(s, open))
		return fail(s, open == '{' ? "an object" : "an array", e);
	s->is_first = true;
	return 0;
}

/* Returns 1 if another member or element follows, 0 if `close` was read. */
static int begin_next(struct scan *s, char close, const char *expected, struct err *e)
{
	bool first = s->is_first;

	s->is_first = false;
	if (take(s, close))
		return 0;
	if (!first && !take(s, ','))
		return fail(s, expected, e);
	return 1;
}

int scan_member(struct scan *s, struct scan_text *key, struct err *e)
{
	int rc = begin_next(s, '}', "',' or '}'", e);

	if (rc <= 0)
		return rc;
	rc = scan_string(s, key, e);
	if (rc)
		return rc;
	return take(s, ':') ? 1 : fail(s, "':'", e);
}

int scan_element(struct scan *s, struct err *e)
{
	return begin_next(s, ']', "',' or ']'", e);
}

int scan_string(struct scan *s, struct scan_text *out, struct err *e)
{
	const char *p;

	if (!take(s, '"'))
		return fail(s, "a string", e);
	*out = (struct scan_text){ .s = s->at };
	for (p = s->at; p < s->end && *p != '"'; p++) {
		if (*p == '\\') {
			out->has_escapes = true;
			p++;
		}
	}
	if (p >= s->end) {
		s->at = s->end;
		return fail(s, "the end of a string", e);
	}
	out->len = (size_t)(p - out->s);
	s->at = p + 1;
	return 0;
}

static size_t digits(struct scan *s)
{
	const char *begin = s->at;

	while (s->at < s->end && *s->at >= '0' && *s->at <= '9')
		s->at++;
	return (size_t)(s->at - begin);
}

static bool one_of(struct scan *s, const char *two)
{
	if (s->at >= s->end || (*s->at != two[0] && *s->at != two[1]))
		return false;
	s->at++;
	return true;
}

int scan_number(struct scan *s, struct scan_text *out, struct err *e)
{
	const char *begin;

	skip_space(s);
	begin = s->at;
	one_of(s, "--");
	if (!digits(s))
		return fail(s, "a number", e);
	if (one_of(s, "..") && !digits(s))
		return fail(s, "a digit", e);
	if (one_of(s, "eE")) {
		one_of(s, "+-");
		if (!digits(s))
			return fail(s, "a digit", e);
	}
	*out = (struct scan_text){ .s = begin, .len = (size_t)(s->at - begin) };
	return 0;
}

static int skip_word(struct scan *s, const char *word, struct err *e)
{
	size_t len = strlen(word);

	if ((size_t)(s->end - s->at) < len || memcmp(s->at, word, len) != 0)
		return fail(s, "a value", e);
	s->at += len;
	return 0;
}

static int skip_scalar(struct scan *s, struct err *e)
{
	struct scan_text ignored;

	switch (scan_peek(s)) {
	case '"':
		return scan_string(s, &ignored, e);
	case 't':
		return skip_word(s, "true", e);
	case 'f':
		return skip_word(s, "false", e);
	case 'n':
		return skip_word(s, "null", e);
	default:
		return scan_number(s, &ignored, e);
	}
}

/* Inside, only brackets are matched and strings read; the rest is not checked, because nothing uses it. */
static int skip_nested(struct scan *s, struct err *e)
{
	char close[SCAN_DEPTH_MAX];
	size_t depth = 0;
	struct scan_text ignored;
	int rc;

	do {
		char c = scan_peek(s);

		if (c == '"') {
			rc = scan_string(s, &ignored, e);
			if (rc)
				return rc;
			continue;
		}
		if (!c)
			return fail(s, "a closing bracket", e);
		if (c == '{' || c == '[') {
			if (depth == SCAN_DEPTH_MAX)
				return err_set(e, ERR_LIMIT, "offset %zu: more than %d levels",
					       (size_t)(s->at - s->begin), SCAN_DEPTH_MAX);
			close[depth++] = c == '{' ? '}' : ']';
		} else if (c == '}' || c == ']') {
			if (c != close[--depth])
				return fail(s, "the other closing bracket", e);
		}
		s->at++;
	} while (depth);
	s->is_first = false;
	return 0;
}

int scan_skip(struct scan *s, struct scan_text *out, struct err *e)
{
	char c = scan_peek(s);
	const char *begin = s->at;
	int rc = c == '{' || c == '[' ? skip_nested(s, e) : skip_scalar(s, e);

	if (!rc && out)
		*out = (struct scan_text){ .s = begin, .len = (size_t)(s->at - begin) };
	return rc;
}

int scan_end(struct scan *s, struct err *e)
{
	return scan_peek(s) ? fail(s, "the end", e) : 0;
}

/* ---- values ---- */

/* The four digits of \uXXXX at p; -1 if they are none. */
static int32_t code_unit(const char *p, const char *end)
{
	int32_t v = 0;

	if (end - p < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		int d = hex_digit(p[i]);

		if (d < 0)
			return -1;
		v = v * 16 + d;
	}
	return v;
}

static void add_utf8(struct buf *out, uint32_t c)
{
	if (c < 0x80) {
		buf_add_u8(out, (uint8_t)c);
		return;
	}
	if (c < 0x800) {
		buf_add_u8(out, (uint8_t)(0xc0 | c >> 6));
	} else if (c < 0x10000) {
		buf_add_u8(out, (uint8_t)(0xe0 | c >> 12));
		buf_add_u8(out, (uint8_t)(0x80 | (c >> 6 & 0x3f)));
	} else {
		buf_add_u8(out, (uint8_t)(0xf0 | c >> 18));
		buf_add_u8(out, (uint8_t)(0x80 | (c >> 12 & 0x3f)));
		buf_add_u8(out, (uint8_t)(0x80 | (c >> 6 & 0x3f)));
	}
	buf_add_u8(out, (uint8_t)(0x80 | (c & 0x3f)));
}

/* Reads \uXXXX, or a pair of surrogates, behind its 'u'; returns what follows it. A NUL would end a C string. */
static const char *unescape_unicode(const char *p, const char *end, struct buf *out)
{
	int32_t c = code_unit(p, end), low;

	if (c < 0) {
		buf_add_u8(out, '?');
		return p;
	}
	p += 4;
	if (c >= 0xd800 && c < 0xe000) {
		low = c < 0xdc00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u'
			      ? code_unit(p + 2, end)
			      : -1;
		if (low < 0xdc00 || low > 0xdfff) {
			buf_add_u8(out, '?');
			return p;
		}
		add_utf8(out, 0x10000u + ((uint32_t)(c - 0xd800) << 10) + (uint32_t)(low - 0xdc00));
		return p + 6;
	}
	add_utf8(out, c ? (uint32_t)c : '?');
	return p;
}

void scan_unescape(const struct scan_text *t, struct buf *out)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *p = t->s, *end = t->len ? t->s + t->len : t->s; /* an empty one may be NULL */

	while (p < end) {
		const char *slash = memchr(p, '\\', (size_t)(end - p)), *known;

		buf_add(out, p, (size_t)((slash ? slash : end) - p));
		if (!slash)
			break;
		p = slash + 1;
		if (p == end) {
			buf_add_u8(out, '?');
		} else if (*p == 'u') {
			p = unescape_unicode(p + 1, end, out);
		} else {
			known = *p ? strchr(from, *p) : NULL;
			buf_add_u8(out, known ? (uint8_t)to[known - from] : '?');
			p++;
		}
	}
}

static bool add_digit(int64_t *v, int digit)
{
	return !__builtin_mul_overflow(*v, 10, v) && !__builtin_add_overflow(*v, digit, v);
}

bool scan_decimal(const struct scan_text *number, unsigned int shift, int64_t *out)
{
	const char *p = number->s, *end = p + number->len;
	bool negative = p < end && *p == '-', fraction = false;
	int64_t v = 0;

	for (p += negative; p < end; p++) {
		if (*p == '.') {
			fraction = true;
			continue;
		}
		if (*p < '0' || *p > '9')
			return false;
		if (fraction && !shift)
			continue;
		shift -= fraction;
		if (!add_digit(&v, *p - '0'))
			return false;
	}
	for (; shift; shift--) {
		if (!add_digit(&v, 0))
			return false;
	}
	*out = negative ? -v : v;
	return true;
}
