/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <errno.h>

#include "tests/lib/check.h"

static void test_set(void)
{
	struct err e = { 0 };

	CHECK_EQ(err_set(&e, ERR_LIMIT, "%d of %s", 3, "four"), ERR_LIMIT);
	CHECK_EQ(e.code, ERR_LIMIT);
	CHECK_STR(e.msg, "3 of four");
	CHECK_EQ(err_set(NULL, ERR_BUSY, "not read"), ERR_BUSY);
}

static void test_errno(void)
{
	static const struct {
		int number, code;
	} rows[] = {
		{ ENOENT, ERR_NOT_FOUND },  { EEXIST, ERR_EXISTS },	 { EACCES, ERR_DENIED },
		{ EADDRINUSE, ERR_BUSY },   { ENOSYS, ERR_UNSUPPORTED }, { EIO, ERR_IO },
		{ ETIMEDOUT, ERR_TIMEOUT },
	};
	struct err e;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		errno = rows[i].number;
		CHECK_EQ(err_errno(&e, "opening %s", "x"), rows[i].code);
		errno = rows[i].number;
		CHECK_EQ(err_errno(NULL, "opening"), rows[i].code);
	}
	errno = ENOENT;
	err_errno(&e, "opening %s", "x");
	CHECK_STR(e.msg, "opening x: No such file or directory");
}

static void test_prefix(void)
{
	struct err e = { 0 };

	err_set(&e, ERR_PEER, "bad tag");
	CHECK_EQ(err_prefix(&e, "plane %d", 7), ERR_PEER);
	CHECK_STR(e.msg, "plane 7: bad tag");
	/* Without a struct the code is unknown, but never success. */
	CHECK(err_prefix(NULL, "plane") < 0);
}

/* However long the words are, the sentence ends inside the struct. */
static void test_cut(void)
{
	struct err e;
	char longest[600];

	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	err_set(&e, ERR_IO, "%s", longest);
	CHECK_EQ(strlen(e.msg), sizeof(e.msg) - 1);
	err_prefix(&e, "reading");
	CHECK_EQ(strlen(e.msg), sizeof(e.msg) - 1);
	CHECK(!strncmp(e.msg, "reading: xxx", 12));
	CHECK_STR(e.msg + sizeof(e.msg) - 4, "...");
	err_prefix(&e, "%s", longest);
	CHECK_EQ(strlen(e.msg), sizeof(e.msg) - 1);
	errno = ENOENT;
	err_errno(&e, "%s", longest);
	CHECK_EQ(strlen(e.msg), sizeof(e.msg) - 1);
}

static void test_names(void)
{
	CHECK_STR(err_name(ERR_NOT_FOUND), "not-found");
	CHECK_STR(err_name(ERR_CANCELLED), "cancelled");
	CHECK_STR(err_name(0), "error");
	CHECK_STR(err_name(1), "error");
	CHECK_STR(err_name(-1000), "error");
	for (int code = ERR_FULL; code < 0; code++)
		CHECK(strcmp(err_name(code), "error"));
}

int main(void)
{
	test_set();
	test_errno();
	test_prefix();
	test_cut();
	test_names();
	return 0;
}
