/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers that processes and threads have in their own PID namespaces. Blocks on /proc. */
#ifndef AGENT_PROC_INNER_PID_H
#define AGENT_PROC_INNER_PID_H

#include <stdint.h>

/* What the process is to itself; 0 if it has ended. */
int32_t proc_inner_pid(int32_t pid);

/* The thread that is `tid` to the process; `tid` itself if there is none, or none of its first threads. */
int32_t proc_thread_of(int32_t pid, int32_t tid);

/* The last number of the line "NSpid:" of a status file; 0 if there is none. */
int32_t proc_parse_inner_pid(const char *status);

#endif
