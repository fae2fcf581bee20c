/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time probe: one UDP packet there, one back, both PROBE_BYTES long so that a forged source address
 * amplifies nothing. Network byte order.
 *
 *   magic u32 | version u8 | type u8 | train u8 | index u8 | cookie u64 | epoch u64 | seq u32 |
 *   flags u32 | t1 i64 | t2 i64 | t3 i64 | 4 x { seq u32, t3 i64 } | 16 zero bytes | mac u64
 *
 * t1: agent's clock before sending; t2, t3: aggregator's session clock at receipt and before the reply. Rule:
 * t1 and t3 may be early, never late; t2 may be late, never early.
 *
 * The kernel stamps a reply only when it leaves, so the reply cannot carry its own stamp. A later reply to
 * the same agent carries it, as a better t3 of an earlier seq.
 *
 * The mac is SipHash-2-4 of all bytes before it, with the key of Welcome: without that key a sender gets no
 * reply and cannot move a clock.
 */
#ifndef PROTO_PROBE_H
#define PROTO_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/siphash.h"

#define PROBE_BYTES    128
#define PROBE_MAGIC    0x54544d31u
#define PROBE_VERSION  2
#define PROBE_SENT_MAX 4
/* flag: t2 is the kernel's stamp, not the time at which the process read the probe */
#define PROBE_KERNEL 1u

enum probe_type { PROBE_REQUEST = 1, PROBE_REPLY = 2 };

/* The kernel sent the reply to `seq` at t3_ns. */
struct probe_sent {
	uint32_t seq;
	int64_t t3_ns; /* 0 = none here */
};

struct probe {
	enum probe_type type;
	uint8_t train; /* probes in this train */
	uint8_t index; /* 0 .. train-1 */
	uint64_t cookie; /* from Welcome */
	uint64_t epoch; /* clock_epoch of the aggregator; 0 in a request */
	uint32_t seq;
	uint32_t flags;
	int64_t t1_ns, t2_ns, t3_ns;
	struct probe_sent sent[PROBE_SENT_MAX];
};

void probe_encode(const struct probe *p, const struct siphash_key *key, uint8_t out[PROBE_BYTES]);

/* False for anything that is not exactly a probe of this version. The sender is not checked:
 * find its key by the cookie, then call probe_is_signed(). */
bool probe_decode(struct probe *out, const void *data, size_t len);

/* `data` is PROBE_BYTES long: probe_decode() has checked that. */
bool probe_is_signed(const void *data, const struct siphash_key *key);

#endif
