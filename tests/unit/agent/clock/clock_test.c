/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock against a reflector on real loopback UDP. Both run on one machine, so the truth is known:
 * session = raw + SHIFT, whatever error is injected into the agent's side.
 */
#include "agent/clock/clock.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/udp.h"
#include "proto/probe.h"
#include "tests/lib/check.h"

#define SHIFT	 INT64_C(1790000000000000000)
#define COOKIE	 UINT64_C(0xfeedfacecafebeef)
#define EPOCH	 77
#define NO_LIMIT (30 * NS_PER_S)

static const struct siphash_key key = { { 9, 8, 7 } };

struct reflector {
	struct udp *udp;
	int port;
	bool silent;
	bool lies; /* sends garbage, wrong cookies, epochs and numbers, and everything twice */
	int probes;
};

struct rig {
	int streamed; /* probes by the stream */
	struct loop *loop;
	struct reflector r;
	struct clock *clock;
};

static void send_probe(struct reflector *r, const struct probe *p, const struct udp_from *from)
{
	uint8_t packet[PROBE_BYTES];

	probe_encode(p, &key, packet);
	udp_send_to(r->udp, from, packet, sizeof(packet));
}

/* Each of these would shift the clock by an hour if it were believed. */
static void send_lies(struct reflector *r, const struct probe *truth, const struct udp_from *from)
{
	struct probe p = *truth;

	p.t2_ns = p.t3_ns = truth->t2_ns - 3600 * NS_PER_S;
	p.cookie++;
	send_probe(r, &p, from);
	p.cookie--;
	p.epoch++;
	send_probe(r, &p, from);
	p.epoch--;
	p.seq += 1000;
	send_probe(r, &p, from);
	p.seq -= 1000;
	p.t1_ns++;
	send_probe(r, &p, from);
	p.t1_ns--;
	p.type = PROBE_REQUEST;
	send_probe(r, &p, from);
	udp_send_to(r->udp, from, "garbage", 7);
}

static void on_probe(void *arg, const void *data, size_t len, int64_t raw_ns,
		     const struct udp_from *from)
{
	struct reflector *r = arg;
	struct probe p;

	CHECK(probe_decode(&p, data, len));
	CHECK(probe_is_signed(data, &key));
	CHECK(p.cookie == COOKIE);
	CHECK_EQ(p.type, PROBE_REQUEST);
	r->probes++;
	if (r->silent)
		return;
	p.type = PROBE_REPLY;
	p.epoch = EPOCH;
	p.t2_ns = raw_ns + SHIFT;
	p.t3_ns = now_raw_ns() + SHIFT;
	if (r->lies)
		send_lies(r, &p, from);
	send_probe(r, &p, from);
	/* A second, later answer to the same probe: it must not count. */
	if (r->lies) {
		p.t2_ns = p.t3_ns = p.t3_ns + 3600 * NS_PER_S;
		send_probe(r, &p, from);
	}
}

static void rig_up(struct rig *g, int64_t offset_ns, double drift_ppm)
{
	struct clock_conf conf = { .test_offset_ns = offset_ns, .test_drift_ppm = drift_ppm };
	struct err e;

	*g = (struct rig){ 0 };
	CHECK_OK(loop_new(&g->loop, 1, &e), e);
	CHECK_OK(udp_listen(&g->r.udp, g->loop, "127.0.0.1:0", on_probe, &g->r, &g->r.port, &e), e);
	conf.loop = g->loop;
	CHECK_OK(clock_new(&g->clock, &conf, &e), e);
}

static void rig_down(struct rig *g)
{
	clock_free(g->clock);
	udp_free(g->r.udp);
	loop_free(g->loop);
}

static void set_peer(struct rig *g, uint64_t epoch)
{
	struct clock_peer peer = {
		.host = "127.0.0.1", .port = g->r.port, .cookie = COOKIE, .epoch = epoch, .key = key
	};
	struct err e;

	CHECK_OK(clock_set_peer(g->clock, &peer, &e), e);
}

static struct clock_model until_probes(struct rig *g, uint32_t n)
{
	int64_t limit = now_mono_ns() + NO_LIMIT;
	struct clock_model m;

	while (m = clock_model(g->clock), m.probes < n) {
		CHECK(now_mono_ns() < limit);
		loop_turn(g->loop, 50);
	}
	return m;
}

static void check_truth(const struct clock_model *m)
{
	int64_t raw = now_raw_ns();
	int64_t session = clock_model_session_of_raw(m, raw);
	int64_t back = clock_model_raw_of_session(m, session);

	CHECK(m->calibrated);
	CHECK(llabs(session - (raw + SHIFT)) <= clock_model_bound_at(m, raw));
	CHECK(llabs(back - raw) <= 1);
	CHECK(m->rtt_min_ns > 0 && m->bound_ns > 0);
}

static void test_truth(int64_t offset_ns, double drift_ppm)
{
	struct clock_model m;
	struct rig g;

	rig_up(&g, offset_ns, drift_ppm);
	CHECK(!clock_model(g.clock).calibrated);
	set_peer(&g, EPOCH);
	m = until_probes(&g, 4);
	check_truth(&m);
	m = until_probes(&g, 8);
	check_truth(&m);
	rig_down(&g);
}

static void test_lies_are_dropped(void)
{
	struct clock_model m;
	struct rig g;

	rig_up(&g, NS_PER_S, 0);
	g.r.lies = true;
	set_peer(&g, EPOCH);
	m = until_probes(&g, 8);
	check_truth(&m);
	/* Only one answer to each probe counts. */
	CHECK(m.probes <= (uint32_t)g.r.probes);
	rig_down(&g);
}

static void test_epochs(void)
{
	struct clock_model m;
	struct rig g;

	rig_up(&g, 0, 0);
	set_peer(&g, EPOCH);
	m = until_probes(&g, 4);
	clock_unset_peer(g.clock);
	CHECK(clock_model(g.clock).calibrated);
	CHECK(clock_model_bound_at(&m, m.at_raw_ns + NS_PER_S) > m.bound_ns);
	/* The same aggregator again: what is known stays. */
	set_peer(&g, EPOCH);
	CHECK(clock_model(g.clock).calibrated);
	/* Another one: its clock has nothing to do with it, and its answers carry another epoch. */
	set_peer(&g, EPOCH + 1);
	CHECK(!clock_model(g.clock).calibrated);
	g.r.probes = 0;
	while (g.r.probes < 4)
		loop_turn(g.loop, 50);
	loop_turn(g.loop, 10);
	CHECK(!clock_model(g.clock).calibrated);
	rig_down(&g);
}

/* What the control stream carries: answers come back in the same turn. */
static void answer_by_stream(void *arg, const uint8_t *packet)
{
	struct rig *g = arg;
	uint8_t reply[PROBE_BYTES];
	struct probe p;

	CHECK(probe_decode(&p, packet, PROBE_BYTES));
	CHECK(probe_is_signed(packet, &key));
	p.type = PROBE_REPLY;
	p.epoch = EPOCH;
	p.t2_ns = p.t3_ns = now_raw_ns() + SHIFT;
	probe_encode(&p, &key, reply);
	g->streamed++;
	reply[40] ^= 1; /* a forgery: t1 */
	clock_take_stream_reply(g->clock, reply);
	reply[40] ^= 1;
	clock_take_stream_reply(g->clock, reply);
	clock_take_stream_reply(g->clock, reply); /* the same again */
}

/* Packets get no answers: the stream takes over. Once they do, it is left alone. */
static void test_stream(void)
{
	struct clock_peer peer = {
		.host = "127.0.0.1", .cookie = COOKIE, .epoch = EPOCH, .key = key
	};
	struct clock_model m;
	struct rig g;
	struct err e;

	rig_up(&g, NS_PER_S, 50);
	g.r.silent = true;
	peer.port = g.r.port;
	peer.stream = answer_by_stream;
	peer.stream_arg = &g;
	CHECK_OK(clock_set_peer(g.clock, &peer, &e), e);
	m = until_probes(&g, 2);
	check_truth(&m);
	CHECK(!strcmp(m.method, "stream"));
	CHECK_EQ(m.probes, (uint32_t)g.streamed);
	CHECK_EQ(m.bad, 0);
	g.r.silent = false;
	while (m = clock_model(g.clock), !strcmp(m.method, "stream"))
		loop_turn(g.loop, 50);
	check_truth(&m);
	g.streamed = 0;
	(void)until_probes(&g, m.probes + 4);
	CHECK_EQ(g.streamed, 0);
	rig_down(&g);
}

/* A capture under way: denser probes. */
static void test_hurry(void)
{
	struct clock_peer nobody = { .host = "not a host", .port = 1, .cookie = 1, .epoch = 1 };
	struct rig g;
	struct err e;

	rig_up(&g, 0, 0);
	g.r.silent = true;
	set_peer(&g, EPOCH);
	clock_probe_densely(g.clock, now_mono_ns() + NS_PER_S, 0);
	clock_unset_peer(g.clock);
	clock_probe_densely(g.clock, now_mono_ns() + NS_PER_S, NS_PER_S);
	CHECK(clock_set_peer(g.clock, &nobody, &e) < 0);
	clock_unset_peer(g.clock);
	rig_down(&g);
}

/* ---- translations ---- */

static void test_uncalibrated(void)
{
	struct clock_model m = { .pair_raw_ns = 1000, .pair_real_ns = 5000, .test_offset_ns = 70 };

	CHECK_EQ(clock_model_session_of_raw(&m, 1000), 5070);
	CHECK_EQ(clock_model_raw_of_session(&m, 5070), 1000);
	CHECK_EQ(clock_model_raw_of_real(&m, 5000), 1000);
	CHECK_EQ(clock_model_real_of_raw(&m, 1001), 5001);
}

static void test_round_trip(void)
{
	struct clock_model m = {
		.calibrated = true,
		.at_raw_ns = 123456789012,
		.offset_ns = 123456789012 - SHIFT,
		.rate = -73e-6,
		.bound_ns = 1000,
		.bound_rate = 2e-6,
		.test_start_raw_ns = 1000000,
		.test_drift_ppm = -73,
	};

	for (int64_t raw = 0; raw < 1000 * NS_PER_S; raw += 7777777777) {
		int64_t session = clock_model_session_of_raw(&m, raw);

		CHECK(llabs(clock_model_raw_of_session(&m, session) - raw) <= 1);
	}
	CHECK_EQ(clock_model_bound_at(&m, m.at_raw_ns), 1000);
	CHECK_EQ(clock_model_bound_at(&m, m.at_raw_ns - NS_PER_S), 3000);
}

/* Session times at which the host slept are the last raw time before, wherever one looks from. */
static void test_slept(void)
{
	struct clock_model m = {
		.calibrated = true,
		.n_segments = 2,
		.n_knots = 2,
		.segments = { { .first = 0, .n = 1 }, { .first = 1, .n = 1 } },
		.knots = { { 1000000, 0, 0, 0 }, { 1000003, -5000000, -5000000, -5000000 } },
	};
	int64_t last_ns = 1000001, woke_ns = last_ns + 1 + 5000000; /* raw, session */

	for (int i = 0; i < 3; i++) {
		m.at_raw_ns = i * 1000000;
		for (int64_t t = last_ns; t < woke_ns; t += 12345)
			CHECK_EQ(clock_model_raw_of_session(&m, t), last_ns);
		CHECK_EQ(clock_model_raw_of_session(&m, last_ns - 1), last_ns - 1);
		CHECK_EQ(clock_model_raw_of_session(&m, woke_ns), last_ns + 1);
	}
}

/* A knot far out, with a guess to match: between it and the next the line leaves what the other knows. */
static void test_no_room(void)
{
	struct clock_model m = {
		.calibrated = true,
		.n_segments = 1,
		.n_knots = 2,
		.segments = { { .first = 0, .n = 2 } },
		.knots = { { 0, 0, -10, 10 }, { 1000000, 100, 0, 200 } },
	};
	struct clock_slack room = clock_model_slack_over(&m, 800000, 900000);

	CHECK_EQ(room.earlier_ns, 0);
	CHECK(room.later_ns >= 80 && room.later_ns <= 82);
	room = clock_model_slack_over(&m, 50000, 1100000);
	CHECK_EQ(room.earlier_ns, 0); /* not even a moment before the knot that would allow it */
}

/* Times in files of foreign programs may be anything. */
static void test_any_input(void)
{
	const int64_t edges[] = { INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX };
	struct clock_model m = {
		.calibrated = true,
		.offset_ns = -SHIFT,
		.rate = 1e-3,
		.pair_real_ns = SHIFT,
		.bound_rate = 1e-4,
		.test_drift_ppm = 1000,
	};

	for (int calibrated = 0; calibrated < 2; calibrated++) {
		m.calibrated = calibrated;
		for (size_t i = 0; i < ARRAY_SIZE(edges); i++) {
			clock_model_session_of_raw(&m, edges[i]);
			clock_model_raw_of_session(&m, edges[i]);
			clock_model_raw_of_real(&m, edges[i]);
			clock_model_real_of_raw(&m, edges[i]);
			CHECK(clock_model_bound_at(&m, edges[i]) >= 0);
		}
	}
	CHECK_EQ(clock_model_session_of_raw(&m, INT64_MAX), INT64_MAX);
}

int main(void)
{
	test_truth(0, 0);
	test_truth(5 * NS_PER_S, 100);
	test_truth(-3 * NS_PER_S, -100);
	test_lies_are_dropped();
	test_epochs();
	test_stream();
	test_hurry();
	test_uncalibrated();
	test_round_trip();
	test_slept();
	test_no_room();
	test_any_input();
	return 0;
}
