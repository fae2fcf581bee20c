/* SPDX-License-Identifier: Apache-2.0 */
/* Which Host headers are accepted, by the address of the listener. */
#include "aggregator/api/host_header.h"

#include <unistd.h>

#include "base/conf.h"
#include "base/mem.h"
#include "tests/lib/check.h"

static char *more[] = { (char *)"Agg.Example", (char *)"tutti" };
static const struct conf_list names = { more, 2 };

static bool allowed(const char *header, const char *listener)
{
	return host_header_allowed(header, listener, &names);
}

static void test_everywhere(void)
{
	static const char *const listeners[] = { "127.0.0.1:7400", "[::1]:0",	 "0.0.0.0:7400",
						 "[::]:7400",	   "10.0.0.7:1", "gpu7:7400" };
	static const char *const good[] = { "localhost", "localhost:7400", "LOCALHOST:1",
					    "127.0.0.1", "127.8.9.10:80",  "[::1]:7400",
					    "[::1]",	 "agg.example",	   "tutti:7400" };
	static const char *const bad[] = { "",
					   ":7400",
					   "evil.example",
					   "evil.example:7400",
					   "127.0.0.1.evil.example",
					   "localhost.evil.example",
					   "tutti.evil.example",
					   "evil.example:7400@localhost",
					   "localhost@evil.example",
					   "localhost:x",
					   "localhost:7400,evil.example",
					   "[::1",
					   "[::1]evil.example",
					   "[]",
					   "::1",
					   " localhost",
					   "localhost/" };

	for (size_t l = 0; l < ARRAY_SIZE(listeners); l++) {
		for (size_t i = 0; i < ARRAY_SIZE(good); i++)
			CHECK(allowed(good[i], listeners[l]));
		for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
			CHECK(!allowed(bad[i], listeners[l]));
		CHECK(allowed(NULL, listeners[l]));
	}
	CHECK(!host_header_allowed("agg.example", "127.0.0.1:7400", NULL));
}

static void test_own_address(void)
{
	char own[256] = "";

	CHECK(allowed("10.0.0.7:7400", "10.0.0.7:7400"));
	CHECK(!allowed("10.0.0.8:7400", "10.0.0.7:7400"));
	CHECK(!allowed("10.0.0.7", "127.0.0.1:7400"));
	CHECK(allowed("10.0.0.8", "0.0.0.0:7400"));
	CHECK(allowed("[fd00::8]:7400", "[::]:7400"));
	CHECK(allowed("[fd00:0::8]", "[fd00::8]:7400"));
	CHECK(!allowed("[fd00::9]", "[fd00::8]:7400"));
	CHECK(allowed("gpu7:7400", "gpu7:7400"));
	CHECK(!allowed("gpu8:7400", "gpu7:7400"));
	CHECK(!gethostname(own, sizeof(own) - 1));
	CHECK(allowed(own, "0.0.0.0:7400"));
}

int main(void)
{
	test_everywhere();
	test_own_address();
	return 0;
}
