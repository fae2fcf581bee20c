/* SPDX-License-Identifier: Apache-2.0 */
#include "base/reader.h"

#include "tests/lib/check.h"

static const uint8_t bytes[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };

static void test_integers(void)
{
	struct reader r = reader_of(bytes, sizeof(bytes));
	uint64_t v;
	uint8_t b;

	CHECK(reader_be(&r, 4, &v));
	CHECK_EQ(v, 0x01020304);
	CHECK(reader_le(&r, 3, &v));
	CHECK_EQ(v, 0x070605);
	CHECK(reader_u8(&r, &b));
	CHECK_EQ(b, 8);
	CHECK_EQ(reader_left(&r), 1);
	r = reader_of(bytes, sizeof(bytes));
	CHECK(reader_be(&r, 8, &v));
	CHECK(v == UINT64_C(0x0102030405060708));
	r = reader_of(bytes, sizeof(bytes));
	CHECK(reader_le(&r, 8, &v));
	CHECK(v == UINT64_C(0x0807060504030201));
}

/* What fails moves nothing. */
static void test_short(void)
{
	struct reader r = reader_of(bytes, 3);
	const uint8_t *p = NULL;
	uint64_t v = 7;
	uint8_t b;

	CHECK(!reader_be(&r, 4, &v));
	CHECK(!reader_le(&r, 4, &v));
	CHECK(!reader_be(&r, 9, &v));
	CHECK(!reader_le(&r, 9, &v));
	CHECK(!reader_take(&r, 4, &p));
	CHECK(!reader_take(&r, SIZE_MAX, &p));
	CHECK_EQ(v, 7);
	CHECK(!p);
	CHECK_EQ(reader_left(&r), 3);
	CHECK(reader_take(&r, 3, &p));
	CHECK(p == bytes);
	CHECK(!reader_u8(&r, &b));
	CHECK(reader_take(&r, 0, &p));
	r = reader_of(NULL, 0);
	CHECK(!reader_u8(&r, &b));
	CHECK(!reader_varint(&r, &v));
	CHECK_EQ(reader_left(&r), 0);
}

static void test_varint(void)
{
	static const uint8_t long_one[] = { 0x81, 0x80, 0x80, 0x80, 0x80,
					    0x80, 0x80, 0x80, 0x80, 0x7f };
	static const uint8_t too_long[] = { 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
					    0x80, 0x80, 0x80, 0x80, 0x00 };
	struct reader r = reader_of(long_one, sizeof(long_one));
	uint64_t v;

	/* Bits beyond the 64th are dropped. */
	CHECK(reader_varint(&r, &v));
	CHECK(v == (UINT64_C(1) << 63 | 1));
	for (size_t n = 0; n < sizeof(long_one); n++) {
		r = reader_of(long_one, n);
		CHECK(!reader_varint(&r, &v));
		CHECK_EQ(reader_left(&r), n);
	}
	r = reader_of(too_long, sizeof(too_long));
	CHECK(!reader_varint(&r, &v));
	CHECK_EQ(reader_left(&r), sizeof(too_long));
}

int main(void)
{
	test_integers();
	test_short();
	test_varint();
	return 0;
}
