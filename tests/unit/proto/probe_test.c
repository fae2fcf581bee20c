/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/probe.h"

#include "tests/lib/check.h"

static const struct probe sample = {
	.type = PROBE_REPLY,
	.train = 8,
	.index = 7,
	.cookie = UINT64_C(0x0102030405060708),
	.epoch = UINT64_C(0xf102030405060708),
	.seq = 0xdeadbeef,
	.t1_ns = -5,
	.t2_ns = INT64_MAX,
	.t3_ns = INT64_MIN,
	.sent = { { 1, 2 }, { 0 }, { 0 }, { 4, -1 } },
};

static const struct siphash_key key = { { 1, 2, 3 } };

static void test_round_trip(void)
{
	uint8_t bytes[PROBE_BYTES];
	struct probe p;

	probe_encode(&sample, &key, bytes);
	CHECK(probe_decode(&p, bytes, sizeof(bytes)));
	CHECK_EQ(p.type, sample.type);
	CHECK_EQ(p.train, sample.train);
	CHECK_EQ(p.index, sample.index);
	CHECK(p.cookie == sample.cookie);
	CHECK(p.epoch == sample.epoch);
	CHECK_EQ(p.seq, sample.seq);
	CHECK_EQ(p.t1_ns, sample.t1_ns);
	CHECK_EQ(p.t2_ns, sample.t2_ns);
	CHECK_EQ(p.t3_ns, sample.t3_ns);
	for (int i = 0; i < PROBE_SENT_MAX; i++) {
		CHECK_EQ(p.sent[i].seq, sample.sent[i].seq);
		CHECK_EQ(p.sent[i].t3_ns, sample.sent[i].t3_ns);
	}
}

/* The layout that other implementations must match, byte for byte. */
static void test_layout(void)
{
	static const uint8_t head[] = {
		0x54, 0x54, 0x4d, 0x31, 2,    2,    8,	  7, /* magic, version, type, train, index */
		1,    2,    3,	  4,	5,    6,    7,	  8, /* cookie */
		0xf1, 2,    3,	  4,	5,    6,    7,	  8, /* epoch */
		0xde, 0xad, 0xbe, 0xef, 0,    0,    0,	  0, /* seq, flags */
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfb, /* t1 */
		0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, /* t2 */
		0x80, 0,    0,	  0,	0,    0,    0,	  0, /* t3 */
		0,    0,    0,	  1,	0,    0,    0,	  0,	0, 0, 0, 2, /* sent[0] */
	};
	uint8_t bytes[PROBE_BYTES];

	memset(bytes, 0xaa, sizeof(bytes));
	probe_encode(&sample, &key, bytes);
	CHECK(!memcmp(bytes, head, sizeof(head)));
	for (size_t i = sizeof(head); i < 92; i++)
		CHECK_EQ(bytes[i], 0);
	CHECK_EQ(bytes[95], 4);
	for (size_t i = 96; i < 104; i++)
		CHECK_EQ(bytes[i], 0xff);
	for (size_t i = 104; i < 120; i++)
		CHECK_EQ(bytes[i], 0);
}

/* A packet with one bit changed anywhere, or checked with another key, is not signed. */
static void test_signature(void)
{
	struct siphash_key other = key;
	uint8_t bytes[PROBE_BYTES];

	other.bytes[15] = 1;
	probe_encode(&sample, &key, bytes);
	CHECK(probe_is_signed(bytes, &key));
	CHECK(!probe_is_signed(bytes, &other));
	for (size_t bit = 0; bit < 8 * sizeof(bytes); bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		CHECK(!probe_is_signed(bytes, &key));
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	CHECK(probe_is_signed(bytes, &key));
}

static void check_refused(size_t at, uint8_t value)
{
	uint8_t bytes[PROBE_BYTES];
	struct probe p;

	probe_encode(&sample, &key, bytes);
	bytes[at] = value;
	CHECK(!probe_decode(&p, bytes, sizeof(bytes)));
}

static void test_refusals(void)
{
	uint8_t bytes[PROBE_BYTES + 1] = { 0 };
	struct probe p;

	for (size_t i = 0; i < 4; i++)
		check_refused(i, 0);
	check_refused(4, 0);
	check_refused(4, PROBE_VERSION + 1);
	check_refused(5, 0);
	check_refused(5, 3);
	check_refused(6, 7); /* index 7 of a train of 7 */
	check_refused(6, 0);
	check_refused(7, 8);
	probe_encode(&sample, &key, bytes);
	CHECK(!probe_decode(&p, bytes, 0));
	CHECK(!probe_decode(&p, NULL, 0));
	CHECK(!probe_decode(&p, bytes, PROBE_BYTES - 1));
	CHECK(!probe_decode(&p, bytes, PROBE_BYTES + 1));
}

int main(void)
{
	test_round_trip();
	test_layout();
	test_signature();
	test_refusals();
	return 0;
}
