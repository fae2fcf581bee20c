/* SPDX-License-Identifier: Apache-2.0 */
/* Records of a perf ring, written as the kernel writes them, for tests. */
#ifndef TESTS_LIB_PERF_BYTES_H
#define TESTS_LIB_PERF_BYTES_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/buf.h"

static inline void put32(struct buf *b, uint32_t v)
{
	buf_add(b, &v, sizeof(v));
}

static inline void put64(struct buf *b, uint64_t v)
{
	buf_add(b, &v, sizeof(v));
}

static inline size_t perf_begin(struct buf *b, uint32_t type, uint16_t misc)
{
	struct perf_event_header h = { .type = type, .misc = misc };
	size_t at = b->len;

	buf_add(b, &h, sizeof(h));
	return at;
}

/* Ends a record; all except samples have the thread and the time at their end. */
static inline void perf_end(struct buf *b, size_t at, uint64_t time, bool trailer)
{
	uint16_t size;

	if (trailer) {
		put64(b, 0);
		put64(b, time);
	}
	size = (uint16_t)(b->len - at);
	memcpy(b->data + at + offsetof(struct perf_event_header, size), &size, sizeof(size));
}

/* A thread leaves the CPU (`misc` PERF_RECORD_MISC_SWITCH_OUT, perhaps _PREEMPT) or comes (0); each thread is a
 * process of its own. */
/* With `has_ids` false: in the short layout. */
static inline void perf_switch(struct buf *b, uint64_t time, uint16_t misc, bool has_ids,
			       uint32_t tid, uint32_t other)
{
	size_t at = perf_begin(b, PERF_RECORD_SWITCH_CPU_WIDE, misc);
	uint16_t size;

	put32(b, other);
	put32(b, other);
	if (has_ids) {
		put32(b, tid);
		put32(b, tid);
	}
	put64(b, time);
	size = (uint16_t)(b->len - at);
	memcpy(b->data + at + offsetof(struct perf_event_header, size), &size, sizeof(size));
}

static inline void perf_text(struct buf *b, const char *text)
{
	size_t len = strlen(text) + 1;

	buf_add(b, text, len);
	buf_add(b, "\0\0\0\0\0\0\0", (8 - len % 8) % 8);
}

/* `ips` innermost first, with the kernel's context markers. */
static inline void perf_sample(struct buf *b, uint64_t time, uint32_t pid, uint32_t tid,
			       const uint64_t *ips, size_t n)
{
	size_t at = perf_begin(b, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);

	put32(b, pid);
	put32(b, tid);
	put64(b, time);
	put64(b, n);
	for (size_t i = 0; i < n; i++)
		put64(b, ips[i]);
	perf_end(b, at, time, false);
}

/* Of a tracepoint: its raw bytes have `value` at `at`, and end there. */
static inline void perf_raw_sample(struct buf *b, uint64_t time, size_t at, uint32_t value)
{
	size_t begin = perf_begin(b, PERF_RECORD_SAMPLE, 0);

	put32(b, 7);
	put32(b, 7);
	put64(b, time);
	put64(b, 0);
	put32(b, (uint32_t)(at + sizeof(value)));
	for (size_t i = 0; i < at; i++)
		buf_add(b, "", 1);
	put32(b, value);
	perf_end(b, begin, time, false);
}

static inline void perf_mmap(struct buf *b, uint64_t time, uint32_t pid, uint64_t address,
			     uint64_t length, uint64_t offset, const char *path)
{
	size_t at = perf_begin(b, PERF_RECORD_MMAP2, PERF_RECORD_MISC_USER);

	put32(b, pid);
	put32(b, pid);
	put64(b, address);
	put64(b, length);
	put64(b, offset);
	put32(b, 8);
	put32(b, 1);
	put64(b, 4711);
	put64(b, 0);
	put32(b, 5);
	put32(b, 2);
	perf_text(b, path);
	perf_end(b, at, time, true);
}

static inline void perf_comm(struct buf *b, uint64_t time, uint32_t pid, uint32_t tid,
			     const char *comm, bool exec)
{
	size_t at = perf_begin(b, PERF_RECORD_COMM, exec ? PERF_RECORD_MISC_COMM_EXEC : 0);

	put32(b, pid);
	put32(b, tid);
	perf_text(b, comm);
	perf_end(b, at, time, true);
}

/* PERF_RECORD_FORK or PERF_RECORD_EXIT. */
static inline void perf_task(struct buf *b, uint32_t type, uint64_t time, uint32_t pid,
			     uint32_t ppid, uint32_t tid, uint32_t ptid)
{
	size_t at = perf_begin(b, type, 0);

	put32(b, pid);
	put32(b, ppid);
	put32(b, tid);
	put32(b, ptid);
	put64(b, time);
	perf_end(b, at, time, true);
}

static inline void perf_lost(struct buf *b, uint64_t time, uint64_t count)
{
	size_t at = perf_begin(b, PERF_RECORD_LOST, 0);

	put64(b, 7);
	put64(b, count);
	perf_end(b, at, time, true);
}

static inline void perf_lost_short(struct buf *b, uint64_t time, uint64_t count)
{
	size_t at = perf_begin(b, PERF_RECORD_LOST, 0);

	put64(b, 7);
	put64(b, count);
	put64(b, time);
	perf_end(b, at, 0, false);
}

#endif
