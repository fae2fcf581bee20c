/* SPDX-License-Identifier: Apache-2.0 */
/* Who the peer of a call is, by its certificate. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/rpc_impl.h"

#define LINES_PER_S 20 /* of refusals */

/* A copy of what core knows of the peer under this name; "" = nothing. */
static char *copy_property(grpc_call *call, const char *name, bool is_verified)
{
	grpc_auth_context *ctx = grpc_call_auth_context(call);
	const grpc_auth_property *p = NULL;
	grpc_auth_property_iterator it;
	char *text;

	if (ctx && (!is_verified || grpc_auth_context_peer_is_authenticated(ctx))) {
		it = grpc_auth_context_find_properties_by_name(ctx, name);
		p = grpc_auth_property_iterator_next(&it);
	}
	text = p ? xstrndup(p->value, p->value_length) : xstrdup("");
	if (ctx)
		grpc_auth_context_release(ctx);
	return text;
}

int rpc_check_identity(struct rpc_call *c, struct err *e)
{
	const struct rpc_verifier *v = c->server ? c->server->verifier : NULL;
	char name[RPC_IDENTITY_BYTES] = "";
	char *pem;
	int rc;

	if (!v)
		return 0;
	pem = copy_property(c->core, GRPC_X509_PEM_CERT_PROPERTY_NAME, false);
	if (*pem)
		rc = v->verify(v->arg, pem, strlen(pem), name, &c->identity_end_ns, e);
	else
		rc = err_set(e, ERR_DENIED, "no certificate was shown");
	free(pem);
	free(c->identity);
	c->identity = xstrdup(rc ? "" : name);
	return rc;
}

const char *rpc_identity(const struct rpc_call *c)
{
	struct rpc_call *own = (struct rpc_call *)c;

	if (own->identity)
		return own->identity;
	if (own->server && own->server->verifier)
		(void)!rpc_check_identity(own, NULL);
	else
		own->identity = copy_property(own->core, GRPC_X509_CN_PROPERTY_NAME, true);
	return own->identity;
}

int64_t rpc_identity_end_ns(const struct rpc_call *c)
{
	return *rpc_identity(c) && c->server && c->server->verifier ? c->identity_end_ns
								    : INT64_MAX;
}

static void log_refused(struct rpc_call *c, const struct err *why)
{
	struct rpc_server *s = c->server;
	int64_t second = loop_now_ns(c->rpc->loop) / NS_PER_S;

	if (s->unverified_s != second)
		s->n_unverified = 0;
	s->unverified_s = second;
	if (s->n_unverified++ < LINES_PER_S)
		log_warn("NET-CALLS", "peer=%s reason=\"%s\"", rpc_peer(c), why->msg);
}

static bool is_open(const struct rpc_server *s, const struct rpc_method *m)
{
	for (size_t i = 0; i < RPC_HEALTH_METHODS; i++) {
		if (m->events == rpc_health_methods[i].events)
			return true;
	}
	for (size_t i = 0; s->open_methods && s->open_methods[i]; i++) {
		if (!strcmp(s->open_methods[i], m->path))
			return true;
	}
	return false;
}

bool rpc_identity_admits(struct rpc_call *c, const struct rpc_method *m)
{
	struct err e;

	if (!c->server->verifier || is_open(c->server, m))
		return true;
	if (!rpc_check_identity(c, &e))
		return true;
	log_refused(c, &e);
	rpc_finish(c, RPC_UNAUTHENTICATED, e.msg);
	return false;
}
