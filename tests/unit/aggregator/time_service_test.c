/* SPDX-License-Identifier: Apache-2.0 */
#include "net/udp.h"
#include "proto/probe.h"
#include "tests/unit/aggregator/fleet.h"

struct client {
	struct fleet *fleet;
	struct udp *udp;
	int replies;
	size_t len;
	struct probe last;
};

static void on_reply(void *arg, const void *data, size_t len, int64_t raw_ns,
		     const struct udp_from *from)
{
	struct client *c = arg;

	(void)raw_ns;
	(void)from;
	CHECK(probe_decode(&c->last, data, len));
	c->len = len;
	c->replies++;
}

static void send_probe(struct client *c, enum probe_type type, uint64_t cookie)
{
	struct probe p = {
		.type = type, .train = 4, .index = 2, .cookie = cookie, .seq = 9, .t1_ns = 77
	};
	uint8_t data[PROBE_BYTES];

	probe_encode(&p, data);
	udp_send(c->udp, data, sizeof(data));
}

int main(void)
{
	struct fleet f;
	struct fake a = { 0 };
	struct client c = { .fleet = &f };
	struct err e = { 0 };
	int64_t before_ns, after_ns;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	CHECK_OK(udp_dial(&c.udp, f.loop, "127.0.0.1", (int)a.probe_port, on_reply, &c, &e), e);

	before_ns = aggregator_session_now(&f.agg);
	send_probe(&c, PROBE_REQUEST, a.cookie);
	WAIT(&f, c.replies == 1);
	after_ns = aggregator_session_now(&f.agg);
	CHECK_EQ(c.len, PROBE_BYTES);
	CHECK_EQ(c.last.type, PROBE_REPLY);
	CHECK_EQ(c.last.epoch, f.agg.clock_epoch);
	CHECK_EQ(c.last.t1_ns, 77);
	CHECK_EQ(c.last.seq, 9);
	CHECK_EQ(c.last.index, 2);
	CHECK(before_ns <= c.last.t2_ns && c.last.t2_ns <= c.last.t3_ns &&
	      c.last.t3_ns <= after_ns);

	/* A wrong cookie, a reply, a short packet and rubbish get no answer; the service goes on. */
	send_probe(&c, PROBE_REQUEST, a.cookie + 1);
	send_probe(&c, PROBE_REPLY, a.cookie);
	udp_send(c.udp, "TTM1", 4);
	udp_send(c.udp, "", 0);
	send_probe(&c, PROBE_REQUEST, a.cookie);
	WAIT(&f, c.replies == 2);
	CHECK(f.agg.stats.probes_dropped >= 3);
	CHECK_EQ(f.agg.stats.probes, 2);

	udp_free(c.udp);
	fleet_stop(&f);
	return 0;
}
