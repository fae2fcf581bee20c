/* SPDX-License-Identifier: Apache-2.0 */
#include "storage/cloud_http.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void cloud_wipe_text(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}

void cloud_headers_add(struct cloud_headers *h, const char *name, const char *value)
{
	assert(h->n < CLOUD_HEADERS_MAX);
	h->items[h->n++] = xasprintf("%s: %s", name, value);
}

void cloud_headers_release(struct cloud_headers *h)
{
	for (size_t i = 0; i < h->n; i++)
		cloud_wipe_text(h->items[i]);
	*h = (struct cloud_headers){ 0 };
}

struct receiving {
	const struct cloud_request *req;
	struct cloud_answer *answer;
};

static void on_header(void *arg, const char *name, const char *value)
{
	struct receiving *r = arg;

	cloud_answer_header(r->answer, name, value);
}

static int on_piece(void *arg, const void *data, size_t len, struct err *e)
{
	struct receiving *r = arg;

	return r->req->piece(r->req->arg, data, len, e);
}

int cloud_http_send(struct http_pool *http, const struct cloud_request *req, struct cloud_answer *a,
		    struct err *e)
{
	struct receiving r = { req, a };
	struct http_request ask = { .method = req->method,
				    .url = req->url,
				    .headers = (const char *const *)req->headers->items,
				    .header = on_header,
				    .piece = req->piece ? on_piece : NULL,
				    .arg = &r,
				    .fd = -1,
				    .answer_max = CLOUD_ANSWER_MAX,
				    .deadline_mono_ns = req->deadline_mono_ns };
	uint64_t serial = a->keys_serial;
	int rc;

	cloud_answer_release(a);
	a->keys_serial = serial;
	if (req->body) {
		ask.has_body = true;
		ask.data = req->body->data;
		ask.fd = req->body->fd;
		ask.offset = req->body->offset;
		ask.len = req->body->len;
	}
	rc = http_pool_request(http, &ask, &a->status, &a->body, e);
	if (rc)
		a->status = 0;
	else if (a->status >= 300)
		cloud_answer_read_error(a);
	return rc;
}
