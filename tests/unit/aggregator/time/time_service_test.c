/* SPDX-License-Identifier: Apache-2.0 */
/* The time service of a real aggregator, against agents that are nothing but a cookie and a key. */
#include <stdlib.h>

#include "aggregator/fleet/registry.h"
#include "aggregator/time/time_service.h"
#include "net/udp.h"
#include "proto/probe.h"
#include "tests/unit/aggregator/fleet.h"

#define AGENTS 64
#define ROUNDS 40

/* Where seq keeps what is known of its probe. */
struct probe_log {
	int64_t t2_ns, t3_ns, t4_ns;
	bool answered, departed;
};

struct client {
	struct fleet *fleet;
	uint64_t cookie;
	struct siphash_key key;
	uint32_t seq;
	struct probe_log log[ROUNDS + 8];
	int replies, departures;
	struct probe last;
};

/* All agents talk from one socket, so that to the service's socket they are one address. */
struct crowd {
	struct fleet fleet;
	struct udp *udp;
	struct client clients[AGENTS];
	int unidentified, all_kernel;
	uint8_t last[PROBE_BYTES]; /* as it was sent */
};

static struct client *client_of(struct crowd *crowd, uint64_t cookie)
{
	for (size_t i = 0; i < AGENTS; i++) {
		if (crowd->clients[i].cookie == cookie)
			return &crowd->clients[i];
	}
	return NULL;
}

/* The stamp says when this agent's reply left: not before it was handed over, not after it came. */
static void take_departure(struct client *c, const struct probe_sent *s)
{
	struct probe_log *log = &c->log[s->seq];

	CHECK(s->seq && s->seq <= c->seq);
	CHECK(log->answered && !log->departed);
	CHECK(log->t3_ns <= s->t3_ns && s->t3_ns <= log->t4_ns);
	log->departed = true;
	c->departures++;
}

static void on_reply(void *arg, const void *data, size_t len, int64_t raw_ns,
		     const struct udp_from *from)
{
	struct crowd *crowd = arg;
	struct probe p;
	struct client *c;
	struct probe_log *log;

	(void)from;
	CHECK_EQ(len, PROBE_BYTES);
	CHECK(probe_decode(&p, data, len));
	c = client_of(crowd, p.cookie);
	CHECK(c && probe_is_signed(data, &c->key));
	log = &c->log[p.seq];
	CHECK(!log->answered);
	*log = (struct probe_log){ .t2_ns = p.t2_ns, .t3_ns = p.t3_ns, .answered = true };
	log->t4_ns = raw_ns + crowd->fleet.agg.clock.shift_ns;
	CHECK(p.t1_ns <= p.t2_ns && p.t2_ns <= p.t3_ns && p.t3_ns <= log->t4_ns);
	crowd->all_kernel += !!(p.flags & PROBE_KERNEL);
	for (int i = 0; i < PROBE_SENT_MAX; i++) {
		if (p.sent[i].t3_ns)
			take_departure(c, &p.sent[i]);
	}
	c->last = p;
	c->replies++;
}

static void send_probe(struct crowd *crowd, struct client *c, enum probe_type type)
{
	struct probe p = {
		.type = type, .train = 4, .index = 2, .cookie = c->cookie, .seq = ++c->seq
	};

	p.t1_ns = session_clock_now(&crowd->fleet.agg.clock);
	probe_encode(&p, &c->key, crowd->last);
	udp_send(crowd->udp, crowd->last, PROBE_BYTES);
}

static void crowd_start(struct crowd *crowd)
{
	struct err e;

	fleet_start(&crowd->fleet, 0, 0);
	for (int i = 0; i < AGENTS; i++) {
		char name[16];
		struct host *h;

		snprintf(name, sizeof(name), "host%d", i);
		h = registry_add(crowd->fleet.agg.registry, name);
		host_renew_cookie(h);
		crowd->clients[i] = (struct client){ .cookie = h->probe_cookie,
						     .key = h->probes.key };
	}
	CHECK_OK(udp_dial(&crowd->udp, crowd->fleet.loop, "127.0.0.1", crowd->fleet.agg.probe_port,
			  on_reply, crowd, &e),
		 e);
}

static void test_answers(struct crowd *crowd)
{
	struct client *c = &crowd->clients[0];
	struct host *h = registry_find_by_cookie(crowd->fleet.agg.registry, c->cookie);
	int64_t before_ns = now_real_ns();

	send_probe(crowd, c, PROBE_REQUEST);
	WAIT(&crowd->fleet, c->replies == 1);
	CHECK(h->seen_real_ns >= before_ns);
	CHECK_EQ(c->last.type, PROBE_REPLY);
	CHECK_EQ(c->last.epoch, crowd->fleet.agg.clock.epoch);
	CHECK_EQ(c->last.seq, 1);
	CHECK_EQ(c->last.index, 2);
}

/* Wrong cookies and keys, replies, what was sent before, short packets and rubbish get no answer and
 * change nothing; the service goes on. */
static void test_bad_company(struct crowd *crowd)
{
	struct client *c = &crowd->clients[0], liar = *c;
	const struct time_stats *stats = time_service_stats(crowd->fleet.agg.time);
	uint64_t dropped = stats->dropped;
	int replies = c->replies;

	udp_send(crowd->udp, crowd->last, PROBE_BYTES); /* a replay of the last */
	liar.cookie++;
	send_probe(crowd, &liar, PROBE_REQUEST);
	liar.cookie--;
	liar.key.bytes[3] ^= 1;
	liar.seq = 100000; /* if accepted, it would make the numbers of the real agent too old */
	send_probe(crowd, &liar, PROBE_REQUEST);
	liar = *c;
	send_probe(crowd, &liar, PROBE_REPLY);
	udp_send(crowd->udp, "TTM2", 4);
	udp_send(crowd->udp, "", 0);
	send_probe(crowd, c, PROBE_REQUEST);
	WAIT(&crowd->fleet, c->replies == replies + 1);
	CHECK_EQ(stats->dropped, dropped + 6);
}

/* By the control stream of a host: the same rules, and no probe of another host. */
static void test_stream(struct crowd *crowd)
{
	struct aggregator *agg = &crowd->fleet.agg;
	struct client *c = &crowd->clients[1], *other = &crowd->clients[2];
	struct host *h = registry_find_by_cookie(agg->registry, c->cookie);
	struct probe p = {
		.type = PROBE_REQUEST, .train = 1, .cookie = c->cookie, .seq = ++c->seq
	};
	uint8_t packet[PROBE_BYTES], reply[PROBE_BYTES];
	int64_t before = session_clock_now(&agg->clock);

	probe_encode(&p, &c->key, packet);
	CHECK(time_service_answer(agg->time, h, packet, reply));
	CHECK(probe_decode(&p, reply, PROBE_BYTES) && probe_is_signed(reply, &c->key));
	CHECK_EQ(p.type, PROBE_REPLY);
	CHECK_EQ(p.epoch, agg->clock.epoch);
	CHECK(before <= p.t2_ns && p.t2_ns <= p.t3_ns && p.t3_ns <= session_clock_now(&agg->clock));
	CHECK(!time_service_answer(agg->time, h, packet, reply)); /* sent before */
	CHECK(!time_service_answer(agg->time, h, reply, reply)); /* no request */
	p = (struct probe){ .type = PROBE_REQUEST, .train = 1, .cookie = other->cookie, .seq = 1 };
	probe_encode(&p, &other->key, packet);
	CHECK(!time_service_answer(agg->time, h, packet, reply));
	p = (struct probe){ .type = PROBE_REQUEST, .train = 1, .cookie = c->cookie, .seq = 90 };
	probe_encode(&p, &other->key, packet);
	CHECK(!time_service_answer(agg->time, h, packet, reply));
}

/* 64 agents, one socket on either side: every departure is reported to its own agent. */
static void test_no_crosstalk(struct crowd *crowd)
{
	struct fleet *f = &crowd->fleet;
	int departures = 0;

	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < AGENTS; i++) {
			struct client *c = &crowd->clients[(i * 7 + round) % AGENTS];
			int replies = c->replies;

			send_probe(crowd, c, PROBE_REQUEST);
			if (i % 3 == 0) /* others wait together with the next */
				WAIT(f, c->replies == replies + 1);
		}
		WAIT(f, time_service_stats(f->agg.time)->probes >= (uint64_t)(round + 1) * AGENTS);
	}
	for (int i = 0; i < AGENTS; i++)
		WAIT(f, crowd->clients[i].replies >= ROUNDS);
	for (int i = 0; i < AGENTS; i++)
		departures += crowd->clients[i].departures;
	printf("%d probes of %d agents, %d with t2 and %d with t3 of the kernel\n", ROUNDS * AGENTS,
	       AGENTS, crowd->all_kernel, departures);
	/* All but the last of each agent, where the kernel stamps departures at all; on a busy machine
	 * not each of them says more than the hand-over. */
	CHECK(!departures || departures >= ROUNDS * AGENTS / 4);
}

int main(void)
{
	struct crowd *crowd = calloc(1, sizeof(*crowd));

	CHECK(crowd);
	crowd_start(crowd);
	test_answers(crowd);
	test_bad_company(crowd);
	test_stream(crowd);
	test_no_crosstalk(crowd);
	udp_free(crowd->udp);
	fleet_stop(&crowd->fleet);
	free(crowd);
	return 0;
}
