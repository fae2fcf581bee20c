/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the planes of several inputs in one file. Private to xspace/. */
#ifndef XSPACE_MERGE_NAMES_H
#define XSPACE_MERGE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct merge_plane {
	size_t input;
	int64_t pid; /* 0 = Tutti's own, XS_PID_UNKNOWN */

	char *name; /* in the input; owned */
	int64_t id;

	bool dropped;
	char *new_name; /* owned */
	int64_t new_id;

	/* Of its stat metadata, for the stat process_id. */
	int64_t greatest_stat;
	int64_t process_id_stat; /* 0 = no metadata of that name */
	bool has_process_id;
	int64_t process_id; /* if it has one */
};

/* Fills in dropped, new_name and new_id by the rules in xspace.h. `n` planes, ordered by input. */
void merge_names(struct merge_plane *planes, size_t n);

#endif
