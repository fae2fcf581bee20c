/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds events that belong together on several hosts and run backwards. Each host's file is read once, for
 * observations of three kinds:
 *
 *   flow     the uint64 stat `flow` in XFlow's encoding (two lowest bits: 1 in, 2 out, 3 both; 56 bits
 *            of id; 6 bits of category): if the out and the in of a flow are on two hosts, the out must
 *            begin before the in ends;
 *   barrier  the stat `barrier_id` (an integer or a text) of an event with a duration, or two marks
 *            "barrier ID begin" and "barrier ID end": no host may leave before all have entered.
 *   collective an operation that XLA recorded and in which all devices of a group wait for each other
 *            (xspace/collectives.h): a barrier of these devices. It is counted as ambiguous without HLO,
 *            without a run_id, or if the group is unknown.
 *
 * Only violations that are larger than both hosts' clock bounds together are reported. A key is ambiguous,
 * and then ignored, if a flow has two outs, if a flow's in is on the host of its out, or if a barrier's id
 * occurs twice on one line. Nothing is repaired. Pure: no files, no clock.
 */
#ifndef XSPACE_CAUSALITY_H
#define XSPACE_CAUSALITY_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "xspace/xspace.h"

/* Observations beyond these limits are left out and counted; about 30 MB at most. */
#define XS_CAUSALITY_KEYS 65536 /* flows and barriers */
/* flows and barriers, each counted once per host that has it */
#define XS_CAUSALITY_SEEN      262144
#define XS_CAUSALITY_KEY_BYTES 128 /* with its NUL */

struct xs_causality;

struct xs_causality *xs_causality_new(void);
void xs_causality_free(struct xs_causality *c); /* NULL is fine */

/*
 * Reads the file of the next host: hosts are numbered 0, 1, ... in the order of these calls. `bound_ns`
 * >= 0 is the largest error of its times. After a failure the host counts as one without observations.
 */
MUST_CHECK int xs_causality_add(struct xs_causality *c, const struct xs_source *in,
				int64_t bound_ns, struct err *e);

/*
 * The observations of a host can be made where its file is, and compared elsewhere. Appends those of the one host that
 * was added to `c`, sorted by key, as far as `max_bytes` reach; those that do not fit are counted as left out.
 */
struct buf;
void xs_causality_pack(const struct xs_causality *c, size_t max_bytes, struct buf *out);

/* As xs_causality_add(), with bytes from xs_causality_pack(): they may be anybody's. ERR_INVALID if they are malformed. */
MUST_CHECK int xs_causality_add_packed(struct xs_causality *c, const void *data, size_t len,
				       int64_t bound_ns, struct err *e);

/* The length of the window that the hosts' files cover. With 0, the default, no steps are searched for. */
void xs_causality_set_window(struct xs_causality *c, int64_t window_ns);

struct xs_violation {
	/* "flow 7", "all-reduce.1 of jit_f run 7 (1a)"; printable ASCII, and any other bytes above 0x7f */
	const char *key;
	size_t early, late; /* the worst pair of hosts: early's end is before late's begin */
	int64_t by_ns; /* from that end to that begin, less both hosts' bounds */
};

/* A flow or barrier on one host: the latest start and the earliest end of its threads and processes. */
struct xs_seen {
	uint32_t key, host;
	bool has_start,
		has_end; /* an out has a start, an in has an end, a barrier usually has both */
	int64_t start_ns, end_ns; /* within INT64_MAX / 8 of 0 */
};

#define XS_NO_HOST SIZE_MAX

/* Steps of a framework (the stat `step_num`) that began and ended in the window. */
struct xs_steps {
	bool known; /* there is one */
	int64_t first, last, first_at_ns, end_at_ns;
};

struct xs_verdict {
	size_t checked; /* keys that two or more hosts share, without the ambiguous ones */
	size_t ambiguous; /* keys */
	uint64_t left_out; /* observations beyond the limits */
	const struct xs_violation *violations; /* one for each key that has any, largest first */
	size_t n_violations;
	const struct xs_seen *seen; /* all observations of the checked keys, by key */
	size_t n_seen;
	uint64_t collectives; /* collective events that XLA recorded */
	uint64_t matched_collectives; /* of these, in keys that were checked */
	uint64_t ambiguous_collectives; /* of these: nothing shows what they belong to */
	const struct xs_steps *steps; /* by host */
	size_t suspect; /* the host in most pairs that run backwards, or XS_NO_HOST */
};

/* To be called once, after the last host. `out` borrows from `c`. */
void xs_causality_judge(struct xs_causality *c, struct xs_verdict *out);

#endif
