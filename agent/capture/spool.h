/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory for files that are not yet delivered: one folder per capture, and one limit for all bytes. A
 * lock lets only one agent use it. The next agent keeps finished files whose lease is not over, and folders
 * that it cannot read at the moment, and removes all other folders of sessions when it starts. Loop thread.
 */
#ifndef AGENT_CAPTURE_SPOOL_H
#define AGENT_CAPTURE_SPOOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "proto/tutti/v1/ingest.pb-c.h"

struct spool;

/* Makes the directory if it is missing. ERR_BUSY if another agent uses it, ERR_DENIED if it belongs to
 * another user. The caller frees it with spool_free(), which keeps the folders. */
MUST_CHECK int spool_open(struct spool **out, const char *dir, uint64_t limit_bytes, struct err *e);
void spool_free(struct spool *sp); /* NULL is fine */

/* Returns the next folder with a finished file of an earlier agent, and the file's entry; its bytes are
 * charged already. The caller frees the path, and the entry with tutti__v1__spool_entry__free_unpacked().
 * False when there are no more now: folders that could not be read are tried again by the next call. */
bool spool_take_finished(struct spool *sp, char **path, Tutti__V1__SpoolEntry **entry);

/* Makes a folder for the capture; the caller frees `*path`. ERR_FULL when the spool is full, ERR_EXISTS if
 * the folder is there. Makes and locks the directory again if it was removed. */
MUST_CHECK int spool_add(struct spool *sp, const char *session, char **path, struct err *e);

/* Counts bytes that are, or soon will be, in the spool; spool_uncharge() takes them off again. */
void spool_charge(struct spool *sp, uint64_t bytes);
void spool_uncharge(struct spool *sp, uint64_t bytes);
uint64_t spool_available(const struct spool *sp);

/* Removes the folder and all that is in it: a profiler may have made folders there. Any thread. */
void spool_remove(const char *path);

#endif
