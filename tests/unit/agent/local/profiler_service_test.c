/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's own ProfilerService, with captures that the test controls. */
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

#include "agent/capture/capture.h"
#include "agent/clock/clock.h"
#include "proto/profiler_request.h"
#include "agent/local/profiler_service.h"
#include "base/buf.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/rpc.h"
#include "proto/limits.h"
#include "proto/names.h"
#include "proto/tensorflow/profiler_options.pb-c.h"
#include "proto/tensorflow/profiler_service.pb-c.h"
#include "tests/lib/check.h"
#include "tests/lib/run_until.h"

#define BOUND_NS (20 * NS_PER_S)

/* ---- captures and a clock in place of the real ones ---- */

struct capture {
	struct capture_request req;
	char session[64];
	char *path;
	uint64_t bytes, events;
	struct err error;
};

static struct {
	struct capture *last;
	int started, stopped, released;
	int64_t stop_ns;
	uint8_t options[256];
	size_t options_len;
	int refuse; /* code for the next capture_start() */
} captures;

int capture_start(struct captures *cs, const struct capture_request *req, struct capture **out,
		  struct err *e)
{
	struct capture *c;

	(void)cs;
	if (captures.refuse)
		return err_set(e, captures.refuse, "the spool is full");
	c = xcalloc(1, sizeof(*c));
	c->req = *req;
	snprintf(c->session, sizeof(c->session), "%s", req->session);
	CHECK(req->profile_options_len <= sizeof(captures.options));
	if (req->profile_options_len)
		memcpy(captures.options, req->profile_options, req->profile_options_len);
	captures.options_len = req->profile_options_len;
	captures.last = *out = c;
	captures.started++;
	return 0;
}

void capture_stop(struct capture *c, int64_t t1_ns, int64_t give_up_ns)
{
	(void)give_up_ns;
	CHECK(c == captures.last);
	captures.stopped++;
	captures.stop_ns = t1_ns;
}

void capture_release(struct capture *c)
{
	captures.released++;
	if (c == captures.last)
		captures.last = NULL;
	if (c->path)
		unlink(c->path);
	free(c->path);
	free(c);
}

const char *capture_session(const struct capture *c)
{
	return c->session;
}

const char *capture_path(const struct capture *c)
{
	return c->path;
}

uint64_t capture_bytes(const struct capture *c)
{
	return c->bytes;
}

uint64_t capture_events(const struct capture *c)
{
	return c->events;
}

const struct err *capture_error(const struct capture *c)
{
	return &c->error;
}

struct clock_model clock_model(const struct clock *c)
{
	struct clock_model m = { 0 };

	(void)c;
	now_pair_ns(&m.pair_raw_ns, &m.pair_real_ns, NULL);
	return m;
}

static void capture_ready(const void *data, size_t len, uint64_t events)
{
	struct capture *c = captures.last;
	char path[] = "/tmp/profiler_service.XXXXXX";
	int fd = mkstemp(path);

	CHECK(fd >= 0);
	CHECK(write(fd, data, len) == (ssize_t)len);
	close(fd);
	c->path = xstrdup(path);
	c->bytes = len;
	c->events = events;
	c->req.changed(c, CAPTURE_READY, c->req.arg);
	CHECK(access(path, F_OK)); /* the file is removed while its bytes are sent */
}

/* ---- a client ---- */

struct fixture {
	struct loop *loop;
	struct rpc *rpc;
	struct rpc_channel *ch;
	struct profiler_service *service;
	struct rpc_call *call;
	bool answered;
	enum rpc_code code;
	char text[200];
	struct buf reply;
};

static void state_ok(const struct tracer *t, struct tracer_state *out)
{
	(void)t;
	out->health = TRACER_DEGRADED;
	snprintf(out->reason, sizeof(out->reason), "grant CAP_PERFMON");
}

static const struct tracer_ops ops = { .name = "cpu", .state = state_ok };
static struct tracer tracer = { .ops = &ops };
static struct tracer *all[] = { &tracer, NULL };

static bool owner_may; /* the caller's user is the agent's */

static int check_owner(const char *peer, int port, struct err *e)
{
	CHECK(*peer && port > 0);
	return owner_may ? 0 : err_set(e, ERR_DENIED, "another user");
}

static void setup(struct fixture *f)
{
	struct rpc_channel_opts opts = { .max_message_bytes = LIMIT_RESPONSE_BYTES };
	struct profiler_service_env env = { .host = "host-a",
					    .listen = "127.0.0.1:0",
					    .tracers = all,
					    .check_owner = check_owner };
	struct err e;

	memset(f, 0, sizeof(*f));
	memset(&captures, 0, sizeof(captures));
	owner_may = true;
	CHECK_OK(loop_new(&f->loop, 1, &e), e);
	CHECK_OK(rpc_new(&f->rpc, f->loop, &e), e);
	env.rpc = f->rpc;
	CHECK_OK(profiler_service_new(&f->service, &env, &e), e);
	opts.target = profiler_service_address(f->service);
	CHECK_OK(rpc_channel_new(&f->ch, f->rpc, &opts, &e), e);
}

static void teardown(struct fixture *f)
{
	rpc_channel_free(f->ch);
	profiler_service_free(f->service);
	CHECK_EQ(captures.released, captures.started);
	rpc_free(f->rpc);
	loop_free(f->loop);
	buf_release(&f->reply);
}

static void on_answer(void *arg, const struct rpc_status *st, const struct rpc_msg *msg)
{
	struct fixture *f = arg;
	const uint8_t *data;
	size_t len;

	f->answered = true;
	f->code = st->code;
	snprintf(f->text, sizeof(f->text), "%s", st->text);
	buf_reset(&f->reply);
	if (msg) {
		data = rpc_msg_data(msg, &len);
		buf_add(&f->reply, data, len);
	}
}

static void call(struct fixture *f, const char *method, const struct buf *request)
{
	f->answered = false;
	f->call = rpc_unary(f->ch, method, request->data, request->len, now_mono_ns() + BOUND_NS,
			    on_answer, f);
}

static void turn_until(struct fixture *f, const bool *flag)
{
	RUN_UNTIL(f->loop, *flag);
}

static void turn_until_started(struct fixture *f, int n)
{
	RUN_UNTIL(f->loop, captures.started >= n || f->answered);
	CHECK_EQ(captures.started, n);
}

/* Calls Profile as a stock client does. */
static void call_profile(struct fixture *f, uint64_t duration_ms, uint64_t start_ns, bool emit)
{
	Tensorflow__ProfileRequest m = TENSORFLOW__PROFILE_REQUEST__INIT;
	Tensorflow__ProfileOptions o = TENSORFLOW__PROFILE_OPTIONS__INIT;
	struct buf request = BUF_INIT;

	o.version = 1;
	o.duration_ms = duration_ms;
	o.start_timestamp_ns = start_ns;
	m.opts = &o;
	m.session_id = (char *)"theirs";
	m.emit_xspace = emit;
	buf_reserve(&request, tensorflow__profile_request__get_packed_size(&m));
	request.len = tensorflow__profile_request__pack(&m, request.data);
	call(f, PROFILER_PROFILE, &request);
	buf_release(&request);
}

/* ---- Profile ---- */

static const char xspace[] = "\x0a\x0b\x12\x09/host:CPU";
#define XSPACE_LEN (sizeof(xspace) - 1)

static Tensorflow__ProfileResponse *response(struct fixture *f)
{
	Tensorflow__ProfileResponse *r;

	CHECK_STR(f->text, "");
	CHECK_EQ(f->code, RPC_OK);
	r = tensorflow__profile_response__unpack(NULL, f->reply.len, f->reply.data);
	CHECK(r);
	return r;
}

static void test_tool_data(void)
{
	Tensorflow__ProfileResponse *r;
	struct fixture f;

	setup(&f);
	call_profile(&f, 200, 0, false);
	turn_until_started(&f, 1);
	CHECK_EQ(captures.last->req.duration_ns, 200 * NS_PER_MS);
	CHECK(name_is_session(captures.last->session));
	capture_ready(xspace, XSPACE_LEN, 3);
	turn_until(&f, &f.answered);
	r = response(&f);
	CHECK(!r->empty_trace && !r->xspace);
	CHECK_EQ(r->n_tool_data, 1);
	CHECK_STR(r->tool_data[0]->name, "xplane.pb");
	CHECK_EQ(r->tool_data[0]->data.len, XSPACE_LEN);
	CHECK(!memcmp(r->tool_data[0]->data.data, xspace, XSPACE_LEN));
	tensorflow__profile_response__free_unpacked(r, NULL);
	teardown(&f);
}

/* A user without rights asks an agent that runs as root: nothing is recorded, nothing ends. */
static void test_other_user(void)
{
	static const char *const methods[] = { PROFILER_TERMINATE, PROFILER_MONITOR,
					       PROFILER_START_CONTINUOUS, PROFILER_GET_SNAPSHOT,
					       PROFILER_STOP_CONTINUOUS };
	struct buf request = BUF_INIT;
	struct fixture f;

	setup(&f);
	owner_may = false;
	call_profile(&f, 200, 0, false);
	turn_until(&f, &f.answered);
	CHECK_EQ(f.code, RPC_PERMISSION_DENIED);
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		call(&f, methods[i], &request);
		turn_until(&f, &f.answered);
		CHECK_EQ(f.code, RPC_PERMISSION_DENIED);
	}
	CHECK_EQ(captures.started, 0);
	teardown(&f);
}

static void test_emit_xspace(uint64_t events)
{
	Tensorflow__ProfileResponse *r;
	struct fixture f;

	setup(&f);
	call_profile(&f, 200, 0, true);
	turn_until_started(&f, 1);
	capture_ready(xspace, XSPACE_LEN, events);
	turn_until(&f, &f.answered);
	r = response(&f);
	CHECK_EQ(r->empty_trace, events == 0);
	CHECK_EQ(r->n_tool_data, 0);
	CHECK(r->xspace);
	CHECK_EQ(r->xspace->n_planes, 1);
	CHECK_STR(r->xspace->planes[0]->name, "/host:CPU");
	tensorflow__profile_response__free_unpacked(r, NULL);
	teardown(&f);
}

/* Longer than any window or frame: the bytes come from the file's mapping. */
static void test_large(void)
{
	size_t len = 9 << 20;
	uint8_t *data = xmalloc(len);
	Tensorflow__ProfileResponse *r;
	struct fixture f;

	for (size_t i = 0; i < len; i++)
		data[i] = (uint8_t)(i * 2654435761U >> 24);
	setup(&f);
	call_profile(&f, 1, 0, false);
	turn_until_started(&f, 1);
	capture_ready(data, len, 1);
	turn_until(&f, &f.answered);
	r = response(&f);
	CHECK_EQ(r->tool_data[0]->data.len, len);
	CHECK(!memcmp(r->tool_data[0]->data.data, data, len));
	tensorflow__profile_response__free_unpacked(r, NULL);
	free(data);
	teardown(&f);
}

static void test_window(void)
{
	struct fixture f;
	int64_t now, start;

	setup(&f);
	start = now_real_ns() + 5 * NS_PER_S;
	call_profile(&f, 1000, (uint64_t)start, false); /* on the caller's clock, near */
	turn_until_started(&f, 1);
	CHECK(llabs(captures.last->req.t0_ns - start) < NS_PER_MS);
	CHECK(captures.last->req.give_up_ns >= captures.last->req.t0_ns + NS_PER_S);
	CHECK(captures.last->req.give_up_ns <= now_real_ns() + BOUND_NS);
	rpc_cancel(f.call);
	turn_until(&f, &f.answered);

	now = now_real_ns();
	call_profile(&f, 1000, (uint64_t)(now + 3600 * NS_PER_S), false); /* a wrong clock */
	turn_until_started(&f, 2);
	CHECK(captures.last->req.t0_ns > now && captures.last->req.t0_ns < now + 5 * NS_PER_S);
	rpc_cancel(f.call);
	turn_until(&f, &f.answered);

	call_profile(&f, 1000, UINT64_MAX, false);
	turn_until_started(&f, 3);
	CHECK(captures.last->req.t0_ns < now + 5 * NS_PER_S);
	teardown(&f);
}

/* A client may give the duration beside the options, and none of these. */
static void test_duration_of_request(void)
{
	Tensorflow__ProfileRequest m = TENSORFLOW__PROFILE_REQUEST__INIT;
	Tensorflow__ProfileOptions o = TENSORFLOW__PROFILE_OPTIONS__INIT;

	CHECK_EQ(profile_request_duration_ms(&m), 0);
	CHECK_EQ(profile_request_start_ns(&m, 1), 0);
	m.duration_ms = 7;
	CHECK_EQ(profile_request_duration_ms(&m), 7);
	m.opts = &o;
	CHECK_EQ(profile_request_duration_ms(&m), 7);
	o.duration_ms = 8;
	CHECK_EQ(profile_request_duration_ms(&m), 8);
}

static void call_empty(struct fixture *f, const char *method)
{
	struct buf empty = BUF_INIT;

	call(f, method, &empty);
	turn_until(f, &f->answered);
	CHECK_EQ(f->code, RPC_OK);
	CHECK_EQ(f->reply.len, 0);
}

/* Takes snapshot number n; its window is in *t0_ns and *t1_ns. */
static void take_snapshot(struct fixture *f, int n, int64_t *t0_ns, int64_t *t1_ns)
{
	struct buf empty = BUF_INIT;
	Tensorflow__ProfileResponse *r;

	call(f, n % 2 ? PROFILER_GET_SNAPSHOT : PROFILER_GET_SNAPSHOT_OLD, &empty);
	turn_until_started(f, n);
	*t0_ns = captures.last->req.t0_ns;
	*t1_ns = *t0_ns + captures.last->req.duration_ns;
	CHECK(*t1_ns <= now_real_ns());
	capture_ready(xspace, XSPACE_LEN, 3);
	turn_until(f, &f->answered);
	r = response(f);
	CHECK_EQ(r->n_tool_data, 1);
	tensorflow__profile_response__free_unpacked(r, NULL);
}

/* Between Start and Stop windows follow one another; one that was lost is part of the next. */
static void test_snapshots(void)
{
	struct buf empty = BUF_INIT;
	int64_t t0_ns, t1_ns, end_ns;
	struct fixture f;

	setup(&f);
	take_snapshot(&f, 1, &t0_ns, &t1_ns);
	CHECK_EQ(t1_ns - t0_ns, 30 * NS_PER_S);
	call_empty(&f, PROFILER_START_CONTINUOUS);
	take_snapshot(&f, 2, &t0_ns, &end_ns);
	CHECK_EQ(end_ns - t0_ns, 30 * NS_PER_S);
	RUN_UNTIL(f.loop, now_real_ns() > end_ns + 60 * NS_PER_MS);
	take_snapshot(&f, 3, &t0_ns, &t1_ns);
	CHECK_EQ(t0_ns, end_ns);
	RUN_UNTIL(f.loop, now_real_ns() > t1_ns + 60 * NS_PER_MS);
	call(&f, PROFILER_GET_SNAPSHOT, &empty);
	turn_until_started(&f, 4);
	rpc_cancel(f.call);
	turn_until(&f, &f.answered);
	RUN_UNTIL(f.loop, captures.released == 4);
	take_snapshot(&f, 5, &t0_ns, &end_ns);
	CHECK_EQ(t0_ns, t1_ns);
	call_empty(&f, PROFILER_STOP_CONTINUOUS);
	take_snapshot(&f, 6, &t0_ns, &t1_ns);
	CHECK_EQ(t1_ns - t0_ns, 30 * NS_PER_S);
	teardown(&f);
}

static void test_options_go_on(void)
{
	Tensorflow__ProfileOptions *o;
	struct fixture f;

	setup(&f);
	call_profile(&f, 1000, 0, false);
	turn_until_started(&f, 1);
	o = tensorflow__profile_options__unpack(NULL, captures.options_len, captures.options);
	CHECK(o);
	CHECK_EQ(o->version, 1);
	tensorflow__profile_options__free_unpacked(o, NULL);
	teardown(&f);
}

static void test_refused(void)
{
	static const uint64_t bad_ms[] = { 0, 3600001, UINT64_MAX };
	struct buf garbage = BUF_INIT;
	struct fixture f;

	setup(&f);
	for (size_t i = 0; i < ARRAY_SIZE(bad_ms); i++) {
		call_profile(&f, bad_ms[i], 0, false);
		turn_until(&f, &f.answered);
		CHECK_EQ(f.code, RPC_INVALID_ARGUMENT);
		CHECK(strstr(f.text, "opts.duration_ms"));
	}
	buf_add(&garbage, "\xff\xff\xff", 3);
	call(&f, PROFILER_PROFILE, &garbage);
	turn_until(&f, &f.answered);
	CHECK_EQ(f.code, RPC_INVALID_ARGUMENT);
	call(&f, PROFILER_TERMINATE, &garbage);
	turn_until(&f, &f.answered);
	CHECK_EQ(f.code, RPC_INVALID_ARGUMENT);
	buf_release(&garbage);
	captures.refuse = ERR_LIMIT;
	call_profile(&f, 1000, 0, false);
	turn_until(&f, &f.answered);
	CHECK_EQ(f.code, RPC_RESOURCE_EXHAUSTED);
	CHECK_STR(f.text, "the spool is full");
	CHECK_EQ(captures.started, 0);
	teardown(&f);
}

static void test_failed_capture(void)
{
	struct fixture f;

	setup(&f);
	call_profile(&f, 1000, 0, false);
	turn_until_started(&f, 1);
	err_set(&captures.last->error, ERR_IO, "no space left");
	captures.last->req.changed(captures.last, CAPTURE_FAILED, captures.last->req.arg);
	turn_until(&f, &f.answered);
	CHECK_EQ(f.code, RPC_INTERNAL);
	CHECK_STR(f.text, "no space left");
	teardown(&f);
}

/* When a caller leaves, its capture is cancelled. */
static void test_cancel(void)
{
	struct fixture f;

	setup(&f);
	call_profile(&f, 60000, 0, false);
	turn_until_started(&f, 1);
	rpc_cancel(f.call);
	RUN_UNTIL(f.loop, captures.released);
	CHECK_EQ(captures.released, 1);
	turn_until(&f, &f.answered);
	teardown(&f);
}

/* ---- Terminate, Monitor ---- */

static void call_terminate(struct fixture *f, const char *session)
{
	struct buf request = BUF_INIT;

	profiler_terminate_pack(&request, session);
	call(f, PROFILER_TERMINATE, &request);
	buf_release(&request);
	turn_until(f, &f->answered);
	CHECK_EQ(f->code, RPC_OK);
	f->answered = false;
}

static void test_terminate(void)
{
	Tensorflow__ProfileResponse *r;
	struct fixture f;

	setup(&f);
	call_terminate(&f, "theirs"); /* unknown: has no later effect */
	call_profile(&f, 60000, 0, false);
	turn_until_started(&f, 1);
	CHECK_EQ(captures.stopped, 0);
	call_terminate(&f, "another");
	CHECK_EQ(captures.stopped, 0);
	call_terminate(&f, "theirs");
	CHECK_EQ(captures.stopped, 1);
	CHECK(llabs(captures.stop_ns - now_real_ns()) < 5 * NS_PER_S);
	capture_ready(xspace, XSPACE_LEN, 3);
	turn_until(&f, &f.answered);
	r = response(&f);
	CHECK_EQ(r->n_tool_data, 1);
	tensorflow__profile_response__free_unpacked(r, NULL);
	teardown(&f);
}

static void test_monitor(void)
{
	Tensorflow__MonitorResponse *m;
	struct buf request = BUF_INIT;
	struct fixture f;

	setup(&f);
	call(&f, PROFILER_MONITOR, &request);
	turn_until(&f, &f.answered);
	CHECK_EQ(f.code, RPC_OK);
	m = tensorflow__monitor_response__unpack(NULL, f.reply.len, f.reply.data);
	CHECK(m);
	CHECK(strstr(m->data, "host host-a"));
	CHECK(strstr(m->data, "tracer cpu: degraded: grant CAP_PERFMON"));
	tensorflow__monitor_response__free_unpacked(m, NULL);
	teardown(&f);
}

static void on_idle_closed(struct rpc_call *call, const struct rpc_status *st)
{
	int *open = rpc_arg(call);

	(void)st;
	--*open;
}

/* Open calls without a request use no place. */
static void test_idle_calls(void)
{
	static const struct rpc_events idle_events = { .closed = on_idle_closed };
	struct rpc_call *idle[LIMIT_CAPTURES + 1];
	int open = ARRAY_SIZE(idle);
	struct fixture f;

	setup(&f);
	for (size_t i = 0; i < ARRAY_SIZE(idle); i++)
		idle[i] = rpc_open(f.ch, PROFILER_PROFILE, INT64_MAX, &idle_events, &open);
	call_profile(&f, 100, 0, false);
	turn_until_started(&f, 1);
	capture_ready(xspace, strlen(xspace), 1);
	turn_until(&f, &f.answered);
	CHECK_EQ(f.code, RPC_OK);
	for (size_t i = 0; i < ARRAY_SIZE(idle); i++)
		rpc_cancel(idle[i]);
	RUN_UNTIL(f.loop, !open);
	CHECK_EQ(open, 0);
	teardown(&f);
}

static void test_public_listener(void)
{
	const struct profiler_service_env env = { .listen = "0.0.0.0:0" };
	struct profiler_service *s;
	struct err e;

	CHECK_EQ(profiler_service_new(&s, &env, &e), ERR_DENIED);
}

int main(void)
{
	test_tool_data();
	test_other_user();
	test_emit_xspace(5);
	test_emit_xspace(0);
	test_large();
	test_window();
	test_snapshots();
	test_duration_of_request();
	test_options_go_on();
	test_refused();
	test_failed_capture();
	test_cancel();
	test_terminate();
	test_monitor();
	test_idle_calls();
	test_public_listener();
	return 0;
}
