/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/time/time_service.h"

#include <inttypes.h>
#include <stdlib.h>

#include "aggregator/fleet/registry.h"
#include "aggregator/time/session_clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"
#include "net/udp.h"
#include "proto/probe.h"

#define LOG_EVERY_NS (10 * NS_PER_S)
#define REPLIES	     4096 /* the most replies that the kernel has not stamped yet; a power of two */

/* A reply that the kernel has not stamped yet. The kernel counts the datagrams of the socket, for all hosts
 * together: this maps the number of a departure to its probe. */
struct departing {
	uint32_t id;
	uint32_t seq;
	uint64_t cookie; /* the host's cookie; 0 = the stamp has come */
	int64_t t3_ns; /* when it was given to the kernel */
};

struct time_service {
	struct time_env env;
	struct udp *udp;
	int port;
	uint64_t cookie; /* of followers; 0 = none are admitted */
	struct probe_peer followers;
	struct time_stats stats;
	int64_t logged_mono_ns; /* when dropped probes were last logged */
	struct departing departing[REPLIES];
};

/* Counts and logs, at most one line in 10 s: any machine can send datagrams here. */
static void drop_probe(struct time_service *ts, size_t len, const char *why)
{
	int64_t now_ns = now_mono_ns();

	ts->stats.dropped++;
	if (ts->logged_mono_ns && now_ns - ts->logged_mono_ns < LOG_EVERY_NS)
		return;
	ts->logged_mono_ns = now_ns;
	log_warn("AGG-PROBE", "bytes=%zu dropped=%" PRIu64 " reason=\"%s\"", len, ts->stats.dropped,
		 why);
}

/* Whose probes have this cookie; NULL = no host's. `*host` is NULL for a follower's. */
static struct probe_peer *peer_of(struct time_service *ts, uint64_t cookie, struct host **host)
{
	*host = registry_find_by_cookie(ts->env.registry, cookie);
	if (*host)
		return &(*host)->probes;
	return cookie && cookie == ts->cookie ? &ts->followers : NULL;
}

static void on_sent(void *arg, uint32_t id, int64_t raw_ns)
{
	struct time_service *ts = arg;
	struct departing *d = &ts->departing[id % REPLIES];
	struct probe_peer *peer;
	struct host *h;

	if (!d->cookie || d->id != id)
		return;
	peer = peer_of(ts, d->cookie, &h);
	d->cookie = 0;
	if (peer &&
	    !probe_peer_note_departure(peer, d->seq, d->t3_ns, raw_ns + ts->env.clock->shift_ns))
		ts->stats.bad_stamps++;
}

static void answer(struct time_service *ts, struct probe_peer *peer, struct probe *p,
		   const struct udp_from *from)
{
	uint32_t id = udp_next_id(ts->udp);
	uint8_t out[PROBE_BYTES];

	p->type = PROBE_REPLY;
	p->epoch = ts->env.clock->epoch;
	probe_peer_fill_reply(peer, p);
	p->t3_ns = session_clock_now(ts->env.clock);
	probe_encode(p, &peer->key, out);
	ts->departing[id % REPLIES] = (struct departing){ id, p->seq, p->cookie, p->t3_ns };
	udp_send_to(ts->udp, from, out, sizeof(out));
}

/* Why this probe gets no reply; NULL if it gets one, and then its number is marked as answered. `peer` is NULL
 * if the cookie is unknown. */
static const char *accept_probe(struct probe_peer *peer, const struct probe *p, const void *data)
{
	if (!peer)
		return "not a probe of a connected agent";
	if (!probe_is_signed(data, &peer->key))
		return "the signature is wrong: forged or broken";
	if (!probe_peer_accept_seq(peer, p->seq))
		return "its number was answered before";
	return NULL;
}

/*
 * Answers only owners of a cookie and its key, once for each probe, with as many bytes as came in. So the
 * port cannot be used to amplify traffic to a forged address, nor to replay the probes of others.
 */
static void on_probe(void *arg, const void *data, size_t len, int64_t raw_ns,
		     const struct udp_from *from)
{
	struct time_service *ts = arg;
	struct probe_peer *peer = NULL;
	struct host *h = NULL;
	const char *why;
	struct probe p;

	if (probe_decode(&p, data, len) && p.type == PROBE_REQUEST)
		peer = peer_of(ts, p.cookie, &h);
	why = accept_probe(peer, &p, data);
	if (why) {
		drop_probe(ts, len, why);
		return;
	}
	if (h)
		h->seen_real_ns = now_real_ns();
	ts->stats.probes++;
	p.t2_ns = raw_ns + ts->env.clock->shift_ns + ts->env.clock->tick_ns; /* never early */
	p.flags = from->kernel ? PROBE_KERNEL : 0;
	answer(ts, peer, &p, from);
}

bool time_service_answer(struct time_service *ts, struct host *h, const uint8_t *packet,
			 uint8_t reply[PROBE_BYTES])
{
	int64_t t2_ns = session_clock_now(ts->env.clock) + ts->env.clock->tick_ns;
	const char *why = "not a probe of this agent";
	struct probe p;

	if (probe_decode(&p, packet, PROBE_BYTES) && p.type == PROBE_REQUEST &&
	    p.cookie == h->probe_cookie)
		why = accept_probe(&h->probes, &p, packet);
	if (why) {
		drop_probe(ts, PROBE_BYTES, why);
		return false;
	}
	h->seen_real_ns = now_real_ns();
	ts->stats.probes++;
	p.type = PROBE_REPLY;
	p.epoch = ts->env.clock->epoch;
	p.flags = 0;
	p.t2_ns = t2_ns;
	probe_peer_fill_reply(&h->probes, &p);
	p.t3_ns = session_clock_now(ts->env.clock);
	probe_encode(&p, &h->probes.key, reply);
	return true;
}

/* ---- life ---- */

struct time_service *time_service_new(const struct time_env *env)
{
	struct time_service *ts = xcalloc(1, sizeof(*ts));

	ts->env = *env;
	return ts;
}

void time_service_admit_followers(struct time_service *ts)
{
	random_bytes(&ts->cookie, sizeof(ts->cookie));
	probe_peer_reset(&ts->followers);
}

void time_service_free(struct time_service *ts)
{
	free(ts);
}

int time_service_listen(struct time_service *ts, const char *address, int *port, struct err *e)
{
	int rc = udp_listen(&ts->udp, ts->env.loop, address, on_probe, ts, &ts->port, e);

	if (rc)
		return rc;
	udp_on_sent(ts->udp, on_sent);
	*port = ts->port;
	return 0;
}

void time_service_close(struct time_service *ts)
{
	udp_free(ts->udp);
	ts->udp = NULL;
}

uint64_t time_service_cookie(const struct time_service *ts)
{
	return ts->cookie;
}

const struct siphash_key *time_service_key(const struct time_service *ts)
{
	return &ts->followers.key;
}

int time_service_port(const struct time_service *ts)
{
	return ts->port;
}

const struct time_stats *time_service_stats(const struct time_service *ts)
{
	return &ts->stats;
}
