/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One agent in the time service: which of its probes were answered already, and when the kernel sent
 * the replies. Pure.
 */
#ifndef AGGREGATOR_FLEET_PROBE_PEER_H
#define AGGREGATOR_FLEET_PROBE_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/probe.h"

#define PROBE_PEER_SENT	  8 /* departures kept until a reply carries them */
#define PROBE_SENT_MAX_NS 10000000 /* the longest time that the kernel takes to send a reply */

struct probe_peer {
	struct siphash_key key;
	uint32_t newest_seq; /* 0 = none yet */
	uint64_t answered; /* bit i: newest_seq - i was answered */
	struct probe_sent sent[PROBE_PEER_SENT]; /* a ring */
	size_t first, n;
};

/* A new key, nothing answered yet. */
void probe_peer_reset(struct probe_peer *p);

/* False for a number that was answered before, or is too old to be checked: no number is answered twice. */
bool probe_peer_accept_seq(struct probe_peer *p, uint32_t seq);

/*
 * The process gave the reply to seq to the kernel at t3_user_ns, and the kernel sent it at t3_ns (session
 * clock). Keeps t3_ns for a later reply. Kernel stamps tend to be early: a t3_ns before t3_user_ns is no
 * better than t3_user_ns and is ignored. False, and not kept, if t3_ns is impossibly late.
 */
bool probe_peer_note_departure(struct probe_peer *p, uint32_t seq, int64_t t3_user_ns,
			       int64_t t3_ns);

/* Moves the kept departures into a reply, oldest first. */
void probe_peer_fill_reply(struct probe_peer *p, struct probe *reply);

#endif
