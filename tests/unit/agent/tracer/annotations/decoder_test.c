/* SPDX-License-Identifier: Apache-2.0 */
/* Records of a ring become annotations: matched, cut off, torn and invented ones. */
#include "agent/tracer/annotations/decoder.h"

#include <string.h>

#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/check.h"

#define NOW    (1000 * NS_PER_S)
#define AT(ms) ((uint64_t)(NOW - 100 * NS_PER_S + (ms)*NS_PER_MS))

static struct tutti_slot slots[64];
static size_t n_slots;
static struct note got[64];
static size_t n_got;

static void on_note(void *arg, const struct note *n)
{
	(void)arg;
	CHECK(n_got < ARRAY_SIZE(got));
	memcpy(&got[n_got++], n, NOTE_BYTES(n));
}

static int32_t thread_of(void *arg, int32_t tid)
{
	(void)arg;
	return tid + 1000;
}

static size_t open_of_user;

static struct decoder *start(void)
{
	n_slots = n_got = 0;
	memset(slots, 0, sizeof(slots));
	memset(got, 0, sizeof(got));
	return decoder_new(&(struct decoder_conf){ .pid = 7,
						   .lanes = 4,
						   .clock = TUTTI_CLOCK_RAW,
						   .open_of_user = &open_of_user,
						   .thread_of = thread_of,
						   .fn = on_note });
}

static void put(uint8_t kind, uint8_t depth, int64_t ms, uint64_t value, const char *text)
{
	struct tutti_slot *s = &slots[n_slots++];
	size_t len = strlen(text);

	*s = (struct tutti_slot){ .kind = kind,
				  .type = TUTTI_TYPE_UINT,
				  .depth = depth,
				  .text_len = (uint8_t)len,
				  .ticks = AT(ms),
				  .value = value };
	memcpy(s->text, text, len < TUTTI_TEXT_HERE ? len : TUTTI_TEXT_HERE);
	for (size_t at = TUTTI_TEXT_HERE; at < len; at += TUTTI_TEXT_NEXT) {
		struct tutti_slot_text *next = (struct tutti_slot_text *)&slots[n_slots++];

		next->kind = TUTTI_KIND_TEXT;
		memcpy(next->text, text + at,
		       len - at < TUTTI_TEXT_NEXT ? len - at : TUTTI_TEXT_NEXT);
	}
}

static size_t feed(struct decoder *d, uint32_t lane)
{
	struct ticks_map map = { 0 };
	size_t used = decoder_add(d, lane, slots, n_slots, &map, NOW);

	n_slots = 0;
	return used;
}

static void check_note(size_t i, enum note_kind kind, const char *text, int64_t begin_ms,
		       int64_t end_ms)
{
	CHECK(i < n_got);
	CHECK_EQ(got[i].kind, kind);
	CHECK_STR(got[i].text, text);
	CHECK_EQ(got[i].begin_raw_ns, (int64_t)AT(begin_ms));
	CHECK_EQ(got[i].end_raw_ns, (int64_t)AT(end_ms));
}

static void test_kinds(void)
{
	struct decoder *d = start();

	put(TUTTI_KIND_THREAD, 0, 0, 42, "worker");
	put(TUTTI_KIND_STEP, 0, 1, 12, "train");
	put(TUTTI_KIND_BEGIN, 1, 2, 0,
	    "a name that is longer than the first slot, and than the second");
	put(TUTTI_KIND_INSTANT, 0, 3, 5, "here");
	put(TUTTI_KIND_COUNTER, 0, 4, 6, "count");
	put(TUTTI_KIND_END, 1, 5, AT(2), "");
	put(TUTTI_KIND_END, 0, 6, AT(1), "");
	CHECK_EQ(feed(d, 0), 9u);
	CHECK_EQ(n_got, 5u);
	check_note(0, NOTE_STEP_BEGIN, "train", 1, 1);
	check_note(1, NOTE_INSTANT, "here", 3, 3);
	check_note(2, NOTE_COUNTER, "count", 4, 4);
	check_note(3, NOTE_SCOPE, "a name that is longer than the first slot, and than the second",
		   2, 5);
	check_note(4, NOTE_STEP, "train", 1, 6);
	CHECK(got[4].value == 12 && got[4].tid == 1042 && got[4].pid == 7);
	CHECK_STR(got[4].thread, "worker");
	CHECK_EQ(decoder_damaged(d), 0u);
	decoder_free(d);
}

/* Both ends come from different lanes, in any order. */
static void test_ranges(void)
{
	struct decoder *d = start();

	put(TUTTI_KIND_RANGE_END, 0, 9, 1, "");
	feed(d, 1);
	put(TUTTI_KIND_RANGE_BEGIN, 0, 3, 1, "first");
	put(TUTTI_KIND_RANGE_BEGIN, 0, 4, 2, "second");
	feed(d, 0);
	check_note(0, NOTE_RANGE, "first", 3, 9);
	CHECK_EQ(n_got, 1u);
	decoder_each_open(d, (int64_t)AT(20), on_note, NULL);
	check_note(1, NOTE_RANGE, "second", 4, 20);
	CHECK(got[1].unfinished);
	put(TUTTI_KIND_RANGE_END, 0, 30, 2, "");
	feed(d, 1);
	check_note(2, NOTE_RANGE, "second", 4, 30);
	for (uint64_t i = 0; i < 3 * DECODER_RANGES_MAX; i++) {
		put(TUTTI_KIND_RANGE_BEGIN, 0, 40, 100 + i, "endless");
		feed(d, 0);
	}
	CHECK_EQ(decoder_damaged(d), 2u * DECODER_RANGES_MAX);
	CHECK_EQ(n_got, 3u);
	decoder_free(d);
}

/* After a gap the scope that was open all the time is matched, the one whose end is missing ends unfinished. */
static void test_gap(void)
{
	struct decoder *d = start();

	put(TUTTI_KIND_BEGIN, 0, 1, 0, "outer");
	put(TUTTI_KIND_BEGIN, 1, 2, 0, "cut off");
	feed(d, 0);
	decoder_gap(d, 0);
	put(TUTTI_KIND_END, 1, 50, AT(40), ""); /* its begin is in the gap */
	put(TUTTI_KIND_BEGIN, 1, 51, 0, "next");
	put(TUTTI_KIND_END, 1, 52, AT(51), "");
	put(TUTTI_KIND_END, 0, 60, AT(1), "");
	feed(d, 0);
	CHECK_EQ(n_got, 3u);
	check_note(0, NOTE_SCOPE, "cut off", 2, 2);
	CHECK(got[0].unfinished);
	check_note(1, NOTE_SCOPE, "next", 51, 52);
	check_note(2, NOTE_SCOPE, "outer", 1, 60);
	CHECK(!got[2].unfinished);
	decoder_free(d);
}

static void test_end_of_process(void)
{
	struct decoder *d = start();

	put(TUTTI_KIND_BEGIN, 0, 1, 0, "outer");
	put(TUTTI_KIND_BEGIN, 1, 2, 0, "inner");
	feed(d, 2);
	decoder_each_open(d, (int64_t)AT(5), on_note, NULL);
	CHECK_EQ(n_got, 2u);
	check_note(0, NOTE_SCOPE, "outer", 1, 5);
	n_got = 0;
	decoder_end(d, (int64_t)AT(9));
	check_note(0, NOTE_SCOPE, "inner", 2, 9);
	check_note(1, NOTE_SCOPE, "outer", 1, 9);
	CHECK(got[0].unfinished && got[1].unfinished);
	decoder_end(d, (int64_t)AT(10));
	CHECK_EQ(n_got, 2u);
	decoder_free(d);
}

/* A lane's next thread begins with nothing open. */
static void test_next_thread(void)
{
	struct decoder *d = start();

	put(TUTTI_KIND_THREAD, 0, 0, 42, "first");
	put(TUTTI_KIND_BEGIN, 0, 1, 0, "never ended");
	put(TUTTI_KIND_THREAD, 0, 5, 43, "second");
	put(TUTTI_KIND_INSTANT, 0, 6, 0, "here");
	feed(d, 0);
	check_note(0, NOTE_SCOPE, "never ended", 1, 5);
	CHECK(got[0].unfinished && got[0].tid == 1042);
	CHECK(got[1].tid == 1043);
	CHECK_STR(got[1].thread, "second");
	decoder_free(d);
}

static void test_nonsense(void)
{
	struct decoder *d = start();
	size_t whole;

	put(TUTTI_KIND_TEXT, 0, 0, 0, "the rest of a record whose begin was overwritten");
	put(77, 0, 1, 0, "no kind");
	put(TUTTI_KIND_BEGIN, TUTTI_DEPTH_MAX, 2, 0, "too deep");
	put(TUTTI_KIND_END, 255, 3, 0, "");
	put(TUTTI_KIND_END, 0, 4, AT(1), "");
	put(TUTTI_KIND_INSTANT, 0, -1000000, 0, "too old");
	put(TUTTI_KIND_INSTANT, 0, 200000, 0, "in the future");
	put(TUTTI_KIND_INSTANT, 0, 5, 0, "bad \x01\xff");
	put(TUTTI_KIND_STEP, 0, 6, UINT64_MAX, "no number of a step");
	slots[n_slots] =
		(struct tutti_slot){ .kind = TUTTI_KIND_INSTANT, .text_len = 255, .ticks = AT(7) };
	n_slots++;
	put(TUTTI_KIND_INSTANT, 0, 8, 0, "a long text whose second slot is no text");
	slots[n_slots - 1] = (struct tutti_slot){ .kind = TUTTI_KIND_END, .ticks = AT(8) };
	put(TUTTI_KIND_INSTANT, 0, 9, 0, "a long text whose second slot has not come");
	n_slots--;
	whole = n_slots - 1;
	CHECK_EQ(feed(d, 0), whole);
	CHECK_EQ(n_got, 2u);
	check_note(0, NOTE_INSTANT, "bad  ?", 5, 5);
	check_note(1, NOTE_SCOPE, "no number of a step", 6, 8); /* that end is another scope's */
	CHECK(got[1].unfinished);
	CHECK(decoder_damaged(d) >= 7);
	decoder_free(d);
}

/* Scopes that go on for ever are bounded in number. */
static void test_too_many_open(void)
{
	struct decoder *d = start();

	for (uint32_t lane = 0; lane < DECODER_LANES_MAX; lane++) {
		for (uint8_t depth = 0; depth < 8; depth++)
			put(TUTTI_KIND_BEGIN, depth, depth, 0, "x");
		feed(d, lane);
	}
	CHECK_EQ(decoder_damaged(d), DECODER_LANES_MAX * 8u - DECODER_OPEN_MAX);
	CHECK_EQ(open_of_user, DECODER_OPEN_MAX);
	decoder_free(d);
	CHECK_EQ(open_of_user, 0);
}

/* All rings of a user together have a limit, too. */
static void test_open_of_user(void)
{
	struct decoder *d;

	open_of_user = DECODER_OPEN_OF_USER_MAX - 1;
	d = start();
	put(TUTTI_KIND_BEGIN, 0, 1, 0, "a");
	put(TUTTI_KIND_BEGIN, 1, 2, 0, "b");
	feed(d, 0);
	CHECK_EQ(decoder_damaged(d), 1);
	CHECK_EQ(open_of_user, DECODER_OPEN_OF_USER_MAX);
	put(TUTTI_KIND_END, 1, 3, AT(2), "");
	put(TUTTI_KIND_END, 0, 4, AT(1), "");
	put(TUTTI_KIND_BEGIN, 0, 5, 0, "c");
	feed(d, 0);
	CHECK_EQ(decoder_damaged(d), 1);
	decoder_free(d);
	CHECK_EQ(open_of_user, DECODER_OPEN_OF_USER_MAX - 1);
	open_of_user = 0;
}

static void test_ticks(void)
{
	struct ticks_map m = { 0 };

	ticks_map_add(&m, (struct ticks_reading){ 3000, 1000000 });
	ticks_map_add(&m, (struct ticks_reading){ 6000, 1001000 });
	ticks_map_add(&m, (struct ticks_reading){ 5000, 1002000 }); /* backwards: not taken */
	if (ticks_is_known(TUTTI_CLOCK_TSC)) {
		CHECK_EQ(ticks_to_raw(&m, TUTTI_CLOCK_TSC, 4500), 1000500);
		CHECK_EQ(ticks_to_raw(&m, TUTTI_CLOCK_TSC, 9000), 1002000);
		CHECK_EQ(ticks_to_raw(&m, TUTTI_CLOCK_TSC, 0), 999000);
		CHECK_EQ(ticks_to_raw(&m, TUTTI_CLOCK_TSC, UINT64_MAX), 0);
	}
	CHECK_EQ(ticks_to_raw(&m, TUTTI_CLOCK_RAW, 4711), 4711);
	CHECK_EQ(ticks_to_raw(&m, TUTTI_CLOCK_RAW, UINT64_MAX), 0);
	CHECK_EQ(ticks_to_raw(&m, 99, 4711), 0);
}

int main(void)
{
	test_kinds();
	test_ranges();
	test_gap();
	test_end_of_process();
	test_next_thread();
	test_nonsense();
	test_too_many_open();
	test_open_of_user();
	test_ticks();
	return 0;
}
