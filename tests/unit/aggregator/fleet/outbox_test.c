/* SPDX-License-Identifier: Apache-2.0 */
/* Many messages in one turn: few leave at once, the others in order and only on the link they were for. */
#include "aggregator/fleet/messages.h"
#include "tests/unit/aggregator/fleet.h"

#define MANY 1000

static void send_stops(struct host *h, int n)
{
	for (int i = 1; i <= n; i++) {
		struct buf message = BUF_INIT;

		message_stop(&message, "s", i, 0);
		host_send(h, &message);
		buf_release(&message);
	}
}

static bool is_waiting(const struct host *h)
{
	return !STAILQ_EMPTY(&h->outbox.items);
}

static void test_in_order(void)
{
	struct fake a = { 0 }, b = { 0 };
	struct host *ha, *hb;
	struct fleet f;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	fake_connect(&b, &f, "b");
	ha = registry_find(f.agg.registry, "a");
	hb = registry_find(f.agg.registry, "b");
	loop_turn(f.loop, 0);
	send_stops(ha, MANY);
	send_stops(hb, 1);
	CHECK(is_waiting(ha) && is_waiting(hb));
	WAIT(&f, a.stops == MANY && b.stops == 1);
	CHECK_EQ(a.t1_ns, MANY);
	CHECK(!is_waiting(ha) && !is_waiting(hb));
	send_stops(hb, 1);
	CHECK(!is_waiting(hb));
	WAIT(&f, b.stops == 2);
	/* in a turn that has sent nothing yet, others still wait: the new message goes behind them */
	send_stops(ha, MANY);
	ha->outbox.outbox->turn_ns = -1;
	send_stops(hb, 1);
	CHECK(is_waiting(hb));
	WAIT(&f, a.stops == 2 * MANY && b.stops == 3);
	fleet_stop(&f);
}

static void test_link_breaks(void)
{
	struct fake a = { 0 };
	struct fleet f;
	int before;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	send_stops(registry_find(f.agg.registry, "a"), MANY);
	host_set_control(registry_find(f.agg.registry, "a"), NULL);
	CHECK(!is_waiting(registry_find(f.agg.registry, "a")));
	fake_hang_up(&a);
	before = a.stops;
	CHECK(before < MANY);
	a.welcomes = 0;
	fake_connect(&a, &f, "a");
	send_stops(registry_find(f.agg.registry, "a"), 1);
	WAIT(&f, a.stops == before + 1);
	CHECK_EQ(a.t1_ns, 1);
	send_stops(registry_find(f.agg.registry, "a"), MANY);
	fleet_stop(&f); /* frees what is unsent */
}

int main(void)
{
	test_in_order();
	test_link_breaks();
	return 0;
}
