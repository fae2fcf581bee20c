/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a process hangs: it sleeps in one and the same wait, look after look. One that only gets no CPU does not sleep.
 * Blocks on /proc.
 */
#ifndef AGENT_PROC_PROGRESS_H
#define AGENT_PROC_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* What the last look found; zeroed before the first one. */
struct proc_progress {
	bool is_asleep;
	uint64_t switches;
	int same;
};

/* Returns for how many looks in a row it has been in the wait that the one before these found. */
int proc_progress_look(struct proc_progress *p, uint32_t pid);

#endif
