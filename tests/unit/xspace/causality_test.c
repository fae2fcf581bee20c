/* SPDX-License-Identifier: Apache-2.0 */
#include "xspace/causality.h"

#include "tests/lib/check.h"
#include "tests/unit/xspace/samples.h"

enum { IN = 1, OUT = 2 };

/* One file under construction. Times are microseconds; lines begin at 1 ms. */
static struct xs_builder *file(const char *plane)
{
	struct xs_builder *b = xs_builder_new();

	xs_plane(b, 1, plane);
	xs_line(b, 1, "line", 1000000);
	return b;
}

static struct xs_builder *marks(void)
{
	return file("/host:CPU marks");
}

static void mark(struct xs_builder *b, const char *text, int64_t at_us)
{
	xs_event(b, text, at_us * 1000000, 0);
	xs_stat_int(b, "pid", 1);
}

static void span(struct xs_builder *b, int64_t from_us, int64_t to_us)
{
	xs_event(b, "work", from_us * 1000000, (to_us - from_us) * 1000000);
}

static void barrier(struct xs_builder *b, int64_t id, int64_t from_us, int64_t to_us)
{
	span(b, from_us, to_us);
	xs_stat_int(b, "barrier_id", id);
}

static void flow(struct xs_builder *b, uint64_t id, unsigned int way, int64_t from_us,
		 int64_t to_us)
{
	span(b, from_us, to_us);
	xs_stat_uint(b, "flow", way | id << 2);
}

/* All tests are run with hosts read where they are compared, and with their observations packed elsewhere. */
static bool is_packed;

static void add_packed(struct xs_causality *c, const struct xs_source *in, int64_t bound_ns)
{
	struct xs_causality *elsewhere = xs_causality_new();
	struct buf packed = BUF_INIT;
	struct err e = { 0 };

	CHECK_OK(xs_causality_add(elsewhere, in, 0, &e), e);
	xs_causality_pack(elsewhere, SIZE_MAX, &packed);
	CHECK_OK(xs_causality_add_packed(c, packed.data, packed.len, bound_ns, &e), e);
	for (size_t i = 0; i < packed.len && packed.len < 1000; i++)
		CHECK_EQ(xs_causality_add_packed(elsewhere, packed.data, i, 0, &e), ERR_INVALID);
	buf_release(&packed);
	xs_causality_free(elsewhere);
}

static void add(struct xs_causality *c, struct xs_builder *b, int64_t bound_us)
{
	struct buf bytes = BUF_INIT;
	struct xs_source in;
	struct err e = { 0 };

	xs_finish(b, &bytes);
	xs_builder_free(b);
	in = source_of(&bytes);
	if (is_packed)
		add_packed(c, &in, bound_us * 1000);
	else
		CHECK_OK(xs_causality_add(c, &in, bound_us * 1000, &e), e);
	buf_release(&bytes);
}

static void test_clean(void)
{
	struct xs_causality *c = xs_causality_new();
	struct xs_verdict v;

	for (int host = 0; host < 3; host++) {
		struct xs_builder *b = file("/host:CPU");

		for (int i = 0; i < 5; i++)
			barrier(b, i, i * 100 + host, i * 100 + 50 - host);
		if (host < 2)
			flow(b, 7, host ? IN : OUT, 600 + host, 610);
		add(c, b, 0);
	}
	xs_causality_judge(c, &v);
	CHECK_EQ(v.checked, 6);
	CHECK_EQ(v.n_violations, 0);
	CHECK_EQ(v.ambiguous, 0);
	CHECK_EQ(v.left_out, 0);
	CHECK(v.suspect == XS_NO_HOST);
	CHECK_EQ(v.n_seen, 3 * 5 + 2);
	for (size_t i = 0; i < v.n_seen; i++) {
		const struct xs_seen *s = &v.seen[i];

		CHECK_EQ(s->host, i % 3); /* barriers first, as they came first */
		CHECK_EQ(s->key, v.seen[i - s->host].key);
		CHECK(s->has_start || i == 16);
		CHECK(s->has_end || i == 15);
		CHECK(i >= 15 || s->start_ns == v.seen[i - s->host].start_ns + s->host * 1000);
		CHECK(i >= 15 || s->end_ns == s->start_ns + 50000 - 2 * s->host * 1000);
	}
	xs_causality_free(c);
}

/* Host 2 is late by 500 us; 20 us of bounds are between any two. */
static void test_late_host(void)
{
	struct xs_causality *c = xs_causality_new();
	struct xs_verdict v;

	for (int host = 0; host < 3; host++) {
		struct xs_builder *b = marks();
		int64_t shift_us = host == 2 ? 500 : 0;

		for (int i = 0; i < 4; i++) {
			char text[64];

			snprintf(text, sizeof(text), "barrier step %d begin", i);
			mark(b, text, i * 1000 + shift_us);
			snprintf(text, sizeof(text), "barrier step %d end", i);
			mark(b, text, i * 1000 + shift_us + 10 + i + host);
		}
		add(c, b, 10);
	}
	xs_causality_judge(c, &v);
	CHECK_EQ(v.checked, 4);
	CHECK_EQ(v.n_violations, 4);
	CHECK_STR(v.violations[0].key, "barrier step 0");
	CHECK_EQ(v.violations[0].early, 0);
	CHECK_EQ(v.violations[0].late, 2);
	CHECK_EQ(v.violations[0].by_ns, 470000);
	CHECK_EQ(v.violations[3].by_ns, 467000);
	CHECK_EQ(v.suspect, 2);
	xs_causality_free(c);
}

/* Beyond the bounds by a nanosecond, or not at all. */
static void test_bounds(void)
{
	for (int64_t beyond_ns = 0; beyond_ns < 2; beyond_ns++) {
		struct xs_causality *c = xs_causality_new();
		struct xs_builder *early = file("/host:CPU"), *late = file("/host:CPU");
		struct xs_verdict v;

		barrier(early, 1, 0, 10);
		xs_event(late, "work", (30000 + beyond_ns) * 1000, 1000);
		xs_stat_int(late, "barrier_id", 1);
		add(c, early, 15);
		add(c, late, 5);
		xs_causality_judge(c, &v);
		CHECK_EQ(v.checked, 1);
		CHECK_EQ(v.n_violations, beyond_ns);
		CHECK(!v.n_violations || v.violations[0].by_ns == 1);
		CHECK(v.suspect == XS_NO_HOST); /* one of two hosts: which? */
		xs_causality_free(c);
	}
}

static void test_flow_backwards(void)
{
	struct xs_causality *c = xs_causality_new();
	struct xs_builder *a = file("/device:GPU:0"), *b = file("/host:CPU");
	struct xs_builder *d = file("/host:CPU");
	struct xs_verdict v;

	flow(a, 9, OUT, 500, 510);
	flow(b, 9, IN, 100, 200);
	flow(d, 9, IN, 450, 550); /* ends after it was sent */
	flow(d, 10, IN, 600, 700); /* not sent in the window */
	add(c, a, 1);
	add(c, b, 1);
	add(c, d, 1);
	xs_causality_judge(c, &v);
	CHECK_EQ(v.checked, 1);
	CHECK_EQ(v.n_violations, 1);
	CHECK_STR(v.violations[0].key, "flow 9");
	CHECK_EQ(v.violations[0].early, 1);
	CHECK_EQ(v.violations[0].late, 0);
	CHECK_EQ(v.violations[0].by_ns, 298000);
	xs_causality_free(c);
}

/* Ids that hosts use for themselves, or again and again, prove nothing. */
static void test_ambiguous(void)
{
	struct xs_causality *c = xs_causality_new();
	struct xs_builder *a = file("/host:CPU"), *b = file("/host:CPU");
	struct xs_verdict v;

	flow(a, 1, OUT, 500, 510);
	flow(a, 1, IN, 520, 530);
	flow(b, 1, OUT, 0, 10);
	flow(b, 1, IN, 20, 30);
	flow(a, 2, OUT | IN, 500, 510);
	flow(b, 2, IN, 0, 10);
	barrier(a, 5, 0, 10);
	barrier(a, 5, 500, 510);
	barrier(b, 5, 0, 10);
	add(c, a, 0);
	add(c, b, 0);
	xs_causality_judge(c, &v);
	CHECK_EQ(v.ambiguous, 3);
	CHECK_EQ(v.n_seen, v.checked * 2);
	CHECK_EQ(v.checked, 0);
	CHECK_EQ(v.n_violations, 0);
	xs_causality_free(c);
}

/* A window cuts barriers in two: what is left is checked, what is missing is not guessed. */
static void test_halves(void)
{
	struct xs_causality *c = xs_causality_new();
	struct xs_builder *a = marks(), *b = marks();
	struct xs_verdict v;

	mark(a, "barrier x end", 100);
	mark(b, "barrier x begin", 50);
	mark(a, "barrier y begin", 200);
	mark(b, "barrier y begin", 300);
	mark(b, "barrier  begin", 301);
	mark(b, "barrier begin", 302);
	mark(b, "barrier x begins", 303);
	mark(b, "barrier z end", 304);
	mark(b, "barrier z begin", 305); /* the end was of another z */
	mark(a, "barrier z end", 304);
	add(c, a, 0);
	add(c, b, 0);
	xs_causality_judge(c, &v);
	CHECK_EQ(v.checked, 1);
	CHECK_EQ(v.n_violations, 0);
	CHECK_EQ(v.ambiguous, 1);
	xs_causality_free(c);
}

/* Marks and stats, numbers and texts name the same barrier. */
static void test_ways_to_say_it(void)
{
	struct xs_causality *c = xs_causality_new();
	struct xs_builder *a = marks(), *b = file("/host:CPU"), *d = file("/host:CPU");
	struct xs_builder *instant = file("/host:CPU");
	struct xs_verdict v;

	mark(a, "barrier 3 begin", 0);
	mark(a, "barrier 3 end", 10);
	span(b, 0, 9);
	xs_stat_str(b, "barrier_id", "3");
	span(d, 100, 110);
	xs_stat_uint(d, "barrier_id", 3);
	xs_event(instant, "no duration", 0, 0);
	xs_stat_int(instant, "barrier_id", 3);
	add(c, a, 0);
	add(c, b, 0);
	add(c, d, 0);
	add(c, instant, 0);
	xs_causality_judge(c, &v);
	CHECK_EQ(v.checked, 1);
	CHECK_EQ(v.n_violations, 1);
	CHECK_STR(v.violations[0].key, "barrier 3");
	CHECK_EQ(v.violations[0].early, 1);
	CHECK_EQ(v.suspect, 2);
	xs_causality_free(c);
}

/* Several processes of a host: their earliest end and latest start. */
static void test_processes(void)
{
	struct xs_causality *c = xs_causality_new();
	struct xs_builder *a = file("/host:CPU"), *b = file("/host:CPU");
	struct xs_verdict v;

	barrier(a, 1, 0, 100);
	xs_line(a, 2, "other", 1000000);
	barrier(a, 1, 30, 60);
	barrier(b, 1, 61, 100);
	add(c, a, 0);
	add(c, b, 0);
	xs_causality_judge(c, &v);
	CHECK_EQ(v.ambiguous, 0);
	CHECK_EQ(v.n_violations, 1);
	CHECK_EQ(v.violations[0].by_ns, 1000);
	xs_causality_free(c);
}

/* Against all pairs, one by one. */
static void test_against_pairs(void)
{
	struct random r = random_seeded();

	for (int round = 0; round < 200; round++) {
		size_t n = 2 + random_below(&r, 8), backwards = 0, best = 0;
		int64_t start[10], end[10], bound[10], worst = INT64_MIN;
		size_t pairs[10] = { 0 }, winners = 0;
		struct xs_causality *c = xs_causality_new();
		struct xs_verdict v;

		for (size_t i = 0; i < n; i++) {
			struct xs_builder *b = file("/host:CPU");

			start[i] = (int64_t)random_below(&r, 100);
			end[i] = start[i] + 1 + (int64_t)random_below(&r, 60);
			bound[i] = (int64_t)random_below(&r, 10);
			barrier(b, 1, start[i], end[i]);
			add(c, b, bound[i]);
		}
		for (size_t i = 0; i < n; i++) {
			for (size_t j = 0; j < n; j++) {
				int64_t by = start[j] - bound[j] - bound[i] - end[i];

				if (i == j)
					continue;
				worst = by > worst ? by : worst;
				backwards += by > 0;
				pairs[i] += by > 0;
				pairs[j] += by > 0;
			}
		}
		for (size_t i = 0; i < n; i++)
			best = pairs[i] > pairs[best] ? i : best;
		for (size_t i = 0; i < n; i++)
			winners += pairs[i] == pairs[best];
		xs_causality_judge(c, &v);
		CHECK_EQ(v.n_violations, backwards > 0);
		CHECK(!backwards || v.violations[0].by_ns == worst * 1000);
		CHECK(v.suspect == (backwards && winners == 1 ? best : XS_NO_HOST));
		xs_causality_free(c);
	}
}

static void test_many(void)
{
	const size_t n = XS_CAUSALITY_KEYS + 100;
	struct xs_causality *c = xs_causality_new();
	struct xs_verdict v;

	for (int host = 0; host < 2; host++) {
		struct xs_builder *b = file("/host:CPU");

		for (size_t i = 0; i < n; i++)
			flow(b, i, host ? IN : OUT, (int64_t)i,
			     (int64_t)i + 2 - 4 * (host && i == 77));
		add(c, b, 0);
	}
	xs_causality_judge(c, &v);
	CHECK_EQ(v.checked, XS_CAUSALITY_KEYS);
	CHECK_EQ(v.left_out, 200);
	CHECK_EQ(v.n_violations, 0); /* a duration below 0 is none */
	xs_causality_free(c);
}

/* Whatever its bytes are: no crash, and the others' verdict stands. */
static void test_bad_input(void)
{
	struct random r = random_seeded();
	struct xs_causality *c = xs_causality_new();
	struct xs_builder *a = file("/host:CPU");
	struct buf good = BUF_INIT;
	struct xs_verdict v;
	struct err e;

	for (int i = 0; i < 20; i++)
		barrier(a, i, i * 100, i * 100 + 10);
	xs_finish(a, &good);
	xs_builder_free(a);
	for (int i = 0; i < 500; i++) {
		struct buf bad = BUF_INIT;
		struct xs_source in;

		buf_add(&bad, good.data, random_below(&r, good.len));
		for (int k = 0; bad.len && k < 3; k++)
			bad.data[random_below(&r, bad.len)] = (uint8_t)random_next(&r);
		in = source_of(&bad);
		if (xs_causality_add(c, &in, 0, &e))
			CHECK(e.msg[0]);
		buf_release(&bad);
	}
	xs_causality_judge(c, &v);
	xs_causality_free(c);
	buf_release(&good);
}

/* A file that breaks in the middle has seen nothing. */
static void test_broken_file(void)
{
	struct xs_causality *c = xs_causality_new();
	struct xs_builder *a = file("/host:CPU"), *b = file("/host:CPU");
	struct buf bytes = BUF_INIT;
	struct xs_source in;
	struct xs_verdict v;

	barrier(a, 1, 0, 10);
	xs_finish(a, &bytes);
	xs_builder_free(a);
	buf_add_u8(&bytes, 0xff);
	in = source_of(&bytes);
	CHECK_EQ(xs_causality_add(c, &in, 0, NULL), ERR_INVALID);
	buf_release(&bytes);
	barrier(b, 1, 100, 110);
	add(c, b, 0);
	xs_causality_judge(c, &v);
	CHECK_EQ(v.checked, 0);
	CHECK_EQ(v.n_violations, 0);
	xs_causality_free(c);
}

static void test_nothing(void)
{
	struct xs_causality *c = xs_causality_new();
	struct xs_verdict v;

	xs_causality_judge(c, &v);
	CHECK_EQ(v.checked, 0);
	CHECK(v.suspect == XS_NO_HOST);
	xs_causality_free(c);
	xs_causality_free(NULL);
}

/* What does not fit is left out, the last keys first, and counted. */
static void test_packed_limit(void)
{
	struct xs_causality *c = xs_causality_new(), *all = xs_causality_new();
	struct buf packed = BUF_INIT;
	struct xs_verdict v;
	struct xs_builder *b = marks();
	struct err e = { 0 };

	for (int i = 0; i < 100; i++)
		barrier(b, 100 + i, 10 * i, 10 * i + 5);
	is_packed = false;
	add(c, b, 0);
	xs_causality_pack(c, 200, &packed);
	CHECK(packed.len < 300);
	CHECK_OK(xs_causality_add_packed(all, packed.data, packed.len, 0, &e), e);
	CHECK_OK(xs_causality_add_packed(all, packed.data, packed.len, 0, &e), e);
	xs_causality_judge(all, &v);
	CHECK(v.checked > 10 && v.checked < 100);
	CHECK_EQ(v.left_out, 2 * (100 - v.checked));
	buf_release(&packed);
	xs_causality_free(c);
	xs_causality_free(all);
}

static void run_all(void)
{
	test_clean();
	test_late_host();
	test_bounds();
	test_flow_backwards();
	test_ambiguous();
	test_halves();
	test_ways_to_say_it();
	test_processes();
	test_against_pairs();
	test_many();
	test_bad_input();
	test_broken_file();
	test_nothing();
}

int main(void)
{
	run_all();
	is_packed = true;
	run_all();
	test_packed_limit();
	return 0;
}
