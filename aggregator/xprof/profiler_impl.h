/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of xprof/ share; private to them. */
#ifndef AGGREGATOR_XPROF_PROFILER_IMPL_H
#define AGGREGATOR_XPROF_PROFILER_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "aggregator/xprof/profiler_service.h"
#include "base/loop.h"
#include "proto/profiler_series.h"

struct capture;
struct client_call;
struct profile;
struct response;
struct rpc_call;
struct rpc_status;

TAILQ_HEAD(profile_list, profile);
TAILQ_HEAD(client_call_list, client_call);

struct profiler_service {
	struct profiler_env env;
	struct profile_list profiles;
	size_t n_profiles;
	struct client_call_list calls;
	struct profiler_series_list series;
};

/* ---- client_call.c: a call that is answered with the files of a capture ---- */

/* One call. It lives on after `closed` while a worker loads its response. */
struct client_call {
	struct profiler_service *ps;
	struct rpc_call *call; /* NULL once closed */
	bool has_request; /* received; a second one is ignored */
	bool emit_xspace;
	char *session; /* the capture that the call waits for; NULL once the response is being made */
	struct response *response; /* being loaded by a worker */
	struct loop_timer timer; /* shortly before the client's deadline */
	TAILQ_ENTRY(client_call) entry;
};

/* Of struct rpc_events. */
void client_call_opened(struct rpc_call *call);
void client_call_closed(struct rpc_call *call, const struct rpc_status *st);

/* Answers when the capture has ended, or before the client's deadline with what is stored by then. */
void client_call_await(struct client_call *cc, const struct capture *c);

/* Answers with the cause: stock clients show no status. */
void client_call_explain(struct client_call *cc, const char *why);

/* When the session must be committed so that the client gets it before its deadline; session clock; 0 = no
 * deadline. */
int64_t client_call_commit_by(const struct client_call *cc);

void client_calls_capture_ended(struct profiler_service *ps, struct capture *c);
void client_calls_free(struct profiler_service *ps);

/* Whose token the call has: a reference, or NULL. */
struct principal *profiler_caller(const struct profiler_service *ps, struct rpc_call *call);

/* Finishes the call, and returns false, unless the call has the aggregator's token. */
bool profiler_check_token(const struct profiler_service *ps, struct rpc_call *call);

/* The peer's address without its port: a client may connect again. The caller frees it. */
char *profiler_peer_address(const struct rpc_call *call);

/* ---- continuous.c ---- */

void series_capture_ended(struct profiler_service *ps, const struct capture *c);

#endif
