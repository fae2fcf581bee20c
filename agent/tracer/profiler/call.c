/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/profiler/call.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/tracer/profiler/file.h"
#include "proto/profiler_request.h"
#include "agent/tracer/profiler/store.h"
#include "agent/tracer/profiler/lane.h"
#include "agent/tracer/profiler/sweep.h"
#include "base/clean_text.h"
#include "base/buf.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/rpc.h"
#include "proto/limits.h"
#include "proto/reasons.h"

/* How long before the window the server is called: enough to connect and to start, but not more, because a
 * waiting server holds the profiler lock of its process and does not react to other calls. */
#define CALL_AHEAD_NS	      (1500 * NS_PER_MS)
#define TERMINATE_DEADLINE_NS (2 * NS_PER_S)
/* How often to look for an older server's file: it is written before the answer, but a network file system
 * may show it later. */
#define FILE_RETRY_NS (200 * NS_PER_MS)
#define FILE_TRIES    10

/*
 *   waiting -> called -> storing -> done
 *                    \-> fetching an older server's file, several tries -> done
 * A freed call stays allocated until its callbacks have come.
 */
enum step { WAITING, CALLED, STORING, FETCHING, DONE };

struct profiler_call {
	struct loop *loop;
	struct rpc *rpc;
	struct sweep *sweep;
	struct lane *lane;
	int *live;
	struct rpc_channel *channel;
	struct rpc_call *call;
	struct loop_timer timer;
	enum step step;
	int refs; /* the owner's, and one for each callback to come */
	bool freed, terminated;
	bool snapshot;
	int file_tries;

	char *address, *host, *dir;
	char *repository, *path;
	char session[PROFILER_SESSION_BYTES];
	int64_t pid;
	int64_t t0_raw_ns, t1_raw_ns, t0_real_ns, give_up_mono_ns;
	int64_t sent_real_ns;
	int64_t early_ns; /* how long before the window's end the answer came */
	void *options;
	size_t options_len, max_reply_bytes;

	struct profiler_store store; /* while STORING or FETCHING only the worker uses it */
	struct profiler_result result;
	bool (*reserve_bytes)(void *arg, uint64_t bytes);
	void (*done)(void *arg);
	void *arg;
};

static void call_send(void *arg);
static void call_fetch_file(void *arg);

/* ---- life ---- */

static void call_put(struct profiler_call *c)
{
	if (--c->refs)
		return;
	assert(c->freed);
	--*c->live;
	rpc_channel_free(c->channel);
	if (c->result.path)
		unlink(c->result.path);
	free(c->result.path);
	free(c->path);
	free(c->repository);
	free(c->address);
	free(c->host);
	free(c->dir);
	free(c->options);
	free(c);
}

static char *unique_path(const char *dir, const char *prefix)
{
	char name[PROFILER_SESSION_BYTES];

	profiler_session_name(prefix, name);
	return xasprintf("%s/%s", dir, name);
}

/* Leaves time to store the reply before the capture gives up. */
static int64_t choose_deadline(const struct profiler_call_conf *conf)
{
	int64_t slack = conf->give_up_mono_ns - now_mono_of_raw(conf->t1_raw_ns);
	int64_t reserve = slack / 8;

	if (reserve < 0)
		reserve = 0;
	if (reserve > NS_PER_S)
		reserve = NS_PER_S;
	return conf->give_up_mono_ns - reserve;
}

struct profiler_call *profiler_call_start(const struct profiler_call_conf *conf)
{
	struct profiler_call *c = xcalloc(1, sizeof(*c));
	char *prefix = xasprintf("tutti_%.80s", conf->session);

	c->loop = conf->loop;
	c->rpc = conf->rpc;
	c->sweep = conf->sweep;
	c->lane = conf->lane;
	c->live = conf->live;
	c->snapshot = conf->snapshot;
	c->address = xstrdup(conf->address);
	c->host = xstrdup(conf->host);
	c->dir = realpath(conf->dir, NULL); /* the server has a working directory of its own */
	if (!c->dir)
		c->dir = xstrdup(conf->dir);
	c->pid = conf->pid;
	c->t0_raw_ns = conf->t0_raw_ns;
	c->t1_raw_ns = conf->t1_raw_ns;
	c->t0_real_ns = conf->t0_real_ns;
	c->give_up_mono_ns = choose_deadline(conf);
	c->options = xmalloc(conf->options_len + 1);
	if (conf->options_len)
		memcpy(c->options, conf->options, conf->options_len);
	c->options_len = conf->options_len;
	c->max_reply_bytes = conf->max_reply_bytes ? conf->max_reply_bytes : LIMIT_RESPONSE_BYTES;
	c->reserve_bytes = conf->reserve_bytes;
	c->done = conf->done;
	c->arg = conf->arg;
	c->result.reason = "";
	profiler_session_name(prefix, c->session);
	c->repository = unique_path(c->dir, "profiler");
	c->path = xasprintf("%s.xplane.pb", c->repository);
	c->refs = 1;
	++*c->live;
	loop_timer_at(c->loop, &c->timer, now_mono_of_raw(c->t0_raw_ns) - CALL_AHEAD_NS, call_send,
		      c);
	free(prefix);
	return c;
}

void profiler_call_set_pid(struct profiler_call *c, int64_t pid)
{
	c->pid = pid;
}

bool profiler_call_is_done(const struct profiler_call *c)
{
	return c->step == DONE;
}

struct profiler_result *profiler_call_result(struct profiler_call *c)
{
	return &c->result;
}

static void call_done(struct profiler_call *c)
{
	c->step = DONE;
	loop_timer_cancel(c->loop, &c->timer);
	if (!c->freed)
		c->done(c->arg);
}

static void call_fail(struct profiler_call *c, const char *reason, const char *text)
{
	c->result.reason = reason;
	clean_sentence(c->result.detail, sizeof(c->result.detail), text, strlen(text));
	call_done(c);
}

/* ---- terminate ---- */

static void on_terminate_answer(void *arg, const struct rpc_status *st, const struct rpc_msg *msg)
{
	(void)st;
	(void)msg;
	call_put(arg);
}

/* Ends the recording early and frees the process's profiler lock. The session's name belongs to this call
 * only, so a late Terminate does no harm. */
static void call_terminate(void *arg)
{
	struct profiler_call *c = arg;
	struct buf request = BUF_INIT;

	if (c->terminated || !c->channel || c->snapshot)
		return;
	c->terminated = true;
	c->refs++;
	profiler_terminate_pack(&request, c->session);
	rpc_unary(c->channel, PROFILER_TERMINATE, request.data, request.len,
		  now_mono_ns() + TERMINATE_DEADLINE_NS, on_terminate_answer, c);
	buf_release(&request);
}

void profiler_call_stop(struct profiler_call *c, int64_t t1_raw_ns)
{
	if (t1_raw_ns >= c->t1_raw_ns)
		return;
	c->t1_raw_ns = t1_raw_ns;
	if (c->step == CALLED)
		loop_timer_at(c->loop, &c->timer, now_mono_of_raw(t1_raw_ns) + PROFILER_GUARD_NS,
			      call_terminate, c);
	else if (c->step == WAITING && t1_raw_ns <= c->t0_raw_ns)
		loop_timer_in(c->loop, &c->timer, 0, call_send, c); /* ends it: no window is left */
}

/* The server may go on, and write a file. */
static void call_give_up(struct profiler_call *c)
{
	if (c->snapshot)
		return;
	call_terminate(c);
	sweep_add(c->sweep, c->pid, c->repository, c->session);
}

void profiler_call_free(struct profiler_call *c)
{
	if (!c)
		return;
	c->freed = true;
	loop_timer_cancel(c->loop, &c->timer);
	if (c->step == CALLED) {
		rpc_cancel(c->call);
		call_give_up(c);
	}
	call_put(c);
}

/* ---- the reply ---- */

static void call_store_start(struct profiler_call *c, enum step step, void (*run)(void *arg),
			     void (*done)(void *arg))
{
	c->step = step;
	c->refs++;
	c->store.path = c->path;
	c->store.place.repository = c->repository;
	c->store.place.session = c->session;
	c->store.pid = c->pid;
	if (step == FETCHING) /* from the file system of another process */
		lane_work(c->lane, run, done, c);
	else
		loop_work(c->loop, run, done, c);
}

/* Ends the call; with a failure if the recording ended before T1, because its process ended. */
static void call_end(struct profiler_call *c)
{
	char text[80];

	if (!c->early_ns) {
		call_done(c);
		return;
	}
	c->result.incomplete = c->result.path != NULL;
	snprintf(text, sizeof(text), "its recording ended %" PRId64 " ms before the window did",
		 (c->early_ns + NS_PER_MS - 1) / NS_PER_MS);
	call_fail(c, REASON_PROFILER_LOST, text);
}

/* The reply has been read to its end. */
static void call_keep_file(struct profiler_call *c)
{
	struct profiler_store *s = &c->store;

	if (!s->has_file) {
		call_end(c); /* the process had no events */
		return;
	}
	c->result.path = xstrdup(c->path);
	c->result.start_real_ns = s->start_real_ns;
	if (!s->start_real_ns) {
		/* An old framework without profile_start_time: only the time of the request is known. */
		int64_t start = c->t0_real_ns - PROFILER_LEAD_NS;

		c->result.start_real_ns = start > c->sent_real_ns ? start : c->sent_real_ns;
		c->result.incomplete = true;
		call_fail(c, REASON_PROFILER_OLD,
			  "its trace has no begin time: the time of the request is used instead");
		return;
	}
	call_end(c);
}

static void store_run(void *arg)
{
	struct profiler_call *c = arg;

	profiler_store_reply(&c->store);
}

static void fetch_run(void *arg)
{
	struct profiler_call *c = arg;

	profiler_store_file(&c->store);
}

static const char *failure_reason(const struct profiler_store *s)
{
	if (s->rc == ERR_FULL)
		return REASON_DISK_FULL;
	if (s->rc == ERR_DENIED)
		return REASON_NO_PERMISSION;
	return s->rc == ERR_NOT_FOUND ? REASON_PROFILER_OLD : REASON_PROFILER_FAILED;
}

/* The first fetch has found the file's size: reserves spool space for it and fetches again. */
static void fetch_with_reservation(struct profiler_call *c)
{
	struct profiler_store *s = &c->store;

	s->no_space = c->freed || !c->reserve_bytes(c->arg, s->need_bytes);
	s->limit_bytes = s->need_bytes;
	call_fetch_file(c);
}

static void fetch_done(void *arg)
{
	struct profiler_call *c = arg;
	struct profiler_store *s = &c->store;
	bool retry = s->rc == ERR_NOT_FOUND && !s->empty_trace && ++c->file_tries < FILE_TRIES &&
		     now_mono_ns() + FILE_RETRY_NS < c->give_up_mono_ns && !c->freed;

	if (profiler_store_must_repeat(s)) {
		fetch_with_reservation(c);
	} else if (c->freed) {
		unlink(c->path);
	} else if (!s->rc) {
		call_keep_file(c);
	} else if (retry) {
		loop_timer_in(c->loop, &c->timer, FILE_RETRY_NS, call_fetch_file, c);
	} else if (s->rc == ERR_NOT_FOUND && s->empty_trace) {
		call_end(c);
	} else {
		call_fail(c, failure_reason(s), s->err.msg);
	}
	call_put(c);
}

static void call_fetch_file(void *arg)
{
	call_store_start(arg, FETCHING, fetch_run, fetch_done);
}

static void store_done(void *arg)
{
	struct profiler_call *c = arg;
	struct profiler_store *s = &c->store;

	rpc_msg_free(s->msg);
	s->msg = NULL;
	if (c->freed)
		unlink(c->path);
	else if (s->rc)
		call_fail(c, failure_reason(s), s->err.msg);
	else if (!s->has_xspace)
		call_fetch_file(c);
	else
		call_keep_file(c);
	call_put(c);
}

struct code_reason {
	enum rpc_code code;
	const char *text; /* text that the server's message must contain; "" = any */
	const char *reason;
};

/* The first row that matches holds. A stock server sends INTERNAL for every error, so its text decides. */
static const struct code_reason code_reasons[] = {
	{ RPC_INTERNAL, "nother profiling session", REASON_PROFILER_BUSY },
	{ RPC_ALREADY_EXISTS, "", REASON_PROFILER_BUSY },
	{ RPC_UNAVAILABLE, "timed out",
	  REASON_PROFILER_TIMEOUT }, /* the server listens and does not answer */
	{ RPC_UNAVAILABLE, "failed to connect", REASON_PROFILER_UNREACHABLE },
	{ RPC_CANCELLED, "", REASON_PROFILER_LOST }, /* its server was stopped */
	{ RPC_UNAVAILABLE, "",
	  REASON_PROFILER_LOST }, /* the connection broke: the process has ended */
	{ RPC_UNIMPLEMENTED, "", REASON_PROFILER_OLD },
	{ RPC_RESOURCE_EXHAUSTED, "larger than max", REASON_TOO_LARGE },
	{ RPC_RESOURCE_EXHAUSTED, "Buffers full", REASON_TOO_LARGE }, /* the channel's quota */
	{ RPC_DEADLINE_EXCEEDED, "", REASON_PROFILER_TIMEOUT },
};

static const char *find_reason(const struct rpc_status *st)
{
	for (size_t i = 0; i < ARRAY_SIZE(code_reasons); i++) {
		const struct code_reason *r = &code_reasons[i];

		if (r->code == st->code && strstr(st->text, r->text))
			return r->reason;
	}
	return REASON_PROFILER_FAILED;
}

/* Reserves as much as the reply has, which is hardly more than its XSpace. If the spool has no space for it,
 * the reply is dropped, and an older server's file is only removed. */
static void store_reply(struct profiler_call *c, const struct rpc_msg *msg)
{
	struct profiler_store *s = &c->store;

	s->need_bytes = rpc_msg_len(msg);
	s->no_space = !c->reserve_bytes(c->arg, s->need_bytes);
	if (s->no_space) {
		call_fetch_file(c);
		return;
	}
	s->msg = rpc_msg_keep(msg);
	call_store_start(c, STORING, store_run, store_done);
}

static void on_profile_answer(void *arg, const struct rpc_status *st, const struct rpc_msg *msg)
{
	struct profiler_call *c = arg;

	c->call = NULL;
	c->early_ns = c->t1_raw_ns > now_raw_ns() ? c->t1_raw_ns - now_raw_ns() : 0;
	loop_timer_cancel(c->loop, &c->timer);
	if (c->freed) {
		c->step = DONE;
	} else if (st->code != RPC_OK) {
		if (st->code == RPC_DEADLINE_EXCEEDED)
			call_give_up(c);
		call_fail(c, find_reason(st), *st->text ? st->text : rpc_code_name(st->code));
	} else {
		store_reply(c, msg);
	}
	call_put(c);
}

/* ---- the request ---- */

static int call_pack(struct profiler_call *c, struct buf *out, struct err *e)
{
	struct profiler_request request = {
		.options = c->options,
		.options_len = c->options_len,
		.t0_real_ns = c->t0_real_ns,
		.t1_real_ns = c->t0_real_ns + c->t1_raw_ns - c->t0_raw_ns,
		.now_real_ns = now_real_ns(),
		.session = c->session,
		.repository = c->repository,
		.host = c->host,
	};

	c->sent_real_ns = request.now_real_ns;
	return profiler_request_pack(out, &request, e);
}

static void call_send(void *arg)
{
	struct profiler_call *c = arg;
	struct rpc_channel_opts opts = {
		.target = c->address,
		.lane = "profiler",
		.max_message_bytes = c->max_reply_bytes,
		.is_bounded = true,
	};
	struct buf request = BUF_INIT;
	struct err e;

	if (c->t1_raw_ns <= c->t0_raw_ns && !c->snapshot) {
		call_done(c); /* the window was stopped before the call */
		return;
	}
	if (c->t1_raw_ns <= now_raw_ns() && !c->snapshot) {
		call_fail(c, REASON_WINDOW_CUT,
			  "the window was over before the call could be made");
		return;
	}
	if ((!c->snapshot && call_pack(c, &request, &e)) ||
	    rpc_channel_new(&c->channel, c->rpc, &opts, &e)) {
		call_fail(c, REASON_PROFILER_FAILED, e.msg);
		goto out;
	}
	c->step = CALLED;
	c->refs++;
	c->call = rpc_unary(c->channel, c->snapshot ? PROFILER_GET_SNAPSHOT : PROFILER_PROFILE,
			    request.data, request.len, c->give_up_mono_ns, on_profile_answer, c);
out:
	buf_release(&request);
}
