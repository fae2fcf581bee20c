/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the host's journal through `journalctl --follow`, a separate process, because it decodes foreign bytes
 * outside the agent, and because libsystemd binds a journal to one thread while a worker may be any thread of the pool.
 * If it ends, it is started again.
 *
 * For a worker, one at a time.
 */
#ifndef AGENT_TRACER_LOGS_JOURNAL_H
#define AGENT_TRACER_LOGS_JOURNAL_H

#include "agent/tracer/logs/reading.h"

struct journal;

/* Starts journalctl, which prints the entries from now on. */
struct journal *journal_new(void);
void journal_free(struct journal *j); /* NULL is fine */

/* Adds the entries that came. */
void journal_read(struct journal *j, struct reading *r);

/* Why it is not followed, or not all of it, with the fix; "" if it is. Borrowed until journal_read(). */
const char *journal_problem(const struct journal *j);

#endif
