/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One agent as the time service knows it: which of its probes were answered already, and when the
 * kernel sent the answers. Pure.
 */
#ifndef AGGREGATOR_FLEET_PROBE_PEER_H
#define AGGREGATOR_FLEET_PROBE_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/probe.h"

#define PROBE_PEER_SENT	  8 /* departures kept until a reply takes them along */
#define PROBE_SENT_MAX_NS 10000000 /* no packet leaves later than this after it was handed over */

struct probe_peer {
	struct siphash_key key;
	uint32_t newest_seq; /* 0 = none yet */
	uint64_t seen; /* bit i: newest_seq - i was answered */
	struct probe_sent sent[PROBE_PEER_SENT]; /* a ring */
	size_t first, n;
};

/* A new key, nothing seen. */
void probe_peer_reset(struct probe_peer *p);

/* False for a number that was answered before, or is too old to tell: nothing is answered twice. */
bool probe_peer_take_seq(struct probe_peer *p, uint32_t seq);

/* The kernel sent the reply to seq, which was handed over at t3_user_ns, at t3_ns (session clock; leans
 * to early: one before the hand-over says nothing new and is not noted). False for times that cannot
 * be: not noted either. */
bool probe_peer_sent(struct probe_peer *p, uint32_t seq, int64_t t3_user_ns, int64_t t3_ns);

/* Moves what was noted into a reply, oldest first. */
void probe_peer_fill(struct probe_peer *p, struct probe *reply);

#endif
