/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of sessions over HTTP. Where objects are files, the answer is sent from one. Else it is read from the store piece by
 * piece, by a job for each: a client that reads slowly has no worker meanwhile.
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

#define LINK_LIFE_NS (600 * NS_PER_S) /* of a link that a client is sent to at once */

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
	uint64_t at, len; /* of the part: the next byte, and those that are left */
	/* the piece that a worker reads */
	size_t asked;
	struct buf piece;
	int rc;
	struct err e;
	bool reading;
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

/* ---- pieces ---- */

static int add_bytes(void *arg, const void *data, size_t len, struct err *e)
{
	struct download *d = arg;

	if (d->piece.len + len > d->asked)
		return err_set(e, ERR_PEER, "more bytes than were asked for");
	buf_add(&d->piece, data, len);
	return 0;
}

static void run_piece(void *arg)
{
	struct download *d = arg;
	const struct store_get get = { .key = d->file.key,
				       .offset = d->at,
				       .len = d->asked,
				       .tag = d->file.tag,
				       .sink = add_bytes,
				       .arg = d,
				       .deadline_mono_ns = store_within(STORE_PATIENCE_NS) };

	buf_reserve_all(&d->piece, d->asked);
	d->rc = store_get(d->store, &get, NULL, &d->e);
	if (!d->rc && d->piece.len != d->asked)
		d->rc = err_set(&d->e, ERR_PEER, "%.200s: %zu of %zu bytes came", d->file.key,
				d->piece.len, d->asked);
}

static void read_piece(struct download *d, size_t bytes, loop_fn done)
{
	d->asked = bytes;
	d->reading = true;
	jobs_request(d->api->env.jobs, run_piece, done, d);
}

/* The status has been sent: what is left to say is that bytes are missing. */
static void cut(struct download *d)
{
	log_warn("AGG-FILE", "session=%s file=%s state=cut reason=\"%s\"", d->id, d->name,
		 d->e.msg);
	http_body_fail(d->body);
}

static void done_piece(void *arg)
{
	struct download *d = arg;

	d->reading = false;
	if (!d->body) {
		download_free(d);
	} else if (d->rc) {
		cut(d);
	} else {
		d->at += d->asked;
		d->len -= d->asked;
		http_body_add(d->body, &d->piece);
	}
}

static void on_room(void *arg, size_t bytes)
{
	struct download *d = arg;

	if (d->piece.len) { /* the first piece was read before the answer began */
		d->at += d->piece.len;
		d->len -= d->piece.len;
		http_body_add(d->body, &d->piece);
	} else if (d->api->stopping) {
		err_set(&d->e, ERR_CANCELLED, "the aggregator is stopping");
		cut(d);
	} else {
		read_piece(d, bytes < d->len ? bytes : (size_t)d->len, done_piece);
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

static void begin_body(struct download *d)
{
	const struct http_file file = describe(d);

	if (!http_file_part(d->req, &file, &d->at, &d->len) || !d->len ||
	    !strcmp(http_method(d->req), "HEAD"))
		answer_body(d);
	else
		read_piece(d, d->len < HTTP_PIECE_MIN ? (size_t)d->len : HTTP_PIECE_MIN,
			   done_first);
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
	if (!d->rc && d->wants_link && store_links(d->store))
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
