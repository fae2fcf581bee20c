/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that end with the one that forked them. */
#ifndef BASE_CHILD_H
#define BASE_CHILD_H

#include <sys/types.h>

/* As fork(), but the child gets this signal when the thread that calls this ends, and ends at once if the process ended before it could ask
 * for the signal; a thread that may end before its process does has to wait until the child runs. An exec() keeps that, a setuid() does not. */
pid_t child_fork(int signal);

#endif
