/* SPDX-License-Identifier: Apache-2.0 */
/* The local socket, from the side of a process: status, marks, start and stop. */
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "agent/link/control.h"
#include "agent/local/local_service.h"
#include "agent/marks/marks.h"
#include "base/conf.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/local_socket.h"
#include "net/rpc.h"
#include "proto/limits.h"
#include "proto/tutti/v1/local.pb-c.h"
#include "tests/lib/check.h"
#include "tests/unit/agent/core_fixture.h"

static const struct tracer_ops *const fakes[] = { &fake_now_ops, NULL };

struct rig {
	struct fixture f;
	struct rpc *rpc;
	struct control *control;
	struct local_service *service;
	char *url;
};

/* The client blocks: it has a thread of its own, and the test turns the loop meanwhile. */
struct client {
	const char *url;
	const void *request;
	size_t len;
	Tutti__V1__LocalReply *reply;
	atomic_bool over;
};

static void *ask(void *arg)
{
	struct client *c = arg;
	struct local_client *socket;
	uint8_t *bytes;
	size_t len;
	struct err e;

	CHECK_OK(local_client_open(&socket, c->url, &e), e);
	CHECK_OK(local_client_call(socket, c->request, c->len, 20 * NS_PER_S, &bytes, &len, &e), e);
	c->reply = tutti__v1__local_reply__unpack(NULL, len, bytes);
	CHECK(c->reply);
	free(bytes);
	local_client_close(socket);
	atomic_store(&c->over, true);
	return NULL;
}

static bool is_over(void *arg)
{
	struct client *c = arg;

	return atomic_load(&c->over);
}

static Tutti__V1__LocalReply *ask_bytes(struct rig *g, const void *data, size_t len)
{
	struct client c = { .url = g->url, .request = data, .len = len };
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, ask, &c));
	fixture_until(&g->f, is_over, &c);
	pthread_join(thread, NULL);
	return c.reply;
}

static Tutti__V1__LocalReply *ask_message(struct rig *g, const Tutti__V1__LocalRequest *m)
{
	uint8_t bytes[4096];

	CHECK(tutti__v1__local_request__get_packed_size(m) <= sizeof(bytes));
	return ask_bytes(g, bytes, tutti__v1__local_request__pack(m, bytes));
}

static void up(struct rig *g)
{
	static const struct conf_list no_labels;
	struct link_env link = {
		.host = "host-a",
		.aggregator = "127.0.0.1:1",
		.labels = &no_labels,
		.profiler_address = "",
		.reconnect_max_ns = 20 * NS_PER_S,
	};
	struct local_env env = { .host = link.host, .aggregator = link.aggregator };
	struct fixture *f = &g->f;
	struct err e;

	fixture_up(f, fakes, 1 << 20);
	CHECK_OK(rpc_new(&g->rpc, f->loop, &e), e);
	link.loop = env.loop = f->loop;
	link.rpc = g->rpc;
	link.clock = env.clock = f->clock;
	link.marks = env.marks = f->marks;
	link.spool = f->spool;
	link.captures = f->captures;
	link.tracers = env.tracers = f->tracers;
	CHECK_OK(control_new(&g->control, &link, &e), e);
	env.control = g->control;
	env.url = g->url = xasprintf("ipc://%s/socket/agent.ipc", f->dir);
	CHECK_OK(local_service_new(&g->service, &env, &e), e);
}

static void down(struct rig *g)
{
	local_service_free(g->service);
	control_free(g->control);
	captures_free(g->f.captures);
	g->f.captures = NULL;
	rpc_free(g->rpc);
	fixture_down(&g->f);
	free(g->url);
}

static void test_status(struct rig *g)
{
	Tutti__V1__LocalRequest m = TUTTI__V1__LOCAL_REQUEST__INIT;
	Tutti__V1__LocalStatus status = TUTTI__V1__LOCAL_STATUS__INIT;
	Tutti__V1__LocalReply *reply;
	json_t *j;

	m.kind_case = TUTTI__V1__LOCAL_REQUEST__KIND_STATUS;
	m.status = &status;
	reply = ask_message(g, &m);
	CHECK(reply->ok);
	j = json_loads(reply->json, 0, NULL);
	CHECK_STR(json_string_value(json_object_get(j, "host")), "host-a");
	CHECK(json_is_false(json_object_get(j, "connected")));
	CHECK(json_is_false(json_object_get(json_object_get(j, "clock"), "calibrated")));
	CHECK_EQ(json_array_size(json_object_get(j, "tracers")), 1);
	CHECK_EQ(json_array_size(json_object_get(j, "captures")), 0);
	json_decref(j);
	tutti__v1__local_reply__free_unpacked(reply, NULL);
}

/* ---- marks ---- */

static bool count_mark(void *arg, const struct ring_record *record)
{
	struct mark mark = mark_of_record(record);
	int *n = arg;

	CHECK_STR(mark.text, "step 7");
	CHECK_EQ(mark.pid, *n == 2 ? getppid() : getpid());
	CHECK_EQ(mark.tid, mark.pid);
	++*n;
	return true;
}

static bool send_mark_of(struct rig *g, int32_t pid, const char *text, int64_t raw_ns)
{
	Tutti__V1__LocalRequest m = TUTTI__V1__LOCAL_REQUEST__INIT;
	Tutti__V1__LocalMark mark = TUTTI__V1__LOCAL_MARK__INIT;
	Tutti__V1__LocalReply *reply;
	bool ok;

	mark.text = (char *)text;
	mark.raw_ns = raw_ns;
	mark.pid = mark.tid = pid;
	m.kind_case = TUTTI__V1__LOCAL_REQUEST__KIND_MARK;
	m.mark = &mark;
	reply = ask_message(g, &m);
	ok = reply->ok;
	CHECK(ok == !*reply->detail);
	tutti__v1__local_reply__free_unpacked(reply, NULL);
	return ok;
}

/* In the name of process 1. */
static bool send_mark(struct rig *g, const char *text, int64_t raw_ns)
{
	return send_mark_of(g, 1, text, raw_ns);
}

static void test_marks(struct rig *g)
{
	char *too_long = xmalloc(LIMIT_MARK_BYTES + 2);
	int64_t before = now_raw_ns();
	struct ring_cut *cut;
	int n = 0;

	memset(too_long, 'x', LIMIT_MARK_BYTES + 1);
	too_long[LIMIT_MARK_BYTES + 1] = '\0';
	CHECK(send_mark(g, "step 7", 0));
	CHECK(send_mark(g, "step 7", before + 1));
	CHECK(send_mark_of(g, getppid(), "step 7", before + 2));
	CHECK(!send_mark(g, "step 7", before + 3600 * NS_PER_S));
	/* Negative while the machine is younger than that. */
	CHECK(!send_mark(g, "step 7", before - MARK_AGE_NS - NS_PER_S));
	CHECK(!send_mark(g, "step 7", -1));
	CHECK(!send_mark(g, too_long, 0));
	CHECK(!send_mark(g, "\xc3(", 0));
	cut = ring_cut_new(marks_ring(g->f.marks), before, now_raw_ns() + 1);
	ring_cut_each(cut, count_mark, &n);
	ring_cut_free(cut);
	CHECK_EQ(n, 3);
	free(too_long);
}

/* ---- start and stop: there is no aggregator, and the reply reports it ---- */

static void test_start_and_stop(struct rig *g)
{
	Tutti__V1__LocalRequest m = TUTTI__V1__LOCAL_REQUEST__INIT;
	Tutti__V1__LocalStart start = TUTTI__V1__LOCAL_START__INIT;
	Tutti__V1__LocalStop stop = TUTTI__V1__LOCAL_STOP__INIT;
	Tutti__V1__LocalReply *reply;

	start.duration_ns = NS_PER_S;
	m.kind_case = TUTTI__V1__LOCAL_REQUEST__KIND_START;
	m.start = &start;
	reply = ask_message(g, &m);
	CHECK(!reply->ok && strstr(reply->detail, "not connected"));
	tutti__v1__local_reply__free_unpacked(reply, NULL);

	/* The aggregator would end the host's link for such a token. */
	start.token = (char *)"a\x01token";
	reply = ask_message(g, &m);
	CHECK(!reply->ok && strstr(reply->detail, "token"));
	tutti__v1__local_reply__free_unpacked(reply, NULL);

	stop.session = (char *)"2026_11_21_12_00_00_abc123";
	m.kind_case = TUTTI__V1__LOCAL_REQUEST__KIND_STOP;
	m.stop = &stop;
	reply = ask_message(g, &m);
	CHECK(!reply->ok && strstr(reply->detail, "not connected"));
	tutti__v1__local_reply__free_unpacked(reply, NULL);

	stop.session = (char *)"../../etc/passwd";
	reply = ask_message(g, &m);
	CHECK(!reply->ok && strstr(reply->detail, "session"));
	tutti__v1__local_reply__free_unpacked(reply, NULL);
}

static void test_garbage(struct rig *g)
{
	Tutti__V1__LocalReply *reply = ask_bytes(g, "\xff\xff\xff", 3);

	CHECK(!reply->ok && *reply->detail);
	tutti__v1__local_reply__free_unpacked(reply, NULL);
	/* Field 15: a request of a newer version. */
	reply = ask_bytes(g, "\x7a\x00", 2);
	CHECK(!reply->ok && strstr(reply->detail, "older"));
	tutti__v1__local_reply__free_unpacked(reply, NULL);
}

static void test_no_socket(void)
{
	const struct local_env env = { .url = "" };
	struct local_service *s;
	struct err e;

	CHECK_OK(local_service_new(&s, &env, &e), e);
	CHECK(!s);
	local_service_free(s);
}

int main(void)
{
	struct rig g;

	up(&g);
	test_status(&g);
	test_marks(&g);
	test_start_and_stop(&g);
	test_garbage(&g);
	down(&g);
	test_no_socket();
	return 0;
}
