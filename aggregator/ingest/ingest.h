/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tutti.v1.Ingest: uploads of hosts. Where the store makes grants, agents put their files into it themselves and
 * no byte of them comes here (granted.c); else they come chunk by chunk into the spool, and go file by file into
 * the store. The method's argument is the struct ingest. Loop thread; workers check and write the bytes.
 */
#ifndef AGGREGATOR_INGEST_INGEST_H
#define AGGREGATOR_INGEST_INGEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct captures;
struct ingest;
struct jobs;
struct loop;
struct rpc_events;
struct session_store;

/* A complete file of an upload. */
struct ingest_file {
	int fd; /* -1: in memory */
	const void *memory;
	uint64_t offset, bytes; /* in either */
};

/* Whether a file may enter the store; on a worker. */
typedef int (*ingest_check)(const struct ingest_file *file, struct err *e);

/* Accepts an XSpace with the plane that every agent writes and T0 in it. Does not read lines, so any size is
 * cheap. */
MUST_CHECK int ingest_check_xspace(const struct ingest_file *file, struct err *e);

struct ingest_env {
	struct loop *loop;
	struct jobs *jobs;
	struct session_store *store;
	struct captures *captures;
	const char *spool; /* directory for uploads under way */
	ingest_check check;
	bool needs_certificate; /* every agent must have one, of its host */
	bool by_grants; /* agents put files into the store themselves, if they can */
	bool is_replica; /* an aggregator that led before may still put a file that it had in its hands */
};

struct ingest_stats {
	uint64_t uploads, bytes, errors;
	uint64_t grants; /* given; their files are not in `bytes` */
	uint64_t grants_revoked; /* before their end, in stores that keep them open */
};

#define INGEST_PATH "/tutti.v1.Ingest/Upload"
extern const struct rpc_events ingest_events;

/* Makes the spool directory if it is missing. */
MUST_CHECK int ingest_new(struct ingest **out, const struct ingest_env *env, struct err *e);
void ingest_free(struct ingest *in); /* all calls are closed; NULL is fine */
const struct ingest_stats *ingest_stats(const struct ingest *in);

#endif
