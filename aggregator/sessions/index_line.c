/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/sessions/index_line.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "json/json_text.h"
#include "proto/names.h"

#define VERSION	  "~1~"
#define DAY_HOUR  12 /* "DAY/HOUR/" */
#define TIME	  5 /* "TIME-" */
#define NAME	  26 /* SESSION */
#define COUNT_MAX INT64_C(99999) /* hosts: LIMIT_HOSTS is smaller */

void index_place(const char *session, char out[INDEX_PLACE_BYTES])
{
	static const int digits[] = { 0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18 };
	char *at = out;

	for (size_t i = 0; i < ARRAY_SIZE(digits); i++) {
		if (i == 8 || i == 10)
			*at++ = '/';
		*at++ = (char)('9' - (session[digits[i]] - '0'));
	}
	snprintf(at, INDEX_PLACE_BYTES - (size_t)(at - out), "-%s", session);
}

/* ---- writing ---- */

static int64_t within(int64_t v, int64_t max)
{
	return v < 0 ? 0 : v > max ? max : v;
}

void index_line_of(const json_t *manifest, struct session_line *out)
{
	size_t hosts = json_array_size(json_object_get(manifest, "hosts"));

	*out = (struct session_line){
		.t0_ns = within(json_get_int(manifest, "t0_ns"), INT64_MAX),
		.duration_ns = within(json_get_int(manifest, "duration_ns"), INT64_MAX),
		.hosts = within((int64_t)hosts, COUNT_MAX),
		.complete = within(json_get_int(manifest, "complete"), COUNT_MAX),
		.partial = within(json_get_int(manifest, "partial"), COUNT_MAX),
		.failed = within(json_get_int(manifest, "failed"), COUNT_MAX),
		.bytes = within(json_get_int(manifest, "bytes"), INT64_MAX),
	};
	snprintf(out->session, sizeof(out->session), "%s", json_get_text(manifest, "session"));
	snprintf(out->run, sizeof(out->run), "%s", json_get_text(manifest, "run"));
}

static void swap_chars(char *text, char from, char to)
{
	for (; *text; text++)
		*text = *text == from ? to : *text;
}

void index_line_write(const struct session_line *l, char out[INDEX_LINE_BYTES])
{
	char place[INDEX_PLACE_BYTES];
	int n;

	index_place(l->session, place);
	n = snprintf(out, INDEX_LINE_BYTES,
		     "%s" VERSION "%" PRId64 ".%" PRId64 ".%" PRId64 ".%" PRId64 ".%" PRId64
		     ".%" PRId64 ".%" PRId64 "~",
		     place, l->t0_ns, l->duration_ns, l->hosts, l->complete, l->partial, l->failed,
		     l->bytes);
	snprintf(out + n, INDEX_LINE_BYTES - (size_t)n, "%s", l->run);
	swap_chars(out + n, '/', '~');
}

/* ---- reading ---- */

/* Where "TIME-SESSION" begins in a key of the index; NULL if it is no such key. */
static const char *find_entry(const char *key, char session[SESSION_NAME_BYTES])
{
	const char *entry = strrchr(key, '/');
	char place[INDEX_PLACE_BYTES];
	size_t len;

	if (!entry || ++entry - key < DAY_HOUR || strlen(entry) < TIME + NAME)
		return NULL;
	snprintf(session, SESSION_NAME_BYTES, "%.*s", NAME, entry + TIME);
	if (!name_is_session(session))
		return NULL;
	index_place(session, place);
	len = strlen(place);
	if (strncmp(entry - DAY_HOUR, place, len) != 0)
		return NULL;
	return entry[TIME + NAME] == '\0' || entry[TIME + NAME] == '~' ? entry : NULL;
}

bool index_line_session(const char *key, char session[SESSION_NAME_BYTES])
{
	return find_entry(key, session) != NULL;
}

/* Digits and then `end`. */
static bool read_number(const char **at, char end, int64_t max, int64_t *out)
{
	int64_t v = 0;
	int digits = 0;

	for (; **at >= '0' && **at <= '9'; (*at)++, digits++) {
		int digit = **at - '0';

		if (v > (max - digit) / 10)
			return false;
		v = 10 * v + digit;
	}
	*out = v;
	return digits && *(*at)++ == end;
}

bool index_line_read(const char *key, struct session_line *l)
{
	const char *at = find_entry(key, l->session);

	if (!at || strncmp(at += TIME + NAME, VERSION, strlen(VERSION)) != 0)
		return false;
	at += strlen(VERSION);
	if (!read_number(&at, '.', INT64_MAX, &l->t0_ns) ||
	    !read_number(&at, '.', INT64_MAX, &l->duration_ns) ||
	    !read_number(&at, '.', COUNT_MAX, &l->hosts) ||
	    !read_number(&at, '.', COUNT_MAX, &l->complete) ||
	    !read_number(&at, '.', COUNT_MAX, &l->partial) ||
	    !read_number(&at, '.', COUNT_MAX, &l->failed) ||
	    !read_number(&at, '~', INT64_MAX, &l->bytes) || strlen(at) >= sizeof(l->run))
		return false;
	snprintf(l->run, sizeof(l->run), "%s", at);
	swap_chars(l->run, '~', '/');
	return !*l->run || !name_check_run(l->run, NULL);
}
