/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/names.h"

#include "base/mem.h"
#include "proto/limits.h"
#include "tests/lib/check.h"

/* n times 'a'. */
static const char *long_name(size_t n)
{
	static char name[1024];

	CHECK(n < sizeof(name));
	memset(name, 'a', n);
	name[n] = '\0';
	return name;
}

static void test_hosts(void)
{
	static const char *const good[] = { "a", "host-a", "ALL_HOSTS_1", "node_1.example.org",
					    "0", "-x",	   "A..b" };
	static const char *const bad[] = { "",	  "..",	 ".hidden",  "a/b",	 "a,b",	 "a:1",
					   "a b", "a\n", "host\x80", "ho\"st",	 "a\\b", "a%2f",
					   "*",	  "a=b", "\xc3\xa4", "ALL_HOSTS" };
	struct err e = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		CHECK_OK(name_check_host(good[i], &e), e);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_EQ(name_check_host(bad[i], &e), ERR_INVALID);
	CHECK_OK(name_check_host(long_name(LIMIT_HOST_NAME), &e), e);
	CHECK_EQ(name_check_host(long_name(LIMIT_HOST_NAME + 1), &e), ERR_INVALID);
	CHECK_EQ(name_check_host(long_name(1000), &e), ERR_INVALID);
}

/* A run is a path in a store: no part of it may climb or vanish. */
static void test_runs(void)
{
	static const char *const good[] = { "plugins2", "r", "team/exp-1/seed.3", "a/b" };
	static const char *const bad[] = {
		"plugins", "a/plugins/profile",
		"",	   "/",
		"/a",	   "a/",
		"a//b",	   "../a",
		"a/..",	   "a/../b",
		"a/.",	   "./a",
		"a/.b",	   "a b",
		"a\\b",	   "a,b",
		"a/b\n",
	};
	struct err e = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		CHECK_OK(name_check_run(good[i], &e), e);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_EQ(name_check_run(bad[i], &e), ERR_INVALID);
	CHECK_OK(name_check_run(long_name(LIMIT_RUN_NAME), &e), e);
	CHECK_EQ(name_check_run(long_name(LIMIT_RUN_NAME + 1), &e), ERR_INVALID);
}

static void test_sessions(void)
{
	CHECK(name_is_session("2026_11_21_10_03_59_a0z9q1"));
	CHECK(!name_is_session(""));
	CHECK(!name_is_session("2026_11_21_10_03_59"));
	CHECK(!name_is_session("2026_11_21_10_03_59_"));
	CHECK(!name_is_session("2026_11_21_10_03_59_a0z9q"));
	CHECK(!name_is_session("2026_11_21_10_03_59_a0z9q1x"));
	CHECK(!name_is_session("2026_11_21_10_03_59_A0z9q1"));
	CHECK(!name_is_session("2026-11-21_10_03_59_a0z9q1"));
	CHECK(!name_is_session("../../_21_10_03_59_a0z9q1"));
	CHECK(!name_is_session("2026_11_21_10_03_59_a0z9q/"));
}

static void test_files(void)
{
	static const char *const good[] = { "a.xplane.pb", "host-a~2.xplane.pb", "a" };
	static const char *const bad[] = { "",	  "~2.xplane.pb", "a~", "a~2~3.xplane.pb",
					   "a/b", ".a.xplane.pb", "..", "a~/../b" };
	char name[NAME_FILE_BYTES];
	struct err e = { 0 };

	name_of_file("host-a", 1, name);
	CHECK_STR(name, "host-a");
	name_of_file("host-a", 12, name);
	CHECK_STR(name, "host-a~12");
	name_of_file(long_name(LIMIT_HOST_NAME), LIMIT_HOST_FILES, name);
	CHECK_EQ(strlen(name), LIMIT_HOST_NAME + 3);
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		CHECK_OK(name_check_file(good[i], &e), e);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK_EQ(name_check_file(bad[i], &e), ERR_INVALID);
}

int main(void)
{
	test_files();
	test_hosts();
	test_runs();
	test_sessions();
	return 0;
}
