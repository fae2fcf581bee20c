/* SPDX-License-Identifier: Apache-2.0 */
/* Versions that are known, those that are not, tables that lie; and the lines of instructions. */
#include "agent/python/layout.h"

#include <string.h>

#include "agent/python/lines.h"
#include "tests/lib/check.h"

struct table {
	uint64_t v[PYTHON_TABLE_BYTES / 8];
};

static struct table table_of(uint64_t version)
{
	struct table t = { .v = { 0 } };

	memcpy(t.v, "xdebugpy", 8);
	t.v[1] = version;
	for (size_t i = 3; i < PYTHON_TABLE_BYTES / 8; i++)
		t.v[i] = 40;
	return t;
}

static int load(struct python_layout *l, uint64_t version, const struct table *t, struct err *e)
{
	return python_layout_load(l, version, t->v, sizeof(t->v), e);
}

static void check_refused(uint64_t version, const struct table *t, int code, const char *words)
{
	struct python_layout l;
	struct err e = { 0 };

	CHECK_EQ(load(&l, version, t, &e), code);
	CHECK(strstr(e.msg, words));
}

static void known_versions(void)
{
	static const uint64_t with_table[] = { 0x030d12f0, 0x030e0af0, 0x030f02f0, 0x030f00c1 };
	struct table none = { .v = { 0 } }, t;
	struct python_layout l;
	struct err e;

	CHECK_OK(load(&l, 0x030b02f0, &none, &e), e);
	CHECK_EQ(l.thread_id, 160);
	CHECK_OK(load(&l, 0x030c01f0, &none, &e), e);
	CHECK_EQ(l.thread_id, 144);
	for (size_t i = 0; i < sizeof(with_table) / sizeof(with_table[0]); i++) {
		t = table_of(with_table[i]);
		CHECK_OK(load(&l, with_table[i], &t, &e), e);
		CHECK_EQ(l.frame_previous, 40);
		CHECK_EQ(l.minor, (int)(with_table[i] >> 16 & 0xff));
	}
}

static void unknown_versions_are_named(void)
{
	struct table t = table_of(0x031000f0);

	check_refused(0x031000f0, &t, ERR_UNSUPPORTED, "unknown CPython 3.16: 3.11 to 3.15");
	check_refused(0x030a00f0, &t, ERR_UNSUPPORTED, "unknown CPython 3.10");
	check_refused(0x030f00b2, &t, ERR_UNSUPPORTED, "3.15 before its release");
	check_refused(0x020712f0, &t, ERR_INVALID, "no version of CPython 3");
	check_refused(UINT64_MAX, &t, ERR_INVALID, "no version");
	t = table_of(0x030d00f0);
	t.v[2] = 1;
	check_refused(0x030d00f0, &t, ERR_UNSUPPORTED, "3.13 built without a GIL");
}

static void tables_that_lie(void)
{
	struct table t = table_of(0x030e00f0);
	struct python_layout l;

	check_refused(0x030d00f0, &t, ERR_INVALID, "no table");
	t.v[0] = 0;
	check_refused(0x030e00f0, &t, ERR_INVALID, "no table");
	/* Each offset alone, too large: refused, or not used. Below its limit it stays inside what is reserved. */
	for (size_t i = 3; i < PYTHON_TABLE_BYTES / 8; i++) {
		t = table_of(0x030e00f0);
		t.v[i] = UINT64_MAX - 8;
		if (load(&l, 0x030e00f0, &t, NULL))
			continue;
		CHECK(l.thread_bytes <= PYTHON_STATE_BYTES && l.frame_bytes <= PYTHON_FRAME_BYTES);
		CHECK(l.code_bytes <= PYTHON_CODE_BYTES && l.text_other <= PYTHON_TEXT_BYTES);
	}
	CHECK(python_layout_load(&l, 0x030e00f0, t.v, 100, NULL) < 0);
}

static void lines(void)
{
	/* Two instructions in the first line, one two lines on, one without a line, one 40 lines back. */
	static const uint8_t table[] = {
		0x80 | 0 << 3 | 1, 0x12,	   0x80 | 12 << 3,     1,      2,
		0x80 | 15 << 3,	   0x80 | 13 << 3, 0x40 | (81 & 0x3f), 81 >> 6
	};
	struct python_lines l;

	python_lines_decode(&l, table, sizeof(table), 100);
	CHECK_EQ(python_lines_find(&l, -2, 100), 100);
	CHECK_EQ(python_lines_find(&l, 0, 100), 100);
	CHECK_EQ(python_lines_find(&l, 2, 100), 100);
	CHECK_EQ(python_lines_find(&l, 4, 100), 102);
	CHECK_EQ(python_lines_find(&l, 6, 100), 100); /* none: that of the function */
	CHECK_EQ(python_lines_find(&l, 8, 100), 62);
	CHECK_EQ(python_lines_find(&l, 4000, 100), 62);
	python_lines_release(&l);
	for (size_t n = 0; n < sizeof(table); n++) {
		python_lines_decode(&l, table, n, 100);
		CHECK(python_lines_find(&l, 4, 100) <= 102);
		python_lines_release(&l);
	}
}

int main(void)
{
	known_versions();
	unknown_versions_are_named();
	tables_that_lie();
	lines();
	return 0;
}
