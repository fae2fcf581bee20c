/* SPDX-License-Identifier: Apache-2.0 */
/* One address, whole cluster: what a stock client of ProfilerService gets. */
#include "base/mem.h"
#include "proto/limits.h"
#include "proto/tensorflow/profiler_service.pb-c.h"
#include "tests/lib/virtual_time.h"
#include "tests/unit/aggregator/fleet.h"

typedef Tensorflow__ProfileResponse response_msg;

struct ask {
	struct rpc_call *call;
	bool done;
	enum rpc_code code;
	response_msg *response;
	struct buf raw;
};

static void on_done(void *arg, const struct rpc_status *st, const struct rpc_msg *msg)
{
	struct ask *a = arg;
	size_t len;
	const uint8_t *data;

	a->done = true;
	a->code = st->code;
	if (!msg)
		return;
	data = rpc_msg_data(msg, &len);
	buf_add(&a->raw, data, len);
}

static void start(struct fleet *f, struct ask *a, const char *session, uint64_t ms,
		  int64_t patience_ns)
{
	Tensorflow__ProfileRequest r = TENSORFLOW__PROFILE_REQUEST__INIT;
	Tensorflow__ProfileOptions opts = TENSORFLOW__PROFILE_OPTIONS__INIT;
	uint8_t data[256];
	size_t len;

	opts.version = 1;
	opts.host_tracer_level = 3;
	opts.duration_ms = ms;
	opts.start_timestamp_ns = 5; /* long ago */
	r.opts = &opts;
	r.session_id = (char *)session;
	r.host_name = (char *)"127.0.0.1:7401";
	len = tensorflow__profile_request__pack(&r, data);
	a->call = rpc_unary(f->channel, "/tensorflow.ProfilerService/Profile", data, len,
			    patience_ns ? now_mono_ns() + patience_ns : INT64_MAX, on_done, a);
}

static response_msg *finish(struct fleet *f, struct ask *a)
{
	WAIT(f, a->done);
	CHECK_EQ(a->code, RPC_OK);
	a->response = tensorflow__profile_response__unpack(NULL, a->raw.len, a->raw.data);
	CHECK(a->response);
	CHECK(!a->response->empty_trace);
	return a->response;
}

static void release(struct ask *a)
{
	if (a->response)
		tensorflow__profile_response__free_unpacked(a->response, NULL);
	buf_release(&a->raw);
	*a = (struct ask){ 0 };
}

static bool holds(const ProtobufCBinaryData *data, const char *text)
{
	return memmem(data->data, data->len, text, strlen(text)) != NULL;
}

static void test_two_hosts(void)
{
	struct fleet f;
	struct fake a = { .auto_deliver = true }, b = { .auto_deliver = true };
	struct ask one = { 0 };
	Tensorflow__ProfileOptions *opts;
	response_msg *r;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "host-a");
	fake_connect(&b, &f, "host-b");
	start(&f, &one, "2026_01_01_00_00_00", 10, 0);
	r = finish(&f, &one);
	CHECK_EQ(r->n_tool_data, 2);
	CHECK_STR(r->tool_data[0]->name, "host-a.xplane.pb");
	CHECK_STR(r->tool_data[1]->name, "host-b.xplane.pb");
	CHECK_EQ(r->tool_data[0]->data.len, 2000);
	CHECK_EQ(r->tool_data[1]->data.data[7], 7);
	opts = tensorflow__profile_options__unpack(NULL, a.options_len, a.options);
	CHECK_EQ(opts->host_tracer_level, 3);
	CHECK_EQ(opts->duration_ms, 10);
	CHECK_EQ(opts->start_timestamp_ns, 0);
	tensorflow__profile_options__free_unpacked(opts, NULL);
	CHECK_EQ(captures_stats(f.agg.captures)->committed, 1);
	release(&one);
	fleet_stop(&f);
}

/* The first file carries the reason why the other is not there. */
static void test_one_fails(void)
{
	struct fleet f;
	struct fake a = { 0 }, b = { .auto_deliver = true };
	struct ask one = { 0 };
	response_msg *r;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "host-a");
	fake_connect(&b, &f, "host-b");
	start(&f, &one, "", 10, 0);
	WAIT(&f, a.arms);
	fake_refuse(&a, "refused", "the spool is full");
	r = finish(&f, &one);
	CHECK_EQ(r->n_tool_data, 1);
	CHECK_STR(r->tool_data[0]->name, "host-b.xplane.pb");
	CHECK(r->tool_data[0]->data.len > 2000);
	CHECK(holds(&r->tool_data[0]->data, "host-a is missing: refused: the spool is full"));
	CHECK_EQ(r->tool_data[0]->data.data[2000], 0x1a); /* XSpace.warnings */
	release(&one);
	fleet_stop(&f);
}

static void check_error(struct fleet *f, struct ask *a, const char *part)
{
	response_msg *r = finish(f, a);

	CHECK_EQ(r->n_tool_data, 1);
	CHECK_STR(r->tool_data[0]->name, "errors.xplane.pb");
	CHECK_EQ(r->tool_data[0]->data.data[0], 0x12); /* XSpace.errors */
	CHECK(holds(&r->tool_data[0]->data, part));
	release(a);
}

/* Explained, never an error that the client would hide and retry. */
static void test_explained(void)
{
	struct fleet f;
	struct fake a = { 0 };
	struct ask one = { 0 };

	fleet_start(&f, 0, 0);
	start(&f, &one, "x", 10, 0);
	check_error(&f, &one, "no agent is connected");
	fake_connect(&a, &f, "host-a");
	start(&f, &one, "x", 0, 0);
	check_error(&f, &one, "duration");
	start(&f, &one, "x", UINT64_MAX, 0);
	check_error(&f, &one, "duration");
	start(&f, &one, "x", 10, 0);
	WAIT(&f, a.arms);
	fake_hang_up(&a);
	check_error(&f, &one, "host-a is missing: lost");
	fleet_stop(&f);
}

static void test_malformed(void)
{
	struct fleet f;
	struct ask one = { 0 };

	fleet_start(&f, 0, 0);
	rpc_unary(f.channel, "/tensorflow.ProfilerService/Profile", "\xff\xff", 2, INT64_MAX,
		  on_done, &one);
	WAIT(&f, one.done);
	CHECK_EQ(one.code, RPC_INVALID_ARGUMENT);
	fleet_stop(&f);
}

/* The client's patience ends before the host's file is there: what is stored by then. */
static void test_patience(void)
{
	struct fleet f;
	struct fake a = { .auto_deliver = true }, b = { .auto_arm = true };
	struct ask one = { 0 };
	response_msg *r;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "host-a");
	fake_connect(&b, &f, "host-b");
	start(&f, &one, "", 10, 2500 * NS_PER_MS);
	r = finish(&f, &one);
	CHECK_EQ(r->n_tool_data, 1);
	CHECK_STR(r->tool_data[0]->name, "host-a.xplane.pb");
	CHECK(holds(&r->tool_data[0]->data, "host-b is missing"));
	release(&one);
	fleet_stop(&f);
}

/* Retries of one client are one capture; its end is remembered. */
static void test_same_session(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct ask one = { 0 }, two = { 0 }, three = { 0 }, other = { 0 };
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "host-a");
	start(&f, &one, "S", 10, 0);
	start(&f, &two, "S", 10, 0);
	WAIT(&f, a.arms);
	c = capture_find(f.agg.captures, a.session);
	WAIT(&f, fleet_host_is(c, 0, "armed"));
	CHECK_EQ(fake_upload(&a, 1, 10, FLAW_NONE), RPC_OK);
	fake_result(&a, true, "", "");
	CHECK_EQ(finish(&f, &one)->n_tool_data, 1);
	CHECK_EQ(finish(&f, &two)->n_tool_data, 1);
	start(&f, &three, "S", 10, 0);
	CHECK_EQ(finish(&f, &three)->n_tool_data, 1);
	CHECK_EQ(a.arms, 1);
	start(&f, &other, "T", 10, 0);
	WAIT(&f, a.arms == 2);
	fake_refuse(&a, "busy", "");
	finish(&f, &other);
	release(&one);
	release(&two);
	release(&three);
	release(&other);
	fleet_stop(&f);
}

/* A stock client waits in the queue like anybody, but not beyond its deadline. */
static void test_queued(void)
{
	const struct capture_request req = { .duration_ns = LIMIT_DURATION_NS };
	struct fleet f;
	struct fake a = { .auto_arm = true, .has_profiler = true };
	struct ask one = { 0 };
	struct capture *c;
	struct err e = { 0 };

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "host-a");
	CHECK_OK(capture_begin(f.agg.captures, &req, &c, &e), e);
	WAIT(&f, fleet_host_is(c, 0, "armed"));
	start(&f, &one, "R", 10, 1200 * NS_PER_MS); /* no time to wait in */
	check_error(&f, &one, "would have to wait for capture");
	start(&f, &one, "S", 10, 5100 * NS_PER_MS);
	check_error(&f, &one, "for capture"); /* it waited without success, or not at all */
	start(&f, &one, "T", 10, 20 * NS_PER_S);
	WAIT(&f, captures_count(f.agg.captures).queued == 1);
	CHECK_EQ(a.arms, 1);
	fake_progress(&a, "uploading", 100);
	WAIT(&f, a.arms == 2);
	CHECK_EQ(fake_upload(&a, 1, 10, FLAW_NONE), RPC_OK);
	fake_result(&a, true, "", "");
	CHECK_EQ(finish(&f, &one)->n_tool_data, 1);
	release(&one);
	fleet_stop(&f);
}

/* A client that goes away leaves its capture to finish. */
static void test_client_leaves(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct ask one = { 0 };
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "host-a");
	start(&f, &one, "S", 10, 0);
	WAIT(&f, a.arms);
	rpc_cancel(one.call);
	WAIT(&f, one.done);
	CHECK_EQ(one.code, RPC_CANCELLED);
	c = capture_find(f.agg.captures, a.session);
	CHECK_EQ(fake_upload(&a, 1, 10, FLAW_NONE), RPC_OK);
	fake_result(&a, true, "", "");
	fleet_wait_over(&f, c->session);
	CHECK_EQ(c->state, CAP_COMMITTED);
	release(&one);
	fleet_stop(&f);
}

static void terminate(struct fleet *f, const char *session)
{
	Tensorflow__TerminateRequest r = TENSORFLOW__TERMINATE_REQUEST__INIT;
	struct ask one = { 0 };
	uint8_t data[128];
	size_t len;

	r.session_id = (char *)session;
	len = tensorflow__terminate_request__pack(&r, data);
	rpc_unary(f->channel, "/tensorflow.ProfilerService/Terminate", data, len, INT64_MAX,
		  on_done, &one);
	WAIT(f, one.done);
	CHECK_EQ(one.code, RPC_OK);
	buf_release(&one.raw);
}

static void test_terminate(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct ask one = { 0 };

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "host-a");
	terminate(&f, "S"); /* nothing to end: nothing is remembered */
	start(&f, &one, "S", 3600000, 0);
	WAIT(&f, a.arms);
	CHECK_EQ(a.duration_ns, 3600 * NS_PER_S);
	terminate(&f, "other");
	terminate(&f, "S");
	WAIT(&f, a.stops == 1);
	CHECK_EQ(fake_upload(&a, 1, 10, FLAW_NONE), RPC_OK);
	fake_result(&a, true, "", "");
	CHECK_EQ(finish(&f, &one)->n_tool_data, 1);
	release(&one);
	fleet_stop(&f);
}

/* Trust: a capture of the page is not a client's to end. */
static void test_terminate_foreign_capture(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true };
	const struct capture_request req = { .duration_ns = 3600 * NS_PER_S, .origin = "page" };
	struct capture *c;
	struct err e;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "host-a");
	CHECK_OK(capture_begin(f.agg.captures, &req, &c, &e), e);
	WAIT(&f, a.arms);
	terminate(&f, c->session);
	CHECK_EQ(a.stops, 0);
	CHECK_EQ(c->duration_ns, 3600 * NS_PER_S);
	capture_cancel(c);
	fleet_stop(&f);
}

/* Trust: two peers may choose the same name; each ends only its own capture. */
static void test_terminate_foreign_peer(void)
{
	struct rpc_channel_opts opts = { .lane = "test" };
	struct rpc_channel *own;
	struct rpc *other;
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct ask one = { 0 };
	char target[40];
	struct err e;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "host-a");
	start(&f, &one, "S", 3600000, 0);
	WAIT(&f, a.arms);
	own = f.channel;
	snprintf(target, sizeof(target), "127.0.0.1:%d", f.agg.grpc_port);
	opts.target = target;
	other = virtual_foreign_rpc(f.loop);
	if (other) {
		CHECK_OK(rpc_channel_new(&f.channel, other, &opts, &e), e);
		terminate(&f, "S");
		terminate(&f, a.session);
		run_for(f.loop, NS_PER_S); /* a Stop would be on its way */
		CHECK_EQ(a.stops, 0);
		CHECK_EQ(capture_find(f.agg.captures, a.session)->duration_ns, 3600 * NS_PER_S);
		rpc_channel_free(f.channel);
		virtual_foreign_rpc_free(other);
		f.channel = own;
	}
	terminate(&f, a.session);
	WAIT(&f, a.stops == 1);
	CHECK_EQ(fake_upload(&a, 1, 10, FLAW_NONE), RPC_OK);
	fake_result(&a, true, "", "");
	CHECK_EQ(finish(&f, &one)->n_tool_data, 1);
	release(&one);
	fleet_stop(&f);
}

static enum rpc_code send_request(struct fleet *f, const void *data, size_t len)
{
	struct ask one = { 0 };
	enum rpc_code code;

	rpc_unary(f->channel, "/tensorflow.ProfilerService/Profile", data, len, INT64_MAX, on_done,
		  &one);
	WAIT(f, one.done);
	code = one.code;
	release(&one);
	return code;
}

static enum rpc_code send_session_id(struct fleet *f, size_t len)
{
	Tensorflow__ProfileRequest r = TENSORFLOW__PROFILE_REQUEST__INIT;
	char *name = xmalloc(len + 1);
	uint8_t *data = xmalloc(len + 64);
	enum rpc_code code;

	memset(name, 'x', len);
	name[len] = '\0';
	r.session_id = name;
	r.duration_ms = 1000;
	code = send_request(f, data, tensorflow__profile_request__pack(&r, data));
	free(data);
	free(name);
	return code;
}

/* Trust: 96 calls with a session_id of megabytes cost 688 MiB. */
static void test_session_id_bounded(void)
{
	struct fleet f;
	enum rpc_code code;

	fleet_start(&f, 0, 0);
	CHECK_EQ(send_session_id(&f, LIMIT_PROFILE_BYTES), RPC_RESOURCE_EXHAUSTED);
	CHECK_EQ(send_session_id(&f, LIMIT_CLIENT_SESSION + 1), RPC_INVALID_ARGUMENT);
	CHECK_EQ(send_session_id(&f, LIMIT_CLIENT_SESSION), RPC_OK);
	/* the caller is banned for so much, if that is noticed before the answer has reached it */
	code = send_session_id(&f, 3 << 20);
	CHECK(code == RPC_RESOURCE_EXHAUSTED || code == RPC_UNAVAILABLE);
	fleet_stop(&f);
}

/* Trust: empty submessages cost a hundred times their size. */
static void test_submessages_bounded(void)
{
	size_t len = 100 << 10;
	uint8_t *data = xmalloc(len);
	struct fleet f;

	for (size_t i = 0; i < len; i += 2)
		memcpy(data + i, "\x42\x00", 2);
	fleet_start(&f, 0, 0);
	CHECK_EQ(send_request(&f, data, len), RPC_INVALID_ARGUMENT);
	fleet_stop(&f);
	free(data);
}

static void test_monitor(void)
{
	struct fleet f;
	struct fake a = { 0 };
	struct ask one = { 0 };
	Tensorflow__MonitorResponse *r;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "host-a");
	rpc_unary(f.channel, "/tensorflow.ProfilerService/Monitor", "", 0, INT64_MAX, on_done,
		  &one);
	WAIT(&f, one.done);
	CHECK_EQ(one.code, RPC_OK);
	r = tensorflow__monitor_response__unpack(NULL, one.raw.len, one.raw.data);
	CHECK(r);
	CHECK(strstr(r->data, "1 of 1 hosts connected"));
	CHECK(strstr(r->data, "host-a"));
	tensorflow__monitor_response__free_unpacked(r, NULL);
	release(&one);
	fleet_stop(&f);
}

/* ---- continuous profiling ---- */

static void call(struct fleet *f, struct ask *a, const char *method, const void *data, size_t len)
{
	char path[80];

	snprintf(path, sizeof(path), "/tensorflow.ProfilerService/%s", method);
	a->call = rpc_unary(f->channel, path, data, len, INT64_MAX, on_done, a);
}

static void call_empty(struct fleet *f, const char *method)
{
	struct ask one = { 0 };

	call(f, &one, method, "", 0);
	WAIT(f, one.done);
	CHECK_EQ(one.code, RPC_OK);
	CHECK_EQ(one.raw.len, 0);
	release(&one);
}

/* A snapshot by `method`; returns the begin of its window. */
static int64_t snapshot(struct fleet *f, struct fake *a, const char *method)
{
	struct ask one = { 0 };
	response_msg *r;

	call(f, &one, method, "", 0);
	r = finish(f, &one);
	CHECK_EQ(r->n_tool_data, 1);
	CHECK_STR(r->tool_data[0]->name, "host-a.xplane.pb");
	CHECK(!r->xspace);
	release(&one);
	return a->t0_ns;
}

static void pass(struct fleet *f, int64_t ns)
{
	int64_t until_ns = now_mono_ns() + ns;

	WAIT(f, now_mono_ns() >= until_ns);
}

/* Without Start and after Stop each snapshot has the last 30 s; between them no gap and nothing twice. */
static void test_series(void)
{
	struct fleet f;
	struct fake a = { .auto_deliver = true };
	int64_t t0_ns, end_ns;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "host-a");
	t0_ns = snapshot(&f, &a, "GetSnapshot");
	CHECK_EQ(a.duration_ns, 30 * NS_PER_S);
	CHECK(t0_ns + a.duration_ns <= session_clock_now(&f.agg.clock));
	call_empty(&f, "StartContinuousProfiling");
	end_ns = snapshot(&f, &a, "GetSnapshot") + a.duration_ns;
	CHECK_EQ(a.duration_ns, 30 * NS_PER_S);
	pass(&f, 100 * NS_PER_MS);
	for (int i = 0; i < 3; i++) {
		pass(&f, 70 * NS_PER_MS);
		CHECK_EQ(snapshot(&f, &a, i % 2 ? "GetSnapShot" : "GetSnapshot"), end_ns);
		CHECK(a.duration_ns >= 70 * NS_PER_MS);
		end_ns += a.duration_ns;
	}
	call_empty(&f, "StopContinuousProfiling");
	call_empty(&f, "StopContinuousProfiling");
	CHECK(snapshot(&f, &a, "GetSnapshot") < end_ns);
	CHECK_EQ(a.duration_ns, 30 * NS_PER_S);
	fleet_stop(&f);
}

/* Two calls of one client at the same time are one capture; a window that was lost is part of the next one. */
static void test_series_repeated(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct ask one = { 0 }, two = { 0 };
	int64_t t0_ns;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "host-a");
	call_empty(&f, "ContinuousProfiling");
	call(&f, &one, "GetSnapshot", "", 0);
	call(&f, &two, "GetSnapshot", "", 0);
	WAIT(&f, a.arms);
	t0_ns = a.t0_ns;
	fake_result(&a, false, "disk-full", "the spool is full");
	check_error(&f, &one, "host-a is missing: disk-full");
	check_error(&f, &two, "host-a is missing: disk-full");
	CHECK_EQ(a.arms, 1);
	pass(&f, 100 * NS_PER_MS);
	a.auto_deliver = true;
	CHECK_EQ(snapshot(&f, &a, "GetSnapshot"), t0_ns);
	CHECK(a.duration_ns >= 30 * NS_PER_S + 100 * NS_PER_MS);
	fleet_stop(&f);
}

/* As Start asks: all hosts in one XSpace. No agent: explained. A bad name, and a Start that is no ProfileRequest. */
static void test_series_odd(void)
{
	Tensorflow__ProfileRequest start_request = TENSORFLOW__PROFILE_REQUEST__INIT;
	struct fleet f;
	struct fake a = { .auto_deliver = true };
	struct ask one = { 0 };
	uint8_t data[16];
	size_t len;

	start_request.emit_xspace = true;
	len = tensorflow__profile_request__pack(&start_request, data);
	fleet_start(&f, 0, 0);
	call(&f, &one, "GetSnapshot", "", 0);
	check_error(&f, &one, "no agent is connected");
	call(&f, &one, "StartContinuousProfiling", data, len);
	WAIT(&f, one.done);
	CHECK_EQ(one.code, RPC_OK);
	release(&one);
	fake_connect(&a, &f, "host-a");
	call(&f, &one, "GetSnapshot", "", 0);
	WAIT(&f, one.done);
	CHECK_EQ(one.code, RPC_OK);
	CHECK(one.raw.len > 2000);
	CHECK_EQ(one.raw.data[0], 0x42); /* xspace; the fake's file is none */
	release(&one);
	call(&f, &one, "StartContinuousProfiling", "\xff\xff", 2);
	WAIT(&f, one.done);
	CHECK_EQ(one.code, RPC_INVALID_ARGUMENT);
	release(&one);
	call(&f, &one, "GetSnapshot", "\x0a\x01\x07", 3);
	WAIT(&f, one.done);
	CHECK_EQ(one.code, RPC_INVALID_ARGUMENT);
	release(&one);
	fleet_stop(&f);
}

int main(void)
{
	test_two_hosts();
	test_one_fails();
	test_explained();
	test_malformed();
	test_patience();
	test_same_session();
	test_queued();
	test_client_leaves();
	test_terminate();
	test_terminate_foreign_capture();
	test_terminate_foreign_peer();
	test_session_id_bounded();
	test_submessages_bounded();
	test_monitor();
	test_series();
	test_series_repeated();
	test_series_odd();
	return 0;
}
