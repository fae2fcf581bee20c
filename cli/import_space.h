/* SPDX-License-Identifier: Apache-2.0 */
/* Writes imported log entries as an XSpace: a plane "/host:CPU logs JOB" per job, a line per pod and severity (and
 * node, of a pod that moved). */
#ifndef CLI_IMPORT_SPACE_H
#define CLI_IMPORT_SPACE_H

#include <stdint.h>

#include <jansson.h>

#include "cli/import_index.h"
#include "xspace/xspace.h"

#define IMPORT_PLANE_BYTES \
	(64 << 20) /* of memory; a job with more has several planes, "JOB #2", ... */
#define IMPORT_SPAN_MAX_NS \
	(INT64_C(100) * 86400 * 1000000000) /* that a file can hold: ERR_LIMIT above */

struct import_space {
	/* Given. */
	const char *name; /* of the file of entries */
	const char *hostname;
	int64_t t0_ns, t1_ns; /* entries outside are left out; times are written since t0 */
	/* of a session's manifest: entries of these nodes are moved to its clock; NULL = none */
	const json_t *hosts;
	/* The result. */
	uint64_t entries, outside, lines, jobs;
	uint64_t moved; /* entries, by their node's offset */
};

/* The index is sorted. ERR_NOT_FOUND if no entry is inside. */
MUST_CHECK int import_space_write(struct import_space *space, const struct import_index *index,
				  int fd, const struct xs_sink *out, struct err *e);

#endif
