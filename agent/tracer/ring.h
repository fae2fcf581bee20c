/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring: the newest records of an always-on tracer, each stamped with its time on CLOCK_MONOTONIC_RAW. It is
 * bounded in bytes and in seconds and overwrites its oldest records, a chunk at a time. Chunks that an open
 * run still needs are not dropped but moved to a file, once for all runs; so a window may be longer than the
 * ring.
 *
 * A record may be at most `late_ns` older than the newest record; an older one is refused and counted as lost. A cut
 * gives the records of a window in the order in which they were added, so those of one source are in order of time if
 * the source adds them in order. Whether a record is in [t0, t1) depends on nothing but the record's own time. So of
 * two windows that meet, each record that was added before both cuts is in exactly one.
 *
 * Reads no clock; its only I/O is the file. Loop thread, except where a function says otherwise.
 */
#ifndef AGENT_TRACER_RING_H
#define AGENT_TRACER_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ring;
struct ring_cut;

/* What a ring may keep in memory; zero = the default. */
struct ring_limits {
	uint64_t bytes; /* at least RING_BYTES_MIN */
	int64_t ns;
	/* how many times both are halved, read at each use; NULL = never */
	const unsigned int *halvings;
};

#define RING_BYTES_DEFAULT (UINT64_C(16) << 20)
#define RING_BYTES_MIN	   (UINT64_C(16) << 10)
#define RING_NS_DEFAULT	   (INT64_C(60) * 1000000000)

#define RING_FILE_BYTES_DEFAULT (UINT64_C(512) << 20)

struct ring_conf {
	struct ring_limits limits;
	uint64_t file_bytes; /* largest size of its file; 0 = the default */
	size_t record_bytes; /* of each record; 0 = sizes differ */
	int64_t late_ns;
	int64_t begin_raw_ns; /* when recording begins */
};

struct ring *ring_new(const struct ring_conf *conf);
void ring_free(struct ring *r); /* NULL is fine */

/* Copies the record. False: it is lost (too late, or larger than a quarter of the ring) and counted. */
bool ring_add(struct ring *r, int64_t raw_ns, const void *data, size_t len);

/* Counts records that are missing at `raw_ns`, or somewhere between two instants, both included; in either order, since
 * records of one CPU may be stamped a little out of order. */
void ring_add_loss(struct ring *r, int64_t raw_ns, uint64_t count);
void ring_add_gap(struct ring *r, int64_t from_raw_ns, int64_t to_raw_ns, uint64_t count);

/* Drops the older half of all records, those in the file included. */
void ring_drop_half(struct ring *r);

/* From this instant on the ring has every record, except those that ring_lost() counts. */
int64_t ring_begin(const struct ring *r);

/* How many records of [t0, t1) are missing because the ring's memory or file was full, because the source
 * lost them, or because they came too late. Records that left the ring because of their age do not count. If
 * a chunk is missing, or there is a gap, all its records count, also those outside [t0, t1). */
uint64_t ring_lost(const struct ring *r, int64_t t0_raw_ns, int64_t t1_raw_ns);

/* One of the losses that ring_lost() adds up. */
struct ring_loss {
	int64_t from_raw_ns, to_raw_ns; /* both included; equal for a loss at an instant */
	uint64_t count;
};

#define RING_LOSSES_MAX 256 /* when there are more, the oldest two become one */

/* Those of [t0, t1), in the order in which they were added. Returns how many there are. */
size_t ring_losses(const struct ring *r, int64_t t0_raw_ns, int64_t t1_raw_ns,
		   struct ring_loss out[RING_LOSSES_MAX]);

/* Whether a gap, or some that were added one after the other and meet, cover at least half of [t0, t1). `*missed` is about
 * how many records such gaps lack there: of a gap that reaches beyond the window, its part. */
bool ring_missed_half(const struct ring *r, int64_t t0_raw_ns, int64_t t1_raw_ns, uint64_t *missed);

bool ring_is_empty(const struct ring *r);
uint64_t ring_bytes(const struct ring *r); /* of memory in use, never more than its limit */
uint64_t ring_file_bytes(const struct ring *r);

/* ---- windows longer than the ring ---- */

/* A run's claim to all records from `from_raw_ns` on. */
struct ring_hold {
	const void *owner; /* identifies the hold */
	int64_t from_raw_ns;
	/* An existing folder; the file is made there, without a name. Borrowed while the hold exists. */
	const char *dir;
	/* Reserves spool space for the file; false: there is not enough, and the records are lost for this
	 * run. Every run reserves space for all that it needs, although shared chunks are written only once. */
	bool (*reserve_bytes)(void *arg, uint64_t bytes);
	void *arg;
};

void ring_add_hold(struct ring *r, const struct ring_hold *hold); /* copied */

/* Returns how many records the run needed but neither memory nor the file had space for; 0 if there is no
 * such hold. */
uint64_t ring_remove_hold(struct ring *r, const void *owner);

/* ---- cutting ---- */

struct ring_record {
	int64_t raw_ns;
	const void *data; /* aligned to 8 */
	size_t len;
};

/* The records of [t0, t1) as they are now. Copies nothing: the cut and the ring share chunks, which stay
 * until ring_cut_free(), also when the ring is gone. */
struct ring_cut *ring_cut_new(struct ring *r, int64_t t0_raw_ns, int64_t t1_raw_ns);
void ring_cut_free(struct ring_cut *cut); /* NULL is fine; no thread may be in ring_cut_each() */
bool ring_cut_is_empty(const struct ring_cut *cut); /* false, too, if records cannot be read back */

/* Whether it has more than `n` records. Reads no file: a chunk that is there counts as a whole. */
bool ring_cut_has_more(const struct ring_cut *cut, uint64_t n);

/* The bytes of its records, or a little more; UINT64_MAX if some are in the file. */
uint64_t ring_cut_bytes(const struct ring_cut *cut);

/* Any thread. Calls fn for each record until it returns false. Returns the number of records that could
 * not be read back from the file. */
uint64_t ring_cut_each(const struct ring_cut *cut,
		       bool (*fn)(void *arg, const struct ring_record *record), void *arg);

#endif
