/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's trace files (kineto JSON, builds 2.3 to 2.15) as an XSpace.
 *
 *   cpu_op, user_annotation, python_function, cuda_runtime and all others: plane "/host:CPU", a line per
 *	thread;
 *   kernel, gpu_memcpy, gpu_memset: plane "/device:GPU:<n>", a line per stream, with the stats
 *	correlation_id and, of kernels, kernel_details;
 *   gpu_user_annotation: a line of its own for each stream;
 *   "ProfilerStep#<n>": an event "ProfilerStep" with the stat step_num, as frameworks name their steps;
 *   flows (kineto's "s" and "f"): the stat "flow" of the events that they begin and end in;
 *   args: stats of the same name; arrays and objects as their JSON text.
 *
 * Left out: the category "Trace" (the recording itself) and events whose process or thread is not a number.
 * Times are decimals of microseconds and are read as such, exact to the nanosecond.
 */
#ifndef XSPACE_KINETO_H
#define XSPACE_KINETO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "xspace/xspace.h"

#define KINETO_MAX_BYTES ((uint64_t)512 << 20) /* of one file */

/* An event of 300 bytes in the file takes 100 to 140 bytes of memory, so this is enough for a file of 280
 * MB. */
#define KINETO_MAX_MEMORY ((size_t)128 << 20)
#define KINETO_MAX_LINES  65536
#define KINETO_MAX_TEXT	  4096 /* bytes of a name or an arg's text; longer ones are cut */

struct kineto_conf {
	uint64_t salt; /* makes the ids of flows differ from those of other processes */
	size_t max_memory; /* what it may allocate, the XSpace included */
	int64_t start_unix_ns; /* line times count from here; 0 = from the first event */
	/* calls of optimizer.step() that the recording was to have, 0 = it was not by calls; of more (PyTorch ends a
	 * recording late where the machine is busy) counts.to_unix_ns is the end of the last of these */
	uint32_t steps;
};

struct kineto_counts {
	uint64_t events; /* in the XSpace: the file's "X" events without those left out */
	/* "X" events whose pid or tid is not a number, and those of the category "Trace" */
	uint64_t left_out;
	uint64_t unfinished; /* cut by PyTorch at the window's end */
	int64_t start_unix_ns; /* line times count from here: the conf's, or that of the first event */
	int64_t end_unix_ns;
	int64_t from_unix_ns,
		to_unix_ns; /* when the recording began and ended; 0 = the file does not have it */
};

/*
 * Reads the file, which is in memory or mapped, and adds its planes to `b`; with no event nothing is added.
 * ERR_INVALID if it is malformed or incomplete, ERR_LIMIT if it exceeds a limit. After an error `b` may hold
 * a part of the file and can only be freed.
 */
MUST_CHECK int kineto_read(const void *data, size_t len, const struct kineto_conf *conf,
			   struct xs_builder *b, struct kineto_counts *counts, struct err *e);

#endif
