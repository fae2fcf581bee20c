/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks once after the start, on workers, that every committed session has one line in the index, and makes missing
 * lines from the manifests, the newest first. Lines of an older layout, and those that a crash left, are replaced. So
 * an index that was lost comes back; until then listings lack its sessions. A store that fails is asked again later. Loop
 * thread.
 */
#ifndef AGGREGATOR_SESSIONS_INDEX_CHECK_H
#define AGGREGATOR_SESSIONS_INDEX_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/loop.h"
#include "proto/limits.h"

struct jobs;
struct store;

typedef char session_name[LIMIT_SESSION_NAME];

struct session_names {
	session_name *items;
	size_t n, cap;
};

struct index_check {
	struct jobs *jobs;
	struct store *store;
	struct loop_timer timer;
	bool stopping, listed;
	struct session_names missing; /* from the index; sorted, the newest last */
	size_t rebuilt;
};

void index_check_start(struct index_check *c, struct jobs *jobs, struct store *store);
void index_check_stop(struct index_check *c); /* no job begins any more */
void index_check_release(struct index_check *c); /* stopped, and all jobs are done */

#endif
