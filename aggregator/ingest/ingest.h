/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tutti.v1.Ingest: what a host has, chunk by chunk into the spool, then file by file into the store. The
 * method's argument is the struct ingest. Loop thread; bytes are checked and written by workers.
 */
#ifndef AGGREGATOR_INGEST_INGEST_H
#define AGGREGATOR_INGEST_INGEST_H

#include "base/err.h"

struct aggregator;
struct ingest;
struct rpc_events;

#define INGEST_PATH "/tutti.v1.Ingest/Upload"
extern const struct rpc_events ingest_events;

/* Makes the spool directory if it is missing. */
MUST_CHECK int ingest_new(struct ingest **out, struct aggregator *agg, struct err *e);
void ingest_free(struct ingest *in); /* all calls are closed; NULL is fine */

#endif
