/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/fake_profiler.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/rpc.h"
#include "proto/limits.h"
#include "proto/profiler_request.h"
#include "xspace/xspace.h"

const char *const fake_mode_names[FAKE_MODES] = {
	[FAKE_GOOD] = "good",
	[FAKE_OLD] = "old",
	[FAKE_OLD_PLUGINS] = "old-plugins",
	[FAKE_OLD_DEAF] = "old-deaf",
	[FAKE_OLD_LOST] = "old-lost",
	[FAKE_UNDATED] = "undated",
	[FAKE_EMPTY] = "empty",
	[FAKE_BUSY] = "busy",
	[FAKE_BROKEN] = "broken",
	[FAKE_HANGS] = "hangs",
	[FAKE_GARBAGE] = "garbage",
	[FAKE_NO_XSPACE] = "no-xspace",
	[FAKE_HUGE] = "huge",
	[FAKE_OTHER] = "other",
};

struct fake_profiler {
	struct loop *loop;
	struct rpc_server *server;
	enum fake_mode mode;
	struct fake_seen seen;
	const char *file; /* to give instead; NULL = none */
	int64_t delay_ns; /* of the answer */
	int64_t continuous_real_ns; /* since when it records all the time; 0 = it does not */
	struct session *sessions;
};

/* A Profile call under way. */
struct session {
	struct session *next;
	struct fake_profiler *f;
	struct rpc_call *call;
	struct loop_timer timer;
	Tensorflow__ProfileRequest *request;
	int64_t start_real_ns;
	bool answered;
};

/* ---- what it records ---- */

static void record_steps(struct xs_builder *b, struct session *s, int64_t stop_real_ns)
{
	static const char ballast[1000];
	bool huge = s->f->mode == FAKE_HUGE;
	int64_t step_ns = huge ? 50 * NS_PER_US : NS_PER_MS;
	int64_t last = huge ? NS_PER_S : stop_real_ns - s->start_real_ns;

	xs_plane(b, 1, "/host:CPU");
	xs_line(b, 4711, "main", 0);
	for (int64_t i = 0; i < 100000 && i * step_ns < last; i++) {
		xs_event(b, "fake_step", i * step_ns * 1000, step_ns * 500);
		if (huge)
			xs_stat_bytes(b, "ballast", ballast, sizeof(ballast));
	}
}

static void add_file(const char *path, struct buf *out)
{
	FILE *f = fopen(path, "re");
	size_t n;

	while (f && !ferror(f) && !feof(f)) {
		buf_reserve(out, 1 << 20);
		n = fread(out->data + out->len, 1, 1 << 20, f);
		out->len += n;
	}
	if (f)
		fclose(f);
}

static void record(struct session *s, struct buf *out)
{
	struct xs_builder *b = xs_builder_new();
	int64_t now = now_real_ns();

	if (s->f->file && s->f->mode == FAKE_GOOD)
		add_file(s->f->file, out);
	else if (s->f->mode != FAKE_EMPTY)
		record_steps(b, s, now);
	if (s->f->mode != FAKE_EMPTY && s->f->mode != FAKE_UNDATED) {
		xs_plane(b, 2, "Task Environment");
		xs_stat_uint(b, "profile_start_time", (uint64_t)s->start_real_ns);
		xs_stat_uint(b, "profile_stop_time", (uint64_t)now);
	}
	if (s->f->mode != FAKE_EMPTY)
		xs_hostname(b, "fake-host");
	xs_finish(b, out);
	xs_builder_free(b);
}

static void make_dirs(char *path)
{
	for (char *p = path + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		mkdir(path, 0700);
		*p = '/';
	}
}

/* As servers before emit_xspace do. */
static void write_file(struct session *s, const struct buf *xspace)
{
	char *path = xasprintf("%s/%s%s/%s.xplane.pb", s->request->repository_root,
			       s->f->mode == FAKE_OLD_PLUGINS ? "plugins/profile/" : "",
			       s->request->session_id, s->request->host_name);
	FILE *f;

	make_dirs(path);
	f = s->f->file ? NULL : fopen(path, "we");
	if (s->f->file && link(s->f->file, path))
		fprintf(stderr, "link %s: %m\n", path);
	if (f) {
		fwrite(xspace->data, 1, xspace->len, f);
		fclose(f);
	}
	free(path);
}

/* ---- Profile ---- */

static void answer_xspace(struct session *s, const void *data, size_t len)
{
	uint8_t head[1 + 10] = { 8 << 3 | 2 };
	size_t head_len = 1 + varint_put(head + 1, len);
	struct buf reply = BUF_INIT;

	buf_add(&reply, head, head_len);
	buf_add(&reply, data, len);
	rpc_send(s->call, reply.data, reply.len);
	buf_release(&reply);
	rpc_finish(s->call, RPC_OK, "");
}

static void answer_bytes(struct session *s, const char *bytes, size_t len)
{
	rpc_send(s->call, bytes, len);
	rpc_finish(s->call, RPC_OK, "");
}

static void session_free(struct session *s)
{
	struct session **at = &s->f->sessions;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	loop_timer_cancel(s->f->loop, &s->timer);
	if (s->request)
		tensorflow__profile_request__free_unpacked(s->request, NULL);
	free(s);
}

static void session_answer(void *arg)
{
	struct session *s = arg;
	struct buf xspace = BUF_INIT;

	if (s->answered)
		return;
	s->answered = true;
	record(s, &xspace);
	switch (s->f->mode) {
	case FAKE_OLD:
	case FAKE_OLD_PLUGINS:
	case FAKE_OLD_DEAF:
		write_file(s, &xspace);
		if (s->call)
			answer_bytes(s, "", 0);
		else
			session_free(s);
		break;
	case FAKE_OLD_LOST:
		answer_bytes(s, "", 0);
		break;
	case FAKE_GARBAGE:
		answer_bytes(s, "\xff\xff\xff\xff\xff garbage", 13);
		break;
	case FAKE_NO_XSPACE:
		answer_xspace(s, "\x0a\x7f not that long", 16);
		break;
	default:
		answer_xspace(s, xspace.data ? xspace.data : (const void *)"", xspace.len);
		break;
	}
	buf_release(&xspace);
}

static void session_begin(struct session *s)
{
	const Tensorflow__ProfileOptions *o = s->request->opts;
	int64_t now = now_real_ns();
	int64_t start = o ? (int64_t)o->start_timestamp_ns : 0;
	int64_t duration = o ? (int64_t)o->duration_ms * NS_PER_MS : 0;

	s->start_real_ns = start > now ? start : now;
	if (s->f->mode != FAKE_HANGS)
		loop_timer_in(s->f->loop, &s->timer,
			      s->start_real_ns - now + duration + s->f->delay_ns, session_answer,
			      s);
}

static void profile_opened(struct rpc_call *call)
{
	struct fake_profiler *f = rpc_arg(call);
	struct session *s = xcalloc(1, sizeof(*s));

	s->f = f;
	s->call = call;
	s->next = f->sessions;
	f->sessions = s;
	rpc_set_arg(call, s);
}

/* A framework records one session at a time. */
static bool is_busy(const struct fake_profiler *f)
{
	for (const struct session *s = f->sessions; s; s = s->next) {
		if (loop_timer_armed(&s->timer))
			return true;
	}
	return f->mode == FAKE_BUSY || f->continuous_real_ns;
}

static bool profile_message(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct session *s = rpc_arg(call);
	struct fake_profiler *f = s->f;
	size_t len;
	const uint8_t *data = rpc_msg_data(msg, &len);

	s->request = tensorflow__profile_request__unpack(NULL, len, data);
	if (f->seen.request)
		tensorflow__profile_request__free_unpacked(f->seen.request, NULL);
	f->seen.request = tensorflow__profile_request__unpack(NULL, len, data);
	f->seen.profiles++;
	if (!s->request)
		rpc_finish(call, RPC_INVALID_ARGUMENT, "no ProfileRequest");
	else if (is_busy(f))
		rpc_finish(call, RPC_INTERNAL, "Another profiling session active.");
	else if (f->mode == FAKE_BROKEN)
		rpc_finish(call, RPC_INTERNAL, "the tracer fell over");
	else
		session_begin(s);
	return true;
}

static void profile_closed(struct rpc_call *call, const struct rpc_status *st)
{
	struct session *s = rpc_arg(call);

	s->f->seen.cancelled += st->code == RPC_CANCELLED;
	s->call = NULL;
	if (s->f->mode != FAKE_OLD_DEAF || !loop_timer_armed(&s->timer))
		session_free(s);
}

/* ---- continuous profiling ---- */

static void finish_empty(struct rpc_call *call)
{
	rpc_send(call, "", 0);
	rpc_finish(call, RPC_OK, "");
}

static bool start_message(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct fake_profiler *f = rpc_arg(call);

	(void)msg;
	f->seen.starts++;
	if (f->continuous_real_ns) {
		rpc_finish(call, RPC_ALREADY_EXISTS, "A profiling session is already running.");
	} else if (is_busy(f)) {
		rpc_finish(call, RPC_INTERNAL, "Another profiling session active.");
	} else {
		f->continuous_real_ns = now_real_ns();
		finish_empty(call);
	}
	return true;
}

static bool stop_message(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct fake_profiler *f = rpc_arg(call);

	(void)msg;
	f->seen.stops++;
	if (f->continuous_real_ns)
		finish_empty(call);
	else
		rpc_finish(call, RPC_NOT_FOUND, "No continuous profiling session found.");
	f->continuous_real_ns = 0;
	return true;
}

static bool snapshot_message(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct session *s = rpc_arg(call);
	struct fake_profiler *f = s->f;

	(void)msg;
	f->seen.snapshots++;
	if (!f->continuous_real_ns) {
		rpc_finish(call, RPC_NOT_FOUND, "No continuous profiling session found.");
		return true;
	}
	s->start_real_ns = f->continuous_real_ns;
	f->continuous_real_ns = now_real_ns();
	session_answer(s);
	return true;
}

/* ---- Terminate ---- */

static bool terminate_message(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct fake_profiler *f = rpc_arg(call);
	size_t len;
	const uint8_t *data = rpc_msg_data(msg, &len);
	Tensorflow__TerminateRequest *m = tensorflow__terminate_request__unpack(NULL, len, data);

	f->seen.terminates++;
	if (m) {
		snprintf(f->seen.terminated, sizeof(f->seen.terminated), "%s", m->session_id);
		for (struct session *s = f->sessions; s; s = s->next) {
			if (f->mode != FAKE_OLD_DEAF && s->request &&
			    !strcmp(s->request->session_id, m->session_id) &&
			    loop_timer_armed(&s->timer))
				loop_timer_in(f->loop, &s->timer, 0, session_answer, s);
		}
		tensorflow__terminate_request__free_unpacked(m, NULL);
	}
	rpc_send(call, "", 0);
	rpc_finish(call, RPC_OK, "");
	return true;
}

static const struct rpc_events profile_events = {
	.opened = profile_opened,
	.message = profile_message,
	.closed = profile_closed,
};
static const struct rpc_events terminate_events = { .message = terminate_message };
static const struct rpc_events start_events = { .message = start_message };
static const struct rpc_events stop_events = { .message = stop_message };
static const struct rpc_events snapshot_events = {
	.opened = profile_opened,
	.message = snapshot_message,
	.closed = profile_closed,
};

int fake_profiler_new(struct fake_profiler **out, struct loop *loop, struct rpc *rpc,
		      enum fake_mode mode, const char *address, int *port, struct err *e)
{
	struct fake_profiler *f = xcalloc(1, sizeof(*f));
	struct rpc_method methods[] = {
		{ "/tensorflow.ProfilerService/Profile", &profile_events, f, LIMIT_REQUEST_BYTES },
		{ "/tensorflow.ProfilerService/Terminate", &terminate_events, f,
		  LIMIT_REQUEST_BYTES },
		{ PROFILER_START_CONTINUOUS, &start_events, f, LIMIT_REQUEST_BYTES },
		{ PROFILER_STOP_CONTINUOUS, &stop_events, f, LIMIT_REQUEST_BYTES },
		{ PROFILER_GET_SNAPSHOT, &snapshot_events, f, LIMIT_REQUEST_BYTES },
	};
	size_t n = mode == FAKE_OTHER ? 0 : mode == FAKE_GOOD ? ARRAY_SIZE(methods) : 2;
	struct rpc_server_opts opts = {
		.address = address,
		.max_message_bytes = LIMIT_REQUEST_BYTES,
	};
	int rc;

	f->loop = loop;
	f->mode = mode;
	rc = rpc_server_new(&f->server, rpc, &opts, methods, n, port, e);
	if (rc)
		free(f);
	else
		*out = f;
	return rc;
}

void fake_profiler_give(struct fake_profiler *f, const char *path)
{
	f->file = path;
}

void fake_profiler_delay(struct fake_profiler *f, int64_t delay_ns)
{
	f->delay_ns = delay_ns;
}

void fake_profiler_free(struct fake_profiler *f)
{
	if (!f)
		return;
	rpc_server_free(f->server);
	if (f->seen.request)
		tensorflow__profile_request__free_unpacked(f->seen.request, NULL);
	free(f);
}

const struct fake_seen *fake_profiler_seen(const struct fake_profiler *f)
{
	return &f->seen;
}
