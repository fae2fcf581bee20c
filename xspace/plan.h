/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of a rebase. The first pass finds the places of an input's planes and lines and their lengths
 * after moving and trimming; the second pass writes the output from that. Private to xspace/.
 */
#ifndef XSPACE_PLAN_H
#define XSPACE_PLAN_H

#include "xspace/curve.h"
#include "xspace/splice.h"

struct plan_line {
	uint64_t at, body, end; /* in the input, as in wire_field */
	uint64_t time_body; /* value of the last timestamp_ns; 0 = absent */
	uint64_t len; /* of the body written */
	int64_t source_ns; /* result of the map */
	int64_t moved_ns; /* source_ns after the knots; equal to it without knots */
	uint8_t time_len;
	bool dropped; /* has no event left */
	bool trimmed; /* an event changes: the second pass decodes them again */
};

struct plan_plane {
	struct wire_field field;
	struct wire_field id, name; /* their last occurrence; end = 0: absent */
	size_t first_line, n_lines;
	uint64_t len; /* of the written body, without the caller's own splices */
	struct xs_counts counts; /* of this plane, without bytes */
};

struct plan {
	const struct xs_rebase *conf;
	struct curve curve;
	struct plan_plane *planes;
	struct plan_line *lines;
	size_t n_planes, planes_cap, n_lines, lines_cap;
};

/* Walks the whole input. The plan must be released also after a failure. */
MUST_CHECK int plan_make(struct plan *p, struct wire *w, const struct xs_rebase *conf,
			 struct err *e);
void plan_release(struct plan *p);

/* Bytes that plan_write_plane() writes for the plane itself. */
uint64_t plan_plane_bytes(const struct plan_plane *plane, const struct splice *splices, size_t n);

/*
 * Writes one plane, with `n` further splices in it (ids, names; by position), and adds it to the counts,
 * except bytes. `w` is of the same source as `sp`. Bytes before the plane that `sp` has not copied yet
 * are copied first.
 */
MUST_CHECK int plan_write_plane(struct plan *p, const struct plan_plane *plane,
				const struct splice *splices, size_t n, struct wire *w,
				struct splicer *sp, struct xs_counts *counts, struct err *e);

#endif
