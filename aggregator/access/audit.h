/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit log: who asked for what, as lines of JSON that are chained, so that `tutti audit verify` finds one that was
 * edited, moved or removed (docs/security.md). A line has
 *
 *	n       counted from 1 on, over all files
 *	prev    SHA-256 of the line before it, without its newline; 64 zeros in line 1
 *	at      when it was written, UTC
 *
 * and the members of its entry. FILE.head has n and SHA-256 of the last line, so that lines that are missing at the end are
 * noticed, too. A full file is renamed to FILE.N, N being its last line in 12 digits, and the chain goes on in a new one.
 * Lines that are due together are written and synced together, by a worker. Loop thread.
 */
#ifndef AGGREGATOR_ACCESS_AUDIT_H
#define AGGREGATOR_ACCESS_AUDIT_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"

struct audit;
struct jobs;

#define AUDIT_LINE_BYTES     8192
#define AUDIT_REFUSALS_PER_S 20 /* lines; further ones are only counted */

struct audit_env {
	struct jobs *jobs;
	const char *path;
	uint64_t file_bytes; /* a longer file is renamed, and another one begun */
};

/* Blocks. ERR_INVALID if the file does not go on where its head says that it ended: then nothing is written to it. */
MUST_CHECK int audit_open(struct audit **out, const struct audit_env *env, struct err *e);
void audit_free(struct audit *a); /* all jobs are done; NULL is fine */

/* `why` is NULL once the line is durable, else why it is not. */
typedef void (*audit_fn)(void *arg, const struct err *why);

/*
 * Adds a line; fn (may be NULL) is called once, after this returns. One that would be longer than AUDIT_LINE_BYTES loses its
 * member `request`. With `a` NULL there is no log: fn is called at once.
 */
void audit_write(struct audit *a, json_t *entry_taken, audit_fn fn, void *arg);

/* The same for a refusal; beyond AUDIT_REFUSALS_PER_S they are counted in the next line of one, and fn is called at once. */
void audit_refusal(struct audit *a, json_t *entry_taken, audit_fn fn, void *arg);

/* The error of the last write, if it failed: what must be audited may not begin. NULL is fine. */
MUST_CHECK int audit_check(const struct audit *a, struct err *e);

#endif
