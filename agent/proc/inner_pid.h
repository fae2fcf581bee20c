/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers that processes and threads have in their own PID namespaces. Blocks on /proc. */
#ifndef AGENT_PROC_INNER_PID_H
#define AGENT_PROC_INNER_PID_H

#include <stdint.h>

/* The pid that the process has in its own PID namespace; 0 if it has ended. */
int32_t proc_inner_pid(int32_t pid);

/* The thread's id here, from its id `tid` in the process's namespace. `tid` itself if it is not found among
 * the process's first threads. */
int32_t proc_thread_of(int32_t pid, int32_t tid);

/* The last number of the line "NSpid:" of a status file; 0 if there is none. */
int32_t proc_parse_inner_pid(const char *status);

#endif
