/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP API against fake agents: captures, sessions, files, events, what is refused. */
#include <stdatomic.h>

#include <jansson.h>

#include "aggregator/sessions/sessions.h"
#include "base/mem.h"
#include "net/http_client.h"
#include "storage/store.h"
#include "storage/store_fault.h"
#include "tests/lib/store.h"
#include "tests/unit/aggregator/fleet.h"

/* One HTTP call, on a worker. */
struct ask {
	struct http_call call;
	char url[256];
	int rc, status;
	struct buf answer;
	struct err e;
	bool done;
};

static void run_ask(void *arg)
{
	struct ask *a = arg;

	a->rc = http_call(&a->call, &a->status, &a->answer, &a->e);
}

static void end_ask(void *arg)
{
	((struct ask *)arg)->done = true;
}

/* The status; the answer's text goes to `*text` (yours; may be NULL). */
static int ask(struct fleet *f, const char *method, const char *path, const char *body, char **text)
{
	struct ask a = { .call = { .method = method, .timeout_ns = 20 * NS_PER_S } };
	size_t len;

	snprintf(a.url, sizeof(a.url), "http://127.0.0.1:%d%s", f->agg.http_port, path);
	a.call.url = a.url;
	a.call.body = body;
	a.call.body_len = body ? strlen(body) : 0;
	loop_work(f->loop, run_ask, end_ask, &a);
	WAIT(f, a.done);
	CHECK_OK(a.rc, a.e);
	if (text)
		*text = (char *)buf_detach(&a.answer, &len);
	buf_release(&a.answer);
	return a.status;
}

static json_t *ask_json(struct fleet *f, const char *method, const char *path, const char *body,
			int status)
{
	char *text;
	json_t *doc;
	int got = ask(f, method, path, body, &text);

	if (got != status)
		fprintf(stderr, "%s %s: %s\n", method, path, text);
	CHECK_EQ(got, status);
	doc = json_loads(text, 0, NULL);
	CHECK(doc);
	free(text);
	return doc;
}

static const char *get(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "(none)";
}

static void check_error(struct fleet *f, const char *method, const char *path, const char *body,
			int status, const char *part)
{
	json_t *doc = ask_json(f, method, path, body, status);

	if (!strstr(get(doc, "error"), part))
		CHECK_STR(get(doc, "error"), part);
	json_decref(doc);
}

static void test_capture(struct fleet *f)
{
	char path[128], session[64];
	struct fake a = { .auto_deliver = true };
	json_t *doc, *host;
	char *text;

	fake_connect(&a, f, "host-a");
	doc = ask_json(f, "GET", "/api/v1/hosts", NULL, 200);
	host = json_array_get(json_object_get(doc, "hosts"), 0);
	CHECK_STR(get(host, "state"), "connected");
	json_decref(doc);

	doc = ask_json(f, "POST", "/api/v1/captures",
		       "{\"hosts\": \"job=host-a\", \"duration_ns\": 5000000, \"run\": \"x/y\","
		       " \"tracers\": [\"cpu\"], \"settings\": {\"advanced.key\": \"v\", "
		       "\"cpu.depth\": 7}}",
		       202);
	CHECK_STR(get(doc, "state"), "arming");
	CHECK_STR(get(doc, "run"), "x/y");
	snprintf(session, sizeof(session), "%s", get(doc, "session"));
	json_decref(doc);
	fleet_wait_over(f, session);
	CHECK_STR(a.tracers, "cpu;");
	CHECK_STR(a.settings, "cpu.depth=7;"); /* the other one is in profile_options */

	snprintf(path, sizeof(path), "/api/v1/captures/%s", session);
	doc = ask_json(f, "GET", path, NULL, 200);
	CHECK_STR(get(doc, "state"), "committed");
	json_decref(doc);
	check_error(f, "DELETE", path, NULL, 409, "has ended");

	snprintf(path, sizeof(path), "/api/v1/sessions/%s", session);
	doc = ask_json(f, "GET", path, NULL, 200);
	CHECK_EQ(json_integer_value(json_object_get(doc, "version")), 1);
	CHECK(strstr(get(doc, "path"), "profiles/x/y/plugins/profile/"));
	host = json_array_get(json_object_get(doc, "hosts"), 0);
	CHECK_STR(get(host, "file"), "host-a.xplane.pb");
	CHECK_EQ(json_integer_value(json_object_get(host, "clock_bound_ns")), 2000);
	json_decref(doc);

	snprintf(path, sizeof(path), "/api/v1/sessions/%s/files/host-a.xplane.pb", session);
	CHECK_EQ(ask(f, "GET", path, NULL, &text), 200);
	CHECK(!memcmp(text, "\0\1\2\3", 4));
	free(text);
	snprintf(path, sizeof(path), "/api/v1/sessions/%s/files/host-b.xplane.pb", session);
	check_error(f, "GET", path, NULL, 404, "host-b");
	snprintf(path, sizeof(path), "/api/v1/sessions/%s/files/..%%2f..%%2fplan.json", session);
	CHECK_EQ(ask(f, "GET", path, NULL, NULL), 404);

	doc = ask_json(f, "GET", "/api/v1/sessions?run=x/y&limit=1", NULL, 200);
	CHECK_EQ(json_array_size(json_object_get(doc, "sessions")), 1);
	json_decref(doc);
	doc = ask_json(f, "GET", "/api/v1/sessions?run=z", NULL, 200);
	CHECK_EQ(json_array_size(json_object_get(doc, "sessions")), 0);
	json_decref(doc);

	snprintf(path, sizeof(path), "/api/v1/sessions/%s", session);
	doc = ask_json(f, "DELETE", path, NULL, 200);
	CHECK_STR(get(doc, "deleted"), session);
	json_decref(doc);
	check_error(f, "GET", path, NULL, 404, session);
	check_error(f, "DELETE", path, NULL, 404, session);
	CHECK_EQ(fleet_keys(f), 0);
	fake_hang_up(&a);
}

static void test_stop_and_cancel(struct fleet *f)
{
	struct fake a = { .auto_arm = true };
	char path[128], session[64];
	json_t *doc;

	fake_connect(&a, f, "host-a");
	doc = ask_json(f, "POST", "/api/v1/captures", "{\"duration_ns\": 60000000000}", 202);
	snprintf(session, sizeof(session), "%s", get(doc, "session"));
	json_decref(doc);
	WAIT(f, a.arms == 1);
	snprintf(path, sizeof(path), "/api/v1/sessions/%s", session);
	check_error(f, "DELETE", path, NULL, 409, "being captured");
	snprintf(path, sizeof(path), "/api/v1/captures/%s/stop", session);
	json_decref(ask_json(f, "POST", path, NULL, 202));
	WAIT(f, a.stops == 1);
	snprintf(path, sizeof(path), "/api/v1/captures/%s", session);
	doc = ask_json(f, "DELETE", path, NULL, 202);
	CHECK_STR(get(doc, "state"), "failed"); /* nothing of it is left by now */
	json_decref(doc);
	doc = ask_json(f, "GET", path, NULL, 200);
	CHECK_STR(get(doc, "state"), "failed");
	CHECK_STR(get(doc, "error"), "cancelled");
	json_decref(doc);
	doc = ask_json(f, "GET", "/api/v1/captures", NULL, 200);
	CHECK(json_array_size(json_object_get(doc, "captures")) >= 1);
	json_decref(doc);
	fake_hang_up(&a);
}

/* An earlier run of the aggregator saw it fail. */
static void test_failed_before(struct fleet *f)
{
	static const char path[] = "/api/v1/captures/2026_01_01_00_00_00_failed";
	json_t *doc = json_pack("{s:s, s:s}", "state", "failed", "error", "cancelled");
	struct err e = { 0 };

	check_error(f, "GET", path, NULL, 404, "there is no capture");
	CHECK_OK(session_record_failure(f->agg.store.store, strrchr(path, '/') + 1, doc, &e), e);
	json_decref(doc);
	doc = ask_json(f, "GET", path, NULL, 200);
	CHECK_STR(get(doc, "error"), "cancelled");
	json_decref(doc);
	check_error(f, "DELETE", path, NULL, 404, "there is no capture");
}

static void test_refused(struct fleet *f)
{
	const char *captures = "/api/v1/captures";
	struct fake a = { 0 };

	fake_connect(&a, f, "host-a");
	check_error(f, "POST", captures, "{\"host\": \"all\"}", 400, "'host'");
	check_error(f, "POST", captures, "{\"hosts\": 3}", 400, "hosts");
	check_error(f, "POST", captures, "{\"duration_ns\": 0}", 400, "duration_ns");
	check_error(f, "POST", captures, "{\"duration_ns\": \"2s\"}", 400, "duration_ns");
	check_error(f, "POST", captures, "{\"duration_ns\": 3600000000001}", 400, "duration_ns");
	check_error(f, "POST", captures, "{\"settings\": {\"nope\": \"1\"}}", 400, "'nope'");
	check_error(f, "POST", captures, "{\"hosts\": \"a,a\", \"hosts\": \"b\"}", 400, "JSON");
	check_error(f, "POST", captures, "{\"wait_ns\": 9223372036854775807}", 400, "wait_ns");
	check_error(f, "POST", captures, "{\"at_step\": 9223372036854775807, \"steps\": 1000000}",
		    400, "at_step");
	check_error(f, "POST", captures, "{\"at_step\": 1, \"steps\": 1000001}", 400, "steps");
	check_error(f, "POST", captures, "[]", 400, "object");
	check_error(f, "POST", captures, "{", 400, "JSON");
	check_error(f, "POST", captures, "{\"hosts\": \"no-such-host\"}", 404, "no-such-host");
	check_error(f, "POST", captures, "{\"run\": \"..\"}", 400, "run name");
	check_error(f, "GET", "/api/v1/captures/2026_01_01_00_00_00_aaaaaa", NULL, 404, "2026");
	check_error(f, "GET", "/api/v1/sessions/..", NULL, 404, "");
	check_error(f, "GET", "/api/v1/sessions?limit=0", NULL, 400, "limit");
	check_error(f, "GET", "/api/v1/sessions?limit=10x", NULL, 400, "limit");
	check_error(f, "GET", "/api/v1/sessions?after=x", NULL, 400, "after");
	check_error(f, "GET", "/nothing", NULL, 404, "/nothing");
	check_error(f, "DELETE", "/api/v1/hosts", NULL, 405, "DELETE");
	CHECK_EQ(a.arms, 0);
	fake_hang_up(&a);
}

static void test_texts(struct fleet *f)
{
	char *text;

	CHECK_EQ(ask(f, "GET", "/healthz", NULL, &text), 200);
	free(text);
	CHECK_EQ(ask(f, "GET", "/readyz", NULL, NULL), 200);
	f->agg.store.ready = false;
	err_set(&f->agg.store.not_ready, ERR_IO, "disk full");
	CHECK_EQ(ask(f, "GET", "/readyz", NULL, &text), 503);
	CHECK(strstr(text, "disk full"));
	free(text);
	check_error(f, "POST", "/api/v1/captures", "{}", 503, "disk full");
	f->agg.store.ready = true;
	CHECK_EQ(ask(f, "GET", "/metrics", NULL, &text), 200);
	CHECK(strstr(text, "\ntutti_hosts{state=\"connected\"} 0\n"));
	CHECK(strstr(text, "# TYPE tutti_captures_total counter\n"));
	free(text);
	CHECK_EQ(ask(f, "GET", "/", NULL, &text), 200);
	CHECK(strstr(text, "<html"));
	free(text);
}

/* What cannot be read is not missing: 500 for good, 503 for now. */
static void test_unreadable(struct fleet *f)
{
#define SESSION "2026_01_01_00_00_00_aaaaaa"
	static const struct {
		const char *method, *path;
		int damaged, away;
	} asked[] = {
		{ "GET", "/api/v1/sessions", 200, 503 },
		{ "GET", "/api/v1/sessions/" SESSION, 500, 503 },
		{ "GET", "/api/v1/sessions/" SESSION "/files/a.xplane.pb", 500, 503 },
		{ "POST", "/api/v1/sessions/" SESSION "/retry", 500, 503 },
		{ "GET", "/api/v1/captures/" SESSION, 500, 503 },
		{ "DELETE", "/api/v1/sessions/" SESSION, 500, 503 },
	};
	static const char *const keys[] = {
		"tutti/sessions/" SESSION "/manifest.json",
		"tutti/failed/" SESSION ".json",
		"tutti/index/79739898/99/9999-" SESSION,
	};
	struct store *s = store_fault_wrap(f->agg.store.store, NULL);
	struct err e = { 0 };

	f->agg.store.store = s;
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		CHECK_OK(store_put_bytes(s, keys[i], "{", 1, 0, any_time(), &e), e);
	for (size_t i = 0; i < ARRAY_SIZE(asked); i++) {
		json_t *doc;

		CHECK_OK(store_fault_set(s, "", &e), e);
		doc = ask_json(f, asked[i].method, asked[i].path, NULL, asked[i].damaged);
		if (asked[i].damaged == 500)
			CHECK(strstr(get(doc, "error"), "damaged"));
		json_decref(doc);
		CHECK_OK(store_fault_set(s, "list,get,stat tutti/[!r]* fail", &e), e);
		doc = ask_json(f, asked[i].method, asked[i].path, NULL, asked[i].away);
		CHECK_STR(get(doc, "reason"), "store");
		json_decref(doc);
	}
	CHECK_OK(store_fault_set(s, "", &e), e);
}

/* As long as the ledger that an earlier run left is not read, the session is not missing. */
static void test_unrecovered(struct fleet *f)
{
#define LEFT "2026_01_01_00_00_00_bbbbbb"
	static const char *const asked[][2] = {
		{ "GET", "/api/v1/sessions/" LEFT },
		{ "GET", "/api/v1/sessions/" LEFT "/files/a.xplane.pb" },
		{ "DELETE", "/api/v1/sessions/" LEFT },
		{ "POST", "/api/v1/sessions/" LEFT "/retry" },
		{ "GET", "/api/v1/captures/" LEFT },
		{ "DELETE", "/api/v1/captures/" LEFT },
		{ "POST", "/api/v1/captures/" LEFT "/stop" },
	};
	char name[] = LEFT, *names[] = { name };

	f->agg.store.left = (struct session_keys){ names, 1 };
	for (size_t i = 0; i < ARRAY_SIZE(asked); i++)
		check_error(f, asked[i][0], asked[i][1], NULL, 503, "not recovered yet");
	f->agg.store.left = (struct session_keys){ 0 };
	for (size_t i = 0; i < ARRAY_SIZE(asked); i++)
		check_error(f, asked[i][0], asked[i][1], NULL, 404, LEFT);
}

/* ---- events ---- */

struct listen {
	struct http_call call;
	char url[256];
	int rc, status;
	struct err e;
	bool done;
	const char *until; /* end after an event whose data hold this; NULL = to the end */
	atomic_int n_seen;
	struct buf seen; /* "event data\n"; the worker's until done */
};

static int on_event(void *arg, const char *event, const char *data)
{
	struct listen *l = arg;

	buf_addf(&l->seen, "%s %s\n", event, data);
	atomic_fetch_add(&l->n_seen, 1);
	return l->until && strstr(data, l->until) ? 1 : 0;
}

static void run_listen(void *arg)
{
	struct listen *l = arg;
	struct buf answer = BUF_INIT;

	l->rc = http_events(&l->call, &l->status, &answer, on_event, l, &l->e);
	buf_release(&answer);
}

static void end_listen(void *arg)
{
	((struct listen *)arg)->done = true;
}

static void listen_start(struct fleet *f, struct listen *l, const char *path)
{
	snprintf(l->url, sizeof(l->url), "http://127.0.0.1:%d%s", f->agg.http_port, path);
	l->call.method = "GET";
	l->call.url = l->url;
	l->call.timeout_ns = 20 * NS_PER_S;
	loop_work(f->loop, run_listen, end_listen, l);
}

static void listen_end(struct fleet *f, struct listen *l)
{
	WAIT(f, l->done);
	/* Who waits for nothing in particular hears the server end the stream. */
	CHECK_EQ(l->rc, l->until ? 0 : ERR_CLOSED);
	CHECK_EQ(l->status, 200);
}

static void test_events(struct fleet *f)
{
	struct listen page = { .until = "\"session\":\"" }, one = { 0 };
	struct fake a = { .auto_deliver = true };
	struct capture *c;
	char path[128];

	listen_start(f, &page, "/api/v1/events");
	WAIT(f,
	     atomic_load(&page.n_seen) > 0); /* the hosts; what changes later comes in any order */
	fake_connect(&a, f, "host-a");
	c = fleet_begin(f);
	snprintf(path, sizeof(path), "/api/v1/captures/%s/events", c->session);
	listen_start(f, &one, path);
	listen_end(f, &one); /* ends by itself when the capture is over */
	CHECK(capture_has_ended(c));
	CHECK(strstr(buf_str(&one.seen), "capture {"));
	CHECK(strstr(buf_str(&one.seen), "\"state\":\"committed\""));
	listen_end(f, &page);
	CHECK(!strncmp(buf_str(&page.seen), "hosts {", 7));
	buf_release(&page.seen);
	buf_release(&one.seen);
	/* Of one that is over: once, and the end. */
	one = (struct listen){ 0 };
	listen_start(f, &one, path);
	listen_end(f, &one);
	CHECK(strstr(buf_str(&one.seen), "\"state\":\"committed\""));
	buf_release(&one.seen);
	check_error(f, "GET", "/api/v1/captures/2026_01_01_00_00_00_aaaaaa/events", NULL, 404, "");
	fake_hang_up(&a);
}

/* A page that is there before the capture hears of its session. */
static void test_session_event(struct fleet *f)
{
	struct listen page = { 0 };
	struct fake a = { .auto_arm = true };
	struct capture *c;
	char until[96];

	fake_connect(&a, f, "host-a");
	c = fleet_begin(f);
	WAIT(f, fleet_host_is(c, 0, "armed"));
	snprintf(until, sizeof(until), "{\"session\":\"%s\"}", c->session);
	page.until = until;
	listen_start(f, &page, "/api/v1/events");
	WAIT(f, atomic_load(&page.n_seen)); /* the hosts, at once */
	CHECK_EQ(fake_upload(&a, 1, 10, FLAW_NONE), RPC_OK);
	fake_result(&a, true, "", "");
	listen_end(f, &page);
	CHECK(strstr(buf_str(&page.seen), "sessions {"));
	buf_release(&page.seen);
	fake_hang_up(&a);
}

int main(void)
{
	struct fleet f;

	fleet_start(&f, 0, 0);
	test_capture(&f);
	test_stop_and_cancel(&f);
	test_failed_before(&f);
	test_refused(&f);
	test_texts(&f);
	test_unrecovered(&f);
	test_unreadable(&f);
	test_events(&f);
	test_session_event(&f);
	fleet_stop(&f);
	return 0;
}
