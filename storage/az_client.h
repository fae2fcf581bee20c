/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One container of Azure Blob Storage: settings from the URL, signed requests. Private to storage/.
 *
 * az://ACCOUNT/CONTAINER[/PREFIX][?SETTING=VALUE&...]:
 *
 *     endpoint    http://HOST:PORT or https://; https://ACCOUNT.blob.core.windows.net without any. Where the host does not begin with
 *                 the account's name, the path does
 *     ca          a PEM file of certificate authorities
 */
#ifndef STORAGE_AZ_CLIENT_H
#define STORAGE_AZ_CLIENT_H

#include "net/shared_key.h"
#include "storage/az_grant.h"
#include "storage/cloud_http.h"
#include "storage/cloud_keys.h"

#define AZ_KEY_MAX 1024 /* with the prefix */
#define AZ_PUT_MAX (UINT64_C(5000) << 20) /* of one request */

struct az_client;

/* Opens "ACCOUNT/CONTAINER/PREFIX?...". No request is sent. ERR_INVALID names the setting that is wrong. */
MUST_CHECK int az_client_open(struct az_client **out, const char *rest, struct err *e);
void az_client_free(struct az_client *c); /* NULL is fine */

/* Borrowed, for as long as the client lives. */
const char *az_client_prefix(const struct az_client *c); /* "" or "some/prefix/" */
const char *az_client_host(const struct az_client *c);
struct http_pool *az_client_http(const struct az_client *c);
struct keys_chain *az_client_keys(const struct az_client *c);

struct az_call {
	const char *method;
	bool is_account; /* the account itself: no container, no key */
	const char *key; /* of the store, without the prefix; NULL = the container itself */
	struct sigv4_pair query[6], headers[4]; /* NULL names end them; names in lower case */
	const struct store_put *body; /* NULL = none */
	int (*piece)(void *arg, const void *data, size_t len,
		     struct err *e); /* NULL = into answer->body */
	void *arg;
	int64_t deadline_mono_ns;
};

/* One attempt, signed as of the Unix time. 0 when a whole answer came, whatever answer->status; errors as in
 * net/http_client_pool.h, and those of keys. `a` is emptied first. */
MUST_CHECK int az_client_send(struct az_client *c, const struct az_call *call, int64_t unix_s,
			      struct cloud_answer *a, struct err *e);

/* A URL that lets whoever has it create this blob once, or read it, until the Unix time, which becomes that of the end of the keys
 * if that is sooner. A request is sent where the keys are tokens and
 * no key is delegated yet. ERR_UNSUPPORTED where the keys are a SAS. The caller wipes and frees it. */
MUST_CHECK int az_client_sign_url(struct az_client *c, const char *key, enum az_may may,
				  int64_t *end_s, char **url, struct err *e);

#endif
