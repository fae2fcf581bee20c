/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tensorflow.ProfileResponse made of stored files without copying them: handwritten headers, mapped files.
 *
 * Made on the loop (response_new, response_add_file), loaded on a worker (response_load), sent on the loop.
 */
#ifndef AGGREGATOR_XPROF_RESPONSE_H
#define AGGREGATOR_XPROF_RESPONSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct response;
struct rpc_call;
struct store;

struct response *response_new(struct store *store);
void response_free(struct response *r);

/* Adds a stored file; `name` without its suffix. */
void response_add_file(struct response *r, const char *name, const char *key);
void response_add_note(struct response *r, const char *fmt, ...)
	PRINTF_LIKE(2, 3); /* a sentence: what is missing and why */

/* Maps the files. A file that cannot be read, or that would make the response longer than `max_bytes`,
 * becomes a note. Blocks. */
void response_load(struct response *r, uint64_t max_bytes);

/*
 * Sends the response: one tool_data per file, the notes as warnings in the first file's XSpace. Without
 * files, one small XSpace with the notes as errors. With emit_xspace the response has one XSpace instead: the
 * hosts' files one after the other, which again is an XSpace, and the notes. The maps are released when they
 * are sent.
 */
void response_send(struct response *r, bool emit_xspace, struct rpc_call *call);

#endif
