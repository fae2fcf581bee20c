/* SPDX-License-Identifier: Apache-2.0 */
/* A handler's access to a request, and its answers. */
#include "net/http_server_impl.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/http_parse.h"

#define HTTP_ETAG_BYTES 120

/* ---- the request ---- */

const char *http_method(const struct http_req *req)
{
	return req->method;
}

const char *http_path(const struct http_req *req)
{
	return req->path;
}

const char *http_target(const struct http_req *req)
{
	return req->target;
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

size_t http_header_count(const struct http_req *req, const char *name)
{
	size_t n = 0;

	for (size_t i = 0; i < req->headers.n; i++)
		n += !strcasecmp(req->headers.items[i].name, name);
	return n;
}

void http_set_user(struct http_req *req, void *user, void (*release)(void *user))
{
	if (req->release_user)
		req->release_user(req->user);
	req->user = user;
	req->release_user = release;
}

void *http_user(const struct http_req *req)
{
	return req->user;
}

void http_set_retry_after(struct http_req *req, int seconds)
{
	req->retry_after_s = seconds;
}

void http_set_cookie(struct http_req *req, const char *cookie)
{
	free(req->cookie);
	req->cookie = xstrdup(cookie);
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
	char seconds[16];

	if (req->retry_after_s) {
		snprintf(seconds, sizeof(seconds), "%d", req->retry_after_s);
		MHD_add_response_header(resp, "Retry-After", seconds);
	}
	if (req->cookie)
		MHD_add_response_header(resp, "Set-Cookie", req->cookie);
	if (status == 401)
		MHD_add_response_header(resp, "WWW-Authenticate", "Bearer realm=\"tutti\"");
	http_set_user(req, NULL, NULL);

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

/* Of a HEAD the connection ends: in one that stays, microhttpd sends the end of a chunked body, which the client would take for
 * the begin of the next answer. */
void answer_unmeasured(struct http_req *req, const char *type, struct MHD_Response *resp)
{
	response_finish(resp, type);
	MHD_add_response_header(resp, "Cache-Control", "no-store");
	if (!strcmp(req->method, "HEAD"))
		MHD_set_response_options(resp, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END);
	req_answer(req, 200, resp);
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

bool http_has_kept(const struct http_req *req, const char *etag)
{
	const char *has = http_header(req, "If-None-Match");
	size_t len = strlen(etag);

	/* a proxy that compresses marks the tag as weak */
	if (has && !strncmp(has, "W/", 2))
		has += 2;
	return has && strlen(has) == len + 2 && has[0] == '"' && !strncmp(has + 1, etag, len) &&
	       has[len + 1] == '"';
}

void http_answer_kept(struct http_req *req, const char *type, const struct http_kept *kept,
		      struct buf *body_taken)
{
	bool has = !kept->is_partial && http_has_kept(req, kept->etag);
	struct MHD_Response *resp;
	char text[160];
	uint8_t *body;
	size_t len;

	if (has)
		buf_cut(body_taken, 0);
	body = buf_detach(body_taken, &len);
	resp = MHD_create_response_from_buffer(len, body, MHD_RESPMEM_MUST_FREE);
	response_finish(resp, type);
	snprintf(text, sizeof(text), "\"%s\"", kept->etag);
	MHD_add_response_header(resp, "ETag", text);
	MHD_add_response_header(resp, "Cache-Control",
				kept->is_immutable ? "private, max-age=31536000, immutable"
				: kept->is_partial ? "no-store"
						   : "private, no-cache");
	MHD_add_response_header(resp, "Vary", "Accept-Encoding");
	if (kept->is_gzip && !has)
		MHD_add_response_header(resp, "Content-Encoding", "gzip");
	snprintf(text, sizeof(text), "work;dur=%.3f", (double)kept->work_ns / 1e6);
	MHD_add_response_header(resp, "Server-Timing", text);
	req->answer_bytes = len;
	req_answer(req, has ? 304 : kept->is_partial ? 202 : 200, resp);
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

void http_answer_redirect(struct http_req *req, const char *url)
{
	struct MHD_Response *resp = response_bytes("text/plain", NULL, 0);

	MHD_add_response_header(resp, "Location", url);
	MHD_add_response_header(resp, "Cache-Control", "no-store");
	req_answer(req, 302, resp);
}

void http_answer_elsewhere(struct http_req *req, const char *url, struct buf *body_taken)
{
	size_t len;
	uint8_t *body = buf_detach(body_taken, &len);
	struct MHD_Response *resp = response_of("application/json", body, len,
						MHD_RESPMEM_MUST_FREE);

	MHD_add_response_header(resp, "Location", url);
	req->answer_bytes = len;
	req_answer(req, 307, resp);
}

/* ---- files ---- */

/* The tag in quotes; "" for none, or one with characters that an ETag cannot have. */
static void make_etag(const char *tag, char out[HTTP_ETAG_BYTES])
{
	size_t len = tag ? strlen(tag) : 0;

	*out = '\0';
	for (size_t i = 0; i < len; i++)
		if (tag[i] <= ' ' || tag[i] >= 0x7f || tag[i] == '"')
			return;
	if (len && len < HTTP_ETAG_BYTES - 2)
		snprintf(out, HTTP_ETAG_BYTES, "\"%s\"", tag);
}

/* A range of another version of the file is not asked for: the whole file is always correct. */
static const char *get_range_header(const struct http_req *req, const struct http_file *file)
{
	const char *version = http_header(req, "If-Range");
	char etag[HTTP_ETAG_BYTES];

	make_etag(file->tag, etag);
	if (strcmp(req->method, "GET") || (version && (!*etag || strcmp(version, etag) != 0)))
		return NULL;
	return http_header(req, "Range");
}

static enum range_kind part_of(const struct http_req *req, const struct http_file *file,
			       uint64_t *first, uint64_t *len)
{
	enum range_kind kind = range_parse(get_range_header(req, file), file->size, first, len);

	if (kind != RANGE_PART) {
		*first = 0;
		*len = file->size;
	}
	return kind;
}

bool http_file_part(const struct http_req *req, const struct http_file *file, uint64_t *first,
		    uint64_t *len)
{
	return part_of(req, file, first, len) != RANGE_OUTSIDE;
}

void answer_outside(struct http_req *req, const struct http_file *file)
{
	struct MHD_Response *resp = response_error("the range lies outside the file");
	char text[80];

	snprintf(text, sizeof(text), "bytes */%llu", (unsigned long long)file->size);
	MHD_add_response_header(resp, "Content-Range", text);
	req_answer(req, 416, resp);
}

void answer_file(struct http_req *req, struct MHD_Response *resp_taken,
		 const struct http_file *file)
{
	char text[80], etag[HTTP_ETAG_BYTES];
	uint64_t first, len;
	enum range_kind kind = part_of(req, file, &first, &len);

	response_finish(resp_taken, file->type);
	MHD_add_response_header(resp_taken, "Accept-Ranges", "bytes");
	make_etag(file->tag, etag);
	if (*etag)
		MHD_add_response_header(resp_taken, "ETag", etag);
	if (file->download)
		add_download(resp_taken, file->download);
	if (kind == RANGE_PART) {
		snprintf(text, sizeof(text), "bytes %llu-%llu/%llu", (unsigned long long)first,
			 (unsigned long long)(first + len - 1), (unsigned long long)file->size);
		MHD_add_response_header(resp_taken, "Content-Range", text);
	}
	req_answer(req, kind == RANGE_PART ? 206 : 200, resp_taken);
}

void http_answer_fd(struct http_req *req, int fd_taken, const struct http_file *file)
{
	struct MHD_Response *resp;
	uint64_t first, len;

	if (!http_file_part(req, file, &first, &len)) {
		close(fd_taken);
		answer_outside(req, file);
		return;
	}
	if (len) {
		resp = MHD_create_response_from_fd_at_offset64(len, fd_taken, first);
	} else {
		close(fd_taken);
		resp = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
	}
	answer_file(req, resp, file);
}
