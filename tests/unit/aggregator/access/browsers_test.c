/* SPDX-License-Identifier: Apache-2.0 */
/* Browsers that have signed in: how long, how many, and by which cookie. */
#include "aggregator/access/browsers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/check.h"

static struct loop *loop;

/* Hours, in a few turns. */
static void wait_s(int64_t seconds)
{
	int64_t end_ns = now_mono_ns() + seconds * NS_PER_S;

	while (now_mono_ns() < end_ns)
		loop_turn(loop, 1000);
}

static bool is_in(struct browsers *b, const struct browser_secrets *s)
{
	const char *csrf;

	return browsers_find(b, s->cookie, &csrf) != NULL;
}

static void test_secrets(void)
{
	struct browsers *b = browsers_new();
	struct browser_secrets first, second;
	const char *csrf = NULL;
	uint64_t number;

	browsers_open(b, "token-1", "ada", &first);
	browsers_open(b, "token-2", "ada", &second);
	CHECK_EQ(strspn(first.cookie, "0123456789abcdef"), BROWSER_SECRET_BYTES - 1);
	CHECK_EQ(strspn(first.csrf, "0123456789abcdef"), BROWSER_SECRET_BYTES - 1);
	CHECK(strcmp(first.cookie, second.cookie) && strcmp(first.csrf, second.csrf));
	CHECK(strcmp(first.cookie, first.csrf));
	CHECK_STR(browsers_find(b, first.cookie, &csrf), "token-1");
	CHECK_STR(csrf, first.csrf);
	CHECK_STR(browsers_find(b, second.cookie, &csrf), "token-2");
	CHECK_STR(csrf, second.csrf);
	CHECK(!browsers_find(b, "", &csrf) && !browsers_find(b, first.csrf, &csrf));
	CHECK(!browsers_find(b, "0", &csrf));
	number = browsers_number(b, first.cookie);
	CHECK(number && number != browsers_number(b, second.cookie));
	CHECK(browsers_have(b, number) && !browsers_number(b, "x"));
	browsers_close(b, "x");
	browsers_close(b, first.cookie);
	CHECK(!is_in(b, &first) && is_in(b, &second));
	CHECK(!browsers_have(b, number) && !browsers_number(b, first.cookie));
	browsers_open(b, "token-3", "ada", &first); /* in its place */
	CHECK(!browsers_have(b, number));
	browsers_free(b);
}

static void test_life(void)
{
	struct browsers *b = browsers_new();
	struct browser_secrets s;
	uint64_t number;

	browsers_open(b, "token", "ada", &s);
	number = browsers_number(b, s.cookie);
	wait_s(BROWSERS_LIFE_S - 10);
	CHECK(is_in(b, &s) && browsers_have(b, number)); /* which does not make it longer */
	wait_s(20);
	CHECK(!browsers_have(b, number));
	CHECK(!is_in(b, &s));
	browsers_free(b);
}

/* One caller takes the place of his own first one, and of no other caller. */
static void test_share_of_one(void)
{
	static struct browser_secrets his[BROWSERS_OF_ONE + 2], other;
	struct browsers *b = browsers_new();

	browsers_open(b, "token", "bob", &other);
	for (int i = 0; i < BROWSERS_OF_ONE + 2; i++) {
		wait_s(1);
		browsers_open(b, "token", "ada", &his[i]);
	}
	for (int i = 0; i < BROWSERS_OF_ONE + 2; i++)
		CHECK_EQ(is_in(b, &his[i]), i >= 2);
	CHECK(is_in(b, &other));
	browsers_free(b);
}

static void test_full(void)
{
	static struct browser_secrets all[BROWSERS_MOST + 1];
	struct browsers *b = browsers_new();
	char who[32];

	for (int i = 0; i < BROWSERS_MOST; i++) {
		snprintf(who, sizeof(who), "caller-%d", i);
		wait_s(1);
		browsers_open(b, "token", who, &all[i]);
	}
	browsers_close(b, all[7].cookie);
	browsers_open(b, "token", "one-more", &all[7]); /* there is a place */
	CHECK(is_in(b, &all[0]) && is_in(b, &all[7]));
	browsers_open(b, "token", "one-more", &all[BROWSERS_MOST]);
	for (int i = 0; i <= BROWSERS_MOST; i++)
		CHECK_EQ(is_in(b, &all[i]), i != 0);
	browsers_free(b);
}

#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void test_header(void)
{
	static const struct {
		const char *header;
		bool is_good;
	} cases[] = {
		{ "tutti=" HEX64, true },
		{ "a=1; tutti=" HEX64, true },
		{ "a=1;tutti=" HEX64 "; b=2", true },
		{ "  tutti=" HEX64 ";", true },
		{ "xtutti=" HEX64 "; tutti=" HEX64, true },
		{ "tuttix=1; tutti=" HEX64, true },
		{ NULL, false },
		{ "", false },
		{ "tutti", false },
		{ "tutti=", false },
		{ "tutti=" HEX64 "0", false },
		{ "tutti=1; tutti=" HEX64, false },
		{ "tuttix=" HEX64, false },
		{ "xtutti=" HEX64, false },
		{ "a=tutti=" HEX64, false },
		{ ";;; ; ", false },
	};
	char out[BROWSER_SECRET_BYTES];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		bool is_good = browsers_read_cookie(cases[i].header, "tutti", out);

		if (is_good != cases[i].is_good)
			fprintf(stderr, "'%s'\n", cases[i].header);
		CHECK_EQ(is_good, cases[i].is_good);
		if (is_good)
			CHECK_STR(out, HEX64);
	}
}

int main(void)
{
	struct err e;

	CHECK_OK(loop_new(&loop, 1, &e), e);
	test_secrets();
	test_life();
	test_share_of_one();
	test_full();
	test_header();
	loop_free(loop);
	return 0;
}
