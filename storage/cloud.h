/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the stores behind HTTP share: s3://, gs:// and az:// are a table of requests each; when to try again, whether a
 * put was our own, how a get goes on and how pages become a listing is here. Private to storage/.
 *
 * An object is one request's body; a create-only one has a condition that the server decides. Every put stores a nonce
 * of its own in the object's metadata. After a refusal the nonce shows whether the object is from this put, whose
 * answer was lost, or from another writer.
 */
#ifndef STORAGE_CLOUD_H
#define STORAGE_CLOUD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "storage/cloud_answer.h"
#include "storage/cloud_keys.h"
#include "storage/cloud_page.h"
#include "storage/store.h"

enum cloud_verb {
	CLOUD_PUT, /* put, nonce */
	CLOUD_STAT, /* key; the answer has length, tag, modified_ns and nonce */
	CLOUD_GET, /* key, range, match, piece */
	CLOUD_LIST, /* prefix, after, page; the answer's body is for read_page */
	CLOUD_REMOVE, /* key */
	CLOUD_REMOVE_ALL, /* keys; the answer's body is for has_removed */
};

struct cloud_call {
	enum cloud_verb verb;
	const char *key; /* of the store, without the prefix */
	const struct store_put *put; /* with STORE_ABSENT: create-only */
	const char *nonce;
	const char *range; /* "bytes=3-9"; NULL = all */
	const char *match; /* only the version with this tag; NULL = any */
	const char *prefix, *after; /* with the store's prefix; `after` NULL = from the first */
	const char *page; /* the token of the page; NULL = the first */
	const char *const *keys; /* of the store, without the prefix */
	size_t n_keys;
	int (*piece)(void *arg, const void *data, size_t len, struct err *e);
	void *arg;
	int64_t deadline_mono_ns;
};

struct cloud;

struct cloud_ops {
	/* One attempt. 0 when a whole answer came, whatever its status. `a` is emptied first. */
	int (*send)(struct cloud *c, const struct cloud_call *call, struct cloud_answer *a,
		    struct err *e);

	/* Reads the body of the answer to CLOUD_LIST. */
	int (*read_page)(struct cloud_page *page, const void *data, size_t len, struct err *e);

	/* Whether the body of the answer to CLOUD_REMOVE_ALL says that all `n` objects are gone. NULL where batch_max is 0. */
	bool (*has_removed)(const void *data, size_t len, size_t n);

	/* Optional (NULL): sets and returns the error for an answer about which there is more to say than code and message;
	 * 0 if there is not. */
	int (*explain)(const struct cloud *c, const struct cloud_answer *a, struct err *e);
};

/* The first member of a store of each kind. */
struct cloud {
	struct store base;
	const struct cloud_ops *ops;
	const char *host; /* for errors */
	const char *prefix; /* "" or "some/prefix/" */
	const char *place; /* "bucket" */
	size_t key_max; /* of prefix and key together */
	uint64_t put_max; /* bytes of an object */
	size_t batch_max; /* keys of one CLOUD_REMOVE_ALL; 0 = there is no such request */
	struct keys_chain *keys; /* NULL = none are needed */
	_Atomic int64_t skew_s; /* the server's clock less ours, once it has refused ours */
};

/* Unix time as the server has it. */
int64_t cloud_now_s(const struct cloud *c);

/* Members of struct store_ops. */
int cloud_put(struct store *s, const struct store_put *put, struct store_stat *out, struct err *e);
int cloud_get(struct store *s, const struct store_get *get, struct store_stat *out, struct err *e);
int cloud_stat(struct store *s, const char *key, int64_t deadline_mono_ns, struct store_stat *out,
	       struct err *e);
int cloud_list(struct store *s, const struct store_list *list, struct err *e);
int cloud_remove(struct store *s, const char *key, int64_t deadline_mono_ns, struct err *e);
int cloud_remove_all(struct store *s, const char *const *keys, size_t n, int64_t deadline_mono_ns,
		     struct err *e);

/* ERR_LIMIT if the store takes no such key, or no object of so many bytes in one request. */
MUST_CHECK int cloud_check_put(const struct cloud *c, const char *key, uint64_t len, struct err *e);

/* ---- attempts: cloud_attempts.c ---- */

/* Of one call; begins zeroed. */
struct cloud_tries {
	int n; /* that have failed */
	bool renewed; /* other keys were asked for */
};

/* Repeats attempts until one succeeds or fails for good, or until attempts or time run out. */
MUST_CHECK int cloud_send(struct cloud *c, const struct cloud_call *call, struct cloud_answer *a,
			  struct err *e);

/* To be called after an attempt. If another one may succeed, waits for a pause where one is needed, and returns
 * true. */
bool cloud_tries_again(struct cloud *c, struct cloud_tries *tries, int rc,
		       const struct cloud_answer *a, int64_t deadline_mono_ns);

/* Whether the answer says that there is an object already. */
bool cloud_is_exists(const struct cloud_answer *a);

/* The error for a status that means failure. 404 is ERR_NOT_FOUND if the key is missing, ERR_PEER if the bucket is;
 * 412 ERR_EXISTS; 401 and 403 ERR_DENIED; a quota or a disk that is full ERR_FULL; all else ERR_PEER. */
int cloud_error(const struct cloud *c, const struct cloud_answer *a, struct err *e);

#endif
