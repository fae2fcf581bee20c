/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file that a PyTorch process writes: found below the process's root, copied, converted to an XSpace and
 * removed. The file is not trusted: it must be a regular file of the process's user, and is read from a
 * copy that the process cannot change. Its file system may hang: `ff` reads, one job at a time. Blocks; for a worker.
 */
#ifndef AGENT_TRACER_PYTORCH_TRACE_FILE_H
#define AGENT_TRACER_PYTORCH_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/proc/far_file.h"
#include "base/err.h"
#include "xspace/kineto.h"

#define TRACE_FOLDER	 "/tmp" /* the only one that all builds write to */
#define TRACE_NAME_BYTES 64

struct trace_place {
	int64_t pid;
	int32_t inner_pid; /* in its own PID namespace */
	uint32_t uid;
	uint32_t run; /* the tracer's number, by which it knows its own files */
	char name[TRACE_NAME_BYTES]; /* in TRACE_FOLDER, as the process writes it */
};

/* Sets a name that no other recording has: "tutti_<run><random>_<pid>.json", both numbers with 8 hexadecimal digits.
 * PyTorch puts _<pid> there. */
void trace_place_name(struct trace_place *place);

/* Its size; ERR_NOT_FOUND if it is not there (yet). PyTorch gives a file its name when it is complete. */
MUST_CHECK int trace_file_look(struct far_files *ff, const struct trace_place *place,
			       uint64_t *bytes, struct err *e);

/*
 * Appends the trace's events to the file `to` as an XSpace. Several calls may append to one file, because concatenated
 * XSpaces are one XSpace. Times count from `start_unix_ns`; 0 = from counts->start_unix_ns, which is the first event's.
 * `steps` is that of
 * struct kineto_conf. With no event nothing is written, nor on failure. ERR_LIMIT if it is larger than `max_bytes` or a limit of kineto.h.
 */
MUST_CHECK int trace_file_convert(struct far_files *ff, const struct trace_place *place,
				  const char *to, uint64_t max_bytes, uint64_t salt,
				  int64_t start_unix_ns, uint32_t steps,
				  struct kineto_counts *counts, struct err *e);

/* Removes the file; returns whether it was there. `is_last`: no file is expected any more, so also removes
 * what an unfinished recording leaves. Errors are ignored. */
bool trace_file_remove(struct far_files *ff, const struct trace_place *place, bool is_last);

/* Removes all files that tracers with other numbers told this process to write; returns how many. */
size_t trace_file_remove_others(struct far_files *ff, const struct trace_place *place);

#endif
