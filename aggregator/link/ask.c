/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/link/ask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/access/access.h"
#include "aggregator/captures/capture.h"
#include "aggregator/fleet/messages.h"
#include "aggregator/fleet/registry.h"
#include "aggregator/link/control.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/limits.h"

/* longest window of a request that names no duration */
#define ASK_DURATION_NS (600 * NS_PER_S)

/* Whether the token is of an operator of the whole fleet; without tokens everybody is one. */
static bool may_operate(const struct control_env *env, const char *token)
{
	struct principal *p;
	bool may;

	if (!access_has_tokens(env->access))
		return true;
	p = access_check_now(env->access, token, NULL);
	may = p && p->by_role[ROLE_OPERATOR].all;
	principal_unref(p);
	return may;
}

/* Processes may capture their own host. For other hosts they need the token, like callers over HTTP. */
static int check_ask_token(const struct control_env *env, const struct host *h,
			   const Tutti__V1__Ask *ask, struct err *e)
{
	if (!*ask->hosts || !strcmp(ask->hosts, h->name) || may_operate(env, ask->token))
		return 0;
	return err_set(e, ERR_DENIED,
		       "capturing other hosts than %s needs the aggregator's token: "
		       "tutti start --token-file FILE",
		       h->name);
}

static int ask_start(const struct control_env *env, const struct host *h, const Tutti__V1__Ask *ask,
		     struct capture **c, struct err *e)
{
	char *origin = xasprintf("local %s", h->name);
	struct capture_request req = {
		.hosts = *ask->hosts ? ask->hosts : h->name,
		.run = ask->run,
		.duration_ns = ask->duration_ns ? ask->duration_ns : ASK_DURATION_NS,
		.open_ended = true,
		.origin = origin,
	};
	int rc = check_ask_token(env, h, ask, e);

	if (!rc)
		rc = capture_begin(env->captures, &req, c, e);
	free(origin);
	return rc;
}

/* The agent has found a profile that a program on its host made: begins a snapshot of that profile's
 * window, of this host only. */
static int ask_snapshot(const struct control_env *env, const struct host *h,
			const Tutti__V1__Ask *ask, struct capture **c, struct err *e)
{
	char *origin = xasprintf("watch %s", h->name);
	struct capture_request req = {
		.hosts = h->name,
		.run = ask->run,
		.duration_ns = ask->duration_ns,
		.snapshot = true,
		.ending_at_ns = ask->ending_at_ns,
		.origin = origin,
	};
	int rc = 0;

	if (!ask->ending_at_ns || !ask->duration_ns)
		rc = err_set(e, ERR_INVALID, "a snapshot needs its end and its length");
	if (!rc)
		rc = capture_begin(env->captures, &req, c, e);
	free(origin);
	return rc;
}

/* Processes may stop a capture that a process of their host requested. For any other capture they need the
 * token, like callers over HTTP; if there is no token, their host must take part in the capture. */
static int check_ask_stop(const struct control_env *env, const struct host *h,
			  const Tutti__V1__Ask *ask, struct capture *c, struct err *e)
{
	char origin[LIMIT_HOST_NAME + 8];

	snprintf(origin, sizeof(origin), "local %s", h->name);
	if (!strcmp(c->origin, origin))
		return 0;
	if (!may_operate(env, ask->token))
		return err_set(e, ERR_DENIED,
			       "no process of %s requested this capture: stopping it needs the "
			       "aggregator's token: tutti stop --token-file FILE",
			       h->name);
	if (!access_has_tokens(env->access) && !capture_find_host(c, h->name, h->instance))
		return err_set(e, ERR_DENIED,
			       "capture %s was not requested by this host and does not record it",
			       ask->session);
	return 0;
}

static int ask_stop(const struct control_env *env, const struct host *h, const Tutti__V1__Ask *ask,
		    struct capture **c, struct err *e)
{
	char *origin;
	int rc;

	*c = capture_find(env->captures, ask->session);
	if (!*c)
		return err_set(e, ERR_NOT_FOUND, "there is no capture '%s'", ask->session);
	rc = check_ask_stop(env, h, ask, *c, e);
	if (!rc) {
		origin = xasprintf("local %s", h->name);
		capture_stop_by(*c, origin);
		free(origin);
	}
	return rc;
}

/* An answer that waits for the store; the host may have a new link by then. */
struct pending_answer {
	struct registry *registry;
	char *host;
	uint64_t instance, id;
};

static void send_answer(void *arg, struct capture *c, const struct err *not_durable)
{
	struct pending_answer *a = arg;
	struct host *host = registry_find(a->registry, a->host);
	struct buf message = BUF_INIT;

	message_answer(&message, a->id, !not_durable, c->session,
		       not_durable ? not_durable->msg : "");
	if (host && host->instance == a->instance)
		host_send(host, &message);
	buf_release(&message);
	free(a->host);
	free(a);
}

static void answer_when_durable(const struct control_env *env, const struct host *h, uint64_t id,
				struct capture *c)
{
	struct pending_answer *a = xmalloc(sizeof(*a));

	*a = (struct pending_answer){ env->registry, xstrdup(h->name), h->instance, id };
	capture_when_durable(c, send_answer, a);
}

void ask_handle(const struct control_env *env, struct host *h, const Tutti__V1__Ask *ask)
{
	struct buf message = BUF_INIT;
	struct capture *c = NULL;
	struct err e = { 0 };
	int rc;

	if (!strcmp(ask->verb, "start"))
		rc = ask_start(env, h, ask, &c, &e);
	else if (!strcmp(ask->verb, "stop"))
		rc = ask_stop(env, h, ask, &c, &e);
	else if (!strcmp(ask->verb, "snapshot"))
		rc = ask_snapshot(env, h, ask, &c, &e);
	else
		rc = err_set(&e, ERR_UNSUPPORTED, "unknown verb '%s'", ask->verb);
	if (!rc) {
		answer_when_durable(env, h, ask->id, c);
		return;
	}
	message_answer(&message, ask->id, false, "", e.msg);
	host_send(h, &message);
	buf_release(&message);
}
