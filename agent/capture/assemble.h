/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a host's XSpace from the tracers' parts, in nanoseconds since T0. Blocks while it reads and writes:
 * runs on a worker, and uses only its argument. Memory is bounded, whatever the size of the parts.
 */
#ifndef AGENT_CAPTURE_ASSEMBLE_H
#define AGENT_CAPTURE_ASSEMBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/capture/capture_file.h"
#include "agent/capture/edges.h"
#include "agent/clock/model.h"
#include "agent/tracer/tracer.h"
#include "base/err.h"
#include "proto/limits.h"

/* What happened to a part. */
enum part_result {
	PART_USED,
	PART_INVALID, /* left out: not an XSpace */
	PART_UNREADABLE, /* left out: its file has vanished, or cannot be read */
	PART_BEYOND_LIMITS, /* left out: beyond the limits of xspace/xspace.h */
	PART_NO_SPACE, /* left out: the spool has no space for it */
	PART_TOO_LARGE, /* one of its planes is left out: larger than a file may be */
};

struct pod_view;

struct assembly {
	/* Given, all borrowed. */
	const char *host, *session;
	const char *path; /* of the file to write */
	struct clock_model clock;
	int64_t t0_ns, t1_ns; /* the window, session clock */
	struct window_edges edges; /* where the window is cut, if not at the model's T0 and T1 */
	int64_t bound_ns; /* assemble_bound_ns() of all this */
	const void *profile_options;
	size_t profile_options_len;
	const struct tracer_part *const *parts; /* n_parts pointers */
	size_t n_parts;
	const char *const *warnings; /* NULL-terminated */
	const struct pod_view *pods; /* NULL = none */
	uint64_t limit_bytes; /* of the file at path */
	uint64_t file_bytes; /* largest size of one file of the session */

	/* The result. */
	uint64_t events, bytes;
	uint32_t crc32; /* zlib's, of the file at path */
	struct capture_file files[LIMIT_HOST_FILES]; /* each file of the session, in order */
	unsigned int n_files;
	/* n_parts, zeroed by the caller; the file has a warning for each part that is not completely in
	 * it */
	enum part_result *results;
	char too_large_plane[128]; /* name of the first plane that was left out */
};

/*
 * Largest error of an event's time in [t0, t1), in a file made with this model. Lines are moved as wholes, so
 * that events keep their distances; the error of that is included. If that error were above a quarter of the
 * clock's bound, each event is moved by itself instead. In a window that is cut at edges, events near an edge
 * may be moved by as much as the edge differs from the model; that is included, too, and, if the file has times of the
 * wall clock, how well it is known how that one ran.
 */
int64_t assemble_bound_ns(const struct clock_model *m, int64_t t0_ns, int64_t t1_ns,
			  const struct window_edges *edges, bool has_wall_times);

/*
 * Writes one file, which holds one or several files of the session, one after the other: `<host>.xplane.pb`
 * and those that name_of_file() names. Parts that are the cause of a failure are left out. ERR_FULL if the
 * file would be larger than limit_bytes even without the parts of processes. On failure the file is removed.
 */
MUST_CHECK int assemble(struct assembly *a, struct err *e);

#endif
