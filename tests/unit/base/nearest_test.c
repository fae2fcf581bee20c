/* SPDX-License-Identifier: Apache-2.0 */
#include "base/nearest.h"

#include <string.h>

#include "base/mem.h"
#include "tests/lib/check.h"

static const char *const words[] = { "capture", "snapshot", "stop",    "show",
				     "store",	"hosts",    "sessions" };

static const char *nearest(const char *typed)
{
	static struct nearest n;

	n = nearest_to(typed);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		nearest_try(&n, words[i]);
	return n.word;
}

static void test_near(void)
{
	CHECK_STR(nearest("captrue"), "capture"); /* two swapped */
	CHECK_STR(nearest("capure"), "capture");
	CHECK_STR(nearest("host"), "hosts");
	CHECK_STR(nearest("sesions"), "sessions");
	CHECK_STR(nearest("snap-shot"), "snapshot");
	CHECK_STR(nearest("sohw"), "show");
	CHECK_STR(nearest("show"), "show");
}

static void test_far(void)
{
	char longest[200];

	CHECK_STR(nearest("profile"), "");
	CHECK_STR(nearest(""), "");
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	CHECK_STR(nearest(longest), "");
}

int main(void)
{
	test_near();
	test_far();
	return 0;
}
