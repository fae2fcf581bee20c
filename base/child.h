/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that end with the one that forked them. */
#ifndef BASE_CHILD_H
#define BASE_CHILD_H

#include <sys/types.h>

/* As fork(), but the child gets this signal when the thread that calls this has ended, and ends at once if that was before it could ask
 * for the signal. An exec() keeps that, a setuid() does not. */
pid_t child_fork(int signal);

#endif
