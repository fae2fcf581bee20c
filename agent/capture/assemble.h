/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the tracers' parts to a host's XSpace, in nanoseconds since T0. Blocks for as long
 * as it takes to read and write the bytes: runs on a worker, and sees only its argument. Memory is
 * bounded, whatever the size of the parts.
 */
#ifndef AGENT_CAPTURE_ASSEMBLE_H
#define AGENT_CAPTURE_ASSEMBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/clock/model.h"
#include "agent/tracer/tracer.h"
#include "base/err.h"
#include "proto/limits.h"

/* What became of a part. */
enum part_fate {
	PART_USED,
	PART_BAD, /* it is no XSpace, and left out */
	PART_TOO_LARGE, /* a plane that no file can hold is left out */
};

struct assembly {
	/* Given, all borrowed. */
	const char *host, *session;
	const char *path; /* of the file to write */
	struct clock_model clock;
	int64_t t0_ns, t1_ns; /* the window, session clock */
	const void *profile_options;
	size_t profile_options_len;
	const struct tracer_part *const *parts; /* n_parts pointers */
	size_t n_parts;
	const char *const *warnings; /* NULL-terminated */
	uint64_t limit_bytes; /* for all that is written */
	uint64_t file_bytes; /* no file of the session is to pass this */

	/* The result. */
	uint64_t events, bytes;
	uint32_t crc32; /* zlib's, of all that was written */
	uint64_t files[LIMIT_HOST_FILES]; /* bytes of each file of the session, in order */
	unsigned int n_files;
	enum part_fate *fates; /* n_parts, zeroed by the caller; the file has a text for each
						 * part that is not wholly in it */
	char too_large[128]; /* PART_TOO_LARGE: the first such plane */
};

/*
 * Largest error of an event's time in [t0, t1) in a file made with this model. Where an event that kept
 * its distance to its line's start, in the host's own time, would be off by more than a quarter of the
 * clock's bound at the other end of the window, each event is moved by itself; elsewhere lines are moved
 * as wholes, and what that adds is in here.
 */
int64_t assemble_bound_ns(const struct clock_model *m, int64_t t0_ns, int64_t t1_ns);

/*
 * Writes one file, which holds what will be one or several files in the session, one after the other:
 * `<host>.xplane.pb` and those that name_of_file() names. ERR_FULL when it would pass limit_bytes; a file
 * that failed is removed.
 */
MUST_CHECK int assemble(struct assembly *a, struct err *e);

#endif
