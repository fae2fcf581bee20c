/* SPDX-License-Identifier: Apache-2.0 */
#include "xspace/wire.h"

#include "base/mem.h"
#include "tests/lib/check.h"
#include "tests/unit/xspace/samples.h"

/* Walks all of it as one XLine; returns how it ended and what was met. */
static int walk(const struct xs_source *in, struct buf *met, struct err *e)
{
	struct wire_field root = wire_root(in), f;
	struct wire_walk w;
	struct wire wire;
	int rc;

	wire_open(&wire, in);
	w = wire_walk(&wire, &root, schema_xline);
	while ((rc = wire_next(&w, &f, e)) > 0)
		buf_addf(met, "%d@%d+%d..%d ", (int)f.number, (int)f.at, (int)f.body, (int)f.end);
	wire_close(&wire);
	return rc;
}

static void check_walk(const char *bytes, size_t len, const char *want)
{
	struct xs_source memory = xs_source_memory(bytes, len), window = windowed(&memory, 1);
	struct buf met = BUF_INIT;
	struct err e = { 0 };

	CHECK_OK(walk(&memory, &met, &e), e);
	CHECK_STR(buf_str(&met), want);
	buf_reset(&met);
	CHECK_OK(walk(&window, &met, &e), e);
	CHECK_STR(buf_str(&met), want);
	buf_release(&met);
}

static void test_fields_of_every_type(void)
{
	check_walk("", 0, "");
	check_walk("\x08\x05", 2, "1@0+1..2 ");
	check_walk("\x22\x03"
		   "abc\x22\x00\x08\x01",
		   9, "4@0+2..5 4@5+7..7 1@7+8..9 ");
	check_walk("\xf9\x07"
		   "12345678",
		   10, "127@0+2..10 ");
	check_walk("\xfd\x07"
		   "1234",
		   6, "127@0+2..6 ");
	/* The greatest field number, a padded tag, a padded length, a varint of ten bytes. */
	check_walk("\xf8\xff\xff\xff\x0f\x01", 6, "536870911@0+5..6 ");
	check_walk("\x88\x80\x80\x80\x00\x05", 6, "1@0+5..6 ");
	check_walk("\x22\x81\x80\x80\x80\x00z", 7, "4@0+6..7 ");
	check_walk("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 11, "1@0+1..11 ");
}

static void test_what_is_no_field_is_refused(void)
{
	static const struct {
		const char *bytes;
		size_t len;
		const char *why;
	} cases[] = {
		{ "\x08", 1, "at byte 0: a field runs past its parent" },
		{ "\x08\x80", 2, "at byte 0: a field runs past its parent" },
		{ "\x88", 1, "at byte 0: a field runs past its parent" },
		{ "\x22", 1, "at byte 0: a field runs past its parent" },
		{ "\x08\x01\x22\x01", 4, "at byte 2: length 1 runs past its parent" },
		{ "\x22\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11,
		  "at byte 0: length 18446744073709551615 runs past its parent" },
		{ "\xf9\x07"
		  "1234567",
		  9, "at byte 0: a field runs past its parent" },
		{ "\xfd\x07"
		  "123",
		  5, "at byte 0: a field runs past its parent" },
		{ "\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 12,
		  "at byte 0: a varint longer than 10 bytes" },
		{ "\x88\x80\x80\x80\x80\x00\x05", 7, "at byte 0: a tag longer than 32 bits" },
		{ "\xf8\xff\xff\xff\x1f\x01", 6, "at byte 0: a tag longer than 32 bits" },
		{ "\x00\x01", 2, "at byte 0: field number 0" },
		{ "\x02\x00", 2, "at byte 0: field number 0" },
		{ "\x0b", 1, "at byte 0: a group" },
		{ "\x0c", 1, "at byte 0: a group" },
		{ "\x0e", 1, "at byte 0: an unknown wire type" },
		{ "\x0f", 1, "at byte 0: an unknown wire type" },
		{ "\x1a\x00", 2, "at byte 0: field 3 has wire type 2" },
		{ "\x20\x00", 2, "at byte 0: field 4 has wire type 0" },
		{ "\x0d"
		  "1234",
		  5, "at byte 0: field 1 has wire type 5" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct xs_source memory = xs_source_memory(cases[i].bytes, cases[i].len);
		struct xs_source window = windowed(&memory, 1);
		struct buf met = BUF_INIT;
		struct err e = { 0 };

		CHECK_EQ(walk(&memory, &met, &e), ERR_INVALID);
		CHECK_STR(e.msg, cases[i].why);
		e.msg[0] = '\0';
		CHECK_EQ(walk(&window, &met, &e), ERR_INVALID);
		CHECK_STR(e.msg, cases[i].why);
		buf_release(&met);
	}
}

static int read_counted(void *arg, uint64_t offset, void *out, size_t len, struct err *e)
{
	size_t *greatest = arg;

	(void)offset;
	(void)e;
	*greatest = len > *greatest ? len : *greatest;
	memset(out, 0, len);
	return 0;
}

/* 64 bits of offset, and no more memory than the window. */
static void test_far_offsets(void)
{
	size_t greatest = 0;
	struct xs_source in = {
		.read = read_counted, .arg = &greatest, .size = UINT64_MAX / 2, .window_bytes = 4096
	};
	uint64_t far = UINT64_C(1) << 60;
	const uint8_t *p;
	struct wire w;
	struct err e = { 0 };

	wire_open(&w, &in);
	CHECK_OK(wire_peek(&w, far, 10, &p, &e), e);
	CHECK_OK(wire_peek(&w, far + 5000, 10, &p, &e), e);
	CHECK_OK(wire_peek(&w, 3, 4000, &p, &e), e);
	CHECK(greatest <= 4096);
	CHECK_OK(wire_peek(&w, 3, XS_MAX_SPAN, &p, &e), e);
	CHECK_EQ(wire_peek(&w, 3, XS_MAX_SPAN + 1, &p, &e), ERR_LIMIT);
	CHECK_EQ(wire_peek(&w, in.size - 1, 2, &p, &e), ERR_INVALID);
	wire_close(&w);
}

static int read_fails(void *arg, uint64_t offset, void *out, size_t len, struct err *e)
{
	(void)arg;
	(void)offset;
	(void)out;
	return err_set(e, ERR_IO, "no %zu bytes", len);
}

static void test_source_that_fails(void)
{
	struct xs_source in = { .read = read_fails, .size = 10 };
	struct buf met = BUF_INIT;
	struct err e = { 0 };

	CHECK_EQ(walk(&in, &met, &e), ERR_IO);
	CHECK_STR(e.msg, "no 10 bytes");
	buf_release(&met);
}

/* However the walk jumps, a window shows the same bytes as memory. */
static void test_windows_show_the_same_bytes(struct random *r)
{
	uint8_t bytes[1000] = { 0 };
	struct xs_source memory = xs_source_memory(bytes, sizeof(bytes));

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)random_next(r);
	for (int round = 0; round < 200; round++) {
		struct xs_source window = windowed(&memory, random_below(r, 200));
		struct err e = { 0 };
		struct wire w;

		wire_open(&w, &window);
		for (int step = 0; step < 50; step++) {
			uint64_t at = random_below(r, sizeof(bytes));
			size_t len = random_below(r, sizeof(bytes) - at + 1);
			const uint8_t *p;

			len = random_below(r, 3) ? len % 20 : len;
			CHECK_OK(wire_peek(&w, at, len, &p, &e), e);
			CHECK(!memcmp(p, bytes + at, len));
		}
		wire_close(&w);
	}
}

int main(void)
{
	struct random r = random_seeded();

	test_fields_of_every_type();
	test_what_is_no_field_is_refused();
	test_far_offsets();
	test_source_that_fails();
	test_windows_show_the_same_bytes(&r);
	return 0;
}
