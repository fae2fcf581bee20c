/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/time/leader_clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/time/session_clock.h"
#include "base/hex.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"
#include "json/json_text.h"
#include "net/udp.h"
#include "proto/probe.h"

#define GAP_NS	   (500 * NS_PER_MS) /* between two probes */
#define SAMPLES	   64 /* the latest ones; of half a minute */
#define SLOT_NS	   (2 * NS_PER_S)
#define SLOT_BITS  4
#define HOST_BYTES 256

/* At this raw time of this machine, the leader's clock was ahead of raw by at least lo_ns; or, at another time, by at most
 * hi_ns. */
struct sample {
	int64_t lo_raw_ns, lo_ns;
	int64_t hi_raw_ns, hi_ns;
};

struct leader_clock {
	struct loop *loop;
	struct loop_timer timer;
	struct udp *udp; /* NULL: nothing is probed */
	char host[HOST_BYTES];
	int port;
	uint64_t epoch, cookie;
	struct siphash_key key;
	uint32_t seq; /* of the probe that waits for its reply; 0 = none does */
	int64_t t1_ns, tick_ns;
	struct sample samples[SAMPLES];
	unsigned int n, next;
	int64_t heard_ns; /* the leader's time in its last reply */
};

/* ---- probes ---- */

/* Replies are never early in t2, nor late in t3; so are t1 and t4 of this side. */
static void add_sample(struct leader_clock *lc, const struct probe *p, int64_t t4_ns)
{
	if (!lc->n)
		log_info("AGG-CLOCK", "state=hears leader=%s port=%d", lc->host, lc->port);
	lc->samples[lc->next] = (struct sample){
		.lo_raw_ns = t4_ns,
		.lo_ns = p->t3_ns - t4_ns,
		.hi_raw_ns = lc->t1_ns,
		.hi_ns = p->t2_ns - lc->t1_ns,
	};
	lc->next = (lc->next + 1) % SAMPLES;
	lc->n += lc->n < SAMPLES;
	lc->heard_ns = p->t3_ns;
}

static void on_reply(void *arg, const void *data, size_t len, int64_t raw_ns,
		     const struct udp_from *from)
{
	struct leader_clock *lc = arg;
	struct probe p;

	(void)from;
	if (!lc->seq || !probe_decode(&p, data, len) || !probe_is_signed(data, &lc->key) ||
	    p.type != PROBE_REPLY || p.cookie != lc->cookie || p.epoch != lc->epoch ||
	    p.seq != lc->seq || p.t2_ns > p.t3_ns)
		return;
	lc->seq = 0;
	add_sample(lc, &p, raw_ns + lc->tick_ns);
}

/* Several followers share a cookie. No number is answered twice, and none that is 64 behind another: so numbers follow the time
 * of day, which followers have alike to some seconds. Where two draw the same, one gets no reply this time. */
static uint32_t next_seq(void)
{
	uint32_t chance;

	random_bytes(&chance, sizeof(chance));
	return (uint32_t)(now_real_ns() / SLOT_NS) << SLOT_BITS | chance >> (32 - SLOT_BITS);
}

static void on_timer(void *arg)
{
	struct leader_clock *lc = arg;
	uint8_t packet[PROBE_BYTES];
	struct probe p = { .type = PROBE_REQUEST, .train = 1, .cookie = lc->cookie };

	lc->seq = next_seq();
	lc->t1_ns = now_raw_ns();
	p.seq = lc->seq;
	p.t1_ns = lc->t1_ns;
	probe_encode(&p, &lc->key, packet);
	udp_send(lc->udp, packet, sizeof(packet));
	loop_timer_in(lc->loop, &lc->timer, GAP_NS, on_timer, lc);
}

/* ---- the leader ---- */

/* The name or address between "//" and the port; in brackets if it has colons. */
static bool read_host(const char *url, char host[HOST_BYTES])
{
	const char *at = url ? strstr(url, "//") : NULL;
	bool bracket = at && at[2] == '[';
	size_t len;

	if (!at)
		return false;
	at += bracket ? 3 : 2;
	len = strcspn(at, bracket ? "]/" : ":/");
	if (!len || len >= HOST_BYTES)
		return false;
	memcpy(host, at, len);
	host[len] = '\0';
	return true;
}

static bool read_key(const char *hex, struct siphash_key *key)
{
	for (size_t i = 0; i < sizeof(key->bytes); i++) {
		int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		key->bytes[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

static void stop(struct leader_clock *lc)
{
	loop_timer_cancel(lc->loop, &lc->timer);
	udp_free(lc->udp);
	lc->udp = NULL;
	lc->seq = 0;
}

void leader_clock_set(struct leader_clock *lc, const char *url, const json_t *clock)
{
	uint64_t epoch = strtoull(json_get_text(clock, "epoch"), NULL, 16);
	const json_t *probe = json_object_get(clock, "probe");
	const char *key = json_get_text(probe, "key");
	struct err e;

	stop(lc);
	if (epoch != lc->epoch)
		lc->n = lc->next = 0;
	lc->epoch = epoch;
	lc->port = (int)json_get_int(probe, "port");
	lc->cookie = strtoull(json_get_text(probe, "cookie"), NULL, 16);
	if (!read_host(url, lc->host) || strlen(key) != 2 * sizeof(lc->key.bytes) ||
	    !read_key(key, &lc->key) || lc->port <= 0 || lc->port > 65535)
		return;
	if (udp_dial(&lc->udp, lc->loop, lc->host, lc->port, on_reply, lc, &e)) {
		log_warn("AGG-CLOCK", "leader=%s port=%d reason=\"%s\"", lc->host, lc->port, e.msg);
		return;
	}
	loop_timer_in(lc->loop, &lc->timer, 0, on_timer, lc);
}

/* ---- what is known ---- */

static int64_t drift_ns(int64_t from_raw_ns, int64_t to_raw_ns)
{
	return (int64_t)ceil(SESSION_CLOCK_DRIFT * fabs((double)(to_raw_ns - from_raw_ns)));
}

bool leader_clock_read(const struct leader_clock *lc, uint64_t epoch,
		       struct session_clock_seen *out)
{
	int64_t now_ns = now_raw_ns();

	if (!lc->n || epoch != lc->epoch)
		return false;
	*out = (struct session_clock_seen){
		.raw_ns = now_ns, .lo_ns = INT64_MIN, .hi_ns = INT64_MAX, .from_ns = lc->heard_ns
	};
	for (unsigned int i = 0; i < lc->n; i++) {
		const struct sample *s = &lc->samples[i];
		int64_t lo_ns = s->lo_ns - drift_ns(s->lo_raw_ns, now_ns);
		int64_t hi_ns = s->hi_ns + drift_ns(s->hi_raw_ns, now_ns);

		if (lo_ns > out->lo_ns)
			out->lo_ns = lo_ns;
		if (hi_ns < out->hi_ns)
			out->hi_ns = hi_ns;
	}
	return out->lo_ns <= out->hi_ns;
}

/* ---- life ---- */

struct leader_clock *leader_clock_new(struct loop *loop)
{
	struct leader_clock *lc = xcalloc(1, sizeof(*lc));

	lc->loop = loop;
	lc->tick_ns = now_raw_tick_ns();
	return lc;
}

void leader_clock_free(struct leader_clock *lc)
{
	if (!lc)
		return;
	stop(lc);
	free(lc);
}
