/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bookkeeping of an exchange of probes with one aggregator: which were sent when, what their
 * answers and the stamps of both kernels make of them. Pure; all times of this side are host clock
 * (agent/clock/clock.h).
 */
#ifndef AGENT_CLOCK_EXCHANGE_H
#define AGENT_CLOCK_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/clock/clock.h"
#include "proto/probe.h"

#define EXCHANGE_PROBES	 256 /* remembered; a later answer is worth nothing */
#define EXCHANGE_SAMPLES (1 + PROBE_SENT_MAX) /* that one answer can give */

/* A probe under way, then its sample. */
struct exchange_probe {
	enum { EXCHANGE_EMPTY, EXCHANGE_WAITING, EXCHANGE_ANSWERED } state;
	uint32_t seq;
	int path; /* of the socket, and the number of the datagram there: names its departure */
	uint32_t id;
	int64_t t1_user_ns;
	int64_t t1_kernel_ns; /* 0 = not told */
	bool t4_is_kernel;
	struct clock_sample sample;
};

struct exchange {
	uint64_t cookie, epoch;
	uint32_t seq; /* of the last probe */
	struct exchange_probe probes[EXCHANGE_PROBES];
	uint32_t sent, answered;
	uint32_t bad_stamps; /* of either kernel, outside of what the user's clock allows */
	uint64_t kernel; /* bit per answer, newest lowest: the kernels stamped it at t1, t2, t4 */
};

/* Forgets all that is under way and every count. */
void exchange_begin(struct exchange *x, uint64_t cookie, uint64_t epoch);

/* A probe is about to be sent as datagram `id` of socket `path`; t1 was read before that. */
struct probe exchange_next(struct exchange *x, int path, uint32_t id, int64_t t1_ns);

/* The kernel says that it sent this datagram then. */
void exchange_departed(struct exchange *x, int path, uint32_t id, int64_t t1_ns);

/*
 * An answer came at t4_ns, `kernel` says whose stamp that is. Returns how many samples it makes:
 * those of earlier probes whose t3 is better known now, and its own. 0 for an answer that nobody
 * waits for.
 */
int exchange_answer(struct exchange *x, const struct probe *p, int64_t t4_ns, bool kernel,
		    struct clock_sample out[EXCHANGE_SAMPLES]);

/* Both kernels stamp most of what goes to and fro. */
bool exchange_is_kernel(const struct exchange *x);

#endif
