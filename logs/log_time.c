/* SPDX-License-Identifier: Apache-2.0 */
#include "logs/log_time.h"

#include <stdbool.h>
#include <time.h>

#define NS_PER_S   INT64_C(1000000000)
#define QUARTER_NS (900 * NS_PER_S)
#define ZONES_NS   (15 * 3600 * NS_PER_S) /* none is further from UTC */

/* What is left to read. */
struct cursor {
	const char *p, *end;
};

static bool take(struct cursor *c, const char *any_of)
{
	for (; c->p < c->end && *any_of; any_of++) {
		if (*c->p == *any_of) {
			c->p++;
			return true;
		}
	}
	return false;
}

/* Exactly so many digits. */
static bool take_number(struct cursor *c, int digits, int lo, int hi, int *out)
{
	int v = 0;

	for (int i = 0; i < digits; i++, c->p++) {
		if (c->p == c->end || *c->p < '0' || *c->p > '9')
			return false;
		v = 10 * v + *c->p - '0';
	}
	*out = v;
	return v >= lo && v <= hi;
}

/* ".123", or nothing. */
static int64_t take_fraction(struct cursor *c, int *digits)
{
	int64_t ns = 0, unit = NS_PER_S / 10;
	struct cursor at = *c;

	*digits = 0;
	if (!take(&at, ".,"))
		return 0;
	for (; at.p < at.end && *at.p >= '0' && *at.p <= '9'; at.p++, unit /= 10) {
		ns += (*at.p - '0') * unit;
		*digits += unit > 0;
	}
	if (*digits)
		*c = at;
	return ns;
}

/* Minutes east of UTC. */
static bool take_zone(struct cursor *c, int *minutes)
{
	struct cursor at = *c;
	int hour, minute;
	bool west;

	*minutes = 0;
	if (take(c, "Zz"))
		return true;
	west = at.p < at.end && *at.p == '-';
	if (!take(&at, "+-") || !take_number(&at, 2, 0, 14, &hour))
		return false;
	(void)take(&at, ":");
	if (!take_number(&at, 2, 0, 59, &minute))
		return false;
	*minutes = (60 * hour + minute) * (west ? -1 : 1);
	*c = at;
	return true;
}

static bool take_time_of_day(struct cursor *c, struct tm *tm, int64_t *ns, int *digits)
{
	if (!take_number(c, 2, 0, 23, &tm->tm_hour) || !take(c, ":") ||
	    !take_number(c, 2, 0, 59, &tm->tm_min) || !take(c, ":") ||
	    !take_number(c, 2, 0, 60, &tm->tm_sec))
		return false;
	*ns = take_fraction(c, digits);
	return true;
}

size_t log_time_parse(const char *text, size_t len, struct log_time *out)
{
	struct cursor c = { text, text + len };
	struct tm tm = { 0 };
	int64_t ns = 0;
	int digits, zone;

	*out = (struct log_time){ LOG_CLOCK_NONE, 0, 0 };
	if (!take_number(&c, 4, 1970, 2095, &tm.tm_year) || !take(&c, "-/") ||
	    !take_number(&c, 2, 1, 12, &tm.tm_mon) || !take(&c, "-/") ||
	    !take_number(&c, 2, 1, 31, &tm.tm_mday) || !take(&c, "Tt ") ||
	    !take_time_of_day(&c, &tm, &ns, &digits))
		return 0;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	out->clock = take_zone(&c, &zone) ? LOG_CLOCK_UNIX : LOG_CLOCK_LOCAL;
	out->ns = ((int64_t)timegm(&tm) - zone * 60) * NS_PER_S + ns;
	out->digits = digits;
	return (size_t)(c.p - text);
}

size_t log_time_parse_of_day(const char *text, size_t len, struct log_time *out)
{
	struct cursor c = { text, text + len };
	struct tm tm = { 0 };
	int64_t ns = 0;
	int digits;

	*out = (struct log_time){ LOG_CLOCK_NONE, 0, 0 };
	if (!take_time_of_day(&c, &tm, &ns, &digits))
		return 0;
	ns += (3600 * tm.tm_hour + 60 * tm.tm_min + tm.tm_sec) * NS_PER_S;
	*out = (struct log_time){ LOG_CLOCK_OF_DAY, ns, digits };
	return (size_t)(c.p - text);
}

int64_t log_time_unix(const struct log_time *t, int64_t near_ns)
{
	int64_t apart_ns = near_ns - t->ns, half = apart_ns < 0 ? -QUARTER_NS / 2 : QUARTER_NS / 2;

	if (t->clock == LOG_CLOCK_UNIX ||
	    (t->clock == LOG_CLOCK_LOCAL && (apart_ns > ZONES_NS || apart_ns < -ZONES_NS)))
		return t->ns;
	return t->ns + (apart_ns + half) / QUARTER_NS * QUARTER_NS;
}
