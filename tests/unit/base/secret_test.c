/* SPDX-License-Identifier: Apache-2.0 */
#include "base/secret.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "tests/lib/check.h"

static int load(const char *content, char **out, struct err *e)
{
	char path[] = "/tmp/tutti_secret_XXXXXX";
	int fd = mkstemp(path);
	int rc;

	CHECK(fd >= 0);
	CHECK_EQ(write(fd, content, strlen(content)), (int)strlen(content));
	close(fd);
	rc = secret_load(out, path, e);
	CHECK(!unlink(path));
	return rc;
}

static void test_load(void)
{
	static const char *const bad[] = { "",
					   "\n",
					   "short",
					   "0123456789 abcdef",
					   "0123456789abcd\x01g",
					   "0123456789abcd\xc3\xa4" };
	char *secret, longest[SECRET_MOST_BYTES + 2];
	struct err e;

	CHECK_OK(load("  0123456789abcdef \r\nanother line\n", &secret, &e), e);
	CHECK_STR(secret, "0123456789abcdef");
	secret_free(secret);
	secret_free(NULL);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_EQ(load(bad[i], &secret, &e), ERR_INVALID);
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	CHECK_EQ(load(longest, &secret, &e), ERR_INVALID);
	CHECK_OK(load(longest + 1, &secret, &e), e);
	CHECK_STR(secret, longest + 1);
	secret_free(secret);
	CHECK_EQ(secret_load(&secret, "/nowhere/at/all", &e), ERR_NOT_FOUND);
}

static void test_open_to_others(void)
{
	char path[] = "/tmp/tutti_secret_XXXXXX";
	int fd = mkstemp(path);
	char *secret;
	struct err e;

	CHECK(fd >= 0);
	CHECK_EQ(write(fd, "0123456789abcdef\n", 17), 17);
	CHECK(!fchmod(fd, 0644));
	CHECK_EQ(secret_load(&secret, path, &e), ERR_DENIED);
	CHECK(strstr(e.msg, "chmod"));
	CHECK(!fchmod(fd, 0602));
	CHECK_EQ(secret_load(&secret, path, &e), ERR_DENIED);
	CHECK(!fchmod(fd, 0640));
	CHECK_OK(secret_load(&secret, path, &e), e);
	secret_free(secret);
	close(fd);
	CHECK(!unlink(path));
}

static void test_equal(void)
{
	CHECK(secret_equal("abcdef", "abcdef"));
	CHECK(!secret_equal("abcdef", "abcdeg"));
	CHECK(!secret_equal("abcdef", "bbcdef"));
	CHECK(!secret_equal("abcdef", "abcde"));
	CHECK(!secret_equal("abcdef", ""));
	CHECK(!secret_equal("abc", "abcabc"));
	CHECK(!secret_equal("abcabc", "abc"));
}

int main(void)
{
	test_load();
	test_open_to_others();
	test_equal();
	return 0;
}
