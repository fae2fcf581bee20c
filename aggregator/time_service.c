/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/time_service.h"

#include <inttypes.h>

#include "aggregator/aggregator.h"
#include "aggregator/registry.h"
#include "base/log.h"
#include "base/now.h"
#include "net/udp.h"
#include "proto/probe.h"

#define SAY_EVERY_NS (10 * NS_PER_S)

/* Anybody can send datagrams: one line now and then says that somebody does. */
static void drop(struct aggregator *agg, size_t len)
{
	int64_t now_ns = now_mono_ns();

	agg->stats.probes_dropped++;
	if (agg->probe_said_mono_ns && now_ns - agg->probe_said_mono_ns < SAY_EVERY_NS)
		return;
	agg->probe_said_mono_ns = now_ns;
	log_warn("AGG-PROBE", "bytes=%zu dropped=%" PRIu64 " reason=\"no probe of a known agent\"",
		 len, agg->stats.probes_dropped);
}

/* Only who holds a cookie is answered, and with not a byte more than came in: the port is of no use
 * to whoever forges a sender's address. */
static void on_probe(void *arg, const void *data, size_t len, int64_t raw_ns,
		     const struct udp_from *from)
{
	struct aggregator *agg = arg;
	struct probe p;
	uint8_t out[PROBE_BYTES];

	if (!probe_decode(&p, data, len) || p.type != PROBE_REQUEST ||
	    !registry_by_cookie(agg->registry, p.cookie)) {
		drop(agg, len);
		return;
	}
	agg->stats.probes++;
	p.type = PROBE_REPLY;
	p.epoch = agg->clock_epoch;
	p.t2_ns = raw_ns + agg->session_clock_shift_ns;
	p.t3_ns = aggregator_session_now(agg);
	probe_encode(&p, out);
	udp_send_to(agg->probe, from, out, sizeof(out));
}

int time_service_start(struct aggregator *agg, struct err *e)
{
	return udp_listen(&agg->probe, agg->loop, agg->conf.probe, on_probe, agg, &agg->probe_port,
			  e);
}

void time_service_stop(struct aggregator *agg)
{
	udp_free(agg->probe);
	agg->probe = NULL;
}
