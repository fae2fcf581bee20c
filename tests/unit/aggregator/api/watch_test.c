/* SPDX-License-Identifier: Apache-2.0 */
/* What the event stream of a caller says, and does not say, of what happens in other namespaces while he watches. */
#include <stdatomic.h>

#include "base/mem.h"
#include "net/http_client.h"
#include "tests/unit/aggregator/people.h"

/* A stream that is read by a worker until it says that this session is stored. */
struct watcher {
	struct http_call call;
	char *url;
	_Atomic bool has_begun; /* the hosts came */
	const char *_Atomic until; /* NULL: it goes on */
	struct buf text; /* the worker's until it is done */
	int rc, status;
	struct buf answer;
	struct err e;
	bool done;
};

static int on_event(void *arg, const char *event, const char *data)
{
	struct watcher *w = arg;
	const char *until = atomic_load(&w->until);

	buf_addf(&w->text, "%s %s\n", event, data);
	if (!strcmp(event, "hosts"))
		atomic_store(&w->has_begun, true);
	return !strcmp(event, "sessions") && until && strstr(data, until);
}

static void run_watch(void *arg)
{
	struct watcher *w = arg;

	w->rc = http_events(&w->call, &w->status, &w->answer, on_event, w, &w->e);
}

static void end_watch(void *arg)
{
	((struct watcher *)arg)->done = true;
}

static void watch(struct watcher *w, struct fleet *f, const char *who)
{
	*w = (struct watcher){ 0 };
	w->url = xasprintf("http://127.0.0.1:%d/api/v1/events", f->agg.http_port);
	w->call = (struct http_call){ .url = w->url,
				      .token = person_named(who)->name,
				      .timeout_ns = 30 * NS_PER_S };
	loop_work(f->loop, run_watch, end_watch, w);
	WAIT(f, atomic_load(&w->has_begun) || w->done);
	CHECK(!w->done);
}

static void check_told(const struct watcher *w, const char *const *words, bool is_told)
{
	for (size_t i = 0; words[i]; i++) {
		if (!strstr(buf_str(&w->text), words[i]) == !is_told)
			continue;
		fprintf(stderr, "'%s' is %s\n%s", words[i], is_told ? "not in" : "in",
			buf_str(&w->text));
		CHECK(!"told what he may see");
	}
}

static void watcher_end(struct watcher *w, struct fleet *f)
{
	WAIT(f, w->done);
	CHECK_OK(w->rc, w->e);
	CHECK_EQ(w->status, 200);
}

static void watcher_free(struct watcher *w)
{
	buf_release(&w->text);
	buf_release(&w->answer);
	free(w->url);
}

/* ---- what happens ---- */

static void connect_of(struct fake *a, struct fleet *f, const char *name, const char *space)
{
	a->auto_deliver = true;
	fake_dial(a, f, name, 1);
	fake_hello(a, space ? "namespace" : NULL, space);
	WAIT(f, a->welcomes);
}

static void begin_of(struct fleet *f, const char *hosts, char session[64])
{
	const struct capture_request req = { .hosts = hosts,
					     .duration_ns = 10 * NS_PER_MS,
					     .origin = "test" };
	struct err e = { 0 };
	struct capture *c;

	CHECK_OK(capture_begin(f->agg.captures, &req, &c, &e), e);
	snprintf(session, 64, "%s", c->session);
}

/* viewer-red asks for it, too: whose it is is known from then on. */
static void capture_of(struct fleet *f, const char *hosts, char session[64])
{
	char *path;

	begin_of(f, hosts, session);
	fleet_wait_over(f, session);
	path = xasprintf("/api/v1/sessions/%s", session);
	CHECK_EQ(person_ask(f, person_named("viewer-red"), "GET", path, NULL, NULL), 404);
	free(path);
}

static void delete_session(struct fleet *f, const char *session)
{
	char *path = xasprintf("/api/v1/sessions/%s", session);

	CHECK_EQ(person_ask(f, person_named("admin-all"), "DELETE", path, NULL, NULL), 200);
	free(path);
}

/* Captures of others run, end and are deleted, and a host goes; then one of his own is stored. */
static void test_other_namespaces(struct fleet *f)
{
	static const char *const selectors[] = { "host-blue", "host-red,host-blue", "host-bare" };
	static char others[ARRAY_SIZE(selectors)][64], last[64];
	const char *hidden[] = { "blue", "bare", others[0], others[1], others[2], NULL };
	const char *shown[] = { "host-red", last, NULL };
	struct fake red = { 0 }, blue = { 0 }, bare = { 0 };
	struct watcher his, all;

	connect_of(&red, f, "host-red", "red");
	connect_of(&blue, f, "host-blue", "blue");
	connect_of(&bare, f, "host-bare", NULL);
	watch(&his, f, "viewer-red");
	watch(&all, f, "viewer-all");
	for (size_t i = 0; i < ARRAY_SIZE(selectors); i++)
		capture_of(f, selectors[i], others[i]);
	for (size_t i = 0; i < ARRAY_SIZE(selectors); i++)
		delete_session(f, others[i]);
	fake_hang_up(&blue);
	begin_of(f, "host-red", last);
	atomic_store(&his.until, last);
	atomic_store(&all.until, last);
	watcher_end(&his, f);
	watcher_end(&all, f);
	check_told(&his, shown, true);
	check_told(&his, hidden, false);
	check_told(&all, shown, true);
	check_told(&all, hidden, true);
	watcher_free(&his);
	watcher_free(&all);
	fake_hang_up(&red);
	fake_hang_up(&bare);
}

int main(void)
{
	struct fleet f;

	people_start(&f, NULL);
	test_other_namespaces(&f);
	people_stop(&f);
	return 0;
}
