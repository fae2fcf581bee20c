/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of stock clients that are answered with the files of a capture. */
#include <stdlib.h>
#include <string.h>

#include "aggregator/access/access.h"
#include "aggregator/captures/capture.h"
#include "aggregator/sessions/session_store.h"
#include "aggregator/sessions/sessions.h"
#include "aggregator/time/session_clock.h"
#include "aggregator/xprof/profiler_impl.h"
#include "aggregator/xprof/response.h"
#include "base/jobs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/rpc.h"
#include "proto/limits.h"
#include "proto/names.h"

#define MARGIN_NS (2 * NS_PER_S) /* the answer is sent this long before the client's deadline */
/* the session must be committed this long before the client's deadline, so that the answer has all files */
#define COMMIT_MARGIN_NS (4 * NS_PER_S)

/* ---- responses ---- */

static void call_free(struct client_call *cc)
{
	loop_timer_cancel(cc->ps->env.loop, &cc->timer);
	TAILQ_REMOVE(&cc->ps->calls, cc, entry);
	free(cc->session);
	free(cc);
}

static void run_load(void *arg)
{
	struct client_call *cc = arg;

	response_load(cc->response, LIMIT_RESPONSE_BYTES);
}

static void done_load(void *arg)
{
	struct client_call *cc = arg;
	struct rpc_call *call = cc->call;

	if (call) {
		response_send(cc->response, cc->emit_xspace, call);
		rpc_finish(call, RPC_OK, "");
	}
	response_free(cc->response);
	cc->response = NULL;
	if (!call)
		call_free(cc);
}

static void begin_response(struct client_call *cc, struct response *r)
{
	loop_timer_cancel(cc->ps->env.loop, &cc->timer);
	free(cc->session);
	cc->session = NULL;
	cc->response = r;
	jobs_request(cc->ps->env.jobs, run_load, done_load, cc);
}

static void add_host(struct response *r, const struct capture *c, const struct capture_host *h)
{
	char key[SESSION_KEY_BYTES], name[NAME_FILE_BYTES];

	for (unsigned int n = 1; h->stored && n <= h->n_files; n++) {
		name_of_file(h->name, n, name);
		session_file_key(c->session, c->run, name, key);
		response_add_file(r, name, key);
	}
	if (h->state == HOST_PARTIAL)
		response_add_note(r, "%s is partial: %s: %s", h->name, h->reason, h->detail);
	else if (h->state == HOST_FAILED)
		response_add_note(r, "%s is missing: %s: %s", h->name, h->reason, h->detail);
	else if (!h->stored)
		response_add_note(r, "%s is missing: not stored before the caller's deadline",
				  h->name);
}

/* Makes the response from the files that are stored now. */
static void respond_with_capture(struct client_call *cc, const struct capture *c)
{
	struct response *r = response_new(cc->ps->env.store->store);

	if (capture_has_failed(c))
		response_add_note(r, "session %s failed: %s", c->session, c->error.msg);
	for (size_t i = 0; i < c->n_hosts; i++)
		add_host(r, c, &c->hosts[i]);
	begin_response(cc, r);
}

void client_call_explain(struct client_call *cc, const char *why)
{
	struct response *r = response_new(cc->ps->env.store->store);

	response_add_note(r, "%s", why);
	begin_response(cc, r);
}

static void on_deadline_near(void *arg)
{
	struct client_call *cc = arg;
	struct capture *c = capture_find(cc->ps->env.captures, cc->session);

	if (c)
		respond_with_capture(cc, c);
	else
		client_call_explain(cc, "the capture was removed");
}

/* ---- waiting ---- */

void client_calls_capture_ended(struct profiler_service *ps, struct capture *c)
{
	struct client_call *cc;

	TAILQ_FOREACH (cc, &ps->calls, entry) {
		if (cc->session && !strcmp(cc->session, c->session))
			respond_with_capture(cc, c);
	}
}

int64_t client_call_commit_by(const struct client_call *cc)
{
	int64_t deadline_ns = rpc_deadline_ns(cc->call);

	/* A deadline far away counts as none: sums with it could overflow. */
	if (deadline_ns > now_mono_ns() + LIMIT_WAIT_NS)
		return 0;
	return session_clock_now(cc->ps->env.clock) + deadline_ns - now_mono_ns() -
	       COMMIT_MARGIN_NS;
}

void client_call_await(struct client_call *cc, const struct capture *c)
{
	int64_t deadline_ns = rpc_deadline_ns(cc->call);

	if (capture_has_ended(c)) {
		respond_with_capture(cc, c);
		return;
	}
	cc->session = xstrdup(c->session);
	if (deadline_ns != INT64_MAX)
		loop_timer_at(cc->ps->env.loop, &cc->timer, deadline_ns - MARGIN_NS,
			      on_deadline_near, cc);
}

/* ---- the call ---- */

void client_call_opened(struct rpc_call *call)
{
	struct client_call *cc = xcalloc(1, sizeof(*cc));

	cc->ps = rpc_arg(call);
	cc->call = call;
	TAILQ_INSERT_TAIL(&cc->ps->calls, cc, entry);
	rpc_set_arg(call, cc);
}

/* The capture goes on without the client: its session is kept. */
void client_call_closed(struct rpc_call *call, const struct rpc_status *st)
{
	struct client_call *cc = rpc_arg(call);

	(void)st;
	cc->call = NULL;
	if (!cc->response)
		call_free(cc);
}

void client_calls_free(struct profiler_service *ps)
{
	while (!TAILQ_EMPTY(&ps->calls))
		call_free(TAILQ_FIRST(&ps->calls));
}

/* ---- the client ---- */

char *profiler_peer_address(const struct rpc_call *call)
{
	const char *peer = rpc_peer(call);
	const char *port = strrchr(peer, ':');

	return xstrndup(peer, port ? (size_t)(port - peer) : strlen(peer));
}

struct principal *profiler_caller(const struct profiler_service *ps, struct rpc_call *call)
{
	const char *token = access_bearer(rpc_authorization(call));

	return token ? access_check_now(ps->env.access, token, NULL) : NULL;
}

bool profiler_check_token(const struct profiler_service *ps, struct rpc_call *call)
{
	struct principal *p;
	bool may;

	if (!access_has_tokens(ps->env.access))
		return true;
	p = profiler_caller(ps, call);
	may = p && p->by_role[ROLE_OPERATOR].all;
	if (!may)
		log_warn("AGG-PROFILE", "peer=%s who=\"%s\" reason=\"no token of an operator\"",
			 rpc_peer(call), p ? p->name : "");
	if (p && !may)
		rpc_finish(call, RPC_PERMISSION_DENIED,
			   "this needs the role operator in all namespaces");
	else if (!may)
		rpc_finish(call, RPC_UNAUTHENTICATED,
			   "this needs the aggregator's token: metadata authorization, Bearer "
			   "TOKEN");
	principal_unref(p);
	return may;
}
