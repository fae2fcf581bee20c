/* SPDX-License-Identifier: Apache-2.0 */
/* The walk over ProfileResponse: the same bytes however they are cut, and no trust in any of them. */
#include "agent/tracer/profiler/reply.h"
#include "base/buf.h"
#include "base/now.h"
#include "tests/lib/check.h"

static int collect(void *arg, const void *data, size_t len, struct err *e)
{
	(void)e;
	buf_add(arg, data, len);
	return 0;
}

static int refuse(void *arg, const void *data, size_t len, struct err *e)
{
	(void)arg;
	(void)data;
	(void)len;
	return err_set(e, ERR_IO, "disk full");
}

/* Reads a reply in pieces of `step` bytes. */
static int read_reply(const struct buf *in, size_t step, struct buf *xspace,
		      struct profiler_reply *r, struct err *e)
{
	*r = profiler_reply_of(collect, xspace);
	for (size_t at = 0; at < in->len; at += step) {
		size_t n = in->len - at < step ? in->len - at : step;
		int rc = profiler_reply_feed(r, in->data + at, n, e);

		if (rc)
			return rc;
	}
	return profiler_reply_end(r, e);
}

static void add_bytes(struct buf *b, unsigned int field, const void *data, size_t len)
{
	buf_add_varint(b, field << 3 | 2);
	buf_add_varint(b, len);
	buf_add(b, data, len);
}

static void test_any_cut(void)
{
	struct buf in = BUF_INIT, big = BUF_INIT;

	for (int i = 0; i < 500; i++)
		buf_add_u8(&big, (uint8_t)i);
	add_bytes(&in, 6, "tool data", 9); /* of no interest */
	add_bytes(&in, 8, big.data, big.len);
	buf_add_varint(&in, 7 << 3); /* empty_trace */
	buf_add_varint(&in, 1);
	buf_add_varint(&in, 99 << 3 | 1); /* unknown: fixed64, fixed32 */
	buf_add(&in, "12345678", 8);
	buf_add_varint(&in, 98 << 3 | 5);
	buf_add(&in, "1234", 4);
	add_bytes(&in, 8, "tail", 4); /* protobuf merges repeated messages */

	for (size_t step = 1; step <= in.len; step++) {
		struct buf out = BUF_INIT;
		struct profiler_reply r;
		struct err e;

		CHECK_OK(read_reply(&in, step, &out, &r, &e), e);
		CHECK(r.has_xspace);
		CHECK(r.empty_trace);
		CHECK_EQ(r.xspace_bytes, 504);
		CHECK_EQ(out.len, 504);
		CHECK(!memcmp(out.data, big.data, 500) && !memcmp(out.data + 500, "tail", 4));
		buf_release(&out);
	}
	buf_release(&in);
	buf_release(&big);
}

static void test_without_xspace(void)
{
	struct buf in = BUF_INIT, out = BUF_INIT;
	struct profiler_reply r;
	struct err e;

	CHECK_OK(read_reply(&in, 1, &out, &r, &e), e);
	CHECK(!r.has_xspace && !r.empty_trace);
	add_bytes(&in, 8, "", 0);
	CHECK_OK(read_reply(&in, 1, &out, &r, &e), e);
	CHECK(r.has_xspace);
	CHECK_EQ(r.xspace_bytes, 0);
	buf_release(&in);
}

struct bad {
	const char *bytes;
	size_t len;
};

#define BAD(s) \
	{ \
		s, sizeof(s) - 1 \
	}

static void test_bad(void)
{
	static const struct bad bads[] = {
		BAD("\x42"), /* no length */
		BAD("\x42\x05"
		    "1234"), /* shorter than it says */
		BAD("\x42\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01x"),
		BAD("\x42\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"), /* 11 byte number */
		BAD("\x40\x01"), /* an XSpace that is a number */
		BAD("\x41"
		    "12345678"),
		BAD("\x00\x01"), /* field 0 */
		BAD("\x43"), /* groups */
		BAD("\x44"),
		BAD("\x38\x80"), /* ends inside a number */
		BAD("\xff\xff\xff\xff\xff\x0f"), /* field number of 35 bits */
	};

	for (size_t i = 0; i < sizeof(bads) / sizeof(bads[0]); i++) {
		struct buf in = BUF_INIT, out = BUF_INIT;
		struct profiler_reply r;
		struct err e;

		buf_add(&in, bads[i].bytes, bads[i].len);
		CHECK_EQ(read_reply(&in, 1, &out, &r, &e), ERR_INVALID);
		CHECK_EQ(read_reply(&in, in.len, &out, &r, &e), ERR_INVALID);
		CHECK(strstr(e.msg, "offset"));
		buf_release(&in);
		buf_release(&out);
	}
}

static void test_sink_fails(void)
{
	struct profiler_reply r = profiler_reply_of(refuse, NULL);
	struct err e;

	CHECK_EQ(profiler_reply_feed(&r, "\x42\x02xx", 4, &e), ERR_IO);
	CHECK_STR(e.msg, "disk full");
}

int main(void)
{
	test_any_cut();
	test_without_xspace();
	test_bad();
	test_sink_fails();
	return 0;
}
