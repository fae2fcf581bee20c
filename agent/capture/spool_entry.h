/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spool entry: a small file beside a finished one, with what the next agent needs to deliver it if this
 * one is killed. It is written whole or not at all. Neither of the two files is synced to disk, which would cost more
 * than all the rest: after a power cut the entry may be missing or malformed, or the finished file's checksum shows
 * damage. Any thread; blocks.
 */
#ifndef AGENT_CAPTURE_SPOOL_ENTRY_H
#define AGENT_CAPTURE_SPOOL_ENTRY_H

#include "base/err.h"
#include "proto/tutti/v1/ingest.pb-c.h"

/* `dir` is the capture's folder. */
MUST_CHECK int spool_entry_write(const char *dir, const Tutti__V1__SpoolEntry *entry,
				 struct err *e);

/* The caller frees it with tutti__v1__spool_entry__free_unpacked(). ERR_NOT_FOUND if it or its file is missing;
 * ERR_INVALID if it is malformed, is of another session, or its file has another size; ERR_CLOSED if its lease
 * is over. Any other code: it cannot be read now. */
MUST_CHECK int spool_entry_read(const char *dir, const char *session, Tutti__V1__SpoolEntry **entry,
				struct err *e);

#endif
