/* SPDX-License-Identifier: Apache-2.0 */
/* What passes the check of a whole file, an index can be built of, however its bytes are bent; texts that are not UTF-8. */
#include "base/mem.h"
#include "tests/lib/check.h"
#include "tests/unit/xspace/samples.h"
#include "xspace/text.h"
#include "xspace/tvx/tvx.h"

#define BENT 5000

static int drop(void *arg, const void *data, size_t len, struct err *e)
{
	(void)arg;
	(void)data;
	(void)len;
	(void)e;
	return 0;
}

/* Returns whether the file passes. */
static bool check_one(const void *data, size_t len)
{
	struct xs_source memory = xs_source_memory(data, len), window = windowed(&memory, 64);
	const struct xs_sink sink = { .write = drop };
	struct err e = { 0 }, same = { 0 };
	int rc = xs_check(&memory, &e);

	CHECK_EQ(xs_check(&window, &same), rc);
	if (rc) { /* at one place, if not always for one reason: a window may end before the next field can be read */
		CHECK(!strncmp(same.msg, e.msg, strcspn(e.msg, ":") + 1));
		CHECK_EQ(rc, ERR_INVALID);
		CHECK(strstr(e.msg, "at byte "));
		return false;
	}
	CHECK_OK(tvx_build(&memory, NULL, &sink, &e), e);
	return true;
}

static void add_flows(struct buf *out)
{
	struct xs_builder *b = xs_builder_new();

	xs_plane(b, 1, "plane");
	xs_stat_str(b, "kind", "made");
	xs_line(b, 1, "line", 0);
	for (int i = 0; i < 20; i++) {
		xs_event(b, i % 3 ? "a" : "b", 100 * i, 50);
		xs_stat_uint(b, "flow", 4 | (1 + (unsigned int)i % 2));
	}
	xs_line(b, 2, "_counters_", 0);
	xs_event(b, "c", 5, 0);
	xs_stat_double(b, "v", 1.5);
	xs_finish(b, out);
	xs_builder_free(b);
}

static void test_bent(void)
{
	struct random r = random_seeded();
	unsigned int passed = 0;

	for (int i = 0; i < BENT; i++) {
		struct buf space = BUF_INIT;
		size_t len;

		random_xspace(&r, 1000000, &space);
		add_flows(&space);
		len = space.len;
		if (i % 4 == 0)
			len = random_below(&r, len);
		else if (i % 4 == 1)
			space.data[random_below(&r, len)] ^= (uint8_t)(1 << random_below(&r, 8));
		else if (i % 4 == 2)
			space.data[random_below(&r, len)] = 0xff;
		else
			space.data[random_below(&r, len)] = (uint8_t)random_next(&r);
		passed += check_one(space.data, len);
		buf_release(&space);
	}
	CHECK(passed > BENT / 20 && passed < BENT); /* neither all nor none */
}

static void test_whole(void)
{
	struct random r = random_seeded();

	for (int i = 0; i < 200; i++) {
		struct buf space = BUF_INIT;

		random_xspace(&r, 1000000, &space);
		add_flows(&space);
		CHECK(check_one(space.data, space.len));
		buf_release(&space);
	}
	CHECK(check_one(NULL, 0));
}

/* A stat whose length is too large, in an event or in the metadata of one. */
static void make_bent(struct buf *space, bool in_metadata)
{
	static const uint8_t stat[] = { 1 << 3, 1, 5 << 3 | 2, 9, 'x' };
	struct buf event = BUF_INIT, line = BUF_INIT, plane = BUF_INIT, metadata = BUF_INIT,
		   entry = BUF_INIT;

	put_bytes(in_metadata ? &metadata : &event, in_metadata ? 5 : 4, stat, sizeof(stat));
	put_message(&line, 4, &event);
	put_varint(&entry, 1, 1);
	put_message(&entry, 2, &metadata);
	put_message(&plane, 3, &line);
	put_message(&plane, 4, &entry);
	put_message(space, 1, &plane);
	buf_release(&event);
	buf_release(&line);
	buf_release(&plane);
	buf_release(&metadata);
	buf_release(&entry);
}

/* What a summary does not see. */
static void test_unvisited(void)
{
	for (int i = 0; i < 2; i++) {
		struct buf space = BUF_INIT;
		struct xs_summary sum;
		struct xs_source in;
		struct err e = { 0 };

		make_bent(&space, i);
		in = source_of(&space);
		CHECK_OK(xs_summarize(&in, &sum, &e), e);
		CHECK_EQ(xs_check(&in, &e), ERR_INVALID);
		CHECK(strstr(e.msg, "length 9 runs past its parent"));
		CHECK(!check_one(space.data, space.len));
		buf_release(&space);
	}
}

/* ---- texts ---- */

/* Each text that an XSpace can have, each with the wrong byte 0xff once in it, and bytes that are no text. */
static void make_texts(struct buf *space, const char *text)
{
	struct buf event = BUF_INIT, line = BUF_INIT, plane = BUF_INIT, stat = BUF_INIT;
	size_t len = strlen(text);

	put_varint(&stat, 1, 1);
	put_bytes(&stat, 5, text, len);
	put_bytes(&stat, 6, "\xff\xfe", 2);
	put_message(&event, 4, &stat);
	put_bytes(&line, 2, text, len);
	put_bytes(&line, 11, text, len);
	put_message(&line, 4, &event);
	put_bytes(&plane, 2, text, len);
	put_message(&plane, 3, &line);
	put_message(&plane, 6, &stat);
	for (unsigned int map = 4; map <= 5; map++) {
		struct buf metadata = BUF_INIT, entry = BUF_INIT;

		put_bytes(&metadata, 2, text, len);
		put_bytes(&metadata, map == 4 ? 4 : 3, text, len); /* display name, description */
		put_bytes(&metadata, map == 4 ? 3 : 4, "\xff", 1); /* bytes; unknown */
		if (map == 4)
			put_message(&metadata, 5, &stat);
		put_varint(&entry, 1, 1);
		put_message(&entry, 2, &metadata);
		put_message(&plane, map, &entry);
		buf_release(&metadata);
		buf_release(&entry);
	}
	put_message(space, 1, &plane);
	for (unsigned int field = 2; field <= 4; field++)
		put_bytes(space, field, text, len);
	buf_release(&event);
	buf_release(&line);
	buf_release(&plane);
	buf_release(&stat);
}

#define TEXTS 13

/* The cleaned file has these bytes, in whatever pieces it is read. */
static void check_clean(const struct buf *dirty, const struct buf *want, uint64_t n, size_t window)
{
	struct xs_source memory = source_of(dirty), small = windowed(&memory, 64), source;
	struct xs_clean *clean;
	struct err e = { 0 };

	CHECK_OK(xs_clean_new(&clean, window ? &small : &memory, &e), e);
	CHECK_EQ(xs_clean_bytes(clean), n);
	source = xs_clean_source(clean, window ? &small : &memory);
	CHECK_EQ(source.size, want->len);
	CHECK_OK(xs_check_texts(&source, xs_refuse_bad_text, NULL, &e), e);
	for (uint64_t at = 0; at < want->len && !source.memory;) {
		uint8_t piece[37];
		size_t len = want->len - at < 37 ? (size_t)(want->len - at) : 37;

		CHECK_OK(source.read(source.arg, at, piece, len, &e), e);
		CHECK(!memcmp(piece, want->data + at, len));
		at += len;
	}
	CHECK(!source.memory || !memcmp(source.memory, want->data, want->len));
	xs_clean_free(clean);
}

static void test_texts(void)
{
	static const struct {
		const char *dirty, *clean;
		uint64_t n;
	} cases[] = {
		{ "plain", "plain", 0 },
		{ "", "", 0 },
		{ "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
		  0 },
		{ "a\xff", "a?", 1 },
		{ "\xe2\x82", "??", 2 }, /* cut at its end */
		{ "\xe2\x82 b", "?? b", 2 },
		{ "\xc0\x80\xed\xa0\x80", "?????", 5 }, /* overlong, a surrogate */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct buf dirty = BUF_INIT, clean = BUF_INIT;
		struct xs_source in;
		struct err e = { 0 };

		make_texts(&dirty, cases[i].dirty);
		make_texts(&clean, cases[i].clean);
		check_clean(&dirty, &clean, cases[i].n * TEXTS, 0);
		check_clean(&dirty, &clean, cases[i].n * TEXTS, 64);
		in = source_of(&dirty);
		CHECK_OK(xs_check(&in, &e), e);
		CHECK_EQ(xs_check_texts(&in, xs_refuse_bad_text, NULL, &e),
			 cases[i].n ? ERR_INVALID : 0);
		if (cases[i].n)
			CHECK(strstr(e.msg, "(field 2 of XPlane) at byte "));
		buf_release(&dirty);
		buf_release(&clean);
	}
}

/* Characters across the edges of pieces, and wrong bytes there. */
static void test_long_texts(void)
{
	for (size_t shift = 0; shift < 8; shift++) {
		struct buf dirty = BUF_INIT, clean = BUF_INIT, text = BUF_INIT, scratch = BUF_INIT;
		const char *good;
		uint64_t n = 0;

		for (size_t i = 0; i < shift; i++)
			buf_add_u8(&text, 'x');
		for (size_t i = 0; i < 5000; i++)
			buf_add_str(&text, i % 2 ? "\xf0\x9f\x98\x80" : "\xe2\x82\xac");
		text.data[4090 + shift] = text.data[4096] = 0xff;
		good = text_clean(buf_str(&text), text.len, &scratch);
		for (size_t i = 0; i < text.len; i++)
			n += good[i] != (char)text.data[i];
		make_texts(&dirty, buf_str(&text));
		make_texts(&clean, good);
		check_clean(&dirty, &clean, n * TEXTS, 0);
		check_clean(&dirty, &clean, n * TEXTS, 64);
		buf_release(&dirty);
		buf_release(&clean);
		buf_release(&text);
		buf_release(&scratch);
	}
}

int main(void)
{
	test_texts();
	test_long_texts();
	test_whole();
	test_unvisited();
	test_bent();
	return 0;
}
