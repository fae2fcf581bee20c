/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time probe: one UDP packet there, one back, both PROBE_BYTES long so that a forged source
 * address gains nothing. Network byte order.
 *
 *   magic u32 | version u8 | type u8 | train u8 | index u8 | cookie u64 | epoch u64 | seq u32 |
 *   reserved u32 | t1 i64 | t2 i64 | t3 i64 | zero padding
 *
 * t1: agent's clock before sending; t2, t3: aggregator's session clock at receipt and before the
 * reply. Rule: t1 and t3 may be early, never late; t2 may be late, never early.
 */
#ifndef PROTO_PROBE_H
#define PROTO_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROBE_BYTES   128
#define PROBE_MAGIC   0x54544d31u
#define PROBE_VERSION 1

enum probe_type { PROBE_REQUEST = 1, PROBE_REPLY = 2 };

struct probe {
	enum probe_type type;
	uint8_t train; /* probes in this burst */
	uint8_t index; /* 0 .. train-1 */
	uint64_t cookie; /* from Welcome */
	uint64_t epoch; /* clock_epoch of the aggregator; 0 in a request */
	uint32_t seq;
	int64_t t1_ns, t2_ns, t3_ns;
};

void probe_encode(const struct probe *p, uint8_t out[PROBE_BYTES]);

/* False for anything that is not exactly a probe of this version. */
bool probe_decode(struct probe *out, const void *data, size_t len);

#endif
