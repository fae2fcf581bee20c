/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include "base/reader.h"
#include "tests/lib/check.h"

static void test_text(void)
{
	struct buf b = BUF_INIT;

	CHECK_STR(buf_str(&b), "");
	buf_add(&b, NULL, 0);
	CHECK_STR(buf_str(&b), "");
	buf_add_str(&b, "one");
	buf_addf(&b, " %d %s", 2, "three");
	buf_add_u8(&b, '!');
	CHECK_STR(buf_str(&b), "one 2 three!");
	CHECK_EQ(b.len, strlen("one 2 three!"));
	buf_reset(&b);
	CHECK_STR(buf_str(&b), "");
	CHECK(b.cap > 0);
	buf_release(&b);
	CHECK(!b.data && !b.len && !b.cap);
}

static void test_growth(void)
{
	struct buf b = BUF_INIT;

	for (int i = 0; i < 100000; i++)
		buf_add_u8(&b, (uint8_t)i);
	CHECK_EQ(b.len, 100000);
	for (int i = 0; i < 100000; i++)
		CHECK(b.data[i] == (uint8_t)i);
	CHECK_EQ(b.data[b.len], 0);
	buf_reserve(&b, 5000000);
	CHECK(b.cap >= b.len + 5000000);
	CHECK_EQ(b.len, 100000);
	buf_release(&b);
}

/* Page faults of memory that grew by doubling were two thirds of a rebase in memory. */
static void test_reserve_all(void)
{
	struct buf b = BUF_INIT;

	buf_add_str(&b, "one");
	buf_reserve_all(&b, (size_t)9 << 20);
	CHECK_EQ(b.cap, 3 + ((size_t)9 << 20) + 1);
	CHECK_STR(buf_str(&b), "one");
	memset(b.data + b.len, 'x', (size_t)9 << 20);
	buf_reserve_all(&b, 100);
	CHECK_EQ(b.cap, 3 + ((size_t)9 << 20) + 1);
	buf_release(&b);
}

static void test_long_format(void)
{
	struct buf b = BUF_INIT;

	buf_addf(&b, "%1000d|", 7);
	CHECK_EQ(b.len, 1001);
	CHECK_STR(buf_str(&b) + 999, "7|");
	buf_addf(&b, "%s", "");
	CHECK_EQ(b.len, 1001);
	buf_release(&b);
}

static void test_detach(void)
{
	struct buf b = BUF_INIT;
	size_t len = 9;
	uint8_t *data = buf_detach(&b, &len);

	CHECK(data);
	CHECK_EQ(len, 0);
	CHECK_EQ(data[0], 0);
	free(data);
	buf_add_str(&b, "gone");
	data = buf_detach(&b, &len);
	CHECK_EQ(len, 4);
	CHECK_STR((char *)data, "gone");
	CHECK(!b.data && !b.len);
	free(data);
}

static void test_varint(void)
{
	static const uint64_t values[] = { 0, 1, 127, 128, 16383, 16384, UINT32_MAX, UINT64_MAX };
	static const size_t sizes[] = { 1, 1, 1, 2, 2, 3, 5, 10 };
	struct buf b = BUF_INIT;
	struct reader r;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t before = b.len;

		buf_add_varint(&b, values[i]);
		CHECK_EQ(b.len - before, sizes[i]);
		CHECK_EQ(varint_size(values[i]), sizes[i]);
	}
	r = reader_of(b.data, b.len);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint64_t v;

		CHECK(reader_varint(&r, &v));
		CHECK(v == values[i]);
	}
	CHECK_EQ(reader_left(&r), 0);
	buf_release(&b);
}

int main(void)
{
	test_text();
	test_growth();
	test_reserve_all();
	test_long_format();
	test_detach();
	test_varint();
	return 0;
}
