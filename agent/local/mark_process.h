/* SPDX-License-Identifier: Apache-2.0 */
/* Which process a mark is about: a process may mark itself and, as `tutti mark` does, its parent. */
#ifndef AGENT_LOCAL_MARK_PROCESS_H
#define AGENT_LOCAL_MARK_PROCESS_H

#include <stdint.h>

struct mark;

/* Sets pid and tid of the mark. `peer` is the process at the socket (0 = unknown), `pid` and `tid` are what
 * it claims: another pid than its own or its parent's becomes its own, a thread that is none of the
 * process's becomes its first one. All are 0 if the peer is unknown. */
void mark_process_set(struct mark *mark, int32_t peer, int32_t pid, int32_t tid);

#endif
