/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http_parse.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "net/http_server.h"
#include "proto/limits.h"

/* One "key=value" or "key"; `scratch` has room for both, decoded. */
static int parse_pair(const char *pair, size_t len, char *scratch,
		      void (*fn)(void *arg, const char *key, const char *value), void *arg,
		      struct err *e)
{
	const char *eq = memchr(pair, '=', len);
	size_t key_len = eq ? (size_t)(eq - pair) : len;
	char *value = scratch + key_len + 1;
	int rc = percent_decode(pair, key_len, true, scratch, e);

	*value = '\0';
	if (!rc && eq)
		rc = percent_decode(eq + 1, len - key_len - 1, true, value, e);
	if (!rc)
		fn(arg, scratch, value);
	return rc;
}

int http_parse_query(const char *query, size_t len,
		     void (*fn)(void *arg, const char *key, const char *value), void *arg,
		     struct err *e)
{
	const char *end;
	char *scratch;
	int keys = 0;
	int rc = 0;

	if (!len)
		return 0;
	if (len > LIMIT_HTTP_QUERY_BYTES)
		return err_set(e, ERR_LIMIT, "a query of %zu bytes, limit %d", len,
			       LIMIT_HTTP_QUERY_BYTES);
	end = query + len;
	scratch = xmalloc(len + 2);
	while (query < end && !rc) {
		const char *amp = memchr(query, '&', (size_t)(end - query));
		size_t pair_len = (size_t)((amp ? amp : end) - query);

		if (pair_len && ++keys > LIMIT_HTTP_QUERY_KEYS)
			rc = err_set(e, ERR_LIMIT, "more than %d keys in the query",
				     LIMIT_HTTP_QUERY_KEYS);
		else if (pair_len)
			rc = parse_pair(query, pair_len, scratch, fn, arg, e);
		query = amp ? amp + 1 : end;
	}
	free(scratch);
	return rc;
}

/* ---- headers ---- */

static bool is_token(const char *name)
{
	static const char marks[] = "!#$%&'*+-.^_`|~";

	if (!*name)
		return false;
	for (; *name; name++) {
		if (!isalnum((unsigned char)*name) && !strchr(marks, *name))
			return false;
	}
	return true;
}

/* Sets `*value` to that of the only header of that name, or to NULL. */
static int find_single(const struct pairs *headers, const char *name, const char **value,
		       struct err *e)
{
	*value = NULL;
	for (size_t i = 0; i < headers->n; i++) {
		if (strcasecmp(headers->items[i].name, name))
			continue;
		if (*value)
			return err_set(e, ERR_INVALID, "two %s headers", name);
		*value = headers->items[i].value;
	}
	return 0;
}

static int check_body_length(const char *length, const char *encoding, struct err *e)
{
	if (length && encoding)
		return err_set(e, ERR_INVALID, "both Content-Length and Transfer-Encoding");
	if (length && (!*length || length[strspn(length, "0123456789")]))
		return err_set(e, ERR_INVALID, "a Content-Length that is not a number");
	if (encoding && strcasecmp(encoding, "chunked"))
		return err_set(e, ERR_INVALID, "a Transfer-Encoding other than chunked");
	return 0;
}

int http_check_framing(const struct pairs *headers, const char *version, struct err *e)
{
	const char *length, *encoding, *host;
	int rc = find_single(headers, "Content-Length", &length, e);

	for (size_t i = 0; !rc && i < headers->n; i++) {
		if (!is_token(headers->items[i].name))
			rc = err_set(e, ERR_INVALID, "a header whose name is not a token");
	}
	if (!rc)
		rc = find_single(headers, "Transfer-Encoding", &encoding, e);
	if (!rc)
		rc = find_single(headers, "Host", &host, e);
	if (!rc)
		rc = check_body_length(length, encoding, e);
	if (!rc && !host && strcmp(version, "HTTP/1.0"))
		rc = err_set(e, ERR_INVALID, "no Host header");
	return rc;
}

/* ---- ranges ---- */

/* Digits to a number; NULL if there are none or they overflow. */
static const char *parse_digits(const char *s, uint64_t *out)
{
	uint64_t v = 0;

	if (!isdigit((unsigned char)*s))
		return NULL;
	for (; isdigit((unsigned char)*s); s++) {
		if (v > (UINT64_MAX - 9) / 10)
			return NULL;
		v = v * 10 + (uint64_t)(*s - '0');
	}
	*out = v;
	return s;
}

static enum range_kind suffix_range(const char *text, uint64_t size, uint64_t *first, uint64_t *len)
{
	uint64_t n;
	const char *s = parse_digits(text, &n);

	if (!s || *s)
		return RANGE_WHOLE;
	if (!n || !size)
		return RANGE_OUTSIDE;
	*len = n < size ? n : size;
	*first = size - *len;
	return RANGE_PART;
}

enum range_kind range_parse(const char *text, uint64_t size, uint64_t *first, uint64_t *len)
{
	uint64_t last = UINT64_MAX;
	const char *s;

	if (!text || strncasecmp(text, "bytes=", 6))
		return RANGE_WHOLE;
	text += 6;
	if (*text == '-')
		return suffix_range(text + 1, size, first, len);
	s = parse_digits(text, first);
	if (!s || *s++ != '-')
		return RANGE_WHOLE;
	if (*s)
		s = parse_digits(s, &last);
	if (!s || *s || last < *first)
		return RANGE_WHOLE;
	if (*first >= size)
		return RANGE_OUTSIDE;
	*len = (last < size ? last : size - 1) - *first + 1;
	return RANGE_PART;
}
