/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/time/time_service.h"

#include <inttypes.h>
#include <stdlib.h>

#include "aggregator/aggregator.h"
#include "aggregator/fleet/registry.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/udp.h"
#include "proto/probe.h"

#define SAY_EVERY_NS (10 * NS_PER_S)
#define REPLIES	     4096 /* that the kernel may still have to send; a power of two */

/* A reply on its way out. The kernel numbers the socket's datagrams, whoever they are for: only this
 * says whose departure it tells of. */
struct departing {
	uint32_t id;
	uint32_t seq;
	uint64_t cookie; /* 0 = told already */
	int64_t t3_ns; /* when we handed it over */
};

struct time_service {
	struct aggregator *agg;
	struct udp *udp;
	struct departing departing[REPLIES];
};

/* Anybody can send datagrams: one line now and then says that somebody does. */
static void drop(struct aggregator *agg, size_t len, const char *why)
{
	int64_t now_ns = now_mono_ns();

	agg->stats.probes_dropped++;
	if (agg->probe_said_mono_ns && now_ns - agg->probe_said_mono_ns < SAY_EVERY_NS)
		return;
	agg->probe_said_mono_ns = now_ns;
	log_warn("AGG-PROBE", "bytes=%zu dropped=%" PRIu64 " reason=\"%s\"", len,
		 agg->stats.probes_dropped, why);
}

static void on_sent(void *arg, uint32_t id, int64_t raw_ns)
{
	struct time_service *ts = arg;
	struct departing *d = &ts->departing[id % REPLIES];
	struct host *h;

	if (!d->cookie || d->id != id)
		return;
	h = registry_by_cookie(ts->agg->registry, d->cookie);
	d->cookie = 0;
	if (h && !probe_peer_sent(&h->probes, d->seq, d->t3_ns,
				  raw_ns + ts->agg->session_clock_shift_ns))
		ts->agg->stats.probe_bad_stamps++;
}

static void answer(struct time_service *ts, struct host *h, struct probe *p,
		   const struct udp_from *from)
{
	uint32_t id = udp_next_id(ts->udp);
	uint8_t out[PROBE_BYTES];

	p->type = PROBE_REPLY;
	p->epoch = ts->agg->clock_epoch;
	probe_peer_fill(&h->probes, p);
	p->t3_ns = aggregator_session_now(ts->agg);
	probe_encode(p, &h->probes.key, out);
	ts->departing[id % REPLIES] = (struct departing){ id, p->seq, p->cookie, p->t3_ns };
	udp_send_to(ts->udp, from, out, sizeof(out));
}

/* NULL if this host's probe is to be answered, else why not. */
static const char *refusal_of(struct host *h, const struct probe *p, const void *data)
{
	if (!h)
		return "no probe of a known agent";
	if (!probe_is_signed(data, &h->probes.key))
		return "forged or broken";
	if (!probe_peer_take_seq(&h->probes, p->seq))
		return "sent before";
	h->seen_real_ns = now_real_ns();
	return NULL;
}

/* Only who holds a cookie and its key is answered, once, and with not a byte more than came in: the
 * port is of no use to whoever forges a sender's address or sends a probe of others again. */
static void on_probe(void *arg, const void *data, size_t len, int64_t raw_ns,
		     const struct udp_from *from)
{
	struct time_service *ts = arg;
	struct host *h = NULL;
	const char *why;
	struct probe p;

	if (probe_decode(&p, data, len) && p.type == PROBE_REQUEST)
		h = registry_by_cookie(ts->agg->registry, p.cookie);
	why = refusal_of(h, &p, data);
	if (why) {
		drop(ts->agg, len, why);
		return;
	}
	ts->agg->stats.probes++;
	p.t2_ns = raw_ns + ts->agg->session_clock_shift_ns;
	p.flags = from->kernel ? PROBE_KERNEL : 0;
	answer(ts, h, &p, from);
}

bool time_service_answer(struct aggregator *agg, struct host *h, const uint8_t *packet,
			 uint8_t reply[PROBE_BYTES])
{
	int64_t t2_ns = aggregator_session_now(agg);
	const char *why = "no probe of its own";
	struct probe p;

	if (probe_decode(&p, packet, PROBE_BYTES) && p.type == PROBE_REQUEST &&
	    p.cookie == h->probe_cookie)
		why = refusal_of(h, &p, packet);
	if (why) {
		drop(agg, PROBE_BYTES, why);
		return false;
	}
	agg->stats.probes++;
	p.type = PROBE_REPLY;
	p.epoch = agg->clock_epoch;
	p.flags = 0;
	p.t2_ns = t2_ns;
	probe_peer_fill(&h->probes, &p);
	p.t3_ns = aggregator_session_now(agg);
	probe_encode(&p, &h->probes.key, reply);
	return true;
}

int time_service_start(struct aggregator *agg, struct err *e)
{
	struct time_service *ts = xcalloc(1, sizeof(*ts));
	int rc;

	ts->agg = agg;
	rc = udp_listen(&ts->udp, agg->loop, agg->conf.probe, on_probe, ts, &agg->probe_port, e);
	if (rc) {
		free(ts);
		return rc;
	}
	udp_on_sent(ts->udp, on_sent);
	agg->time_service = ts;
	return 0;
}

void time_service_stop(struct aggregator *agg)
{
	if (!agg->time_service)
		return;
	udp_free(agg->time_service->udp);
	free(agg->time_service);
	agg->time_service = NULL;
}
