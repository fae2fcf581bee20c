/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/instant.h"

#include <string.h>
#include <time.h>

#include "base/conf.h"
#include "base/now.h"

/* ".5" -> 500,000,000; digits after the ninth are dropped. */
static const char *parse_fraction(const char *p, int64_t *ns)
{
	int64_t unit = NS_PER_S / 10;

	*ns = 0;
	if (*p != '.')
		return p;
	for (p++; *p >= '0' && *p <= '9'; p++, unit /= 10)
		*ns += (*p - '0') * unit;
	return p;
}

static int fail(const char *text, struct err *e)
{
	return err_set(
		e, ERR_INVALID,
		"'%.60s' is no instant: use now, now-20s, 14:02:11.5 (of today, local time) or "
		"2026-11-22T14:02:11.5Z",
		text);
}

static int parse_relative(const char *text, const char *ago, struct instant *out, struct err *e)
{
	if (!*ago)
		return 0;
	if (*ago != '-' || conf_parse_time(ago + 1, &out->ago_ns, NULL) || out->ago_ns < 0)
		return fail(text, e);
	return 0;
}

int instant_parse(const char *text, int64_t now_ns, struct instant *out, struct err *e)
{
	time_t seconds = (time_t)(now_ns / NS_PER_S), at;
	struct tm tm;
	const char *p;
	int64_t ns;
	int day;

	*out = (struct instant){ 0 };
	if (!strncmp(text, "now", 3))
		return parse_relative(text, text + 3, out, e);
	localtime_r(&seconds, &tm);
	p = strptime(text, "%H:%M:%S", &tm);
	if (p && !*parse_fraction(p, &ns)) {
		tm.tm_isdst = -1;
		out->unix_ns = (int64_t)mktime(&tm) * NS_PER_S + ns;
		return 0;
	}
	memset(&tm, 0, sizeof(tm));
	p = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	if (!p || strcmp(parse_fraction(p, &ns), "Z"))
		return fail(text, e);
	day = tm.tm_mday;
	at = timegm(&tm); /* makes March 2 of February 30 */
	if (at <= 0 || at >= INT64_MAX / NS_PER_S || tm.tm_mday != day)
		return fail(text, e);
	out->unix_ns = (int64_t)at * NS_PER_S + ns;
	return 0;
}
