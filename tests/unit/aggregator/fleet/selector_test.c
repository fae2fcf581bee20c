/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/fleet/selector.h"

#include <stdio.h>

#include "base/mem.h"
#include "tests/lib/check.h"

/* What is wrong with a selector: the sentence. */
static const char *wrong(const char *text)
{
	static struct err e;
	struct selector s;

	CHECK(selector_parse(&s, text, &e));
	selector_release(&s);
	return e.msg;
}

static void test_errors(void)
{
	char long_key[400], long_value[300];

	CHECK_STR(wrong("a,,b"), "selector, character 3: a name, or label=value, is missing here");
	CHECK_STR(wrong("a,=b"), "selector, character 3: no label before '='");
	CHECK_STR(wrong("a b"), "selector, character 3: a comma is missing before 'b'");
	CHECK_STR(wrong("a!b"), "selector, character 2: a comma is missing before '!'");
	CHECK_STR(wrong("x in (a,b"), "selector, character 10: a list of values ends with ')'");
	CHECK_STR(wrong("x in ((a)"), "selector, character 7: a list of values ends with ')'");
	CHECK_STR(wrong("x in (a)b"), "selector, character 9: a comma is missing before 'b'");
	CHECK_STR(wrong("in (a)"), "selector, character 4: a comma is missing before '('");
	CHECK_STR(wrong("k$=v"), "selector, character 2: a label has no '$' in its key");
	CHECK_STR(wrong("a/b/c=v"),
		  "selector, character 1: a label has one '/' in its key at most");
	CHECK_STR(wrong("ab:c"), "selector, character 3: 'ab:c' is no name of a host");
	CHECK_STR(wrong("rank=x"),
		  "selector, character 6: rank 'x': use a number or a range as 0-7");
	CHECK_STR(wrong("rank in (0-7, 9-)"),
		  "selector, character 15: rank '9-': use a number or a range as 0-7");
	CHECK_STR(wrong("rank=7-0"),
		  "selector, character 6: rank '7-0': the range ends before it begins");
	CHECK_STR(wrong("rank=9999999999"), "selector, character 6: rank '9999999999': use a "
					    "number or a range as 0-7");
	memset(long_key, 'k', sizeof(long_key));
	memcpy(long_key + 64, "=v", 3);
	CHECK_STR(wrong(long_key), "selector, character 1: a label's key has at most 63 bytes");
	memset(long_key, 'k', sizeof(long_key));
	memcpy(long_key + 254, "/k=v", 5);
	CHECK_STR(wrong(long_key),
		  "selector, character 1: a label's key has at most 253 bytes before the '/'");
	memset(long_key, 'k', sizeof(long_key));
	memcpy(long_key + 253, "/", 1);
	memcpy(long_key + 254 + 64, "=v", 3);
	CHECK_STR(wrong(long_key),
		  "selector, character 1: a label's key has at most 63 bytes behind the '/'");
	memset(long_value, 'v', sizeof(long_value));
	memcpy(long_value, "k=", 2);
	long_value[sizeof(long_value) - 1] = '\0';
	CHECK_STR(wrong(long_value), "selector, character 3: a value of more than 256 bytes");
}

#define K63	    "abcdefghijklmnopqrstuvwxyz-abcdefghijklmnopqrstuvwxyz.012345678"
#define LONGEST_KEY K63 K63 K63 K63 "a/" K63

/* Terms about ranks and labels with a prefix, on something that has them. */
static const char *get_rank(const void *arg, enum selector_key key, const char *label)
{
	return key == SELECTOR_RANK		   ? arg
	       : !strcmp(label, "example.com/app") ? "web"
	       : !strcmp(label, LONGEST_KEY)	   ? K63
						   : NULL;
}

static bool matches(const char *text, const char *rank)
{
	const struct selector_subject subject = { .host = "h", .get = get_rank, .arg = rank };
	struct selector s;
	struct err e = { 0 };
	bool is;

	CHECK_OK(selector_parse(&s, text, &e), e);
	is = selector_matches(&s, &subject);
	selector_release(&s);
	return is;
}

static void test_subject(void)
{
	CHECK(matches("rank=3", "3") && matches("rank=0-7", "7") && matches("rank=0-7", "0"));
	CHECK(!matches("rank=0-7", "8") && !matches("rank=1", "10") && !matches("rank=1", "x"));
	CHECK(!matches("rank=0", "") && !matches("rank=0", NULL) && matches("!rank=0", NULL));
	CHECK(matches("rank in (0-1, 12)", "12") && !matches("rank notin (0-1,12)", "1"));
	CHECK(matches("example.com/app=w?b,h", "1") && !matches("example.com/app=web,g", "1"));
	/* as long as Kubernetes has them */
	CHECK(matches(LONGEST_KEY "=" K63, "1") && matches(LONGEST_KEY " in (x," K63 ")", "1"));
	CHECK(!matches(LONGEST_KEY "=" K63 "x", "1"));
	CHECK(selector_glob_matches("a*b*c", "aXbbYc") && !selector_glob_matches("a*b", "abc"));
	CHECK(selector_glob_matches("*", "") && !selector_glob_matches("?", ""));
}

/* Hosts in order, h00 to h99, each looked for alone and after the one before. */
static void test_walk(void)
{
	static const char *const texts[] = {
		"all",		 "h50",	       "h00,h99",    "h99,h98,h98,h0",
		"h2*,h21,h30",	 "!h10,!h9*",  "zz,aa",	     "h1?,h10,h11",
		"h5*,!h55,!h5?", "!zz,!aa,h3", "rank=1,h07", "h07,h07,!h07",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct selector_walk walk = { 0 };
		struct selector s;
		struct err e = { 0 };

		CHECK_OK(selector_parse(&s, texts[i], &e), e);
		for (int k = 0; k < 100; k++) {
			char host[16];
			const struct selector_subject subject = { .host = host,
								  .get = get_rank,
								  .arg = "1" };

			snprintf(host, sizeof(host), "h%02d", k);
			CHECK_EQ(selector_matches_next(&s, &subject, &walk),
				 selector_matches(&s, &subject));
		}
		selector_release(&s);
	}
}

int main(void)
{
	test_walk();
	test_errors();
	test_subject();
	return 0;
}
