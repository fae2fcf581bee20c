/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a struct python_targets, shared by targets.c (sampling) and targets_scan.c (which processes). */
#ifndef AGENT_PYTHON_TARGETS_PARTS_H
#define AGENT_PYTHON_TARGETS_PARTS_H

#include "agent/python/targets.h"

/* A process of the host, and what was found in it. */
struct known {
	uint32_t pid;
	uint64_t scan; /* the last scan that met it */
	int looks; /* how often it was examined */
	uint64_t exe; /* hash of its executable's path */
	uint32_t uid; /* its user, as of the last examination */
	int rc; /* result of the last examination */
	uint32_t serial; /* to get as a target; 0 = a new one */
	bool is_left_out; /* it would be sampled, and there was no room */
	struct python_target *target; /* NULL: not sampled */
};

struct python_targets {
	struct python_functions *functions;
	struct python_files *files;
	struct python_walk *walk;
	struct python_stack stack;
	struct python_target **v;
	size_t n;
	struct u32_map known; /* by pid */
	struct python_unread unread;
	/* of processes of other users, at least one could be read; at least one could not */
	bool may_read, may_not;
	uint64_t scans;
	int64_t costs_ns[PYTHON_TARGETS_MAX]; /* of the targets, for one round */
	uint32_t last_serial;
	_Atomic uint32_t *shown; /* python_targets_show(); NULL = none */
};

void python_target_free(struct python_target *t);

/* Its memory is read from now on. */
void python_targets_reading(struct python_targets *ts, uint32_t pid);

#endif
