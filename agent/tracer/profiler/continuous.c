/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/profiler/continuous.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "agent/tracer/profiler/discover.h"
#include "base/buf.h"
#include "base/conf.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/rpc.h"
#include "proto/limits.h"
#include "proto/profiler_request.h"

#define ANSWER_NS (5 * NS_PER_S) /* time for an answer to Start or Stop */
#define UPDATE_NS (5 * NS_PER_S)

enum state {
	IDLE, /* no session has begun yet */
	ASKED, /* Start has no answer yet */
	RUNNING,
	LACKS, /* the server lacks the method */
	BUSY, /* another trace runs in that process */
	FAILED,
};

/* A profiler server. A forgotten one stays until its callbacks have come. */
struct server {
	struct continuous *owner; /* NULL = forgotten */
	int *live;
	char *address;
	struct rpc_channel *channel;
	enum state state;
	int64_t begun_mono_ns;
	bool renewed; /* it is being stopped, to begin anew */
	bool wanted;
	int refs; /* the owner's, and one for each callback to come */
	TAILQ_ENTRY(server) entry;
};

struct continuous {
	struct continuous_conf conf;
	TAILQ_HEAD(, server) servers;
	struct loop_timer update;
	int paused; /* how many captures have paused it */
};

/* ---- calls ---- */

static void server_put(struct server *s)
{
	if (--s->refs)
		return;
	rpc_channel_free(s->channel);
	free(s->address);
	free(s);
}

static void server_call(struct server *s, const char *method, const struct buf *request,
			rpc_unary_fn done)
{
	s->refs++;
	++*s->live;
	rpc_unary(s->channel, method, request->data, request->len, now_mono_ns() + ANSWER_NS, done,
		  s);
}

static void server_start(struct server *s);

static void on_stopped(void *arg, const struct rpc_status *st, const struct rpc_msg *msg)
{
	struct server *s = arg;

	(void)st;
	(void)msg;
	--*s->live;
	if (s->renewed && s->state == IDLE && s->owner && !s->owner->paused)
		server_start(s);
	server_put(s);
}

static void server_stop(struct server *s, bool renew)
{
	const struct buf empty = BUF_INIT;

	s->state = IDLE;
	s->renewed = renew;
	server_call(s, PROFILER_STOP_CONTINUOUS, &empty, on_stopped);
}

/* A session that exists already is from an earlier agent that was killed. Ends it; the next update begins a
 * new one. */
static enum state state_of(const struct rpc_status *st)
{
	switch (st->code) {
	case RPC_OK:
		return RUNNING;
	case RPC_UNIMPLEMENTED:
		return LACKS;
	case RPC_INTERNAL:
		return strstr(st->text, "nother profiling session") ? BUSY : FAILED;
	default:
		return FAILED;
	}
}

static void on_started(void *arg, const struct rpc_status *st, const struct rpc_msg *msg)
{
	struct server *s = arg;

	(void)msg;
	--*s->live;
	s->state = state_of(st);
	s->begun_mono_ns = now_mono_ns();
	if (st->code == RPC_ALREADY_EXISTS ||
	    (s->state == RUNNING && (!s->owner || s->owner->paused)))
		server_stop(s, false);
	server_put(s);
}

static void server_start(struct server *s)
{
	struct buf request = BUF_INIT;

	s->state = ASKED;
	profiler_continuous_pack(&request, s->owner->conf.host);
	server_call(s, PROFILER_START_CONTINUOUS, &request, on_started);
	buf_release(&request);
}

/* ---- servers ---- */

static struct server *server_find(const struct continuous *k, const char *address)
{
	struct server *s;

	TAILQ_FOREACH (s, &k->servers, entry) {
		if (!strcmp(s->address, address))
			return s;
	}
	return NULL;
}

static void server_add(struct continuous *k, const char *address)
{
	const struct rpc_channel_opts opts = { .target = address,
					       .lane = "continuous",
					       .max_message_bytes = LIMIT_SMALL_BYTES };
	struct server *s = xcalloc(1, sizeof(*s));
	struct err e;

	if (rpc_channel_new(&s->channel, k->conf.rpc, &opts, &e)) {
		log_warn("AGT-PROFILE", "profiler=%s reason=\"%s\"", address, e.msg);
		free(s);
		return;
	}
	s->owner = k;
	s->live = k->conf.live;
	s->address = xstrdup(address);
	s->refs = 1;
	TAILQ_INSERT_TAIL(&k->servers, s, entry);
}

static void server_forget(struct server *s)
{
	TAILQ_REMOVE(&s->owner->servers, s, entry);
	if (s->state == RUNNING)
		server_stop(s, false);
	s->owner = NULL;
	server_put(s);
}

static void server_update(struct server *s)
{
	const struct continuous *k = s->owner;

	if (k->paused)
		return;
	if (s->state == RUNNING && now_mono_ns() - s->begun_mono_ns > k->conf.keep_ns)
		server_stop(s, true);
	else if (s->state != RUNNING && s->state != ASKED && s->state != LACKS)
		server_start(s);
}

static void want(struct continuous *k, const char *address)
{
	struct server *s = server_find(k, address);

	if (!s) {
		server_add(k, address);
		s = server_find(k, address);
	}
	if (s)
		s->wanted = true;
}

/* Begins, renews and forgets sessions. */
static void update(void *arg)
{
	struct continuous *k = arg;
	const struct discover_target *found;
	struct server *s, *next;
	size_t n;

	TAILQ_FOREACH (s, &k->servers, entry)
		s->wanted = false;
	for (size_t i = 0; i < k->conf.servers->n; i++)
		want(k, k->conf.servers->items[i]);
	found = discover_targets(k->conf.discover, &n);
	for (size_t i = 0; i < n; i++)
		want(k, found[i].address);
	for (s = TAILQ_FIRST(&k->servers); s; s = next) {
		next = TAILQ_NEXT(s, entry);
		if (s->wanted)
			server_update(s);
		else
			server_forget(s);
	}
	loop_timer_in(k->conf.loop, &k->update, UPDATE_NS, update, k);
}

void continuous_pause(struct continuous *k)
{
	struct server *s;

	k->paused++;
	TAILQ_FOREACH (s, &k->servers, entry) {
		if (s->state == RUNNING)
			server_stop(s, false);
	}
}

void continuous_resume(struct continuous *k)
{
	if (!--k->paused)
		loop_timer_in(k->conf.loop, &k->update, 0, update, k);
}

void continuous_each(const struct continuous *k,
		     void (*fn)(void *arg, const char *address, const char *lack), void *arg)
{
	static const char *const lacks[] = {
		[IDLE] = "records nothing yet",
		[ASKED] = "records nothing yet",
		[RUNNING] = NULL,
		[LACKS] = "lacks continuous profiling",
		[BUSY] = "another trace runs in that process",
		[FAILED] = "does not begin to record",
	};
	struct server *s;

	TAILQ_FOREACH (s, &k->servers, entry)
		fn(arg, s->address, lacks[s->state]);
}

void continuous_taken(struct continuous *k, const char *address)
{
	struct server *s = server_find(k, address);

	if (s)
		s->begun_mono_ns = now_mono_ns();
}

void continuous_lost(struct continuous *k, const char *address)
{
	struct server *s = server_find(k, address);

	if (s && s->state == RUNNING)
		server_stop(s, true);
}

/* ---- life ---- */

struct continuous *continuous_new(const struct continuous_conf *conf)
{
	struct continuous *k = xcalloc(1, sizeof(*k));

	k->conf = *conf;
	TAILQ_INIT(&k->servers);
	loop_timer_in(conf->loop, &k->update, 0, update, k);
	return k;
}

void continuous_free(struct continuous *k)
{
	if (!k)
		return;
	loop_timer_cancel(k->conf.loop, &k->update);
	while (!TAILQ_EMPTY(&k->servers))
		server_forget(TAILQ_FIRST(&k->servers));
	free(k);
}
