/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory for files under way: one folder per capture, at most so many bytes in all. One agent
 * owns it at a time (a lock says so). Of what an agent that died left behind, finished files whose lease
 * is not over are kept for who asks; the rest is swept at the next start. Loop thread.
 */
#ifndef AGENT_CAPTURE_SPOOL_H
#define AGENT_CAPTURE_SPOOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "proto/tutti/v1/ingest.pb-c.h"

struct spool;

/* Makes the directory if it is missing. ERR_BUSY if another agent has it, ERR_DENIED if it belongs to
 * another user. Yours: spool_free(), which leaves the folders. */
MUST_CHECK int spool_open(struct spool **out, const char *dir, uint64_t limit_bytes, struct err *e);
void spool_free(struct spool *sp); /* NULL is fine */

/* What an earlier agent finished: the next such folder, charged, with its entry; both are yours: free(),
 * ..._free_unpacked(). False when there are no more. */
bool spool_take_finished(struct spool *sp, char **path, Tutti__V1__SpoolEntry **entry);

/* A new folder for the capture; `*path` is yours: free(). ERR_FULL when the spool is full, ERR_EXISTS
 * if the folder is there. */
MUST_CHECK int spool_add(struct spool *sp, const char *session, char **path, struct err *e);

/* Files of this size are there now, or will be; spool_uncharge() when they are gone. */
void spool_charge(struct spool *sp, uint64_t bytes);
void spool_uncharge(struct spool *sp, uint64_t bytes);
uint64_t spool_left(const struct spool *sp);

/* Removes the folder and the files in it. Any thread. */
void spool_remove(const char *path);

#endif
