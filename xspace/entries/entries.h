/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces of other programs as an XSpace: Chrome's trace events, and the system profile of AWS's Neuron Profiler. (PyTorch's
 * files are Chrome's, too, but say more: xspace/kineto.h.) Pure: bytes in memory or mapped, no files, no clock. The text is
 * not trusted: ERR_INVALID names the offset.
 *
 * A process becomes a plane: "/host:CPU", further ones "/host:CPU NAME" or "/host:CPU [PID]", with the stats process_id and
 * process_name. A thread becomes a line, a counter an event name of the line "_counters_". Members of an event that have no
 * place of their own become its stats: numbers, texts, arrays and objects as their JSON text.
 */
#ifndef XSPACE_ENTRIES_ENTRIES_H
#define XSPACE_ENTRIES_ENTRIES_H

#include <stddef.h>
#include <stdint.h>

#include "xspace/xspace.h"

#define ENTRY_MAX_BYTES	    ((uint64_t)512 << 20) /* of one file */
#define ENTRY_TRACKS_MAX    65536 /* threads, and the like */
#define ENTRY_PROCESSES_MAX 4096
#define ENTRY_HOSTS_MAX	    1024 /* of a system profile */
#define ENTRY_TEXT_MAX	    4096 /* bytes of a name; longer ones are cut */

enum entry_format { ENTRY_CHROME, ENTRY_PYTORCH, ENTRY_NEURON };

/* Told by the names of the document's members. What is none of them, or malformed, is ENTRY_CHROME, whose reader says why not. */
enum entry_format entry_format_of(const void *data, size_t len);

struct entry_counts {
	uint64_t events; /* in the XSpace */
	uint64_t
		left_out; /* of a kind that has no place, without a time, or an end without its begin */
	uint64_t
		unfinished; /* begun and not ended: they last to the end of the trace, with the stat `unfinished` */
	int64_t start_unix_ns; /* line times count from here, as far as the file says */
};

/*
 * Chrome's JSON: {"traceEvents": [...]} or the array alone, which may lack its end. "X", "B" and "E", "i", "C", "M", flows
 * ("s", "t", "f": the stat `flow`), and asynchronous events ("b", "n", "e", also by their old names), which get a line for
 * each category. Times are decimals of microseconds and are read as such. `otherData.t0_unix_ns`, as `tutti export` writes
 * it, says when the time 0 was. `max_memory` bounds what it allocates, the XSpace included: ERR_LIMIT beyond.
 */
MUST_CHECK int chrome_read(const void *data, size_t len, size_t max_memory, struct xs_builder *b,
			   struct entry_counts *counts, struct err *e);

/*
 * {"trace_events": ..., "mem_usage": ..., "cpu_util": ...}, each an array of events, or one event, or an object of events by
 * name. A line for each `group` and `thread_id`; memory is the counter "mem_usage", a core's use "cpu_util ID". Only what is
 * of this instance (`instance_id`): a document may have many hosts.
 */
MUST_CHECK int neuron_read(const void *data, size_t len, const char *instance, size_t max_memory,
			   struct xs_builder *b, struct entry_counts *counts, struct err *e);

/* The instances of a document, in order of appearance: an array of `*n` texts, "" for events without one. The caller frees
 * it with neuron_hosts_free(). */
MUST_CHECK int neuron_hosts(const void *data, size_t len, char ***hosts, size_t *n, struct err *e);
void neuron_hosts_free(char **hosts, size_t n);

#endif
