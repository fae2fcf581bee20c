/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tensorflow.ProfileResponse out of stored files, without a copy: headers by hand, files by mmap.
 *
 * Made on the loop (answer_new, answer_add), filled on a worker (answer_load), sent on the loop.
 */
#ifndef AGGREGATOR_XPROF_ANSWER_H
#define AGGREGATOR_XPROF_ANSWER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct answer;
struct rpc_call;
struct store;

struct answer *answer_new(struct store *store);
void answer_free(struct answer *a);

/* A stored file; `name` without its suffix. */
void answer_add(struct answer *a, const char *name, const char *key);
void answer_note(struct answer *a, const char *fmt, ...)
	PRINTF_LIKE(2, 3); /* what is missing, and why */

/* Maps the files. One that cannot be read, or that makes the response longer than `max_bytes`,
 * becomes a note. Blocks. */
void answer_load(struct answer *a, uint64_t max_bytes);

/* Sends the response: one tool_data per file, the notes as warnings in the first one's XSpace. With no
 * file at all, one small XSpace whose errors are the notes. The maps live until they are sent. */
void answer_send(struct answer *a, struct rpc_call *call);

#endif
