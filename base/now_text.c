/* SPDX-License-Identifier: Apache-2.0 */
/* Instants as text; reads no clock. */
#include <stdio.h>
#include <time.h>

#include "base/now.h"

static struct tm split_utc(int64_t unix_ns, int *ms)
{
	int64_t rest = unix_ns % NS_PER_S;
	time_t seconds = (time_t)(unix_ns / NS_PER_S);
	struct tm tm;

	if (rest < 0) {
		rest += NS_PER_S;
		seconds--;
	}
	gmtime_r(&seconds, &tm);
	*ms = (int)(rest / NS_PER_MS);
	return tm;
}

void time_session_name(int64_t unix_ns, char out[20])
{
	int ms;
	struct tm tm = split_utc(unix_ns, &ms);

	strftime(out, 20, "%Y_%m_%d_%H_%M_%S", &tm);
}

void time_iso(int64_t unix_ns, char out[25])
{
	int ms;
	struct tm tm = split_utc(unix_ns, &ms);
	size_t n = strftime(out, 25, "%Y-%m-%dT%H:%M:%S", &tm);

	if (n + 5 < 25)
		snprintf(out + n, 25 - n, ".%03dZ", ms);
}

int64_t time_of_session_name(const char *name)
{
	struct tm tm = { 0 };
	int64_t ns;

	if (sscanf(name, "%4d_%2d_%2d_%2d_%2d_%2d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
		   &tm.tm_hour, &tm.tm_min, &tm.tm_sec) != 6)
		return 0;
	tm.tm_year -= 1900;
	tm.tm_mon--;
	return __builtin_mul_overflow((int64_t)timegm(&tm), NS_PER_S, &ns) ? INT64_MAX : ns;
}
