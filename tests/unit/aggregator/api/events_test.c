/* SPDX-License-Identifier: Apache-2.0 */
/* The stream of one capture's events, when its text is made while it ends and is forgotten. */
#include "aggregator/api/events.h"

#include "aggregator/access/principal.h"
#include "aggregator/api/api_impl.h"
#include "base/mem.h"
#include "json/json_text.h"
#include "net/http_server.h"
#include "tests/unit/aggregator/fleet.h"

#define MANY 201 /* more than the texts that the loop makes itself */

/* ---- a reader without HTTP: the linker takes these functions instead of those of net/ ---- */

struct http_event {
	struct buf text;
};

struct http_stream {
	int n;
	char last_state[16]; /* of the last event's capture */
	bool has_ended;
};

static struct http_stream reader;

struct http_stream *__wrap_http_answer_stream(struct http_req *req, void (*on_closed)(void *arg),
					      void *arg);
struct http_event *__wrap_http_event_take(const char *name, struct buf *data_taken);
void __wrap_http_stream_send_event(struct http_stream *st, struct http_event *ev);
void __wrap_http_event_free(struct http_event *ev);
void __wrap_http_stream_end(struct http_stream *st);

struct http_stream *__wrap_http_answer_stream(struct http_req *req, void (*on_closed)(void *arg),
					      void *arg)
{
	(void)req;
	(void)on_closed;
	(void)arg;
	return &reader;
}

struct http_event *__wrap_http_event_take(const char *name, struct buf *data_taken)
{
	struct http_event *ev = xcalloc(1, sizeof(*ev));

	(void)name;
	ev->text = *data_taken;
	*data_taken = (struct buf)BUF_INIT;
	return ev;
}

void __wrap_http_stream_send_event(struct http_stream *st, struct http_event *ev)
{
	json_t *doc = json_loadb(buf_str(&ev->text), ev->text.len, 0, NULL);

	CHECK(doc && !st->has_ended);
	st->n++;
	snprintf(st->last_state, sizeof(st->last_state), "%s", json_get_text(doc, "state"));
	json_decref(doc);
}

void __wrap_http_event_free(struct http_event *ev)
{
	if (ev)
		buf_release(&ev->text);
	free(ev);
}

void __wrap_http_stream_end(struct http_stream *st)
{
	st->has_ended = true;
}

/* ---- captures that a cancel ends at once ---- */

/* It asks the hosts for their steps first, so there is no plan yet. */
static struct capture *begin_asking(struct fleet *f, const char *hosts)
{
	const struct capture_request req = { .hosts = hosts,
					     .duration_ns = NS_PER_S,
					     .origin = "test",
					     .by_step = true,
					     .at_step = STEP_NEXT };
	struct err e = { 0 };
	struct capture *c;

	CHECK_OK(capture_begin(f->agg.captures, &req, &c, &e), e);
	CHECK_EQ(c->state, CAP_ASKING);
	return c;
}

/* Captures that end after it push it out of the list of those that have ended. */
static void forget(struct fleet *f, const char *session)
{
	for (int i = 0; capture_find(f->agg.captures, session); i++) {
		CHECK(i < 100);
		CHECK(capture_cancel(begin_asking(f, "host-000")));
	}
}

static void set_true(void *arg)
{
	*(bool *)arg = true;
}

/* While a worker makes a text of the running capture, it ends, and is forgotten. */
static void test_forgotten(struct fleet *f)
{
	struct capture *c = begin_asking(f, "all");
	struct principal *who = principal_new("reader", "anonymous");
	bool is_copied = false;
	char session[64];

	snprintf(session, sizeof(session), "%s", c->session);
	CHECK_EQ(c->n_hosts, MANY);
	principal_grant_all(who, ROLE_VIEWER);
	events_open_capture(f->agg.api->events, NULL, who, 0, c);
	loop_post(f->loop, set_true, &is_copied); /* after the post that copies it for the worker */
	WAIT(f, is_copied);
	CHECK_EQ(reader.n, 0);
	CHECK(capture_cancel(c));
	CHECK(capture_has_ended(c));
	forget(f, session);
	WAIT(f, reader.has_ended);
	CHECK_STR(reader.last_state, "failed");
	CHECK(reader.n >= 1);
	principal_unref(who);
}

int main(void)
{
	static struct fake fakes[MANY];
	struct fleet f;
	char name[32];

	fleet_start(&f, 0, 0);
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "host-%03d", i);
		fake_connect(&fakes[i], &f, name);
	}
	test_forgotten(&f);
	fleet_stop(&f);
	return 0;
}
