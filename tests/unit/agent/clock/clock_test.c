/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock service against an aggregator that reflects its probes, in virtual time. Both run on
 * one machine, so the truth is known: session = raw + SHIFT, whatever error is injected on the
 * agent's side.
 */
#include "agent/clock/clock.h"

#include "net/udp.h"
#include "proto/probe.h"
#include "tests/lib/run_until.h"

#define SHIFT  INT64_C(1790000000000000000)
#define COOKIE UINT64_C(0xfeedfacecafebeef)
#define EPOCH  77

static const struct siphash_key key = { { 9, 8, 7 } };

struct reflector {
	struct udp *udp;
	int port;
	bool silent;
	int64_t wrong_ns; /* of all its times: as if the host's clock had stepped */
	uint64_t ahead; /* of its epoch */
	int lose; /* so many probes get no reply */
	bool lies; /* sends garbage, wrong cookies, epochs and numbers, and a late second reply */
	struct loop *loop;
	struct loop_timer late_timer;
	uint8_t late[PROBE_BYTES], late_addr[128];
	struct udp_from late_from;
	int probes, trains;
	int train; /* length of the newest train */
	int64_t train_ns,
		gap_ns; /* by t1: begin of the newest; since the one before, 0 for the first */
};

struct rig {
	struct loop *loop;
	struct reflector r;
	struct clock *clock;
	int streamed; /* probes over the stream */
};

static void send_probe(struct reflector *r, const struct probe *p, const struct udp_from *from)
{
	uint8_t packet[PROBE_BYTES];

	probe_encode(p, &key, packet);
	udp_send_to(r->udp, from, packet, sizeof(packet));
}

/* Each of these would shift the clock by an hour if it were taken. */
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

static void send_late(void *arg)
{
	struct reflector *r = arg;

	udp_send_to(r->udp, &r->late_from, r->late, sizeof(r->late));
}

/* A wrong second reply to a probe, once the first has arrived. */
static void send_second_later(struct reflector *r, const struct probe *truth,
			      const struct udp_from *from)
{
	struct probe p = *truth;

	p.t2_ns = p.t3_ns = truth->t3_ns + 3600 * NS_PER_S;
	probe_encode(&p, &key, r->late);
	CHECK(from->addr_len <= sizeof(r->late_addr));
	memcpy(r->late_addr, from->addr, from->addr_len);
	r->late_from = (struct udp_from){ .addr = r->late_addr, .addr_len = from->addr_len };
	loop_timer_in(r->loop, &r->late_timer, 5 * NS_PER_MS, send_late, r);
}

static void count_probe(struct reflector *r, const struct probe *p)
{
	r->probes++;
	if (p->index)
		return;
	r->train = p->train;
	r->gap_ns = r->trains++ ? p->t1_ns - r->train_ns : 0;
	r->train_ns = p->t1_ns;
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
	count_probe(r, &p);
	if (r->silent || (r->lose > 0 && r->lose--))
		return;
	p.type = PROBE_REPLY;
	p.epoch = EPOCH + r->ahead;
	p.t2_ns = raw_ns + SHIFT + r->wrong_ns;
	p.t3_ns = now_raw_ns() + SHIFT + r->wrong_ns;
	if (r->lies)
		send_lies(r, &p, from);
	send_probe(r, &p, from);
	if (r->lies)
		send_second_later(r, &p, from);
}

static void rig_up(struct rig *g, int64_t offset_ns, double drift_ppm)
{
	struct clock_conf conf = { .test_offset_ns = offset_ns, .test_drift_ppm = drift_ppm };
	struct err e;

	*g = (struct rig){ 0 };
	CHECK_OK(loop_new(&g->loop, 1, &e), e);
	CHECK_OK(udp_listen(&g->r.udp, g->loop, "127.0.0.1:0", on_probe, &g->r, &g->r.port, &e), e);
	g->r.loop = conf.loop = g->loop;
	CHECK_OK(clock_new(&g->clock, &conf, &e), e);
}

static void rig_down(struct rig *g)
{
	loop_timer_cancel(g->loop, &g->r.late_timer);
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

static struct clock_model run_until_probes(struct rig *g, uint32_t n)
{
	struct clock_model m;

	RUN_UNTIL(g->loop, (m = clock_model(g->clock)).probes >= n);
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
	m = run_until_probes(&g, 4);
	check_truth(&m);
	m = run_until_probes(&g, 8);
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
	m = run_until_probes(&g, 16); /* of four trains */
	check_truth(&m);
	/* Only one reply to each probe counts. */
	CHECK(m.probes <= (uint32_t)g.r.probes);
	rig_down(&g);
}

static void test_epochs(void)
{
	struct clock_model m;
	struct rig g;

	rig_up(&g, 0, 0);
	set_peer(&g, EPOCH);
	m = run_until_probes(&g, 4);
	clock_unset_peer(g.clock);
	CHECK(clock_model(g.clock).calibrated);
	CHECK(clock_model_bound_at(&m, m.at_raw_ns + NS_PER_S) > m.bound_ns);
	/* The same aggregator again: the history is kept. */
	set_peer(&g, EPOCH);
	CHECK(clock_model(g.clock).calibrated);
	/* Another one has another session clock, and its replies carry another epoch. */
	set_peer(&g, EPOCH + 1);
	CHECK(!clock_model(g.clock).calibrated);
	g.r.probes = 0;
	RUN_UNTIL(g.loop, g.r.probes >= 4);
	loop_turn(g.loop, 10);
	CHECK(!clock_model(g.clock).calibrated);
	rig_down(&g);
}

static void check_offset_at(const struct rig *g, int64_t raw_ns, int64_t shift_ns)
{
	struct clock_model m = clock_window_model(g->clock, raw_ns - NS_PER_MS, raw_ns);

	CHECK(m.calibrated);
	CHECK(llabs(clock_model_session_of_raw(&m, raw_ns) - (raw_ns + shift_ns)) <=
	      clock_model_bound_at(&m, raw_ns));
	CHECK(clock_model_bound_at(&m, raw_ns) < NS_PER_MS);
	clock_model_free(&m);
}

/* An aggregator on another machine whose clock goes on with the former one: what was learnt of that still holds for its
 * time, and for now until the first reply. */
static void test_takeover(void)
{
	const int64_t step_ns = 5 * NS_PER_MS;
	const uint64_t former[] = { EPOCH + 7, EPOCH };
	struct clock_peer peer = { .host = "127.0.0.1",
				   .cookie = COOKIE,
				   .epoch = EPOCH + 1,
				   .former = former,
				   .n_former = 2,
				   .key = key };
	int64_t before_ns;
	struct err e;
	struct rig g;

	rig_up(&g, 3 * NS_PER_S, 40);
	set_peer(&g, EPOCH);
	(void)run_until_probes(&g, 16);
	before_ns = now_raw_ns();
	peer.port = g.r.port;
	g.r.ahead = 1;
	g.r.wrong_ns = step_ns;
	CHECK_OK(clock_set_peer(g.clock, &peer, &e), e);
	CHECK(clock_model(g.clock).calibrated);
	check_offset_at(&g, before_ns, SHIFT);
	(void)run_until_probes(&g, 24);
	check_offset_at(&g, now_raw_ns(), SHIFT + step_ns);
	check_offset_at(&g, before_ns - 10 * NS_PER_MS, SHIFT);
	rig_down(&g);
}

/* The control stream: replies come back in the same turn. */
static void answer_over_stream(void *arg, const uint8_t *packet)
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

/* Where UDP gets no replies probes go over the stream; once it gets some, they no longer do. */
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
	peer.stream = answer_over_stream;
	peer.stream_arg = &g;
	CHECK_OK(clock_set_peer(g.clock, &peer, &e), e);
	m = run_until_probes(&g, 2);
	check_truth(&m);
	CHECK(!strcmp(m.method, "stream"));
	CHECK_EQ(m.probes, (uint32_t)g.streamed);
	CHECK_EQ(m.bad_samples, 0);
	CHECK(g.r.trains >= 4);
	g.r.silent = false;
	RUN_UNTIL(g.loop, strcmp((m = clock_model(g.clock)).method, "stream"));
	check_truth(&m);
	g.streamed = 0;
	(void)run_until_probes(&g, m.probes + 4);
	CHECK_EQ(g.streamed, 0);
	rig_down(&g);
}

static void run_one_train(struct rig *g)
{
	int trains = g->r.trains;

	RUN_UNTIL(g->loop, g->r.trains > trains);
}

/* A break that a single probe shows: more are sent soon, though no capture is armed, and it is known within a
 * second. */
static void test_suspected_break_is_known_soon(void)
{
	struct clock_model m;
	struct rig g;
	int64_t since_ns;

	rig_up(&g, 0, 0);
	set_peer(&g, EPOCH);
	for (int i = 0; i < 9; i++)
		run_one_train(&g); /* the first ones, and a rare one */
	loop_turn(g.loop, 10);
	m = clock_model(g.clock);
	CHECK(m.calibrated && !m.suspected.cause);
	g.r.wrong_ns = 100 * NS_PER_MS;
	g.r.lose = 3; /* of the next train */
	RUN_UNTIL(g.loop, (m = clock_model(g.clock)).suspected.cause);
	since_ns = now_mono_ns();
	CHECK_EQ(m.suspected.cause, CLOCK_BREAK_STEP);
	CHECK(!m.calibrated && m.suspected.delta_ns < -95 * NS_PER_MS);
	RUN_UNTIL(g.loop, (m = clock_model(g.clock)).calibrated);
	CHECK(now_mono_ns() - since_ns < NS_PER_S);
	CHECK_EQ(m.steps_found, 1);
	rig_down(&g);
}

/* A capture: a long train when it is armed, then pairs, no denser than the aggregator allows. */
static void test_dense_probing(void)
{
	struct rig g;

	rig_up(&g, 0, 0);
	set_peer(&g, EPOCH);
	for (int i = 0; i < 8; i++) {
		run_one_train(&g);
		CHECK_EQ(g.r.train, 4);
	}
	clock_probe_densely(g.clock, now_mono_ns() + 60 * NS_PER_S, 0);
	run_one_train(&g);
	CHECK_EQ(g.r.train, 4);
	for (int i = 0; i < 3; i++) {
		run_one_train(&g);
		CHECK_EQ(g.r.train, 2);
		CHECK(g.r.gap_ns > 124 * NS_PER_MS);
	}
	clock_probe_densely(g.clock, now_mono_ns() + NS_PER_S, 700 * NS_PER_MS);
	run_one_train(&g);
	run_one_train(&g);
	CHECK_EQ(g.r.train, 2); /* the latest end counts, and the newest gap */
	CHECK(g.r.gap_ns > 699 * NS_PER_MS);
	rig_down(&g);
}

/* Once calm, gaps grow to seconds; the end of a window brings a train within 100 ms, and another one soon. */
static void test_after_window(void)
{
	int64_t end_raw_ns, reply_ns;
	struct rig g;

	rig_up(&g, 0, 0);
	CHECK(clock_probe_after_window(g.clock) <= now_mono_ns()); /* no peer: no wait */
	set_peer(&g, EPOCH);
	RUN_UNTIL(g.loop, g.r.gap_ns > NS_PER_S && clock_model(g.clock).calibrated);
	end_raw_ns = now_raw_ns();
	reply_ns = clock_probe_after_window(g.clock);
	CHECK(reply_ns > now_mono_ns() && reply_ns <= now_mono_ns() + 235 * NS_PER_MS);
	run_one_train(&g);
	run_one_train(&g);
	CHECK(g.r.train_ns - end_raw_ns < NS_PER_S);
	rig_down(&g);
}

static void test_no_peer(void)
{
	struct clock_peer unknown = { .host = "not a host", .port = 1, .cookie = 1, .epoch = 1 };
	struct rig g;
	struct err e;

	rig_up(&g, 0, 0);
	g.r.silent = true;
	set_peer(&g, EPOCH);
	clock_probe_densely(g.clock, now_mono_ns() + NS_PER_S, 0);
	clock_unset_peer(g.clock);
	clock_probe_densely(g.clock, now_mono_ns() + NS_PER_S, NS_PER_S);
	CHECK(clock_set_peer(g.clock, &unknown, &e) < 0);
	clock_unset_peer(g.clock);
	rig_down(&g);
}

int main(void)
{
	test_truth(0, 0);
	test_truth(5 * NS_PER_S, 100);
	test_truth(-3 * NS_PER_S, -100);
	test_lies_are_dropped();
	test_epochs();
	test_takeover();
	test_stream();
	test_suspected_break_is_known_soon();
	test_dense_probing();
	test_after_window();
	test_no_peer();
	return 0;
}
