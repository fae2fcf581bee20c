/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/fleet/probe_peer.h"

#include "tests/lib/check.h"

static void test_nothing_twice(void)
{
	struct probe_peer p;

	probe_peer_reset(&p);
	CHECK(!probe_peer_accept_seq(&p, 0));
	for (uint32_t seq = 1; seq <= 200; seq++) {
		CHECK(probe_peer_accept_seq(&p, seq));
		CHECK(!probe_peer_accept_seq(&p, seq));
	}
	for (uint32_t seq = 1; seq <= 200; seq++)
		CHECK(!probe_peer_accept_seq(&p, seq));
}

/* Packets overtake each other: late ones are answered, once, unless they are very late. */
static void test_out_of_order(void)
{
	struct probe_peer p;

	probe_peer_reset(&p);
	CHECK(probe_peer_accept_seq(&p, 70));
	CHECK(probe_peer_accept_seq(&p, 69));
	CHECK(probe_peer_accept_seq(&p, 7)); /* 63 back: the last that the window holds */
	CHECK(!probe_peer_accept_seq(&p, 6));
	CHECK(!probe_peer_accept_seq(&p, 7));
	CHECK(probe_peer_accept_seq(&p, 72));
	CHECK(probe_peer_accept_seq(&p, 71));
	CHECK(!probe_peer_accept_seq(&p, 70));
	CHECK(!probe_peer_accept_seq(&p, 69));
	CHECK(probe_peer_accept_seq(&p, UINT32_MAX));
	CHECK(!probe_peer_accept_seq(&p, 72));
	CHECK(probe_peer_accept_seq(&p, UINT32_MAX - 63));
}

static void test_departures(void)
{
	struct probe_peer p;
	struct probe reply;

	probe_peer_reset(&p);
	CHECK(probe_peer_note_departure(&p, 1, 1000,
					999)); /* before it was handed over: not noted */
	CHECK(!probe_peer_note_departure(&p, 1, 1000, 1001 + PROBE_SENT_MAX_NS));
	probe_peer_fill_reply(&p, &reply);
	for (int i = 0; i < PROBE_SENT_MAX; i++)
		CHECK_EQ(reply.sent[i].t3_ns, 0);

	/* Ten into eight: the oldest two are gone; four fit into a reply. */
	for (uint32_t seq = 1; seq <= 10; seq++)
		CHECK(probe_peer_note_departure(&p, seq, 1000, 1000 + seq));
	for (uint32_t seq = 3; seq <= 10; seq++) {
		uint32_t i = (seq - 3) % PROBE_SENT_MAX;

		if (!i)
			probe_peer_fill_reply(&p, &reply);
		CHECK_EQ(reply.sent[i].seq, seq);
		CHECK_EQ(reply.sent[i].t3_ns, 1000 + seq);
	}
	probe_peer_fill_reply(&p, &reply);
	CHECK_EQ(reply.sent[0].t3_ns, 0);
}

static void test_keys_differ(void)
{
	struct probe_peer a, b;

	probe_peer_reset(&a);
	probe_peer_reset(&b);
	CHECK(memcmp(&a.key, &b.key, sizeof(a.key)) != 0);
}

int main(void)
{
	test_nothing_twice();
	test_out_of_order();
	test_departures();
	test_keys_differ();
	return 0;
}
