/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc says of a process or a thread in its status file. Blocks on /proc. */
#ifndef AGENT_PROC_STATUS_H
#define AGENT_PROC_STATUS_H

#include <stdbool.h>
#include <stdint.h>

struct proc_status {
	uint32_t uid; /* the effective user; UINT32_MAX: not known */
	int32_t inner_id; /* in its own PID namespace; 0 = not known */
	bool is_nested; /* that is another one than the reader's */
};

/* Of the file at `path`. False if there is none: then nothing is known. */
bool proc_status_read(const char *path, struct proc_status *out);

/* Of a process. */
bool proc_status_of(uint32_t pid, struct proc_status *out);

/* The thread's id here, from its id `tid` in the process's namespace. `tid` itself if it is not found among
 * the process's first threads. */
int32_t proc_thread_of(int32_t pid, int32_t tid);

#endif
