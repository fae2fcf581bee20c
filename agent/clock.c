/* SPDX-License-Identifier: Apache-2.0 */
/* The probing: bursts over UDP, replies matched to what was sent, samples to the estimator. */
#include "agent/clock.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/udp.h"
#include "proto/probe.h"

#define TRAIN	     4 /* probes in a burst: the fastest of them counts */
#define FIRST_BURSTS 4
#define FIRST_GAP_NS (80 * NS_PER_MS)
#define DENSE_GAP_NS (250 * NS_PER_MS)
#define CALM_GAP_NS  (2 * NS_PER_S)
#define PENDING	     64 /* power of two; an answer that is later than 16 bursts is worth nothing */

/* A probe under way. */
struct sent {
	uint32_t seq;
	bool waiting;
	int64_t t1_ns;
};

struct clock {
	struct clock_conf conf;
	int64_t start_raw_ns; /* the injected drift counts from here */
	struct clock_estimator *estimator;
	struct udp *udp; /* NULL without a peer */
	uint64_t cookie, epoch;
	bool has_epoch;
	uint32_t seq;
	struct sent sent[PENDING];
	int first_bursts; /* still to come, quickly */
	struct loop_timer timer;
	int64_t hurry_until_ns; /* CLOCK_MONOTONIC */
};

/* The host clock and nothing else: moved by the injected error, never calibrated. */
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
	struct clock_model m = bare_model(c);

	return clock_model_session_of_raw(&m, raw_ns);
}

struct clock_model clock_model(const struct clock *c)
{
	struct clock_model m = bare_model(c);

	now_pair_ns(&m.pair_raw_ns, &m.pair_real_ns, NULL);
	m.at_raw_ns = m.pair_raw_ns;
	m.calibrated = clock_estimator_get(c->estimator, host_of_raw(c, m.at_raw_ns), &m);
	return m;
}

struct clock_model clock_model_over(const struct clock *c, int64_t from_raw_ns, int64_t to_raw_ns)
{
	struct clock_model m = bare_model(c);

	now_pair_ns(&m.pair_raw_ns, &m.pair_real_ns, NULL);
	m.at_raw_ns = m.pair_raw_ns;
	m.calibrated = clock_estimator_map(c->estimator, host_of_raw(c, m.at_raw_ns),
					   host_of_raw(c, from_raw_ns), host_of_raw(c, to_raw_ns),
					   &m);
	return m;
}

/* ---- probes ---- */

static void send_probe(struct clock *c, int index)
{
	struct sent *sent = &c->sent[++c->seq % PENDING];
	uint8_t packet[PROBE_BYTES];
	struct probe p = {
		.type = PROBE_REQUEST,
		.train = TRAIN,
		.index = (uint8_t)index,
		.cookie = c->cookie,
		.seq = c->seq,
	};

	/* Early is allowed, late is not: the clock is read before the packet is even made. */
	p.t1_ns = host_of_raw(c, now_raw_ns());
	*sent = (struct sent){ .seq = c->seq, .waiting = true, .t1_ns = p.t1_ns };
	probe_encode(&p, packet);
	udp_send(c->udp, packet, sizeof(packet));
}

static int64_t next_gap(struct clock *c)
{
	if (c->first_bursts > 0) {
		c->first_bursts--;
		return FIRST_GAP_NS;
	}
	if (!clock_model(c).calibrated || now_mono_ns() < c->hurry_until_ns)
		return DENSE_GAP_NS;
	return CALM_GAP_NS;
}

static void on_timer(void *arg)
{
	struct clock *c = arg;

	for (int i = 0; i < TRAIN; i++)
		send_probe(c, i);
	loop_timer_in(c->conf.loop, &c->timer, next_gap(c), on_timer, c);
}

/* The probe that this answers, or NULL for an answer that nobody waits for. */
static struct sent *find_sent(struct clock *c, const struct probe *p)
{
	struct sent *sent = &c->sent[p->seq % PENDING];

	if (p->type != PROBE_REPLY || p->cookie != c->cookie || p->epoch != c->epoch ||
	    !sent->waiting || sent->seq != p->seq || sent->t1_ns != p->t1_ns)
		return NULL;
	return sent;
}

static void on_reply(void *arg, const void *data, size_t len, int64_t raw_ns,
		     const struct udp_from *from)
{
	struct clock *c = arg;
	struct clock_sample sample;
	struct sent *sent;
	struct probe p;

	(void)from;
	if (!probe_decode(&p, data, len) || !(sent = find_sent(c, &p))) {
		log_debug("AGT-PROBE", "reason=\"%zu bytes that answer no probe\"", len);
		return;
	}
	sent->waiting = false;
	sample = (struct clock_sample){
		.t1_ns = sent->t1_ns,
		.t2_ns = p.t2_ns,
		.t3_ns = p.t3_ns,
		.t4_ns = host_of_raw(c, raw_ns),
	};
	if (!clock_estimator_add(c->estimator, &sample))
		log_debug("AGT-PROBE", "reason=\"impossible times in an answer\"");
}

/* ---- peer ---- */

int clock_set_peer(struct clock *c, const char *host, int port, uint64_t cookie, uint64_t epoch,
		   struct err *e)
{
	int rc;

	clock_unset_peer(c);
	rc = udp_dial(&c->udp, c->conf.loop, host, port, on_reply, c, e);
	if (rc)
		return rc;
	if (!c->has_epoch || c->epoch != epoch)
		clock_estimator_reset(c->estimator);
	c->cookie = cookie;
	c->epoch = epoch;
	c->has_epoch = true;
	c->first_bursts = FIRST_BURSTS;
	loop_timer_in(c->conf.loop, &c->timer, 0, on_timer, c);
	return 0;
}

void clock_unset_peer(struct clock *c)
{
	loop_timer_cancel(c->conf.loop, &c->timer);
	udp_free(c->udp);
	c->udp = NULL;
	memset(c->sent, 0, sizeof(c->sent));
}

void clock_hurry(struct clock *c, int64_t until_mono_ns)
{
	int64_t soon = now_mono_ns() + DENSE_GAP_NS;

	if (until_mono_ns > c->hurry_until_ns)
		c->hurry_until_ns = until_mono_ns;
	if (loop_timer_armed(&c->timer) && c->timer.at_mono_ns > soon)
		loop_timer_at(c->conf.loop, &c->timer, soon, on_timer, c);
}

/* ---- life ---- */

int clock_new(struct clock **out, const struct clock_conf *conf, struct err *e)
{
	struct clock *c;

	if (conf->test_drift_ppm > 1000 || conf->test_drift_ppm < -1000)
		return err_set(e, ERR_INVALID, "test clock drift of %g ppm: at most 1000",
			       conf->test_drift_ppm);
	c = xcalloc(1, sizeof(*c));
	c->conf = *conf;
	c->start_raw_ns = now_raw_ns();
	random_bytes(&c->seq, sizeof(c->seq));
	c->estimator = clock_estimator_new();
	*out = c;
	return 0;
}

void clock_free(struct clock *c)
{
	if (!c)
		return;
	clock_unset_peer(c);
	clock_estimator_free(c->estimator);
	free(c);
}
