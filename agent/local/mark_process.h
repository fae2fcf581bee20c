/* SPDX-License-Identifier: Apache-2.0 */
/* Which process a mark is about: a process may mark itself and, as `tutti mark` does, its parent. */
#ifndef AGENT_LOCAL_MARK_PROCESS_H
#define AGENT_LOCAL_MARK_PROCESS_H

#include <stdint.h>

struct mark;

/* Sets pid and tid of the mark. `peer` is the process at the socket, 0 = unknown; `pid` and `tid` are what it
 * claims. A pid other than its own or its parent's is replaced by its own; a tid that is no thread of that
 * process, by its first thread. With an unknown peer both are 0. */
void mark_process_set(struct mark *mark, int32_t peer, int32_t pid, int32_t tid);

#endif
