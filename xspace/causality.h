/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Do events that belong together on several hosts run backwards? Each host's file is looked through
 * once for observations of two kinds:
 *
 *   flow     the uint64 stat `flow` in XFlow's encoding (two lowest bits: 1 in, 2 out, 3 both; 56 bits
 *            of id; 6 bits of category): what one host sends out must begin before another's in ends;
 *   barrier  the stat `barrier_id` (an integer or a text) of an event with a duration, or two marks
 *            "barrier ID begin" and "barrier ID end": nobody leaves before everybody has come.
 *
 * Times are believed as far as the two hosts' clock bounds allow. Only what must be wrong is reported;
 * what may be chance is left alone: a flow that leaves twice, or comes in where it left, and an id that
 * comes again on one line, make their key ambiguous. Nothing is repaired. Pure: no files, no clock.
 */
#ifndef XSPACE_CAUSALITY_H
#define XSPACE_CAUSALITY_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "xspace/xspace.h"

/* What is beyond is left out and counted; about 30 MB at most. */
#define XS_CAUSALITY_KEYS      65536 /* flows and barriers */
#define XS_CAUSALITY_SEEN      262144 /* flows and barriers, each as often as hosts have it */
#define XS_CAUSALITY_KEY_BYTES 96 /* "barrier ID" with its NUL */

struct xs_causality;

struct xs_causality *xs_causality_new(void);
void xs_causality_free(struct xs_causality *c); /* NULL is fine */

/*
 * Looks through the file of the next host: hosts are numbered 0, 1, ... by these calls. `bound_ns` >= 0
 * is how far off its times may be. After a failure the host counts as one that has seen nothing.
 */
MUST_CHECK int xs_causality_add(struct xs_causality *c, const struct xs_source *in,
				int64_t bound_ns, struct err *e);

struct xs_violation {
	const char *
		key; /* "flow 7", "barrier 12"; printable but for bytes beyond ASCII, which may be any */
	size_t early,
		late; /* the pair of hosts that is worst: early's end is before late's begin */
	int64_t by_ns; /* beyond both bounds */
};

/* A flow or barrier as one host has it: of its threads and processes the latest start, the earliest end. */
struct xs_seen {
	uint32_t key, host;
	bool has_start,
		has_end; /* a flow's out has a start, its in an end, of barriers most have both */
	int64_t start_ns, end_ns; /* within INT64_MAX / 8 of 0 */
};

#define XS_NO_HOST SIZE_MAX

struct xs_verdict {
	size_t checked; /* keys that two or more hosts share, ambiguous ones aside */
	size_t ambiguous; /* keys */
	uint64_t left_out; /* observations beyond the limits */
	const struct xs_violation *violations; /* one for each key that has any, largest first */
	size_t n_violations;
	const struct xs_seen *seen; /* all of the keys that were checked, key by key */
	size_t n_seen;
	size_t guilty; /* in more pairs that run backwards than any other host, or XS_NO_HOST */
};

/* Once, after the last host. `out` borrows from `c`. */
void xs_causality_judge(struct xs_causality *c, struct xs_verdict *out);

#endif
