/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sessions of which files are still to be removed, kept in the spool over a restart: SESSION.late, which holds the
 * name of the run. Best effort: a spool that takes no file costs the list, not the upload.
 */
#ifndef AGGREGATOR_INGEST_LATE_LIST_H
#define AGGREGATOR_INGEST_LATE_LIST_H

void late_list_add(const char *spool, const char *session, const char *run);
void late_list_remove(const char *spool, const char *session); /* if it is there */

/* Calls fn for each session of the list. Names are valid. */
void late_list_each(const char *spool, void (*fn)(void *arg, const char *session, const char *run),
		    void *arg);

#endif
