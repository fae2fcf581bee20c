/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of sessions over HTTP. Where objects are files, the answer is sent from one. Else a job reads a range of it from the
 * store for as long as the client takes what comes, and ends where it does not: a client that reads slowly has no worker meanwhile.
 */
#include "aggregator/api/files.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aggregator/api/api_impl.h"
#include "aggregator/sessions/session_store.h"
#include "aggregator/sessions/sessions.h"
#include "base/buf.h"
#include "base/jobs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/http_server.h"
#include "storage/store.h"

#define JOB_BYTES	   ((uint64_t)32 << 20) /* for which one job goes on: others wait */
#define READER_PATIENCE_NS (100 * NS_PER_MS) /* for which a job waits for the client */
#define LINK_LIFE_NS	   (300 * NS_PER_S) /* of a link that a client is sent to at once */

/* From the request to the last byte. */
struct download {
	struct api *api;
	struct http_req *req; /* NULL once it is answered */
	struct http_body *body; /* NULL before the answer, and once it has ended */
	struct store *store;
	char *id, *name;
	bool wants_link;
	struct session_file file;
	int fd; /* where objects are files */
	char *link; /* where the client is sent to */
	uint64_t at, len; /* of the part: the next byte, and those that are left; the worker's */
	bool reading; /* a worker brings bytes: all below is its own */
	struct http_body *to;
	struct buf piece;
	size_t room; /* of the piece */
	bool is_slow; /* the client did not read */
	int rc;
	struct err e;
};

static void download_free(struct download *d)
{
	store_free_link(d->link);
	buf_release(&d->piece);
	free(d->id);
	free(d->name);
	free(d);
}

static struct http_file describe(const struct download *d)
{
	return (struct http_file){ .size = d->file.size,
				   .type = "application/octet-stream",
				   .download = d->name,
				   .tag = d->file.tag };
}

static void refuse(struct download *d)
{
	api_answer_session_err(d->api, d->req, d->id, &d->e);
	download_free(d);
}

/* ---- the first bytes, before the answer ---- */

static int add_first(void *arg, const void *data, size_t len, struct err *e)
{
	struct download *d = arg;

	(void)e;
	buf_add(&d->piece, data, len);
	return 0;
}

static int get_bytes(struct download *d, uint64_t bytes, store_sink_fn sink)
{
	const struct store_get get = { .key = d->file.key,
				       .offset = d->at,
				       .len = bytes,
				       .tag = d->file.tag,
				       .sink = sink,
				       .arg = d,
				       .deadline_mono_ns = store_within(STORE_FILE_PATIENCE_NS) };

	return store_get(d->store, &get, NULL, &d->e);
}

static int came_short(struct download *d)
{
	return err_set(&d->e, ERR_PEER, "%.200s: the store gives fewer bytes than it has",
		       d->file.key);
}

static void run_first(void *arg)
{
	struct download *d = arg;

	d->rc = get_bytes(d, d->room, add_first);
	if (!d->rc && d->piece.len != d->room)
		d->rc = came_short(d);
}

/* ---- all others ---- */

static void add_piece(struct download *d)
{
	d->at += d->piece.len;
	d->len -= d->piece.len;
	http_body_add(d->to, &d->piece);
	d->room = 0;
}

/* Brings what the client takes. Where it does not read for a while, the get ends, and is begun again when it does. */
static int add_bytes(void *arg, const void *data, size_t len, struct err *e)
{
	struct download *d = arg;

	while (len) {
		size_t n;

		if (!d->room)
			d->room = http_body_room(d->to, READER_PATIENCE_NS);
		if (!d->room) {
			d->is_slow = true;
			return err_set(e, ERR_BUSY, "the client does not read");
		}
		buf_reserve(&d->piece, d->room - d->piece.len);
		n = d->room - d->piece.len < len ? d->room - d->piece.len : len;
		buf_add(&d->piece, data, n);
		data = (const char *)data + n;
		len -= n;
		if (d->piece.len == d->room)
			add_piece(d);
	}
	return 0;
}

static void run_pieces(void *arg)
{
	struct download *d = arg;
	uint64_t bytes = d->len < JOB_BYTES ? d->len : JOB_BYTES, end = d->at + bytes;

	d->is_slow = false;
	d->rc = get_bytes(d, bytes, add_bytes);
	if (d->is_slow)
		d->rc = 0;
	if (!d->rc && d->piece.len)
		add_piece(d);
	if (!d->rc && !d->is_slow && d->at != end)
		d->rc = came_short(d);
	buf_release(&d->piece);
	d->room = 0;
}

/* The status has been sent: what is left to say is that bytes are missing. */
static void cut(struct download *d)
{
	log_warn("AGG-FILE", "session=%s file=%s state=cut reason=\"%s\"", d->id, d->name,
		 d->e.msg);
	http_body_fail(d->body);
}

static void done_pieces(void *arg)
{
	struct download *d = arg;

	d->reading = false;
	http_body_unref(d->to);
	if (!d->body)
		download_free(d);
	else if (d->rc)
		cut(d);
	else
		http_body_pause(d->body);
}

static void on_room(void *arg, size_t bytes)
{
	struct download *d = arg;

	if (d->piece.len) { /* what was read before the answer began */
		d->to = d->body;
		add_piece(d);
		http_body_pause(d->body);
	} else if (d->api->stopping) {
		err_set(&d->e, ERR_CANCELLED, "the aggregator is stopping");
		cut(d);
	} else {
		d->room = bytes;
		d->reading = true;
		d->to = d->body;
		http_body_ref(d->to);
		jobs_request(d->api->env.jobs, run_pieces, done_pieces, d);
	}
}

static void on_closed(void *arg)
{
	struct download *d = arg;

	d->body = NULL;
	if (!d->reading)
		download_free(d);
}

/* ---- the answer ---- */

static const struct http_body_events body_events = { .on_room = on_room, .on_closed = on_closed };

static void answer_body(struct download *d)
{
	const struct http_file file = describe(d);

	d->body = http_answer_body(d->req, &file, &body_events, d);
	d->req = NULL;
	if (!d->body)
		download_free(d);
}

/* A store that fails at the first piece is an answer with an error, not a short body. */
static void done_first(void *arg)
{
	struct download *d = arg;

	d->reading = false;
	if (d->rc)
		refuse(d);
	else
		answer_body(d);
}

static void begin_first(struct download *d)
{
	d->room = d->len < HTTP_PIECE_MIN ? (size_t)d->len : HTTP_PIECE_MIN;
	d->reading = true;
	jobs_request(d->api->env.jobs, run_first, done_first, d);
}

static void begin_body(struct download *d)
{
	const struct http_file file = describe(d);

	if (!http_file_part(d->req, &file, &d->at, &d->len) || !d->len ||
	    !strcmp(http_method(d->req), "HEAD"))
		answer_body(d);
	else
		begin_first(d);
}

static void answer_fd(struct download *d)
{
	const struct http_file file = describe(d);

	http_answer_fd(d->req, d->fd, &file);
	download_free(d);
}

/* ---- finding it ---- */

static int open_object(struct download *d)
{
	uint64_t size;
	int rc = store_open_fd(d->store, d->file.key, store_within(STORE_PATIENCE_NS), &d->fd,
			       &size, &d->e);

	if (!rc && size != d->file.size) {
		close(d->fd);
		d->fd = -1;
		rc = err_set(&d->e, ERR_PEER, "%.200s was replaced", d->file.key);
	}
	return rc;
}

/* A store that makes no links is read from. */
static int make_link(struct download *d)
{
	int64_t until_s;
	int rc = store_link(d->store, d->file.key, LINK_LIFE_NS, &d->link, &until_s, &d->e);

	return rc == ERR_UNSUPPORTED ? 0 : rc;
}

static void run_find(void *arg)
{
	struct download *d = arg;

	d->rc = session_find_file(d->store, d->id, d->name, &d->file, &d->e);
	if (!d->rc && d->wants_link && d->api->env.has_links)
		d->rc = make_link(d);
	else if (!d->rc && store_directory(d->store))
		d->rc = open_object(d);
}

static void done_find(void *arg)
{
	struct download *d = arg;

	if (d->rc) {
		refuse(d);
	} else if (d->link) {
		http_answer_redirect(d->req, d->link);
		download_free(d);
	} else if (d->fd >= 0) {
		answer_fd(d);
	} else {
		begin_body(d);
	}
}

void api_file_begin(struct api *api, struct http_req *req, const char *id, const char *name,
		    bool wants_link)
{
	struct download *d = xcalloc(1, sizeof(*d));

	*d = (struct download){ .api = api,
				.req = req,
				.store = api->env.store->store,
				.id = xstrdup(id),
				.name = xstrdup(name),
				.wants_link = wants_link,
				.fd = -1 };
	jobs_request(api->env.jobs, run_find, done_find, d);
}

void api_session_file(struct api *api, struct http_req *req, const char *id, const char *name)
{
	const char *redirect = http_query(req, "redirect");

	if (api_is_session(req, id))
		api_file_begin(api, req, id, name, redirect && !strcmp(redirect, "1"));
}
