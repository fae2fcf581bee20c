/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What proves to an object store who asks: from the first of a list of sources that has some. Private to storage/.
 *
 * Keys that expire are fetched again KEYS_EARLY_S before they expire, or when the store refuses them. While fetching
 * fails, the old keys stay in use until they expire. They lie in pages of their own that no core dump has, and are
 * overwritten when nothing uses them any more.
 */
#ifndef STORAGE_CLOUD_KEYS_H
#define STORAGE_CLOUD_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "net/http_client_pool.h"

#define KEYS_EARLY_S	300
#define KEYS_ID_MAX	255
#define KEYS_SECRET_MAX 255
#define KEYS_TOKEN_MAX	16383
#define KEYS_NO_END	INT64_MAX
#define KEYS_PATIENCE_S 20 /* for one source */

enum keys_kind {
	KEYS_SECRET, /* signs: `secret`, and `id`; `token` of a session, if it is not "" */
	KEYS_BEARER, /* `token` goes into the header Authorization */
	KEYS_QUERY, /* `token` is part of a URL's query: a SAS of Azure */
};

struct cloud_keys {
	enum keys_kind kind;
	char id[KEYS_ID_MAX + 1], secret[KEYS_SECRET_MAX + 1], token[KEYS_TOKEN_MAX + 1];
	int64_t end_s; /* Unix time, or KEYS_NO_END */
	const char *source; /* "environment" */
	uint64_t serial; /* differs from that of all keys before; never 0 */
	unsigned int refs; /* the chain's, and one for each user; under its lock */
};

struct keys_env {
	const char *profile; /* AWS alone; never NULL there */
	const char *region; /* AWS alone, for STS */
	struct http_pool *http;
	void *arg; /* of the chain's conf */
};

/* Fills kind, id, secret, token and end_s of `out`, which begins zeroed with end_s KEYS_NO_END. ERR_NOT_FOUND: this source is not set
 * up here. Any other error ends the search: what was set up must work. Errors hold no secret. */
struct keys_source {
	const char *name;
	int (*get)(const struct keys_env *env, struct cloud_keys *out, struct err *e);
};

struct keys_conf {
	const struct keys_source *sources; /* in order; not copied */
	size_t n;
	const char *looked; /* a sentence: where keys were looked for; copied */
	const char *profile, *region; /* as in struct keys_env; copied; may be NULL */
	const char *ca_file; /* NULL = the system's */
	void *arg; /* for the sources */
};

struct keys_chain;

/* Asks no source yet. The caller frees it when no keys are in use. */
struct keys_chain *keys_chain_new(const struct keys_conf *conf);
void keys_chain_free(struct keys_chain *chain); /* NULL is fine */

/* The present keys; give them back with cloud_keys_put(). May ask a source, and blocks meanwhile. ERR_DENIED if no source has any. Any
 * thread. */
MUST_CHECK int cloud_keys_get(struct keys_chain *chain, struct cloud_keys **out, struct err *e);
void cloud_keys_put(struct keys_chain *chain, struct cloud_keys *keys);

/* The store has refused the keys with this serial: others are fetched at the next cloud_keys_get(), if these are
 * still the present ones. */
void cloud_keys_refused(struct keys_chain *chain, uint64_t serial);

/* ---- for sources ---- */

/* The value of an environment variable; NULL if it is unset or empty. */
const char *keys_setting(const char *name);

/* Copies a value into one of the arrays of struct cloud_keys; ERR_INVALID, without the value, if it does not fit or has control
 * characters. */
MUST_CHECK int keys_take(char *out, size_t size, const char *value, const char *what,
			 struct err *e);

#endif
