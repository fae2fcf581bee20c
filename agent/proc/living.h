/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes whose main thread has ended (pthread_exit() in main) while others go on: /proc/PID has no memory, files or
 * root any more, but /proc/TID of each thread that is left has them. Blocks on /proc.
 */
#ifndef AGENT_PROC_LIVING_H
#define AGENT_PROC_LIVING_H

#include <stdbool.h>
#include <stdint.h>

/* The number of a folder in /proc that has the process's files: `pid`, or the id of a thread that is left; `pid` if there is
 * none. Where that is a process's first thread, as nearly always, it costs one call. */
uint32_t proc_living(uint32_t pid);

/* Whether a process has ended, also if its parent does not know yet (a zombie). One that is hidden from the agent has not. */
bool proc_has_ended(uint32_t pid);

#endif
