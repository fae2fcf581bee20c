/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/xprof/profiler_service.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "aggregator/captures/capture.h"
#include "aggregator/captures/options.h"
#include "aggregator/xprof/answer.h"
#include "aggregator/fleet/registry.h"
#include "aggregator/sessions/session_store.h"
#include "aggregator/sessions/sessions.h"
#include "aggregator/time/session_clock.h"
#include "base/jobs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/rpc.h"
#include "proto/limits.h"
#include "proto/names.h"
#include "proto/tensorflow/profiler_service.pb-c.h"
#include "storage/store.h"

#define MARGIN_NS (2 * NS_PER_S) /* before the client's deadline: for the way back */
#define COMMIT_MARGIN_NS \
	(4 * NS_PER_S) /* before it, the session is committed, so that it is whole */
#define MIN_GRACE_NS NS_PER_S
#define REMEMBER_NS  (60 * NS_PER_S) /* repeated calls get the same capture */
#define MAX_AHEAD_NS (10 * NS_PER_S) /* a start further in the future is a wrong clock */
#define MAX_PROFILES 256

typedef Tensorflow__ProfileRequest profile_request;

/* One capture that clients asked for, and what they call it. */
struct profile {
	char *client_session, *peer; /* one client's name for it; "" is never shared */
	char *session; /* ours */
	int64_t ended_mono_ns; /* 0 = under way */
	TAILQ_ENTRY(profile) entry;
};

/* One call of Profile. It outlives `closed` while a worker loads its answer. */
struct wait {
	struct profiler_service *ps;
	struct rpc_call *call; /* NULL once closed */
	bool asked; /* the request is in; a second one is ignored */
	char *session; /* waited for; NULL once the answer began */
	struct answer *answer; /* with a worker */
	struct loop_timer timer; /* the client's patience is at its end */
	TAILQ_ENTRY(wait) entry;
};

struct profiler_service {
	struct profiler_env env;
	TAILQ_HEAD(profile_list, profile) profiles;
	size_t n_profiles;
	TAILQ_HEAD(, wait) waits;
};

/* ---- what is remembered ---- */

static void profile_free(struct profiler_service *ps, struct profile *p)
{
	TAILQ_REMOVE(&ps->profiles, p, entry);
	ps->n_profiles--;
	free(p->client_session);
	free(p->peer);
	free(p->session);
	free(p);
}

static void forget_old(struct profiler_service *ps)
{
	struct profile *p, *next;

	for (p = TAILQ_FIRST(&ps->profiles); p; p = next) {
		next = TAILQ_NEXT(p, entry);
		if ((p->ended_mono_ns && now_mono_ns() - p->ended_mono_ns > REMEMBER_NS) ||
		    ps->n_profiles > MAX_PROFILES)
			profile_free(ps, p);
	}
}

/* The peer's address without its port: a retry comes from another port. */
static char *peer_address(const struct rpc_call *call)
{
	const char *peer = rpc_peer(call);
	const char *port = strrchr(peer, ':');

	return xstrndup(peer, port ? (size_t)(port - peer) : strlen(peer));
}

/* Clients name sessions by their local second, so that two of them may well choose the same. */
static struct profile *profile_find(struct profiler_service *ps, const char *client_session,
				    const char *peer)
{
	struct profile *p;

	TAILQ_FOREACH (p, &ps->profiles, entry) {
		if (*client_session && !strcmp(p->client_session, client_session) &&
		    !strcmp(p->peer, peer))
			return p;
	}
	return NULL;
}

static struct profile *profile_add(struct profiler_service *ps, const char *client_session,
				   const char *peer, const char *session)
{
	struct profile *p = xcalloc(1, sizeof(*p));

	p->client_session = xstrdup(client_session);
	p->peer = xstrdup(peer);
	p->session = xstrdup(session);
	TAILQ_INSERT_TAIL(&ps->profiles, p, entry);
	ps->n_profiles++;
	return p;
}

/* ---- answers ---- */

static void wait_free(struct wait *w)
{
	loop_timer_cancel(w->ps->env.loop, &w->timer);
	TAILQ_REMOVE(&w->ps->waits, w, entry);
	free(w->session);
	free(w);
}

static void run_load(void *arg)
{
	struct wait *w = arg;

	answer_load(w->answer, LIMIT_RESPONSE_BYTES);
}

static void done_load(void *arg)
{
	struct wait *w = arg;
	struct rpc_call *call = w->call;

	if (call) {
		answer_send(w->answer, call);
		rpc_finish(call, RPC_OK, "");
	}
	answer_free(w->answer);
	w->answer = NULL;
	if (!call)
		wait_free(w);
}

static void answer_begin(struct wait *w, struct answer *a)
{
	loop_timer_cancel(w->ps->env.loop, &w->timer);
	free(w->session);
	w->session = NULL;
	w->answer = a;
	jobs_work(w->ps->env.jobs, run_load, done_load, w);
}

static void answer_host(struct answer *a, const struct capture *c, const struct capture_host *h)
{
	char key[SESSION_KEY_BYTES], name[NAME_FILE_BYTES];

	for (unsigned int n = 1; h->stored && n <= h->n_files; n++) {
		name_of_file(h->name, n, name);
		session_file_key(c->session, c->run, name, key);
		answer_add(a, name, key);
	}
	if (h->state == HOST_PARTIAL)
		answer_note(a, "%s is partial: %s: %s", h->name, h->reason, h->detail);
	else if (h->state == HOST_FAILED)
		answer_note(a, "%s is missing: %s: %s", h->name, h->reason, h->detail);
	else if (!h->stored)
		answer_note(a, "%s is missing: not there before the caller's deadline", h->name);
}

/* With what is stored by now. */
static void answer_capture(struct wait *w, const struct capture *c)
{
	struct answer *a = answer_new(w->ps->env.store->store);

	if (c->state == CAP_FAILED)
		answer_note(a, "session %s failed: %s", c->session, c->error.msg);
	for (size_t i = 0; i < c->n_hosts; i++)
		answer_host(a, c, &c->hosts[i]);
	answer_begin(w, a);
}

static void answer_error(struct wait *w, const char *why)
{
	struct answer *a = answer_new(w->ps->env.store->store);

	answer_note(a, "%s", why);
	answer_begin(w, a);
}

static void on_patience(void *arg)
{
	struct wait *w = arg;
	struct capture *c = capture_find(w->ps->env.captures, w->session);

	if (c)
		answer_capture(w, c);
	else
		answer_error(w, "the session is gone");
}

static void on_capture(void *arg, struct capture *c)
{
	struct profiler_service *ps = arg;
	struct profile *p;
	struct wait *w;

	if (!capture_has_ended(c))
		return;
	TAILQ_FOREACH (p, &ps->profiles, entry) {
		if (!strcmp(p->session, c->session))
			p->ended_mono_ns = now_mono_ns();
	}
	TAILQ_FOREACH (w, &ps->waits, entry) {
		if (w->session && !strcmp(w->session, c->session))
			answer_capture(w, c);
	}
}

/* ---- Profile ---- */

static uint64_t duration_ms(const profile_request *r)
{
	return r->opts && r->opts->duration_ms ? r->opts->duration_ms : r->duration_ms;
}

/* The client's idea of a start counts if it is near: its clock need not be ours. */
static int64_t not_before_ns(const struct wait *w, const profile_request *r)
{
	int64_t now_ns = session_clock_now(w->ps->env.clock);
	uint64_t start_ns = r->opts ? r->opts->start_timestamp_ns : 0;

	return start_ns > (uint64_t)now_ns && start_ns < (uint64_t)(now_ns + MAX_AHEAD_NS)
		       ? (int64_t)start_ns
		       : 0;
}

/* The session is to be committed when the client must have its answer. */
static int64_t commit_by_ns(const struct wait *w)
{
	int64_t deadline_ns = rpc_deadline_ns(w->call);

	if (deadline_ns == INT64_MAX)
		return 0;
	return session_clock_now(w->ps->env.clock) + deadline_ns - now_mono_ns() - COMMIT_MARGIN_NS;
}

/* Who waits for other captures longer than this gets nothing before its deadline. */
static int64_t wait_ns(const struct wait *w, const struct capture_request *req)
{
	const struct profiler_env *env = &w->ps->env;
	int64_t left_ns = req->commit_by_ns - session_clock_now(env->clock) - env->lead_ns -
			  req->duration_ns - MIN_GRACE_NS;

	if (!req->commit_by_ns)
		return 0;
	return left_ns > 0 ? left_ns : -1;
}

static int pack_options(const profile_request *r, int64_t duration_ns, struct capture_request *req,
			uint8_t **options, struct err *e)
{
	size_t len = r->opts ? tensorflow__profile_options__get_packed_size(r->opts) : 0;
	uint8_t *given = xmalloc(len);
	int rc;

	if (r->opts)
		tensorflow__profile_options__pack(r->opts, given);
	rc = options_adopt(given, len, duration_ns, options, &req->options_len, &req->settings, e);
	free(given);
	return rc;
}

static int begin(struct wait *w, const profile_request *r, struct capture **out, struct err *e)
{
	const struct profiler_env *env = &w->ps->env;
	struct capture_request req = { .client_session = r->session_id };
	uint8_t *options = NULL;
	char origin[160];
	size_t connected;
	int rc;

	registry_count(env->registry, &connected);
	if (!connected)
		return err_set(e, ERR_NOT_FOUND, "no agent is connected to this aggregator");
	if (!duration_ms(r) || duration_ms(r) > LIMIT_DURATION_NS / NS_PER_MS)
		return err_set(e, ERR_INVALID, "duration of %" PRIu64 " ms: use 1 to %lld",
			       duration_ms(r), LIMIT_DURATION_NS / NS_PER_MS);
	snprintf(origin, sizeof(origin), "profiler-service %s", rpc_peer(w->call));
	req.origin = origin;
	req.duration_ns = (int64_t)duration_ms(r) * NS_PER_MS;
	req.not_before_ns = not_before_ns(w, r);
	req.commit_by_ns = commit_by_ns(w);
	req.wait_ns = wait_ns(w, &req);
	rc = pack_options(r, req.duration_ns, &req, &options, e);
	req.options = options;
	if (!rc)
		rc = capture_begin(env->captures, &req, out, e);
	free(options);
	json_decref(req.settings);
	return rc;
}

static void wait_for(struct wait *w, const struct capture *c)
{
	int64_t deadline_ns = rpc_deadline_ns(w->call);

	if (capture_has_ended(c)) {
		answer_capture(w, c);
		return;
	}
	w->session = xstrdup(c->session);
	if (deadline_ns != INT64_MAX)
		loop_timer_at(w->ps->env.loop, &w->timer, deadline_ns - MARGIN_NS, on_patience, w);
}

static void handle_profile(struct wait *w, const profile_request *r)
{
	struct profiler_service *ps = w->ps;
	char *peer = peer_address(w->call);
	struct profile *p;
	struct capture *c = NULL;
	struct err e = { 0 };

	forget_old(ps);
	p = profile_find(ps, r->session_id, peer);
	if (p)
		c = capture_find(ps->env.captures, p->session);
	if (p && !c)
		profile_free(ps, p);
	if (!c && !begin(w, r, &c, &e)) {
		p = profile_add(ps, r->session_id, peer, c->session);
		if (capture_has_ended(c))
			p->ended_mono_ns = now_mono_ns();
	}
	if (c) {
		wait_for(w, c);
	} else {
		log_warn("AGG-PROFILE", "peer=%s reason=\"%s\"", rpc_peer(w->call), e.msg);
		answer_error(w, e.msg);
	}
	free(peer);
}

static void on_profile_opened(struct rpc_call *call)
{
	struct wait *w = xcalloc(1, sizeof(*w));

	w->ps = rpc_arg(call);
	w->call = call;
	TAILQ_INSERT_TAIL(&w->ps->waits, w, entry);
	rpc_set_arg(call, w);
}

static bool on_profile(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct wait *w = rpc_arg(call);
	profile_request *r;
	size_t len;
	const uint8_t *data;

	if (w->asked)
		return true;
	w->asked = true;
	data = rpc_msg_data(msg, &len);
	r = tensorflow__profile_request__unpack(NULL, len, data);
	if (!r) {
		rpc_finish(call, RPC_INVALID_ARGUMENT, "ProfileRequest cannot be decoded");
		return true;
	}
	handle_profile(w, r);
	tensorflow__profile_request__free_unpacked(r, NULL);
	return true;
}

/* The capture goes on: its session is wanted, even if this client is gone. */
static void on_profile_closed(struct rpc_call *call, const struct rpc_status *st)
{
	struct wait *w = rpc_arg(call);

	(void)st;
	w->call = NULL;
	if (!w->answer)
		wait_free(w);
}

const struct rpc_events profiler_profile_events = {
	.opened = on_profile_opened,
	.message = on_profile,
	.closed = on_profile_closed,
};

/* ---- Terminate ---- */

/* One call. It outlives `closed` until all that it stops stays stopped. */
struct ending {
	struct profiler_service *ps;
	struct rpc_call *call; /* NULL once closed */
	bool asked; /* the request is in; a second one is ignored */
	size_t n_left; /* captures, and the request while it is looked at */
	struct err e;
};

static void on_terminate_opened(struct rpc_call *call)
{
	struct ending *t = xcalloc(1, sizeof(*t));

	t->ps = rpc_arg(call);
	t->call = call;
	rpc_set_arg(call, t);
}

static void ending_let_go(struct ending *t)
{
	if (--t->n_left)
		return;
	if (!t->call) {
		free(t);
	} else if (t->e.code) {
		rpc_finish(t->call, RPC_INTERNAL, t->e.msg);
	} else {
		rpc_send(t->call, "", 0);
		rpc_finish(t->call, RPC_OK, "");
	}
}

static void on_stop_kept(void *arg, struct capture *c)
{
	struct ending *t = arg;

	if (c->not_durable.code)
		t->e = c->not_durable;
	ending_let_go(t);
}

static void end_capture(struct ending *t, const char *session)
{
	struct capture *c = capture_find(t->ps->env.captures, session);

	if (!c)
		return;
	t->n_left++;
	capture_stop(c);
	capture_when_durable(c, on_stop_kept, t);
}

static void terminate(struct ending *t, const char *session)
{
	const struct profile *p;

	t->n_left = 1;
	end_capture(t, session);
	TAILQ_FOREACH (p, &t->ps->profiles, entry) {
		if (*session && !p->ended_mono_ns && !strcmp(p->client_session, session))
			end_capture(t, p->session);
	}
	ending_let_go(t);
}

/* OK as soon as a crash would not undo it, also without a match, as stock servers have it; unlike theirs,
 * that leaves nothing. */
static bool on_terminate(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct ending *t = rpc_arg(call);
	Tensorflow__TerminateRequest *r;
	const uint8_t *data;
	size_t len;

	if (t->asked)
		return true;
	t->asked = true;
	data = rpc_msg_data(msg, &len);
	r = tensorflow__terminate_request__unpack(NULL, len, data);
	if (!r) {
		rpc_finish(call, RPC_INVALID_ARGUMENT, "TerminateRequest cannot be decoded");
		return true;
	}
	terminate(t, r->session_id);
	tensorflow__terminate_request__free_unpacked(r, NULL);
	return true;
}

static void on_terminate_closed(struct rpc_call *call, const struct rpc_status *st)
{
	struct ending *t = rpc_arg(call);

	(void)st;
	t->call = NULL;
	if (!t->n_left)
		free(t);
}

const struct rpc_events profiler_terminate_events = {
	.opened = on_terminate_opened,
	.message = on_terminate,
	.closed = on_terminate_closed,
};

/* ---- Monitor ---- */

static void write_host(struct buf *out, const struct host *h)
{
	buf_addf(out, "  %-32s %-9s", h->name, h->control ? "connected" : "lost");
	if (h->clock.calibrated)
		buf_addf(out, "  clock within %" PRId64 " us", h->clock.bound_ns / NS_PER_US);
	for (size_t i = 0; i < h->n_tracers; i++)
		buf_addf(out, "  %s:%s", h->tracers[i].name, h->tracers[i].state);
	buf_add_str(out, "\n");
}

static void write_summary(struct profiler_service *ps, struct buf *out)
{
	struct captures_count count = captures_count(ps->env.captures);
	size_t n, connected;
	struct host *const *hosts = registry_hosts(ps->env.registry, &n);

	registry_count(ps->env.registry, &connected);
	buf_addf(out,
		 "tutti-aggregator %s: %zu of %zu hosts connected, %zu captures under way, %zu "
		 "waiting\n",
		 TUTTI_VERSION, connected, n, count.active, count.queued);
	for (size_t i = 0; i < n && i < 1000; i++)
		write_host(out, hosts[i]);
}

static bool on_monitor(struct rpc_call *call, const struct rpc_msg *msg)
{
	Tensorflow__MonitorResponse answer = TENSORFLOW__MONITOR_RESPONSE__INIT;
	struct buf text = BUF_INIT;
	size_t len;
	uint8_t *data;

	(void)msg;
	write_summary(rpc_arg(call), &text);
	answer.data = (char *)buf_str(&text);
	data = xmalloc(tensorflow__monitor_response__get_packed_size(&answer));
	len = tensorflow__monitor_response__pack(&answer, data);
	rpc_send(call, data, len);
	rpc_finish(call, RPC_OK, "");
	free(data);
	buf_release(&text);
	return true;
}

const struct rpc_events profiler_monitor_events = {
	.message = on_monitor,
};

/* ---- life ---- */

struct profiler_service *profiler_service_new(const struct profiler_env *env)
{
	struct profiler_service *ps = xcalloc(1, sizeof(*ps));

	ps->env = *env;
	TAILQ_INIT(&ps->profiles);
	TAILQ_INIT(&ps->waits);
	captures_watch(env->captures, on_capture, ps);
	return ps;
}

void profiler_service_free(struct profiler_service *ps)
{
	if (!ps)
		return;
	while (!TAILQ_EMPTY(&ps->profiles))
		profile_free(ps, TAILQ_FIRST(&ps->profiles));
	while (!TAILQ_EMPTY(&ps->waits))
		wait_free(TAILQ_FIRST(&ps->waits));
	free(ps);
}
