/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is kept of each log entry of a file: 32 bytes, with the place of its text in the file. Entries are grouped by job,
 * pod, severity and node.
 */
#ifndef CLI_IMPORT_INDEX_H
#define CLI_IMPORT_INDEX_H

#include <stdint.h>

#include "base/err.h"
#include "cli/import_entry.h"

#define IMPORT_ENTRIES_MAX 4000000 /* ERR_LIMIT above: 128 MB of memory */
#define IMPORT_GROUPS_MAX  20000 /* ERR_LIMIT above: no viewer shows more lines */

struct import_group;

struct import_slot {
	int64_t unix_ns;
	uint64_t offset; /* in the file */
	uint32_t len;
	uint32_t group; /* after import_index_sort(): its rank */
};

struct import_index {
	struct import_slot *slots;
	size_t n, cap;
	struct import_group *groups;
	size_t n_groups;
	uint64_t skipped; /* objects that are no usable entry */
	uint64_t skipped_line; /* of the first of them */
	const char *skipped_why; /* constant */
};

/* Reads all entries; `name` is the file's, for errors, which name the line, too. The caller releases the index. */
MUST_CHECK int import_index_read(struct import_index *index, int fd, const char *name,
				 struct err *e);

/* Sorts the slots by job, pod, severity, node, time and place. */
void import_index_sort(struct import_index *index);

/* Reads the entry of a slot again. ERR_INVALID if the file has changed. */
MUST_CHECK int import_index_entry(const struct import_slot *slot, int fd, const char *name,
				  struct import_entry *out, struct err *e);

void import_index_release(struct import_index *index);

#endif
