/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the spool says of a finished file, beside it, so that an agent that was killed can deliver it at
 * its next start: a small file, written whole or not at all. The finished file itself is not flushed
 * to the disk: its checksum tells if a power cut has damaged it. Any thread; blocks.
 */
#ifndef AGENT_CAPTURE_SPOOL_ENTRY_H
#define AGENT_CAPTURE_SPOOL_ENTRY_H

#include "base/err.h"
#include "proto/tutti/v1/ingest.pb-c.h"

/* `dir` is the capture's folder. */
MUST_CHECK int spool_entry_write(const char *dir, const Tutti__V1__SpoolEntry *entry,
				 struct err *e);

/* Yours: ..._free_unpacked(). ERR_NOT_FOUND if there is none; ERR_INVALID if it is torn, speaks of
 * another session or of a file that is not there as it says; ERR_CLOSED if its lease is over. */
MUST_CHECK int spool_entry_read(const char *dir, const char *session, Tutti__V1__SpoolEntry **entry,
				struct err *e);

#endif
