/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions in the formats of other viewers, byte by byte; tests/e2e/view_exits_test.py asks the viewers. */
#include "xspace/exits/exits.h"

#include "base/now.h"
#include "tests/lib/check.h"
#include "tests/unit/xspace/samples.h"

#define NS 1000 /* ps */

/* A thread in main(), which calls f(), which calls g(); beside it what is no thread, and what was not sampled. */
static struct buf stacks(void)
{
	struct xs_builder *b = xs_builder_new();
	struct buf out = BUF_INIT;

	xs_plane(b, 1, "/host:CPU samples");
	xs_line(b, 1, "worker/12", 0);
	xs_event(b, "main", 0, 10 * NS);
	xs_event(b, "f", 2 * NS, 5 * NS);
	xs_event(b, "g", 3 * NS, 3 * NS);
	xs_line(b, 2, "no thread", 0);
	xs_event(b, "main", 0, 99 * NS);
	xs_plane(b, 2, "/host:CPU");
	xs_line(b, 1, "worker/12", 0);
	xs_event(b, "step", 0, 99 * NS);
	xs_finish(b, &out);
	xs_builder_free(b);
	return out;
}

static int add_bytes(void *arg, const void *data, size_t len, struct err *e)
{
	(void)e;
	buf_add(arg, data, len);
	return 0;
}

static struct exit_counts export_stacks(const char *name, int64_t from_ns, int64_t to_ns,
					struct buf *out)
{
	const struct exit_conf conf = { .t0_unix_ns = NS_PER_S,
					.duration_ns = 100,
					.filter = { .from_ns = from_ns, .to_ns = to_ns } };
	const struct exit_format *format = exit_format_find(name);
	const struct exit_host host = { "h", -1 };
	struct buf bytes = stacks();
	struct xs_source in = source_of(&bytes);
	struct exit_counts counts;
	struct err e = { 0 };
	void *trace = format->begin(&conf, &(struct xs_sink){ .write = add_bytes, .arg = out });

	CHECK_OK(format->add(trace, &host, &in, &e), e);
	CHECK_OK(format->end(trace, &counts, &e), e);
	format->release(trace);
	buf_release(&bytes);
	return counts;
}

#define CHECK_HAS(out, bytes) CHECK(memmem((out)->data, (out)->len, bytes, sizeof(bytes) - 1))

/* Functions have numbers in the order in which they are found; a sample's begin with the callee. Its value is its own time. */
static void test_profile(void)
{
	struct buf out = BUF_INIT;
	struct exit_counts n = export_stacks("pprof", 0, INT64_MAX, &out);

	CHECK_EQ(n.slices, 3);
	CHECK_EQ(n.samples, 3);
	CHECK_EQ(n.tracks, 1);
	CHECK_EQ(n.bytes, out.len);
	CHECK_HAS(&out, "\x0a\x01\x01\x12\x01\x05");
	CHECK_HAS(&out, "\x0a\x02\x02\x01\x12\x01\x02");
	CHECK_HAS(&out, "\x0a\x03\x03\x02\x01\x12\x01\x03");
	CHECK_HAS(&out, "\x32\x09worker/12");
	buf_release(&out);
}

/* Of [4, 9): all but one of g()'s nanoseconds, one of f()'s and two of main()'s. */
static void test_part_of_profile(void)
{
	struct buf out = BUF_INIT;

	export_stacks("pprof", 4, 9, &out);
	CHECK_HAS(&out, "\x0a\x01\x01\x12\x01\x02");
	CHECK_HAS(&out, "\x0a\x02\x02\x01\x12\x01\x01");
	CHECK_HAS(&out, "\x0a\x03\x03\x02\x01\x12\x01\x02");
	buf_release(&out);
}

int main(void)
{
	test_profile();
	test_part_of_profile();
	return 0;
}
