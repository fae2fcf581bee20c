/* SPDX-License-Identifier: Apache-2.0 */
/* XLA's own collectives as a causality check matches them. Files are made as XLA makes them, HLO included. */
#include <stdio.h>
#include <string.h>

#include "tests/lib/check.h"
#include "base/mem.h"
#include "tests/unit/xspace/samples.h"
#include "xspace/causality.h"

#define MS	  1000000
#define RUN	  (-1696223847)
#define WINDOW_MS 1000

/* ---- HLO ---- */

static void hlo_varint(struct buf *b, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		buf_add_u8(b, (uint8_t)(v | 0x80));
	buf_add_u8(b, (uint8_t)v);
}

static void hlo_number(struct buf *b, unsigned int field, uint64_t v)
{
	hlo_varint(b, field << 3);
	hlo_varint(b, v);
}

static void hlo_bytes(struct buf *b, unsigned int field, const void *data, size_t len)
{
	hlo_varint(b, field << 3 | 2);
	hlo_varint(b, len);
	buf_add(b, data, len);
}

static void hlo_text(struct buf *b, unsigned int field, const char *text)
{
	hlo_bytes(b, field, text, strlen(text));
}

/* Moves `inner` into a field of `b`. */
static void hlo_message(struct buf *b, unsigned int field, struct buf *inner)
{
	hlo_bytes(b, field, inner->data, inner->len);
	buf_release(inner);
}

static void hlo_packed(struct buf *b, unsigned int field, const uint64_t *v, size_t n)
{
	struct buf packed = BUF_INIT;

	for (size_t i = 0; i < n; i++)
		hlo_varint(&packed, v[i]);
	hlo_message(b, field, &packed);
}

/* How an instruction lists its groups. */
enum listing { ALL, GROUPS, DEVICE_LIST, IOTA, IOTA_TRANSPOSED, MESH, MESH_OTHER, NO_HLO };

/* Groups {0, 1} {2, 3}; IOTA_TRANSPOSED and MESH: {0, 2} {1, 3}. */
static void put_groups(struct buf *b, enum listing listing)
{
	static const uint64_t halves[2][2] = { { 0, 1 }, { 2, 3 } };
	static const uint64_t two[] = { 2, 2 }, swapped[] = { 1, 0 }, four[] = { 4 };
	struct buf list = BUF_INIT, inner = BUF_INIT;

	for (size_t i = 0; i < 2 && (listing == GROUPS || listing == DEVICE_LIST); i++) {
		hlo_packed(&inner, 1, halves[i], 2);
		hlo_message(listing == GROUPS ? b : &list, listing == GROUPS ? 49 : 1, &inner);
	}
	if (listing == DEVICE_LIST)
		hlo_message(b, 87, &list);
	if (listing == IOTA || listing == IOTA_TRANSPOSED) {
		hlo_number(&list, 1, 2);
		hlo_number(&list, 2, 2);
		hlo_packed(&list, 3, listing == IOTA ? four : two, listing == IOTA ? 1 : 2);
		if (listing == IOTA_TRANSPOSED)
			hlo_packed(&list, 4, swapped, 2);
		hlo_message(b, 92, &list);
	}
	if (listing == MESH || listing == MESH_OTHER) {
		struct buf mesh = BUF_INIT;

		for (int i = 0; i < 2; i++) {
			hlo_text(&inner, 1, "axis");
			hlo_number(&inner, 2, 2);
			hlo_message(&mesh, 1, &inner);
		}
		if (listing == MESH_OTHER)
			hlo_packed(&mesh, 2, halves[0], 2);
		hlo_message(&list, 1, &mesh);
		hlo_message(&list, 2, &inner); /* axis 0 */
		hlo_message(b, 93, &list);
	}
}

static void put_instruction(struct buf *computation, const char *name, const char *opcode,
			    enum listing listing)
{
	struct buf i = BUF_INIT;

	hlo_text(&i, 1, name);
	hlo_text(&i, 2, opcode);
	hlo_number(&i, 26, 1);
	put_groups(&i, listing);
	hlo_number(&i, 71, 1);
	hlo_message(computation, 2, &i);
}

/* A plane with the HLO of jit_step(7), which runs on `devices`. */
static void put_hlo(struct buf *file, enum listing listing, const uint64_t *devices, size_t n)
{
	struct buf computation = BUF_INIT, module = BUF_INIT, assignment = BUF_INIT;
	struct buf proto = BUF_INIT, stat = BUF_INIT, metadata = BUF_INIT, entry = BUF_INIT;
	struct buf plane = BUF_INIT;

	put_instruction(&computation, "all-reduce.1", "all-reduce", listing);
	put_instruction(&computation, "collective-permute.1", "collective-permute", listing);
	put_instruction(&computation, "all-reduce-fusion", "fusion", ALL);
	hlo_message(&module, 3, &computation);
	hlo_number(&assignment, 1, 1);
	hlo_number(&assignment, 2, n);
	for (size_t i = 0; i < n; i++) {
		struct buf device = BUF_INIT;

		hlo_packed(&device, 1, &devices[i], 1);
		hlo_message(&assignment, 3, &device);
	}
	hlo_message(&module, 15, &assignment);
	hlo_message(&proto, 1, &module);
	hlo_number(&stat, 1, 1);
	hlo_message(&stat, 6, &proto);
	hlo_text(&metadata, 2, "jit_step(7)");
	hlo_message(&metadata, 5, &stat);
	hlo_number(&entry, 1, 7);
	hlo_message(&entry, 2, &metadata);
	hlo_text(&plane, 2, "/host:metadata");
	hlo_message(&plane, 4, &entry);
	hlo_message(file, 1, &plane);
}

/* ---- files ---- */

static const uint64_t four_devices[] = { 0, 2048, 4096, 6144 };

static struct xs_builder *process(void)
{
	struct xs_builder *b = xs_builder_new();

	xs_plane(b, 1, "/host:CPU");
	xs_line(b, 1, "tf_XLAPjRtCpuClient/1", 0);
	return b;
}

/* An operation of a run on a device, from start_ms on for 10 ms. */
static void operation(struct xs_builder *b, const char *op, int64_t run, uint64_t device,
		      int64_t start_ms)
{
	xs_event(b, op, start_ms * MS * 1000, (int64_t)10 * MS * 1000);
	xs_stat_str(b, "hlo_op", op);
	xs_stat_str(b, "hlo_module", "jit_step");
	xs_stat_int(b, "program_id", 7);
	if (run)
		xs_stat_int(b, "run_id", run);
	xs_stat_uint(b, "device_ordinal", device);
}

/* Ends the file and adds it with a bound of 1 us. */
static void add(struct xs_causality *c, struct xs_builder *b, enum listing listing,
		const uint64_t *devices, size_t n)
{
	struct buf bytes = BUF_INIT;
	struct xs_source in;
	struct err e = { 0 };

	xs_finish(b, &bytes);
	xs_builder_free(b);
	if (listing != NO_HLO)
		put_hlo(&bytes, listing, devices, n);
	in = xs_source_memory(bytes.data, bytes.len);
	CHECK_OK(xs_causality_add(c, &in, 1000, &e), e);
	buf_release(&bytes);
}

/* A host with one device runs the program `runs` times, every 20 ms. */
static void add_host(struct xs_causality *c, enum listing listing, size_t rank, int runs,
		     int64_t wrong_ms)
{
	struct xs_builder *b = process();

	for (int i = 0; i < runs; i++)
		operation(b, "all-reduce.1", RUN + i, four_devices[rank], 20 * i + wrong_ms);
	add(c, b, listing, four_devices, ARRAY_SIZE(four_devices));
}

static struct xs_verdict judge(struct xs_causality *c)
{
	struct xs_verdict v;

	xs_causality_judge(c, &v);
	return v;
}

/* ---- tests ---- */

static void test_all_matched(void)
{
	struct xs_causality *c = xs_causality_new();
	struct xs_verdict v;

	for (size_t rank = 0; rank < 4; rank++)
		add_host(c, ALL, rank, 10, 0);
	v = judge(c);
	CHECK_EQ(v.checked, 10);
	CHECK_EQ(v.collectives, 40);
	CHECK_EQ(v.matched_collectives, 40);
	CHECK_EQ(v.ambiguous_collectives, 0);
	CHECK_EQ(v.n_violations, 0);
	xs_causality_free(c);
}

static void test_late_host_is_suspect(void)
{
	struct xs_causality *c = xs_causality_new();
	struct xs_verdict v;

	for (size_t rank = 0; rank < 4; rank++)
		add_host(c, ALL, rank, 10, rank == 2 ? 15 : 0);
	v = judge(c);
	CHECK_EQ(v.checked, 10);
	CHECK_EQ(v.n_violations, 10);
	CHECK_EQ(v.suspect, 2);
	CHECK_EQ(v.violations[0].late, 2);
	CHECK_EQ(v.violations[0].by_ns, 5 * MS - 2000);
	CHECK(!strncmp(v.violations[0].key, "all-reduce.1 of jit_step run -16962238", 38));
	xs_causality_free(c);
}

/* Ranks 2 and 3 are half a second late: only those who are in a group with others show it. */
static void test_groups(void)
{
	static const struct {
		enum listing listing;
		unsigned int checked, violations, ambiguous;
	} cases[] = {
		{ ALL, 3, 3, 0 },	  { GROUPS, 6, 0, 0 }, { DEVICE_LIST, 6, 0, 0 },
		{ IOTA, 6, 0, 0 },	  { MESH, 6, 6, 0 },   { IOTA_TRANSPOSED, 6, 6, 0 },
		{ MESH_OTHER, 0, 0, 12 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct xs_causality *c = xs_causality_new();
		struct xs_verdict v;

		for (size_t rank = 0; rank < 4; rank++)
			add_host(c, cases[i].listing, rank, 3, rank >= 2 ? 500 : 0);
		v = judge(c);
		CHECK_EQ(v.checked, cases[i].checked);
		CHECK_EQ(v.n_violations, cases[i].violations);
		CHECK_EQ(v.ambiguous_collectives, cases[i].ambiguous);
		xs_causality_free(c);
	}
}

/* Each host runs a program of its own devices: names and runs are equal, and prove nothing. */
static void test_programs_of_one_host(void)
{
	struct xs_causality *c = xs_causality_new();
	struct xs_verdict v;

	for (size_t rank = 0; rank < 2; rank++) {
		struct xs_builder *b = process();

		for (int i = 0; i < 3; i++) {
			operation(b, "all-reduce.1", RUN + i, four_devices[2 * rank],
				  20 * i + 500 * (int)rank);
			operation(b, "all-reduce.1", RUN + i, four_devices[2 * rank + 1],
				  20 * i + 500 * (int)rank);
		}
		add(c, b, ALL, &four_devices[2 * rank], 2);
	}
	v = judge(c);
	CHECK_EQ(v.checked, 0);
	CHECK_EQ(v.collectives, 12);
	CHECK_EQ(v.ambiguous_collectives, 0);
	xs_causality_free(c);
}

/* Without HLO, without a run, and of a kind that is no barrier: counted, not guessed. */
static void test_ambiguous(void)
{
	struct xs_causality *c = xs_causality_new();
	struct xs_verdict v;

	for (size_t rank = 0; rank < 2; rank++)
		add_host(c, NO_HLO, rank, 3, 500 * (int)rank);
	for (size_t rank = 0; rank < 2; rank++) {
		struct xs_builder *b = process();

		for (int i = 0; i < 3; i++) {
			int64_t start_ms = 50 * i + 500 * (int)rank;

			operation(b, "all-reduce.1", 0, four_devices[rank], start_ms);
			operation(b, "collective-permute.1", RUN + i, four_devices[rank], start_ms);
			operation(b, "all-reduce-fusion", RUN + i, four_devices[rank], start_ms);
		}
		add(c, b, ALL, four_devices, 4);
	}
	v = judge(c);
	CHECK_EQ(v.checked, 0);
	CHECK_EQ(v.collectives, 6 + 12);
	CHECK_EQ(v.ambiguous_collectives, 6 + 12);
	xs_causality_free(c);
}

/* Three times in each run. The window cuts the first run and the last, so which times they have is unknown. */
static void test_loop(void)
{
	struct xs_causality *c = xs_causality_new();
	struct xs_verdict v;

	for (size_t rank = 0; rank < 2; rank++) {
		struct xs_builder *b = process();

		for (int i = rank ? 1 : 0; i < 12; i++)
			operation(b, "all-reduce.1", RUN + i / 3, four_devices[rank], 20 * i);
		add(c, b, ALL, four_devices, 4);
	}
	v = judge(c);
	CHECK_EQ(v.checked, 6);
	CHECK_EQ(v.n_violations, 0);
	CHECK_EQ(v.matched_collectives, 12);
	CHECK_EQ(v.ambiguous_collectives, 5 + 6);
	xs_causality_free(c);
}

/* The event ends when the operation is started; another one is its end. */
static void test_started(void)
{
	struct xs_causality *c = xs_causality_new();
	struct xs_verdict v;

	for (size_t rank = 0; rank < 2; rank++) {
		struct xs_builder *b = process();

		for (int i = 0; i < 3; i++) {
			operation(b, "all-reduce.1", RUN + i, four_devices[rank],
				  100 * i + 40 * (int)rank);
			xs_stat_int(b, "_p", 70 + i);
			xs_event(b, "end: all-reduce.1", (int64_t)(100 * i + 60) * MS * 1000,
				 1000000);
			if (i < 2) /* one end is after the window */
				xs_stat_int(b, "_c", 70 + i);
		}
		add(c, b, ALL, four_devices, 4);
	}
	v = judge(c);
	CHECK_EQ(v.checked, 2);
	CHECK_EQ(v.n_violations, 0);
	xs_causality_free(c);
}

/* A step that an edge of the window cuts is not whole. */
static void test_steps(void)
{
	struct xs_causality *c = xs_causality_new();
	struct xs_builder *b = process();
	struct xs_verdict v;

	xs_causality_set_window(c, (int64_t)WINDOW_MS * MS);
	for (int i = 0; i < 5; i++) {
		xs_event(b, "train", (int64_t)200 * i * MS * 1000, (int64_t)200 * MS * 1000);
		xs_stat_int(b, "step_num", 40 + i);
	}
	add(c, b, NO_HLO, NULL, 0);
	add(c, process(), NO_HLO, NULL, 0);
	v = judge(c);
	CHECK(v.steps[0].known && !v.steps[1].known);
	CHECK_EQ(v.steps[0].first, 41);
	CHECK_EQ(v.steps[0].last, 43);
	CHECK_EQ(v.steps[0].first_at_ns, 200 * MS);
	CHECK_EQ(v.steps[0].end_at_ns, 800 * MS);
	xs_causality_free(c);
}

/* Whatever the bytes of HLO are: no crash. */
static void test_bad_hlo(void)
{
	struct random r = random_seeded();
	struct buf good = BUF_INIT;

	for (enum listing listing = ALL; listing < NO_HLO; listing++) {
		struct xs_builder *b = process();

		operation(b, "all-reduce.1", RUN, 0, 0);
		operation(b, "all-reduce.1", RUN + 1, 0, 20);
		xs_finish(b, &good);
		xs_builder_free(b);
		put_hlo(&good, listing, four_devices, 4);
		for (int i = 0; i < 300; i++) {
			struct xs_causality *c = xs_causality_new();
			struct buf bad = BUF_INIT;
			struct xs_source in;

			buf_add(&bad, good.data, good.len);
			for (int k = 0; k < 3; k++)
				bad.data[random_below(&r, bad.len)] = (uint8_t)random_next(&r);
			in = xs_source_memory(bad.data, bad.len);
			if (!xs_causality_add(c, &in, 0, NULL))
				(void)judge(c);
			xs_causality_free(c);
			buf_release(&bad);
		}
		buf_release(&good);
	}
}

int main(void)
{
	test_all_matched();
	test_late_host_is_suspect();
	test_groups();
	test_programs_of_one_host();
	test_ambiguous();
	test_loop();
	test_started();
	test_steps();
	test_bad_hlo();
	return 0;
}
