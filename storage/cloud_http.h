/* SPDX-License-Identifier: Apache-2.0 */
/* One HTTP request of a store, and its headers, which hold secrets. Private to storage/. */
#ifndef STORAGE_CLOUD_HTTP_H
#define STORAGE_CLOUD_HTTP_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "net/http_client_pool.h"
#include "storage/cloud_answer.h"
#include "storage/store.h"

#define CLOUD_HEADERS_MAX 11
#define CLOUD_ANSWER_MAX \
	((size_t)32 << 20) /* a page of 5000 keys of 1024 escaped characters fits */

/* "name: value", NULL at the end. Begins zeroed; cloud_headers_release() overwrites them. */
struct cloud_headers {
	char *items[CLOUD_HEADERS_MAX + 1];
	size_t n;
};

void cloud_headers_add(struct cloud_headers *h, const char *name, const char *value);
void cloud_headers_release(struct cloud_headers *h);

struct cloud_request {
	const char *method, *url;
	const struct cloud_headers *headers;
	const struct store_put *body; /* its key and flags are not used; NULL = none */
	int (*piece)(void *arg, const void *data, size_t len,
		     struct err *e); /* NULL = the body of the answer is collected */
	void *arg;
	int64_t deadline_mono_ns;
};

/* 0 when a whole answer came, whatever a->status; errors as in net/http_client_pool.h, with a->status 0. `a` is
 * emptied first; of an answer that means failure, code and message are read. */
MUST_CHECK int cloud_http_send(struct http_pool *http, const struct cloud_request *req,
			       struct cloud_answer *a, struct err *e);

/* Overwrites a text before it frees it; NULL is fine. */
void cloud_wipe_text(char *text);

#endif
