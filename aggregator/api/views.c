/* SPDX-License-Identifier: Apache-2.0 */
/* Views over HTTP: a session is opened, then asked by its build. Each question is answered on a worker. */
#include "aggregator/api/api_impl.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/sessions/session_store.h"
#include "aggregator/sessions/sessions.h"
#include "aggregator/views/queries.h"
#include "aggregator/views/views.h"
#include "base/buf.h"
#include "base/jobs.h"
#include "base/mem.h"
#include "base/now.h"
#include "json/json_text.h"
#include "net/http_server.h"
#include "proto/names.h"
#include "proto/reasons.h"

#define JSON_TYPE  "application/json"
#define BYTES_TYPE "application/octet-stream"
#define TEXT_MAX   1000 /* bytes of a search */
#define LOOK_NS	   (100 * NS_PER_MS) /* between two looks at the client */

/* One question; the worker uses nothing else. */
struct question {
	struct api *api;
	struct http_req *req;
	struct view *view; /* NULL: to be opened */
	char *session;
	struct store *store;
	struct buf text; /* the manifest of one that is opened; then the answer */
	bool accepts_gzip, is_gzip;
	int64_t work_ns;
	int (*write)(struct question *q);
	union {
		struct view_tile tile;
		struct view_place place;
		struct view_search search;
		struct view_step step;
		struct view_spread spread;
		struct view_links links;
		struct view_selection selection;
		struct view_flame flame;
		struct view_durations durations;
		struct view_trace trace;
	};
	char *owned; /* the text of a search, or the tracks of a selection */
	bool is_tile, is_catalogue, is_trace;
	struct loop_timer look; /* whether the client is still there */
	atomic_bool stop; /* it is not */
	int rc;
	struct err e;
};

static struct question *question_new(struct api *api, struct http_req *req, const char *session)
{
	struct question *q = xcalloc(1, sizeof(*q));
	const char *accepts = http_header(req, "Accept-Encoding");

	*q = (struct question){ .api = api,
				.req = req,
				.session = xstrdup(session),
				.store = api->env.store->store,
				.accepts_gzip = accepts && strstr(accepts, "gzip") };
	return q;
}

static void question_free(struct question *q)
{
	loop_timer_cancel(q->api->env.jobs->loop, &q->look);
	view_release(q->view);
	buf_release(&q->text);
	free(q->session);
	free(q->owned);
	free(q);
}

static void run_question(void *arg)
{
	struct question *q = arg;
	int64_t begin = now_thread_cpu_ns();

	q->rc = view_check_stop(&q->stop, &q->e);
	if (!q->rc)
		q->rc = q->write(q);
	if (q->rc == ERR_IO)
		view_discard(q->view);
	if (!q->rc && q->accepts_gzip && !q->is_tile) /* a tile is packed as it is */
		q->is_gzip = view_compress(&q->text);
	q->work_ns = now_thread_cpu_ns() - begin;
}

static void answer_failure(struct question *q)
{
	switch (q->rc) {
	case ERR_IO:
		views_drop(q->api->env.views, q->view);
		http_answer_error(q->req, 409, "%s: GET /api/v1/sessions/%.64s/view makes it anew",
				  q->e.msg, q->session);
		break;
	case ERR_NOT_FOUND:
		http_answer_error(q->req, 404, "%s", q->e.msg);
		break;
	case ERR_INVALID:
	case ERR_LIMIT:
		http_answer_error(q->req, 400, "%s", q->e.msg);
		break;
	case ERR_CANCELLED:
		http_answer_error(q->req, 503, "%s", q->e.msg);
		break;
	default:
		http_answer_error(q->req, 500, "%s", q->e.msg);
	}
}

static void done_question(void *arg)
{
	struct question *q = arg;
	const bool is_complete = view_is_complete(q->view);
	const struct http_kept kept = { .etag = view_build(q->view),
					.is_immutable = q->is_tile && is_complete,
					.is_partial = q->is_catalogue && !is_complete,
					.is_gzip = q->is_gzip,
					.work_ns = q->work_ns };

	if (q->rc)
		answer_failure(q);
	else
		http_answer_kept(q->req, q->is_tile || q->is_trace ? BYTES_TYPE : JSON_TYPE, &kept,
				 &q->text);
	question_free(q);
}

/* ---- opening ---- */

static void run_read(void *arg)
{
	struct question *q = arg;

	q->rc = session_read_manifest(q->store, q->session, &q->text, &q->e);
}

static void answer_progress(struct question *q, const struct view_progress *p)
{
	json_t *doc = json_object();

	json_put_text(doc, "state", p->state == VIEW_WAITING ? "waiting" : "building");
	json_put_int(doc, "done_bytes", (int64_t)p->done);
	json_put_int(doc, "bytes", (int64_t)p->bytes);
	api_answer_json(q->req, 202, doc);
}

/* What the store does not give now, the next request asks it for again: viewers go on. */
static void answer_away(struct http_req *req, struct err *e)
{
	json_t *doc = json_object();

	err_prefix(e, "the store does not give the session now, each request asks it again");
	json_put_text(doc, "error", e->msg);
	json_put_text(doc, "reason", REASON_STORE);
	api_answer_json(req, 503, doc);
}

/* What the files hold no server can show: that is not a failure of this one. */
static void answer_unshown(struct http_req *req, struct view_progress *p)
{
	json_t *doc;

	if (p->fault == FAULT_STORE) {
		answer_away(req, &p->why);
		return;
	}
	err_prefix(&p->why, "the session cannot be shown");
	if (p->why.code == ERR_FULL) { /* of this aggregator, where indexes are kept */
		api_answer_err(req, &p->why);
		return;
	}
	doc = json_object();
	json_put_text(doc, "error", p->why.msg);
	if (p->fault == FAULT_FILES)
		json_put_text(doc, "reason", "unreadable");
	api_answer_json(req, p->fault == FAULT_FILES ? 422 : 500, doc);
}

static int write_catalogue(struct question *q)
{
	const struct buf *text = view_catalogue(q->view);

	buf_add(&q->text, text->data, text->len);
	return 0;
}

static void done_read(void *arg)
{
	struct question *q = arg;
	struct views *views = q->api->env.views;
	struct view_progress p;

	if (q->rc) {
		if (q->rc != ERR_NOT_FOUND && q->rc != ERR_INVALID)
			answer_away(q->req, &q->e);
		else
			api_answer_session_err(q->api, q->req, q->session, &q->e);
		question_free(q);
		return;
	}
	views_open(views, q->session, buf_str(&q->text), q->text.len, http_query(q->req, "build"),
		   &q->view, &p);
	buf_reset(&q->text);
	if (q->view) {
		q->is_catalogue = true;
		q->write = write_catalogue;
		jobs_request(q->api->env.jobs, run_question, done_question, q);
		return;
	}
	if (p.state == VIEW_FAILED)
		answer_unshown(q->req, &p);
	else
		answer_progress(q, &p);
	question_free(q);
}

void api_view_open(struct api *api, struct http_req *req, const char *id, const char *name)
{
	(void)name;
	if (!name_is_session(id))
		http_answer_error(req, 404, "'%.64s' is not the id of a session", id);
	else
		jobs_request(api->env.jobs, run_read, done_read, question_new(api, req, id));
}

/* ---- parameters ---- */

static int64_t read_number(struct question *q, const char *key, int64_t least, int64_t most)
{
	const char *text = http_query(q->req, key);
	char *end;
	long long v;

	if (!text)
		text = "";
	errno = 0;
	v = strtoll(text, &end, 10);
	if (!*text || *end || errno || v < least || v > most) {
		q->rc = err_set(&q->e, ERR_INVALID, "%s '%.30s': use %lld to %lld", key, text,
				(long long)least, (long long)most);
		return least;
	}
	return v;
}

#define PS_MAX (INT64_C(1) << 60)

static struct view_place read_place(struct question *q)
{
	return (struct view_place){ .file = (uint32_t)read_number(q, "file", 0, UINT32_MAX),
				    .track = (uint32_t)read_number(q, "track", 0, UINT32_MAX),
				    .event = (uint64_t)read_number(q, "event", 0, INT64_MAX) };
}

static bool has_flag(const struct question *q, const char *key)
{
	const char *text = http_query(q->req, key);

	return text && !strcmp(text, "1");
}

static const char *read_text(struct question *q, const char *key)
{
	const char *text = http_query(q->req, key);

	if (text && strlen(text) > TEXT_MAX)
		q->rc = err_set(&q->e, ERR_LIMIT, "%s: use at most %d bytes", key, TEXT_MAX);
	q->owned = xstrdup(text ? text : "");
	return q->owned;
}

static struct view_search read_search(struct question *q)
{
	return (struct view_search){ .text = read_text(q, "text"),
				     .exact_case = has_flag(q, "case"),
				     .is_pattern = has_flag(q, "pattern"),
				     .stop = &q->stop };
}

static struct view_selection read_selection(struct question *q)
{
	const char *tracks = http_query(q->req, "tracks");
	struct view_selection s = { .from_ps = read_number(q, "from_ps", -PS_MAX, PS_MAX),
				    .to_ps = read_number(q, "to_ps", -PS_MAX, PS_MAX),
				    .stop = &q->stop };

	q->owned = xstrdup(tracks ? tracks : "");
	s.tracks = q->owned;
	if (!q->rc && s.from_ps > s.to_ps)
		q->rc = err_set(&q->e, ERR_INVALID, "to_ps: use from_ps or more");
	return s;
}

/* A question of an open session; NULL: the request is answered. */
static struct question *begin(struct api *api, struct http_req *req, const char *session,
			      int (*write)(struct question *q))
{
	const char *build = http_query(req, "build");
	struct view *view = build ? views_find(api->env.views, session, build) : NULL;
	struct question *q;

	if (!view) {
		http_answer_error(req, 409,
				  "this build of the session is not open: GET "
				  "/api/v1/sessions/%.64s/view has the present one",
				  session);
		return NULL;
	}
	q = question_new(api, req, session);
	q->view = view;
	q->write = write;
	return q;
}

/* A reader who moved on closes the connection: the worker is for others then. */
static void look_at_client(void *arg)
{
	struct question *q = arg;

	if (http_is_gone(q->req))
		atomic_store(&q->stop, true);
	else
		loop_timer_in(q->api->env.jobs->loop, &q->look, LOOK_NS, look_at_client, q);
}

static void ask(struct question *q)
{
	if (q->rc) {
		done_question(q);
		return;
	}
	loop_timer_in(q->api->env.jobs->loop, &q->look, LOOK_NS, look_at_client, q);
	jobs_request(q->api->env.jobs, run_question, done_question, q);
}

/* ---- questions ---- */

static int write_tile(struct question *q)
{
	return view_write_tile(q->view, &q->tile, &q->text, &q->e);
}

void api_view_tile(struct api *api, struct http_req *req, const char *id, const char *name)
{
	struct question *q = begin(api, req, id, write_tile);

	(void)name;
	if (!q)
		return;
	q->is_tile = true;
	q->tile = (struct view_tile){ .file = (uint32_t)read_number(q, "file", 0, UINT32_MAX),
				      .group = (uint32_t)read_number(q, "group", 0,
								     UINT32_MAX / TILE_TRACKS),
				      .shift = (uint32_t)read_number(q, "shift", 0, 50),
				      .index = read_number(q, "index", -PS_MAX, PS_MAX),
				      .rows = (uint32_t)read_number(q, "rows", 0, TILE_ROWS) };
	ask(q);
}

static int write_event(struct question *q)
{
	return view_write_event(q->view, &q->place, &q->text, &q->e);
}

void api_view_event(struct api *api, struct http_req *req, const char *id, const char *name)
{
	struct question *q = begin(api, req, id, write_event);

	(void)name;
	if (!q)
		return;
	q->place = read_place(q);
	ask(q);
}

static int write_search(struct question *q)
{
	return view_write_search(q->view, &q->search, &q->text, &q->e);
}

void api_view_search(struct api *api, struct http_req *req, const char *id, const char *name)
{
	struct question *q = begin(api, req, id, write_search);

	(void)name;
	if (!q)
		return;
	q->search = read_search(q);
	ask(q);
}

static int write_next(struct question *q)
{
	return view_write_next(q->view, &q->step, &q->text, &q->e);
}

void api_view_next(struct api *api, struct http_req *req, const char *id, const char *name)
{
	struct question *q = begin(api, req, id, write_next);

	(void)name;
	if (!q)
		return;
	q->step = (struct view_step){ .search = read_search(q),
				      .start_ps = read_number(q, "start_ps", -PS_MAX, PS_MAX),
				      .at = read_place(q),
				      .backward = has_flag(q, "backward") };
	ask(q);
}

static int write_spread(struct question *q)
{
	return view_write_spread(q->view, &q->spread, &q->text, &q->e);
}

void api_view_spread(struct api *api, struct http_req *req, const char *id, const char *name)
{
	struct question *q = begin(api, req, id, write_spread);

	(void)name;
	if (!q)
		return;
	q->spread = (struct view_spread){ .search = read_search(q),
					  .from_ps = read_number(q, "from_ps", -PS_MAX, PS_MAX),
					  .to_ps = read_number(q, "to_ps", -PS_MAX, PS_MAX),
					  .bins = (uint32_t)read_number(q, "bins", 1,
									VIEW_BINS_MAX) };
	ask(q);
}

static int write_links(struct question *q)
{
	return view_write_links(q->view, &q->links, &q->text, &q->e);
}

void api_view_links(struct api *api, struct http_req *req, const char *id, const char *name)
{
	struct question *q = begin(api, req, id, write_links);

	(void)name;
	if (!q)
		return;
	q->links = (struct view_links){ .of = read_selection(q),
					.limit = (uint32_t)read_number(q, "limit", 1,
								       VIEW_LINKS_MAX) };
	ask(q);
}

static int write_selection(struct question *q)
{
	return view_write_selection(q->view, &q->selection, &q->text, &q->e);
}

void api_view_selection(struct api *api, struct http_req *req, const char *id, const char *name)
{
	struct question *q = begin(api, req, id, write_selection);

	(void)name;
	if (!q)
		return;
	q->selection = read_selection(q);
	ask(q);
}

static int write_flame(struct question *q)
{
	return view_write_flame(q->view, &q->flame, &q->text, &q->e);
}

static enum view_group read_group(struct question *q)
{
	static const char *const names[] = { [GROUP_NONE] = "none",
					     [GROUP_HOST] = "host",
					     [GROUP_PLANE] = "plane",
					     [GROUP_TRACK] = "track" };
	const char *text = http_query(q->req, "group");

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (!strcmp(text ? text : "none", names[i]))
			return (enum view_group)i;
	}
	q->rc = err_set(&q->e, ERR_INVALID, "group '%.30s': use none, host, plane or track", text);
	return GROUP_NONE;
}

void api_view_flame(struct api *api, struct http_req *req, const char *id, const char *name)
{
	struct question *q = begin(api, req, id, write_flame);

	(void)name;
	if (!q)
		return;
	q->flame = (struct view_flame){ .of = read_selection(q), .group = read_group(q) };
	ask(q);
}

static int write_durations(struct question *q)
{
	return view_write_durations(q->view, &q->durations, &q->text, &q->e);
}

void api_view_durations(struct api *api, struct http_req *req, const char *id, const char *name)
{
	struct question *q = begin(api, req, id, write_durations);

	(void)name;
	if (!q)
		return;
	q->durations = (struct view_durations){ .of = read_place(q),
						.from_ps = read_number(q, "from_ps", -PS_MAX,
								       PS_MAX),
						.to_ps = read_number(q, "to_ps", -PS_MAX, PS_MAX),
						.stop = &q->stop };
	ask(q);
}

static int write_trace(struct question *q)
{
	return view_write_trace(q->view, &q->trace, &q->text, &q->e);
}

static bool read_format(struct question *q)
{
	const char *text = http_query(q->req, "format");
	bool is_json = text && !strcmp(text, "json");

	if (text && !is_json && strcmp(text, "pftrace"))
		q->rc = err_set(&q->e, ERR_INVALID, "format '%.30s': use pftrace or json", text);
	return is_json;
}

void api_view_trace(struct api *api, struct http_req *req, const char *id, const char *name)
{
	struct question *q = begin(api, req, id, write_trace);

	(void)name;
	if (!q)
		return;
	q->trace = (struct view_trace){ .from_ps = read_number(q, "from_ps", -PS_MAX, PS_MAX),
					.to_ps = read_number(q, "to_ps", -PS_MAX, PS_MAX),
					.is_json = read_format(q),
					.stop = &q->stop };
	q->is_trace = !q->trace.is_json;
	ask(q);
}
