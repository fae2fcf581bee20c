/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/link/addresses.h"

#include <string.h>

#include "tests/lib/check.h"

static void test_several(void)
{
	char host[ADDRESS_HOST_BYTES];
	struct addresses *a;
	struct err e;

	CHECK_OK(addresses_new(&a, "a:1,[::1]:2,c:3", &e), e);
	CHECK(addresses_n(a) == 3);
	CHECK(!strcmp(addresses_now(a, host), "a:1") && !strcmp(host, "a"));
	CHECK(!addresses_next(a));
	CHECK(!strcmp(addresses_now(a, host), "[::1]:2") && !strcmp(host, "::1"));
	CHECK(!addresses_next(a));
	CHECK(addresses_next(a));
	CHECK(!strcmp(addresses_now(a, host), "a:1"));
	addresses_free(a);
}

static void test_one(void)
{
	char host[ADDRESS_HOST_BYTES];
	struct addresses *a;
	struct err e;

	CHECK_OK(addresses_new(&a, "a:1", &e), e);
	CHECK(addresses_n(a) == 1 && addresses_next(a));
	CHECK(!strcmp(addresses_now(a, host), "a:1"));
	addresses_free(a);
}

static void test_refused(void)
{
	static const char *const bad[] = {
		"", "a", "a:1,", ",a:1", "a:1,,b:2", "a:1,b", "a:1,a:2,a:3,a:4,a:5,a:6,a:7,a:8,a:9"
	};
	struct addresses *a;
	struct err e;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(addresses_new(&a, bad[i], &e) == ERR_INVALID);
}

int main(void)
{
	test_several();
	test_one();
	test_refused();
	return 0;
}
