/* SPDX-License-Identifier: Apache-2.0 */
/* What passes the check of a whole file, an index can be built of, however its bytes are bent. */
#include "base/mem.h"
#include "tests/lib/check.h"
#include "tests/unit/xspace/samples.h"
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

int main(void)
{
	test_whole();
	test_unvisited();
	test_bent();
	return 0;
}
