/* SPDX-License-Identifier: Apache-2.0 */
/* A handler's access to a request, and its answers. */
#include "net/http_server_impl.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "net/http_parse.h"

/* ---- the request ---- */

const char *http_method(const struct http_req *req)
{
	return req->method;
}

const char *http_path(const struct http_req *req)
{
	return req->path;
}

const char *http_query(const struct http_req *req, const char *key)
{
	for (size_t i = 0; i < req->query.n; i++) {
		if (!strcmp(req->query.items[i].name, key))
			return req->query.items[i].value;
	}
	return NULL;
}

const char *http_header(const struct http_req *req, const char *name)
{
	for (size_t i = 0; i < req->headers.n; i++) {
		if (!strcasecmp(req->headers.items[i].name, name))
			return req->headers.items[i].value;
	}
	return NULL;
}

const void *http_body(const struct http_req *req, size_t *len)
{
	*len = req->body.len;
	return buf_str(&req->body);
}

const char *http_peer(const struct http_req *req)
{
	return req->peer;
}

const char *http_identity(const struct http_req *req)
{
	return req->identity ? req->identity : "";
}

const char *http_identity_error(const struct http_req *req)
{
	return req->identity_error ? req->identity_error : "";
}

/* ---- answers ---- */

static void add_guards(struct MHD_Response *resp, const char *type, const char *policy)
{
	assert(resp);
	MHD_add_response_header(resp, "Content-Type", type);
	MHD_add_response_header(resp, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(resp, "X-Frame-Options", "DENY");
	MHD_add_response_header(resp, "Referrer-Policy", "same-origin");
	MHD_add_response_header(resp, "Content-Security-Policy", policy);
}

struct MHD_Response *response_finish(struct MHD_Response *resp, const char *type)
{
	/* A browser that shows such an answer as a page runs and loads nothing. */
	add_guards(resp, type, "default-src 'none'; frame-ancestors 'none'");
	return resp;
}

/* `mode` says whose memory `body` is. */
static struct MHD_Response *response_of(const char *type, const void *body, size_t len,
					enum MHD_ResponseMemoryMode mode)
{
	struct MHD_Response *resp = MHD_create_response_from_buffer(len, (void *)(uintptr_t)body,
								    mode);

	response_finish(resp, type);
	if (!strncmp(type, "application/json", 16))
		MHD_add_response_header(resp, "Cache-Control", "no-store");
	return resp;
}

static struct MHD_Response *response_bytes(const char *type, const void *body, size_t len)
{
	return response_of(type, body, len, MHD_RESPMEM_MUST_COPY);
}

static void add_json_char(struct buf *b, unsigned char c)
{
	if (c == '"' || c == '\\')
		buf_addf(b, "\\%c", c);
	else if (c < 0x20 || c >= 0x7f)
		buf_addf(b, "\\u%04x", c < 0x7f ? c : '?');
	else
		buf_add_u8(b, c);
}

struct MHD_Response *response_error(const char *text)
{
	struct buf b = BUF_INIT;
	struct MHD_Response *resp;

	buf_add_str(&b, "{\"error\": \"");
	for (const char *p = text; *p; p++)
		add_json_char(&b, (unsigned char)*p);
	buf_add_str(&b, "\"}\n");
	resp = response_bytes("application/json", b.data, b.len);
	buf_release(&b);
	return resp;
}

void req_answer(struct http_req *req, int status, struct MHD_Response *resp)
{
	struct http_server *s = req->server;

	if (s) {
		pthread_mutex_lock(&s->lock);
		assert(req->held);
		if (req->place)
			http_conn_answer(req->place, req->answer_bytes);
		req_hand_over(s, req, (unsigned int)status, resp);
		pthread_mutex_unlock(&s->lock);
	} else {
		MHD_destroy_response(resp);
	}
	req_unref(req);
}

void http_answer(struct http_req *req, int status, const char *type, const void *body, size_t len)
{
	req->answer_bytes = len;
	req_answer(req, status, response_bytes(type, body, len));
}

void http_answer_take(struct http_req *req, int status, const char *type, struct buf *body_taken)
{
	size_t len;
	uint8_t *body = buf_detach(body_taken, &len);

	req->answer_bytes = len;
	req_answer(req, status, response_of(type, body, len, MHD_RESPMEM_MUST_FREE));
}

void http_answer_page(struct http_req *req, const void *body, size_t len, const char *policy)
{
	struct MHD_Response *resp = MHD_create_response_from_buffer(len, (void *)(uintptr_t)body,
								    MHD_RESPMEM_MUST_COPY);

	add_guards(resp, "text/html; charset=utf-8", policy);
	MHD_add_response_header(resp, "Cache-Control", "no-store");
	req->answer_bytes = len;
	req_answer(req, 200, resp);
}

void http_answer_error(struct http_req *req, int status, const char *fmt, ...)
{
	struct err e;
	va_list ap;

	va_start(ap, fmt);
	err_vset(&e, ERR_INVALID, fmt, ap);
	va_end(ap);
	req_answer(req, status, response_error(e.msg));
}

/* The name stands in quotes in a header: drops characters that could end either. */
static void add_download(struct MHD_Response *resp, const char *name)
{
	struct buf b = BUF_INIT;

	buf_add_str(&b, "attachment; filename=\"");
	for (; *name; name++)
		buf_add_u8(&b, isalnum((unsigned char)*name) || strchr("._-", *name)
				       ? (uint8_t)*name
				       : '_');
	buf_add_str(&b, "\"");
	MHD_add_response_header(resp, "Content-Disposition", buf_str(&b));
	buf_release(&b);
}

static struct MHD_Response *response_file(int fd, uint64_t first, uint64_t len)
{
	if (len)
		return MHD_create_response_from_fd_at_offset64(len, fd, first);
	close(fd);
	return MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
}

/* If-Range names a version of the file, and no answer names one: the whole file is always correct. */
static const char *get_range_header(const struct http_req *req)
{
	if (strcmp(req->method, "GET") || http_header(req, "If-Range"))
		return NULL;
	return http_header(req, "Range");
}

void http_answer_fd(struct http_req *req, int fd_taken, uint64_t size, const char *type,
		    const char *download)
{
	uint64_t first = 0, len = size;
	enum range_kind kind = range_parse(get_range_header(req), size, &first, &len);
	struct MHD_Response *resp;
	char text[80];

	if (kind == RANGE_OUTSIDE) {
		close(fd_taken);
		resp = response_error("the range lies outside the file");
		snprintf(text, sizeof(text), "bytes */%llu", (unsigned long long)size);
		MHD_add_response_header(resp, "Content-Range", text);
		req_answer(req, 416, resp);
		return;
	}
	resp = response_finish(response_file(fd_taken, kind == RANGE_PART ? first : 0,
					     kind == RANGE_PART ? len : size),
			       type);
	MHD_add_response_header(resp, "Accept-Ranges", "bytes");
	if (download)
		add_download(resp, download);
	if (kind == RANGE_PART) {
		snprintf(text, sizeof(text), "bytes %llu-%llu/%llu", (unsigned long long)first,
			 (unsigned long long)(first + len - 1), (unsigned long long)size);
		MHD_add_response_header(resp, "Content-Range", text);
	}
	req_answer(req, kind == RANGE_PART ? 206 : 200, resp);
}
