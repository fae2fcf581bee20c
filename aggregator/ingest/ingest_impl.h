/* SPDX-License-Identifier: Apache-2.0 */
/* Shared only by ingest.c (calls, chunks), granted.c (files that agents put into the store themselves), credits.c, open_grants.c and
 * late.c. */
#ifndef AGGREGATOR_INGEST_INGEST_IMPL_H
#define AGGREGATOR_INGEST_INGEST_IMPL_H

#include <stdbool.h>
#include <sys/queue.h>

#include "aggregator/ingest/ingest.h"
#include "aggregator/ingest/spooled_upload.h"
#include "base/loop.h"
#include "net/rpc.h"
#include "proto/tutti/v1/ingest.pb-c.h"
#include "storage/store.h"

struct capture;
struct capture_host;
struct late_files;
struct open_grant;
struct open_session;

struct credit;

TAILQ_HEAD(open_grant_list, open_grant);
TAILQ_HEAD(credit_list, credit);

/* a grant's: a request must begin within that; the agent asks right before it */
#define GRANT_LIFE_NS (120 * NS_PER_S)

/* One upload. It is freed after `closed`, when no worker has it. */
struct upload {
	struct ingest *ingest;
	struct rpc_call *call; /* NULL once closed */
	bool finished; /* the status was sent */
	bool is_on_worker; /* a worker has it: only the worker touches what is below */
	bool half_closed;
	char *session, *host, *run;
	uint64_t instance;
	bool begun; /* UploadBegin was accepted */
	bool resume; /* the agent asked where to go on */
	uint32_t crc32; /* of the whole upload, if `resume` */
	uint64_t *files; /* bytes of each file */
	unsigned int n_files;
	struct spooled_upload spooled;
	bool storing; /* it is complete, and a worker stores it */
	bool has_left_files; /* some could not be removed again */
	bool is_lost; /* another aggregator owns the session: its manifest may name these files */
	struct rpc_msg *msg; /* the chunk being written; data and len are its bytes */
	const uint8_t *data;
	size_t len;
	struct store *store;
	int rc;
	enum rpc_code code;
	struct err e;
	const char *spool;

	/* with grants: no byte of the files comes here */
	bool by_grants;
	uint32_t *crc32c; /* of each file */
	unsigned int n_left; /* files that are not in the store yet: the last of them is the next */
	bool is_first; /* nothing was put for the host before, as far as this aggregator knows */
	bool is_claimed; /* the agent says that the key of the next file was there */
	bool is_refused; /* the store does not make grants with these keys */
	struct store_grant grant; /* for the next file */
	int64_t granted_until_ns; /* CLOCK_MONOTONIC: the end of the last grant; 0 = none was given */
	bool is_stored;
	struct open_grant
		*open_grant; /* the one that the agent has, if it must be revoked; or NULL */

	TAILQ_ENTRY(upload) entry;
};

struct ingest {
	struct ingest_env env;
	struct ingest_stats stats;
	TAILQ_HEAD(, upload) uploads;
	TAILQ_HEAD(, late_files) late;
	TAILQ_HEAD(, open_session) open_sessions;
	struct open_grant_list to_revoke;
	bool is_revoking; /* a worker has some */
	struct credit_list credits; /* that wait for their grants */
	bool is_granting; /* a worker makes some */
	int64_t no_grants_until_ns; /* CLOCK_MONOTONIC; 0 = the store has refused none */
	struct loop_timer sweep; /* removes what an earlier aggregator left */
};

/* ---- ingest.c ---- */

/* The host of the upload, if its capture still waits for the file; or NULL. */
struct capture_host *upload_waiting_host(const struct upload *u);

void upload_finish(struct upload *u, enum rpc_code code, const char *text);
void upload_fail(struct upload *u, enum rpc_code code, const char *text);
void upload_stored(struct upload *u, struct capture_host *h); /* all files are in the store */
void upload_no_longer_wanted(struct upload *u);
void upload_free(struct upload *u); /* it is on no worker */

/* ---- granted.c ---- */

/* Takes the checksums; ERR_INVALID if there is not one for each file, or too many files are put already. */
MUST_CHECK int granted_begin(struct upload *u, const Tutti__V1__UploadBegin *b, struct err *e);

/* Sends the next grant, or, without a file left, ends the upload. False while a worker has it. */
bool granted_go_on(struct upload *u);
bool granted_message(struct upload *u, const struct rpc_msg *msg); /* UploadPut; false as above */

void granted_end(struct upload *u); /* before the upload is freed */

/* Whether nothing was put for the host, as far as this aggregator knows. */
bool granted_is_first(const struct capture_host *h);

/* The message of a grant for file `file` of a host, which borrows the grant's texts. */
Tutti__V1__Grant granted_message_of(const struct store_grant *g, unsigned int file);

/* ---- credits.c: grants that go with upload credits, for hosts with one file ---- */

void credits_start(struct ingest *in);
void credits_stop(struct ingest *in); /* no worker has any */

/* The capture has ended: files of hosts without one may still come by grants. */
void credits_end(struct ingest *in, const struct capture *c);

/* ---- open_grants.c: of stores whose grants do not end by themselves (store_revokes()); else nothing ---- */

/* The upload's grant was sent: takes its URL. One that the upload had before is revoked. */
void open_grant_add(struct upload *u);
void open_grant_used(struct upload *u); /* the agent says so: kept to the end of the session */
void open_grant_revoke(struct upload *u); /* if the agent has one that it has not used */
void open_grant_drop(struct upload *u); /* revokes one that was made and not sent */

/* The capture has ended: revokes the grants of hosts without a file, and forgets the others. */
void open_grants_end(struct ingest *in, const struct capture *c);
void open_grants_stop(struct ingest *in); /* frees what is left; revokes nothing */

/* ---- late.c ---- */

/* A file of the session may still come by a grant, or could not be removed: that is tried later. */
void late_expect(struct ingest *in, const char *session, const char *run);

/* The same for grants that an earlier run of the aggregator has made, and for what it did not get removed. */
void late_start(struct ingest *in);
void late_stop(struct ingest *in);

#endif
