/* SPDX-License-Identifier: Apache-2.0 */
/* Ends of snapshots, as people write them. */
#include "cli/instant.h"

#include "base/now.h"
#include "tests/lib/check.h"

#define NOW_NS (INT64_C(1795350336) * NS_PER_S) /* 2026-11-22T12:25:36Z */

static void check(const char *text, int64_t unix_ns, int64_t ago_ns)
{
	struct instant got;
	struct err e;

	CHECK_OK(instant_parse(text, NOW_NS, &got, &e), e);
	CHECK_EQ(got.unix_ns, unix_ns);
	CHECK_EQ(got.ago_ns, ago_ns);
}

static void check_refused(const char *text)
{
	struct instant got;
	struct err e;

	CHECK_EQ(instant_parse(text, NOW_NS, &got, &e), ERR_INVALID);
}

int main(void)
{
	static const char *const refused[] = {
		"",
		"now+5s",
		"now-20",
		"now-99999999999999s",
		"25:00:00",
		"1970-01-01T00:00:00Z",
		"2026-02-30T00:00:00Z",
		"2026-11-22T12:25:36",
		/* of no int64 of nanoseconds: the first one would be an instant of 2026 */
		"2611-06-13T12:00:00Z",
		"2262-04-12T00:00:00Z",
		"0001-01-01T00:00:00Z",
		"9999-12-31T23:59:60Z",
	};

	check("now", 0, 0);
	check("now-20s", 0, 20 * NS_PER_S);
	check("2026-11-22T12:25:36.5Z", NOW_NS + NS_PER_S / 2, 0);
	check("2262-04-11T23:47:15.999999999Z", INT64_C(9223372035999999999), 0);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		check_refused(refused[i]);
	return 0;
}
