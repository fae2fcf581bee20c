/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps track of the probes to one aggregator: when each was sent, and which samples follow from the replies
 * and from the stamps of both kernels. Pure; all times of this host are on the host clock (agent/clock/model.h).
 */
#ifndef AGENT_CLOCK_EXCHANGE_H
#define AGENT_CLOCK_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/clock/sample.h"
#include "proto/probe.h"

#define EXCHANGE_PROBES	 256 /* remembered; the reply to an older one is ignored */
#define EXCHANGE_SAMPLES (1 + PROBE_SENT_MAX) /* the most that one reply can give */

/* A probe under way, then its sample. */
struct exchange_probe {
	enum { EXCHANGE_EMPTY, EXCHANGE_WAITING, EXCHANGE_ANSWERED } state;
	uint32_t seq;
	int path; /* the socket that sent it */
	uint32_t id; /* of the datagram on that socket; path and id identify the departure */
	int64_t t1_user_ns;
	int64_t t1_kernel_ns; /* 0 = not reported */
	struct clock_sample sample;
};

struct exchange {
	uint64_t cookie, epoch;
	int64_t tick_ns; /* of the host clock */
	uint32_t seq; /* of the last probe */
	struct exchange_probe probes[EXCHANGE_PROBES];
	uint32_t answered;
	uint32_t bad_stamps; /* of either kernel: later than the process's own clock allows */
	/* one bit per reply, the newest is the lowest: whether kernels stamped its t1, t2 and t4 */
	uint64_t kernel;
};

/* Forgets all probes under way and every count. The host clock reads up to tick_ns early: samples get times that are
 * right for every reading of a tick. */
void exchange_begin(struct exchange *x, uint64_t cookie, uint64_t epoch, int64_t tick_ns);

/* The probe to be sent next, as datagram `id` of socket `path`; t1_ns was read just before. */
struct probe exchange_make_probe(struct exchange *x, int path, uint32_t id, int64_t t1_ns);

/* The kernel reports that it sent this datagram at t1_ns. */
void exchange_set_departure(struct exchange *x, int path, uint32_t id, int64_t t1_ns);

/*
 * A reply came at t4_ns, which the kernel stamped if `kernel`. Returns the number of samples that
 * it makes: updates of earlier probes whose t3 is known better now, and its own. 0 for a reply to
 * no probe under way.
 */
int exchange_take_reply(struct exchange *x, const struct probe *p, int64_t t4_ns, bool kernel,
			struct clock_sample out[EXCHANGE_SAMPLES]);

/* Both kernels stamp most probes and replies. */
bool exchange_is_kernel(const struct exchange *x);

#endif
