/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/api/events.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "aggregator/access/browsers.h"
#include "aggregator/access/verbs.h"
#include "aggregator/captures/capture.h"
#include "aggregator/api/hosts_text.h"
#include "json/json_text.h"
#include "aggregator/fleet/registry.h"
#include "base/buf.h"
#include "base/jobs.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/pieces.h"
#include "net/http_server.h"

/* All changes within this time are sent as one event, because many agents report at the same time. It grows
 * with the fleet, as the documents do. */
#define GATHER_NS	   (50 * NS_PER_MS)
#define GATHER_PER_HOST_NS (200 * NS_PER_US)
#define PART_BYTES	   (256 << 10) /* of the text of the hosts */

struct stream {
	struct http_stream *http;
	struct events *events;
	char *session; /* NULL = a page, which gets all events that it may see */
	struct principal *who;
	uint64_t browser; /* that has sent a cookie; 0 = none */
	bool hosts_changed, hosts_in_progress; /* of a page that sees a part of the fleet */
	bool is_closed; /* freed when its text of the hosts is made */
	TAILQ_ENTRY(stream) entry;
};

/* A capture that has changed, or whose text is being made. */
struct topic {
	struct events *events;
	char *session;
	struct spaces spaces; /* of the capture */
	struct capture *ended; /* held: it may be forgotten before its last text is made; or NULL */
	bool changed;
	/* a text is being made; it is the last one */
	bool in_progress, last;
	TAILQ_ENTRY(topic) entry;
};

struct events {
	struct registry *registry;
	const struct pods *pods;
	struct captures *captures;
	const struct browsers *browsers;
	struct jobs *jobs;
	TAILQ_HEAD(, stream) streams;
	size_t n_pages;
	bool hosts_changed;
	struct pieces *hosts; /* that is being made, and sent part by part; or NULL */
	struct http_parts parts; /* the event that it is */
	TAILQ_HEAD(, topic) topics;
	struct loop_timer timer;
};

static void flush_soon(struct events *ev);

/* ---- who may see what ---- */

static bool sees_all(const struct stream *s)
{
	return s->who->by_role[ROLE_VIEWER].all;
}

static bool sees(const struct stream *s, const struct spaces *spaces)
{
	return sees_all(s) || (spaces && spaces_cover(&s->who->by_role[ROLE_VIEWER], spaces));
}

static bool holds(const struct stream *s)
{
	return principal_holds(s->who) &&
	       (!s->browser || browsers_have(s->events->browsers, s->browser));
}

/* What a caller showed holds for a time, and may be taken back; a browser may have signed out. */
void events_end_expired(struct events *ev)
{
	struct stream *s, *next;

	for (s = TAILQ_FIRST(&ev->streams); s; s = next) {
		next = TAILQ_NEXT(s, entry);
		if (!holds(s))
			http_stream_end(s->http);
	}
}

/* ---- sending ---- */

/* To the pages that may see these namespaces. */
static void send_event(struct events *ev, const struct spaces *spaces, struct http_event *event)
{
	struct stream *s, *next;

	for (s = TAILQ_FIRST(&ev->streams); s; s = next) {
		next = TAILQ_NEXT(s, entry);
		if (!s->session && sees(s, spaces))
			http_stream_send_event(s->http, event);
	}
	http_event_free(event);
}

static void send_to_pages(struct events *ev, const char *name, const struct spaces *spaces,
			  struct buf *text_taken)
{
	send_event(ev, spaces, http_event_take(name, text_taken));
}

/* ---- captures ---- */

/* `ended` is NULL if the capture has not ended: a retry goes on with the session. */
static void topic_hold(struct topic *t, struct capture *ended)
{
	if (ended)
		capture_hold(ended);
	capture_unhold(t->ended);
	t->ended = ended;
}

static void topic_free(struct topic *t)
{
	topic_hold(t, NULL);
	TAILQ_REMOVE(&t->events->topics, t, entry);
	free(t->session);
	spaces_release(&t->spaces);
	free(t);
}

static struct topic *topic_get(struct events *ev, const struct capture *c)
{
	struct topic *t;

	TAILQ_FOREACH (t, &ev->topics, entry) {
		if (!strcmp(t->session, c->session))
			return t;
	}
	t = xcalloc(1, sizeof(*t));
	t->events = ev;
	t->session = xstrdup(c->session);
	spaces_copy(&t->spaces, &c->spaces);
	TAILQ_INSERT_TAIL(&ev->topics, t, entry);
	return t;
}

static bool has_reader(const struct events *ev, const char *session)
{
	const struct stream *s;

	TAILQ_FOREACH (s, &ev->streams, entry) {
		if (!s->session || !strcmp(s->session, session))
			return true;
	}
	return false;
}

/* `text_taken` is NULL if the capture is gone. */
static void topic_send(const struct topic *t, struct buf *text_taken, bool last)
{
	struct http_event *event = text_taken ? http_event_take("capture", text_taken) : NULL;
	struct stream *s, *next;

	for (s = TAILQ_FIRST(&t->events->streams); s; s = next) {
		next = TAILQ_NEXT(s, entry);
		if (s->session && strcmp(s->session, t->session))
			continue;
		if (event && sees(s, &t->spaces))
			http_stream_send_event(s->http, event);
		if (last && s->session)
			http_stream_end(s->http);
	}
	http_event_free(event);
}

static void on_capture_text(void *arg, struct buf *text_taken)
{
	struct topic *t = arg;

	t->in_progress = false;
	topic_send(t, text_taken, t->last);
	if (t->changed)
		flush_soon(t->events);
	else
		topic_free(t);
}

/* One text of a capture at a time, so that an older one is never sent after a newer one. */
static void topic_make_text(struct topic *t)
{
	struct capture *c = t->ended ? t->ended : capture_find(t->events->captures, t->session);

	if (t->in_progress || !t->changed)
		return;
	t->changed = false;
	if (!c) {
		topic_send(t, NULL, true);
		topic_free(t);
		return;
	}
	t->in_progress = true;
	t->last = capture_has_ended(c);
	capture_make_text(c, false, on_capture_text, t);
}

/* ---- hosts ---- */

static void on_hosts_piece(void *arg, struct buf *piece_taken, bool is_last)
{
	struct events *ev = arg;

	send_event(ev, NULL, http_event_part(&ev->parts, piece_taken, is_last));
	if (!is_last) {
		pieces_more(ev->hosts, PART_BYTES, on_hosts_piece, ev);
		return;
	}
	pieces_free(ev->hosts);
	ev->hosts = NULL;
	if (ev->hosts_changed)
		flush_soon(ev);
}

static void stream_release(struct stream *s);

static void on_part_of_hosts(void *arg, struct buf *text_taken)
{
	struct stream *s = arg;

	s->hosts_in_progress = false;
	if (s->is_closed) {
		stream_release(s);
	} else {
		if (s->hosts_changed)
			flush_soon(s->events);
		http_stream_send(s->http, "hosts", buf_str(text_taken)); /* may close it */
	}
	buf_release(text_taken);
}

/* Those who see a part of the fleet get a text of their own. */
static void make_parts_of_hosts(struct events *ev)
{
	struct stream *s, *next;

	for (s = TAILQ_FIRST(&ev->streams); s; s = next) {
		next = TAILQ_NEXT(s, entry);
		if (s->session || sees_all(s) || !s->hosts_changed || s->hosts_in_progress)
			continue;
		s->hosts_changed = false;
		s->hosts_in_progress = true;
		hosts_make_text(ev->registry, ev->pods, &s->who->by_role[ROLE_VIEWER], ev->jobs,
				on_part_of_hosts, s);
	}
}

static void make_hosts_text(struct events *ev)
{
	make_parts_of_hosts(ev);
	if (!ev->hosts_changed || ev->hosts || !ev->n_pages)
		return;
	ev->hosts_changed = false;
	ev->parts = (struct http_parts){ .name = "hosts" };
	ev->hosts = hosts_text_new(ev->registry, ev->pods, NULL, ev->jobs);
	pieces_more(ev->hosts, PART_BYTES, on_hosts_piece, ev);
}

/* ---- timing ---- */

static void flush_changes(void *arg)
{
	struct events *ev = arg;
	struct topic *t, *next;

	events_end_expired(ev);
	for (t = TAILQ_FIRST(&ev->topics); t; t = next) {
		next = TAILQ_NEXT(t, entry);
		topic_make_text(t);
	}
	make_hosts_text(ev);
}

static void flush_soon(struct events *ev)
{
	int64_t gather_ns = GATHER_NS;

	if (loop_timer_armed(&ev->timer))
		return;
	gather_ns += (int64_t)registry_count(ev->registry, NULL) * GATHER_PER_HOST_NS;
	loop_timer_in(ev->jobs->loop, &ev->timer, gather_ns, flush_changes, ev);
}

/* ---- changes ---- */

static void on_hosts(void *arg)
{
	struct events *ev = arg;
	struct stream *s;

	if (!ev->n_pages)
		return;
	ev->hosts_changed = true;
	TAILQ_FOREACH (s, &ev->streams, entry)
		s->hosts_changed = true;
	flush_soon(ev);
}

/* The end is sent at once: the capture may be forgotten soon. */
static void on_capture(void *arg, struct capture *c)
{
	struct events *ev = arg;

	if (has_reader(ev, c->session)) {
		struct topic *t = topic_get(ev, c);

		topic_hold(t, capture_has_ended(c) ? c : NULL);
		t->changed = true;
		flush_soon(ev);
	}
	if (!capture_has_ended(c))
		return;
	flush_changes(ev);
	if (c->state == CAP_COMMITTED)
		events_send_session(ev, c->session,
				    &(struct session_marks){ .owner = c->owner,
							     .spaces = &c->spaces });
}

void events_send_session(struct events *ev, const char *session, const struct session_marks *marks)
{
	struct buf text = BUF_INIT;
	json_t *o;

	if (!ev->n_pages)
		return;
	o = json_object();
	json_put_text(o, "session", session);
	json_write(&text, o, 0);
	send_to_pages(ev, "sessions", marks ? marks->spaces : NULL, &text);
}

/* ---- streams ---- */

static void stream_release(struct stream *s)
{
	principal_unref(s->who);
	free(s->session);
	free(s);
}

static void stream_free(struct stream *s)
{
	struct events *ev = s->events;

	TAILQ_REMOVE(&ev->streams, s, entry);
	ev->n_pages -= !s->session;
	s->is_closed = true;
	if (!s->hosts_in_progress)
		stream_release(s);
}

static void on_closed(void *arg)
{
	stream_free(arg);
}

static struct stream *stream_new(struct events *ev, struct http_req *req, struct principal *who,
				 uint64_t browser, const char *session)
{
	struct stream *s = xcalloc(1, sizeof(*s));

	s->events = ev;
	s->browser = browser;
	s->who = principal_ref(who);
	s->session = session ? xstrdup(session) : NULL;
	ev->n_pages += !session;
	TAILQ_INSERT_TAIL(&ev->streams, s, entry);
	s->http = http_answer_stream(req, on_closed, s);
	return s;
}

void events_open(struct events *ev, struct http_req *req, struct principal *who, uint64_t browser)
{
	struct stream *s = stream_new(ev, req, who, browser, NULL);

	s->hosts_changed = true;
	if (sees_all(s))
		ev->hosts_changed = true;
	make_hosts_text(ev);
}

void events_open_capture(struct events *ev, struct http_req *req, struct principal *who,
			 uint64_t browser, struct capture *c)
{
	struct topic *t = topic_get(ev, c);

	stream_new(ev, req, who, browser, c->session);
	topic_hold(t, capture_has_ended(c) ? c : NULL);
	t->changed = true;
	topic_make_text(t);
}

size_t events_streams_of(const struct events *ev, const char *name)
{
	const struct stream *s;
	size_t n = 0;

	TAILQ_FOREACH (s, &ev->streams, entry)
		n += !strcmp(principal_owner(s->who), name);
	return n;
}

size_t events_pages(const struct events *ev)
{
	return ev->n_pages;
}

/* ---- life ---- */

struct events *events_new(struct registry *r, const struct pods *pods, struct captures *cs,
			  const struct browsers *browsers, struct jobs *jobs)
{
	struct events *ev = xcalloc(1, sizeof(*ev));

	ev->registry = r;
	ev->pods = pods;
	ev->captures = cs;
	ev->browsers = browsers;
	ev->jobs = jobs;
	TAILQ_INIT(&ev->streams);
	TAILQ_INIT(&ev->topics);
	registry_watch(r, on_hosts, ev);
	captures_watch(cs, on_capture, ev);
	return ev;
}

void events_free(struct events *ev)
{
	if (!ev)
		return;
	loop_timer_cancel(ev->jobs->loop, &ev->timer);
	while (!TAILQ_EMPTY(&ev->streams))
		stream_free(TAILQ_FIRST(&ev->streams));
	while (!TAILQ_EMPTY(&ev->topics))
		topic_free(TAILQ_FIRST(&ev->topics));
	pieces_free(ev->hosts);
	free(ev);
}
