/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes in whose memory a maker of rounds hung: it waits for a file that is mapped there, and nothing ends that but an
 * answer of the file system. Such a process is left alone until that maker has come back, and for a while after that,
 * longer with each hang of its user. After PYTHON_HUNG_FREE hangs all of the user's processes are left alone meanwhile, as
 * each hang costs the others the samples of a second. Blocks on /proc.
 */
#ifndef AGENT_PYTHON_HUNG_H
#define AGENT_PYTHON_HUNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/now.h"

#define PYTHON_HUNG_MAX	   16 /* makers that have not come back */
#define PYTHON_HUNG_FREE   4
#define PYTHON_REST_NS	   (2 * NS_PER_S) /* doubled by each hang, up to PYTHON_REST_MAX_NS */
#define PYTHON_REST_MAX_NS (600 * NS_PER_S)

struct python_hung;

struct python_hung *python_hung_new(void);
void python_hung_free(struct python_hung *h); /* NULL is fine */

/* It hung in that process of that user. Takes `fd`, which can be read or is closed at the other end when it comes back; -1: it is
 * back already. pid 0: in none. */
void python_hung_add(struct python_hung *h, uint32_t pid, uint32_t uid, int fd, int64_t mono_ns);

/* Looks who has come back. */
void python_hung_look(struct python_hung *h, int64_t mono_ns);

/* Whether no maker may begin: too many hang, or one did so in no process. */
bool python_hung_is_full(const struct python_hung *h);

/* Whether the process is left alone. */
bool python_hung_has(const struct python_hung *h, uint32_t pid);

#endif
