/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes the records of a perf ring buffer, in the layout that ring.c requests. Pure. The bytes come from
 * the kernel; every length is checked nevertheless.
 */
#ifndef AGENT_PERF_DECODE_H
#define AGENT_PERF_DECODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/reader.h"

/* sample_type of the events, which gives the records their layout. It has no PERF_SAMPLE_CPU, because each ring
 * belongs to one CPU. Records of the short layout end with their time, others with the ids of their thread before it. */
#define PERF_SAMPLE_LAYOUT (PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN)
#define PERF_SHORT_LAYOUT  PERF_SAMPLE_TIME

enum perf_layout { PERF_LAYOUT_WITH_IDS, PERF_LAYOUT_SHORT };

enum perf_kind {
	PERF_KIND_SAMPLE, /* pid, tid, ips; of a tracepoint: raw */
	PERF_KIND_MAP, /* pid mapped executable memory: address, length, offset, dev, inode, text */
	PERF_KIND_COMM, /* the name of pid, tid is `text`; exec: all its mappings are gone */
	PERF_KIND_FORK, /* ppid, ptid started pid, tid */
	PERF_KIND_EXIT, /* pid, tid ended */
	/* with `out` a CPU goes from thread pid, tid to thread ppid, ptid; without, the other way round; in the short
	 * layout pid and tid are 0 */
	PERF_KIND_SWITCH,
	PERF_KIND_LOST, /* `count` records did not fit into the ring */
	PERF_KIND_THROTTLE, /* the kernel suppressed samples */
	PERF_KIND_OTHER,
};

/* A decoded record. Its pointers point into the bytes that it was decoded from. */
struct perf_record {
	enum perf_kind kind;
	int64_t time_ns; /* of the clock the event was opened with */
	uint32_t pid, tid, ppid, ptid;
	const uint8_t *ips; /* n_ips * 8 bytes, not aligned: perf_record_ip() */
	uint64_t n_ips;
	const uint8_t *raw; /* raw_len bytes, in the tracepoint's layout */
	size_t raw_len;
	uint64_t address, length, offset, inode;
	uint32_t major, minor;
	bool exec;
	bool out, preempted; /* of a SWITCH; preempted: the thread that leaves could have gone on */
	uint64_t count;
	const char *text; /* NUL-terminated */
};

/* Takes the next record; false at the end and at malformed bytes. */
bool perf_decode(struct reader *r, enum perf_layout layout, struct perf_record *out);

/* An address of a call chain, leaf first; i < n_ips. Values from PERF_CONTEXT_MAX on are markers. */
static inline uint64_t perf_record_ip(const struct perf_record *rec, uint64_t i)
{
	uint64_t ip;

	memcpy(&ip, rec->ips + i * sizeof(ip), sizeof(ip));
	return ip;
}

#endif
