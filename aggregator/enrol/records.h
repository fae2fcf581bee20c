/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an authority remembers, in one document: its epoch, the hosts that are revoked, and the join tokens that it has given.
 * Of a token it has the digest only. A change holds at once; it is durable when records_save() says so, and changes that come
 * together are written together. Private to enrol/. Loop thread.
 */
#ifndef AGGREGATOR_ENROL_RECORDS_H
#define AGGREGATOR_ENROL_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "net/cert.h"

struct jobs;
struct records;
struct store;

#define RECORDS_TOKENS_MOST  1000 /* join tokens: those that have ended, or are used up, make room */
#define RECORDS_REVOKED_MOST 20000 /* hosts, with those that were lifted in this epoch */
#define RECORDS_TOKEN_BEGIN  "tutti-join-" /* what each join token begins with */
#define RECORDS_TOKEN_BYTES  (sizeof(RECORDS_TOKEN_BEGIN) + 64) /* with its NUL */

/* In the file `path`, or in `store` where there are several aggregators (records_place.h); NULL = in the file. Blocks. ERR_INVALID for what is
 * not of this kind. Where there is nothing yet: epoch 1, and nothing else. */
MUST_CHECK int records_open(struct records **out, struct jobs *jobs, const char *path,
			    struct store *store, struct err *e);
void records_free(struct records *r); /* all jobs are done; NULL is fine */

/* Writes what has changed; fn is called once, later: `why` is NULL once it is durable. */
typedef void (*records_fn)(void *arg, const struct err *why);
void records_save(struct records *r, records_fn fn, void *arg);

/* ---- epochs and revocations ---- */

uint64_t records_epoch(const struct records *r);
void records_next_epoch(struct records *r); /* certificates of all earlier ones are refused */

/* ERR_LIMIT beyond RECORDS_REVOKED_MOST. */
MUST_CHECK int records_revoke(struct records *r, const char *host, struct err *e);

/* The host may enrol again; its certificates of before are refused for good. ERR_NOT_FOUND if it is not revoked. */
MUST_CHECK int records_lift(struct records *r, const char *host, int64_t now_s, struct err *e);

/* ERR_DENIED, with the reason: whether a host may get a certificate, and whether it may use this one. */
MUST_CHECK int records_check_host(const struct records *r, const char *host, struct err *e);
MUST_CHECK int records_check(const struct records *r, const struct cert_host *host, struct err *e);

/* ---- join tokens ---- */

struct join_rules {
	const char *host; /* glob of the names that it is for; "" = all */
	int64_t until_s;
	int64_t uses; /* 0 = any number until then */
};

/* Makes a token. ERR_LIMIT if RECORDS_TOKENS_MOST are good for hosts. */
MUST_CHECK int records_add_token(struct records *r, const struct join_rules *rules, int64_t now_s,
				 char out[RECORDS_TOKEN_BYTES], struct err *e);

/* Takes one use of a token for a host. ERR_DENIED, with the reason. */
MUST_CHECK int records_use_token(struct records *r, const char *token, const char *host,
				 int64_t now_s, struct err *e);

#endif
