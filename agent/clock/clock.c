/* SPDX-License-Identifier: Apache-2.0 */
/* When to send how many probes; hands their samples to the estimator. */
#include "agent/clock/clock.h"

#include <stdlib.h>

#include "agent/clock/arith.h"
#include "agent/clock/estimator.h"
#include "agent/clock/exchange.h"
#include "agent/clock/watch.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/udp.h"
#include "proto/probe.h"

/* source ports: some networks route each differently; all probes of a train use one */
#define PATHS 4
#define TRAIN 4 /* probes in a train: the fastest of them counts */
/* Probes of a train during a capture: the first warms the caches for the second. For more probes, trains are sent
 * more often, not made longer. */
#define TRAIN_DENSE 2
/* Above this jitter what delays the first probe of a pair delays one right behind it, too. There the second follows when
 * most delays are over, but the caches are still warm. */
#define JITTERY_NS	   (20 * NS_PER_US)
#define JITTERY_SPACING_NS (3 * NS_PER_MS)
/* Time between the probes of a train: so short that the receiver is still awake for the later ones. */
#define SPACING_NS   (7 * NS_PER_US)
#define FIRST_TRAINS 8
#define FIRST_GAP_NS (60 * NS_PER_MS)
#define DENSE_GAP_NS (125 * NS_PER_MS)
/* On a jittery link only few probes prove much: more of them are needed. */
#define JITTERY_GAP_NS (80 * NS_PER_MS)
/* between trains while there is no model yet, or while a break is suspected */
#define SOON_NS	      (250 * NS_PER_MS)
#define UDP_TRIES     4 /* trains without a reply: UDP does not get through */
#define STREAM_GAP_NS (500 * NS_PER_MS) /* between probes over the stream, after the first trains */
#define END_SPREAD_NS (100 * NS_PER_MS)
/* trains after a window: the first limits the offset at its end, both together the rate */
#define END_TRAINS 2
/* more probing after a window on a jittery link, where a train proves little about its end */
#define JITTERY_END_NS (500 * NS_PER_MS)
#define REPLY_MAX_NS   (100 * NS_PER_MS)
#define REPLY_NS       (5 * NS_PER_MS) /* a reply may take this and two round trips */
#define CALM_MIN_NS    (2 * NS_PER_S) /* time between trains while no capture is armed, at first */
#define CALM_MAX_NS    (16 * NS_PER_S)

struct path {
	struct clock *clock;
	int index;
	struct udp *udp; /* NULL without a peer */
};

struct clock {
	struct clock_conf conf;
	int64_t start_raw_ns; /* the injected drift counts from here */
	struct clock_estimator *estimator;
	struct clock_watch *watch;
	struct path paths[PATHS];
	uint32_t trains; /* trains sent; each takes the next path */
	struct siphash_key key;
	clock_stream_fn stream;
	void *stream_arg;
	int unanswered; /* trains since the last reply over UDP */
	bool by_stream; /* the last reply came over the stream */
	int64_t streamed_ns; /* CLOCK_MONOTONIC: last probe over the stream */
	struct exchange exchange;
	uint64_t epoch;
	bool has_epoch;
	bool goes_on; /* the history is of a former epoch, until the first reply of this one */
	int64_t left_host_ns; /* then the former one was left */
	int first_trains; /* still to be sent, quickly */
	int64_t calm_gap_ns; /* time between trains; doubles while no capture is armed */
	struct loop_timer timer;
	int64_t dense_until_ns; /* CLOCK_MONOTONIC */
	int64_t pair_gap_ns; /* least time between two pairs of probes until dense_until_ns */
	int end_trains; /* still to be sent soon: a window has ended */
	bool long_train; /* a capture was armed: the next train has TRAIN probes */
	bool half_sent; /* on a jittery link the first probe of a pair was sent, the second is next */
};

/* The host clock alone, with the injected error, not calibrated. */
static struct clock_model bare_model(const struct clock *c)
{
	return (struct clock_model){
		.test_offset_ns = c->conf.test_offset_ns,
		.test_start_raw_ns = c->start_raw_ns,
		.test_drift_ppm = c->conf.test_drift_ppm,
	};
}

static int64_t host_of_raw(const struct clock *c, int64_t raw_ns)
{
	return raw_ns + injected_error_ns(c->conf.test_offset_ns, c->conf.test_drift_ppm,
					  (double)(raw_ns - c->start_raw_ns));
}

static void read_clocks(const struct clock *c, struct clock_model *m)
{
	m->ledger = clock_watch_ledger(c->watch);
	m->pair_raw_ns = m->ledger.last.pair.raw_ns;
	m->pair_real_ns = m->ledger.last.pair.real_ns;
	m->at_raw_ns = m->pair_raw_ns;
	m->wall_error_ns = now_wall_error_ns();
	if (c->by_stream)
		m->method = "stream";
	else if (c->exchange.answered)
		m->method = exchange_is_kernel(&c->exchange) ? "udp-kernel" : "udp-user";
}

struct clock_model clock_model(const struct clock *c)
{
	struct clock_model m = bare_model(c);

	read_clocks(c, &m);
	m.calibrated = clock_estimator_make_model(c->estimator, host_of_raw(c, m.at_raw_ns), &m);
	return m;
}

struct clock_model clock_window_model(const struct clock *c, int64_t from_raw_ns, int64_t to_raw_ns)
{
	struct clock_model m = bare_model(c);

	read_clocks(c, &m);
	m.calibrated = clock_estimator_make_window_model(c->estimator, host_of_raw(c, m.at_raw_ns),
							 host_of_raw(c, from_raw_ns),
							 host_of_raw(c, to_raw_ns), &m);
	return m;
}

/* ---- probes ---- */

/* t1 may be early, never late: the clock is read before the packet is made. */
static void make_probe(struct clock *c, int path, uint32_t id, int index, int train,
		       uint8_t packet[PROBE_BYTES])
{
	struct probe p = exchange_make_probe(&c->exchange, path, id, host_of_raw(c, now_raw_ns()));

	p.train = (uint8_t)train;
	p.index = (uint8_t)index;
	probe_encode(&p, &c->key, packet);
}

static void send_probe(struct clock *c, struct path *path, int index, int train)
{
	uint8_t packet[PROBE_BYTES];

	make_probe(c, path->index, udp_next_id(path->udp), index, train, packet);
	udp_send(path->udp, packet, sizeof(packet));
}

/* A probe over the stream costs both ends more than a datagram, and a train of them proves no more:
 * single probes, less often. */
static void send_by_stream(struct clock *c)
{
	int64_t now_ns = now_mono_ns();
	uint8_t packet[PROBE_BYTES];

	if (!c->stream || c->unanswered < UDP_TRIES ||
	    (!c->first_trains && now_ns - c->streamed_ns < STREAM_GAP_NS))
		return;
	c->streamed_ns = now_ns;
	make_probe(c, PATHS, 0, 0, 1, packet);
	c->stream(c->stream_arg, packet);
}

/* All probes of a train take one path. After an idle time a socket delays the next probe but not its
 * reply, which looks like an offset. Only the first probe of the train is delayed so. */
static void send_train(struct clock *c, int train)
{
	struct path *path = &c->paths[c->trains % PATHS];
	int64_t start_ns = now_raw_ns();

	for (int i = 0; i < train; i++) {
		while (now_raw_ns() - start_ns < i * SPACING_NS)
			;
		send_probe(c, path, i, train);
	}
	c->trains += !c->half_sent;
}

/* A time below within_ns that differs between agents: agents are connected and armed at the same time, but
 * must not all probe at the same time. */
static int64_t own_delay(const struct clock *c, int64_t within_ns)
{
	return (int64_t)(c->exchange.cookie >> 16) % within_ns;
}

static int64_t calm_gap(struct clock *c)
{
	int64_t gap = c->calm_gap_ns;

	if (gap == CALM_MIN_NS)
		gap += own_delay(c, NS_PER_S);
	c->calm_gap_ns = 2 * c->calm_gap_ns < CALM_MAX_NS ? 2 * c->calm_gap_ns : CALM_MAX_NS;
	return gap;
}

static bool is_dense(const struct clock *c)
{
	return now_mono_ns() < c->dense_until_ns && !c->first_trains;
}

static bool is_jittery(const struct clock *c)
{
	return clock_estimator_jitter_ns(c->estimator, host_of_raw(c, now_raw_ns())) > JITTERY_NS;
}

static int64_t at_least(int64_t v, int64_t least)
{
	return v > least ? v : least;
}

static int64_t dense_gap(const struct clock *c)
{
	if (!is_jittery(c))
		return at_least(c->pair_gap_ns, DENSE_GAP_NS);
	if (c->half_sent)
		return JITTERY_SPACING_NS;
	return at_least(c->pair_gap_ns, JITTERY_GAP_NS) - JITTERY_SPACING_NS;
}

static int64_t next_gap(struct clock *c)
{
	if (c->first_trains > 0) {
		c->first_trains--;
		return FIRST_GAP_NS;
	}
	if (c->end_trains > 0) {
		c->end_trains--;
		return is_dense(c) && is_jittery(c) ? dense_gap(c) : DENSE_GAP_NS;
	}
	if (is_dense(c))
		return dense_gap(c);
	if (!clock_model(c).calibrated)
		return SOON_NS;
	return calm_gap(c);
}

static int next_train(const struct clock *c)
{
	if (!is_dense(c) || c->long_train)
		return TRAIN;
	return is_jittery(c) ? 1 : TRAIN_DENSE;
}

static void on_timer(void *arg)
{
	struct clock *c = arg;
	int train = next_train(c);

	/* Checked before the probes are sent: a sleep must be known before a reply contradicts the history. */
	clock_watch_take_snapshot(c->watch);
	c->half_sent = train == 1 && !c->half_sent;
	send_train(c, train);
	c->long_train = false;
	c->unanswered++;
	send_by_stream(c);
	loop_timer_in(c->conf.loop, &c->timer, next_gap(c), on_timer, c);
}

static void on_departure(void *arg, uint32_t id, int64_t raw_ns)
{
	struct path *path = arg;

	exchange_set_departure(&path->clock->exchange, path->index, id,
			       host_of_raw(path->clock, raw_ns));
}

/* From here on the session clock is another machine's, and close to the former one. */
static void begin_epoch(struct clock *c)
{
	if (c->goes_on)
		clock_estimator_break(c->estimator, c->left_host_ns, c->left_host_ns,
				      CLOCK_BREAK_TAKEOVER);
	c->goes_on = false;
}

/* False for a reply to no probe under way. */
static bool take_reply(struct clock *c, const struct probe *p, int64_t raw_ns, bool kernel)
{
	struct clock_sample samples[EXCHANGE_SAMPLES];
	int n = exchange_take_reply(&c->exchange, p, host_of_raw(c, raw_ns), kernel, samples);

	if (n)
		begin_epoch(c);
	for (int i = 0; i < n; i++) {
		if (!clock_estimator_add(c->estimator, &samples[i]))
			log_debug("AGT-PROBE", "reason=\"impossible times in a reply\"");
	}
	return n > 0;
}

/* If a break is suspected, the next train is sent soon, to tell whether it was one. */
static void hurry_if_suspecting(struct clock *c)
{
	int64_t soon_ns = now_mono_ns() + SOON_NS;

	if (clock_estimator_is_suspecting(c->estimator) && c->timer.at_mono_ns > soon_ns &&
	    loop_timer_armed(&c->timer))
		loop_timer_at(c->conf.loop, &c->timer, soon_ns, on_timer, c);
}

static void on_reply(void *arg, const void *data, size_t len, int64_t raw_ns,
		     const struct udp_from *from)
{
	struct path *path = arg;
	struct clock *c = path->clock;
	struct probe p;

	if (!probe_decode(&p, data, len) || !probe_is_signed(data, &c->key) ||
	    !take_reply(c, &p, raw_ns, from->kernel)) {
		log_debug("AGT-PROBE", "reason=\"%zu bytes that are no reply to a probe\"", len);
		return;
	}
	c->unanswered = 0;
	c->by_stream = false;
	hurry_if_suspecting(c);
}

void clock_take_stream_reply(struct clock *c, const uint8_t *packet)
{
	int64_t raw_ns = now_raw_ns();
	struct probe p;

	if (probe_decode(&p, packet, PROBE_BYTES) && probe_is_signed(packet, &c->key) &&
	    take_reply(c, &p, raw_ns, false)) {
		c->by_stream = true;
		hurry_if_suspecting(c);
	}
}

/* ---- peer ---- */

static int dial_paths(struct clock *c, const struct clock_peer *peer, struct err *e)
{
	for (int i = 0; i < PATHS; i++) {
		struct path *path = &c->paths[i];
		int rc = udp_dial(&path->udp, c->conf.loop, peer->host, peer->port, on_reply, path,
				  e);

		if (rc)
			return rc;
		udp_on_sent(path->udp, on_departure);
	}
	return 0;
}

static bool has_former(const struct clock_peer *peer, uint64_t epoch)
{
	size_t i = 0;

	while (i < peer->n_former && peer->former[i] != epoch)
		i++;
	return i < peer->n_former;
}

/* The history is of the epoch before. */
static void leave_epoch(struct clock *c, const struct clock_peer *peer)
{
	if (!c->has_epoch || !has_former(peer, c->epoch)) {
		clock_estimator_reset(c->estimator);
		c->goes_on = false;
		return;
	}
	if (!c->goes_on)
		c->left_host_ns = host_of_raw(c, now_raw_ns());
	c->goes_on = true;
}

int clock_set_peer(struct clock *c, const struct clock_peer *peer, struct err *e)
{
	int rc;

	clock_unset_peer(c);
	rc = dial_paths(c, peer, e);
	if (rc) {
		clock_unset_peer(c);
		return rc;
	}
	if (!c->has_epoch || c->epoch != peer->epoch)
		leave_epoch(c, peer);
	exchange_begin(&c->exchange, peer->cookie, peer->epoch, now_raw_tick_ns());
	c->key = peer->key;
	c->stream = peer->stream;
	c->stream_arg = peer->stream_arg;
	c->unanswered = 0;
	c->epoch = peer->epoch;
	c->has_epoch = true;
	c->first_trains = FIRST_TRAINS;
	c->calm_gap_ns = CALM_MIN_NS;
	loop_timer_in(c->conf.loop, &c->timer, own_delay(c, FIRST_GAP_NS), on_timer, c);
	return 0;
}

void clock_unset_peer(struct clock *c)
{
	loop_timer_cancel(c->conf.loop, &c->timer);
	for (int i = 0; i < PATHS; i++) {
		udp_free(c->paths[i].udp);
		c->paths[i].udp = NULL;
	}
}

void clock_probe_densely(struct clock *c, int64_t until_mono_ns, int64_t gap_ns)
{
	int64_t soon;

	c->pair_gap_ns = gap_ns;
	soon = now_mono_ns() + own_delay(c, at_least(gap_ns, DENSE_GAP_NS));
	c->long_train = true;
	if (until_mono_ns > c->dense_until_ns)
		c->dense_until_ns = until_mono_ns;
	clock_watch_densely(c->watch, until_mono_ns);
	c->calm_gap_ns = CALM_MIN_NS;
	if (loop_timer_armed(&c->timer) && c->timer.at_mono_ns > soon)
		loop_timer_at(c->conf.loop, &c->timer, soon, on_timer, c);
}

void clock_probe_for_past(struct clock *c, int64_t until_mono_ns, int64_t gap_ns)
{
	if (!clock_model(c).calibrated || is_jittery(c))
		clock_probe_densely(c, until_mono_ns, gap_ns);
}

void clock_check_breaks(struct clock *c)
{
	clock_watch_take_snapshot(c->watch);
}

int64_t clock_probe_after_window(struct clock *c)
{
	int64_t at_ns = now_mono_ns() + own_delay(c, END_SPREAD_NS);
	int64_t rtt_ns = 2 * clock_model(c).rtt_min_ns;

	if (!loop_timer_armed(&c->timer))
		return now_mono_ns();
	c->calm_gap_ns = CALM_MIN_NS; /* a series of windows has its next one soon */
	if (c->timer.at_mono_ns > at_ns)
		loop_timer_at(c->conf.loop, &c->timer, at_ns, on_timer, c);
	c->end_trains = END_TRAINS - 1;
	at_ns += is_jittery(c) ? JITTERY_END_NS : (END_TRAINS - 1) * DENSE_GAP_NS;
	return at_ns + (rtt_ns < REPLY_MAX_NS ? rtt_ns : REPLY_MAX_NS) + REPLY_NS;
}

/* ---- life ---- */

/* Setting the wall clock does not change raw. After any other change the history of raw does not hold any
 * more, from the last snapshot before the change on. */
static void on_change(void *arg, enum ledger_change change)
{
	static const enum clock_break causes[] = {
		[LEDGER_SLEPT] = CLOCK_BREAK_SUSPEND,
		[LEDGER_SWITCHED] = CLOCK_BREAK_SOURCE,
		[LEDGER_DISRUPTED] = CLOCK_BREAK_MOVED,
	};
	struct clock *c = arg;
	struct clock_ledger l;

	if (change == LEDGER_STEPPED)
		return;
	c->goes_on = false; /* what follows is on neither of the clocks before */
	l = clock_watch_ledger(c->watch);
	clock_estimator_break(c->estimator, host_of_raw(c, l.steps[l.n_steps - 1].from_raw_ns),
			      host_of_raw(c, now_raw_ns()), causes[change]);
	c->first_trains = FIRST_TRAINS;
	if (loop_timer_armed(&c->timer))
		loop_timer_in(c->conf.loop, &c->timer, 0, on_timer, c);
}

int clock_new(struct clock **out, const struct clock_conf *conf, struct err *e)
{
	struct clock *c;
	int rc;

	if (conf->test_drift_ppm > 1000 || conf->test_drift_ppm < -1000)
		return err_set(e, ERR_INVALID, "test clock drift of %g ppm: at most 1000",
			       conf->test_drift_ppm);
	c = xcalloc(1, sizeof(*c));
	c->conf = *conf;
	c->start_raw_ns = now_raw_ns();
	c->calm_gap_ns = CALM_MIN_NS;
	for (int i = 0; i < PATHS; i++)
		c->paths[i] = (struct path){ .clock = c, .index = i };
	c->estimator = clock_estimator_new();
	rc = clock_watch_new(&c->watch, conf->loop, on_change, c, e);
	if (rc)
		clock_free(c);
	else
		*out = c;
	return rc;
}

void clock_free(struct clock *c)
{
	if (!c)
		return;
	clock_unset_peer(c);
	clock_watch_free(c->watch);
	clock_estimator_free(c->estimator);
	free(c);
}
