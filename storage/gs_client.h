/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One bucket of Google Cloud Storage, by its JSON API: settings from the URL, requests with a token. Private to storage/.
 *
 * gs://BUCKET[/PREFIX][?SETTING=VALUE&...]; what the URL leaves out comes from the environment:
 *
 *     endpoint    http://HOST:PORT or https://; https://storage.googleapis.com without any
 *     ca          a PEM file of certificate authorities
 *
 * STORAGE_EMULATOR_HOST (a URL, or HOST:PORT) is the endpoint of a server that wants no token, as in Google's own libraries.
 */
#ifndef STORAGE_GS_CLIENT_H
#define STORAGE_GS_CLIENT_H

#include "storage/cloud_http.h"
#include "storage/cloud_keys.h"

#define GS_KEY_MAX 1024 /* with the prefix */
#define GS_PUT_MAX (UINT64_C(5) << 40)

struct gs_client;

/* Opens "BUCKET/PREFIX?...". No request is sent. ERR_INVALID names the setting that is wrong. */
MUST_CHECK int gs_client_open(struct gs_client **out, const char *rest, struct err *e);
void gs_client_free(struct gs_client *c); /* NULL is fine */

/* Borrowed, for as long as the client lives. */
const char *gs_client_prefix(const struct gs_client *c); /* "" or "some/prefix/" */
const char *gs_client_host(const struct gs_client *c);
struct http_pool *gs_client_http(const struct gs_client *c);
struct keys_chain *gs_client_keys(const struct gs_client *c); /* NULL: no token is wanted */

/* Begins a URL: the bucket's objects for reading (with a key: that object), or for uploading. The caller adds to it. */
void gs_client_url(const struct gs_client *c, const char *key, struct buf *url);
void gs_client_upload_url(const struct gs_client *c, const char *key, struct buf *url);

/* One request, with a token. `headers` gets it; the caller releases them. As cloud_http_send(), and errors of keys. */
MUST_CHECK int gs_client_send(struct gs_client *c, struct cloud_request *req,
			      struct cloud_headers *headers, struct cloud_answer *a, struct err *e);

/* One request to an upload session, whose URL is the permission: no token is sent. ERR_PEER for a session of another
 * server. */
MUST_CHECK int gs_client_send_session(struct gs_client *c, struct cloud_request *req,
				      struct cloud_answer *a, struct err *e);

#endif
