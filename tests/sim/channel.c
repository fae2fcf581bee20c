/* SPDX-License-Identifier: Apache-2.0 */
/* Channels that connect, fail, and wait before they try again; servers that listen. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "net/address.h"
#include "proto/limits.h"
#include "tests/sim/rpc_sim.h"

#define CONNECT_LIMIT_NS (60 * NS_PER_S)
#define BACKOFF_FIRST_NS (500 * NS_PER_MS)
#define BACKOFF_MAX_NS	 (20 * NS_PER_S)
#define FINISH_GRACE_NS	 (2 * NS_PER_S)
#define TURNS_MAX	 1000
#define FIRST_PORT	 30000

int rpc_new(struct rpc **out, struct loop *loop, struct err *e)
{
	struct rpc *r = xcalloc(1, sizeof(*r));

	(void)e;
	r->loop = loop;
	r->host = sim.host;
	*out = r;
	return 0;
}

void rpc_free(struct rpc *r)
{
	if (!r)
		return;
	for (int i = 0; i < TURNS_MAX && r->n_calls; i++)
		loop_turn(r->loop, 10);
	if (r->n_calls)
		sim_fail("%s leaves %zu calls behind", r->host->name, r->n_calls);
	free(r);
}

/* ---- channels ---- */

struct rpc_channel {
	struct rpc *rpc;
	char host[ADDRESS_HOST_BYTES];
	int port;
	int64_t keepalive_ns;
	size_t max_message_bytes;
	enum { CHANNEL_IDLE, CHANNEL_CONNECTING, CHANNEL_READY, CHANNEL_WAITING } state;
	struct conn *conn; /* if it is ready */
	struct rpc_calls calls;
	int64_t began_ns; /* to connect */
	int64_t backoff_ns;
	struct sim_event next; /* of connecting, and of waiting */
};

int rpc_channel_new(struct rpc_channel **out, struct rpc *r, const struct rpc_channel_opts *opts,
		    struct err *e)
{
	struct rpc_channel *ch = xcalloc(1, sizeof(*ch));
	int rc = address_split(opts->target, ch->host, &ch->port, e);

	if (rc) {
		free(ch);
		return rc;
	}
	ch->rpc = r;
	ch->keepalive_ns = opts->keepalive_ns;
	ch->max_message_bytes = opts->max_message_bytes ? opts->max_message_bytes
							: LIMIT_REQUEST_BYTES;
	TAILQ_INIT(&ch->calls);
	*out = ch;
	return 0;
}

void rpc_channel_free(struct rpc_channel *ch)
{
	struct rpc_call *c;

	if (!ch)
		return;
	while ((c = TAILQ_FIRST(&ch->calls))) {
		TAILQ_REMOVE(&ch->calls, c, on_channel);
		c->owner = NULL;
		c->channel = NULL;
		rpc_cancel(c);
	}
	sim_cancel(&ch->next);
	if (ch->conn) {
		ch->conn->channel = NULL;
		conn_break(ch->conn, 0);
	}
	free(ch);
}

void channel_broken(struct rpc_channel *ch)
{
	ch->conn = NULL;
	ch->state = CHANNEL_IDLE;
}

static void on_backoff(void *arg)
{
	struct rpc_channel *ch = arg;

	ch->state = CHANNEL_IDLE;
}

static void give_up(struct rpc_channel *ch)
{
	struct rpc_call *c, *next;

	ch->state = CHANNEL_WAITING;
	if (!ch->backoff_ns)
		ch->backoff_ns = BACKOFF_FIRST_NS + rng_range(&sim.rng, 0, BACKOFF_FIRST_NS);
	sim_at(&ch->next, sim.now_ns + ch->backoff_ns, on_backoff, ch);
	ch->backoff_ns += ch->backoff_ns * 6 / 10;
	if (ch->backoff_ns > BACKOFF_MAX_NS)
		ch->backoff_ns = BACKOFF_MAX_NS;
	for (c = TAILQ_FIRST(&ch->calls); c; c = next) {
		next = TAILQ_NEXT(c, on_channel);
		call_lost(c, RPC_UNAVAILABLE, "failed to connect");
	}
}

static void on_connect(void *arg);

static void go(struct rpc_channel *ch, struct rpc_server *s)
{
	struct rpc_call *c;

	ch->state = CHANNEL_READY;
	ch->backoff_ns = 0;
	ch->conn = conn_new(ch, ch->rpc, ch->keepalive_ns, s);
	TAILQ_FOREACH (c, &ch->calls, on_channel) {
		if (!c->ended)
			call_begin(c, ch->conn, c->path);
	}
}

/* The answer to the first packet would be here now. */
static void on_connect(void *arg)
{
	struct rpc_channel *ch = arg;
	struct sim_host *to = host_find(ch->host);
	struct rpc_server *s = server_find(ch->host, ch->port);
	int64_t cut = to ? net_cut_until_ns(ch->rpc->host, to) : 0;
	int64_t again = 0;

	if (cut)
		again = cut + rng_range(&sim.rng, 0, NS_PER_S);
	else if (s && to->paused_until_ns > sim.now_ns)
		again = to->paused_until_ns;
	else if (to && to->vanished)
		again = sim.now_ns + 3 * NS_PER_S;
	if (again > ch->began_ns + CONNECT_LIMIT_NS)
		again = ch->began_ns + CONNECT_LIMIT_NS;
	if (again > sim.now_ns)
		sim_at(&ch->next, again, on_connect, ch);
	else if (again || !s)
		give_up(ch);
	else
		go(ch, s);
}

static void connect_channel(struct rpc_channel *ch)
{
	const struct sim_host *to = host_find(ch->host);
	int64_t rtt = to ? net_delay_ns(ch->rpc->host, to) + net_delay_ns(to, ch->rpc->host) : 0;

	ch->state = CHANNEL_CONNECTING;
	ch->began_ns = sim.now_ns;
	sim_at(&ch->next, sim.now_ns + rtt, on_connect, ch);
}

struct rpc_call *rpc_open(struct rpc_channel *ch, const char *path, int64_t deadline_ns,
			  const struct rpc_events *events, void *arg)
{
	struct rpc_call *c = call_new(ch->rpc, 0, events, arg, ch->max_message_bytes);

	assert(path[0] == '/');
	c->channel = ch;
	c->owner = &ch->calls;
	c->path = xstrdup(path);
	TAILQ_INSERT_TAIL(&ch->calls, c, on_channel);
	call_set_deadline(c, deadline_ns);
	if (ch->rpc->host->cleaning_up || ch->state == CHANNEL_WAITING)
		call_lost(c, RPC_UNAVAILABLE, "failed to connect");
	else if (ch->state == CHANNEL_IDLE)
		connect_channel(ch);
	else if (ch->state == CHANNEL_READY)
		call_begin(c, ch->conn, path);
	return c;
}

/* ---- servers ---- */

struct rpc_server {
	struct rpc *rpc;
	int port;
	int64_t keepalive_ns;
	struct rpc_method *methods;
	size_t n_methods;
	struct rpc_calls calls;
	bool stopping;
	TAILQ_ENTRY(rpc_server) entry;
};

static TAILQ_HEAD(, rpc_server) servers = TAILQ_HEAD_INITIALIZER(servers);

struct rpc_server *server_find(const char *host, int port)
{
	const struct sim_host *at = host_find(host);
	struct rpc_server *s;

	TAILQ_FOREACH (s, &servers, entry) {
		if (!s->stopping && s->port == port && s->rpc->host == at &&
		    !s->rpc->host->cleaning_up)
			return s;
	}
	return NULL;
}

struct rpc *server_rpc(const struct rpc_server *s)
{
	return s->rpc;
}

int64_t server_keepalive_ns(const struct rpc_server *s)
{
	return s->keepalive_ns;
}

struct rpc_calls *server_calls(struct rpc_server *s)
{
	return &s->calls;
}

const struct rpc_method *server_method(const struct rpc_server *s, const char *path)
{
	for (size_t i = 0; i < s->n_methods && !s->stopping; i++) {
		if (!strcmp(s->methods[i].path, path))
			return &s->methods[i];
	}
	return NULL;
}

static int free_port(const char *host)
{
	int port = FIRST_PORT;

	while (server_find(host, port))
		port++;
	return port;
}

int rpc_server_new(struct rpc_server **out, struct rpc *r, const struct rpc_server_opts *opts,
		   const struct rpc_method *methods, size_t n_methods, int *port, struct err *e)
{
	struct rpc_server *s = xcalloc(1, sizeof(*s));
	char host[ADDRESS_HOST_BYTES];
	int rc = address_split(opts->address, host, &s->port, e);

	if (rc) {
		free(s);
		return rc;
	}
	s->rpc = r;
	if (!s->port)
		s->port = free_port(host);
	s->keepalive_ns = opts->keepalive_ns;
	s->n_methods = n_methods;
	s->methods = xcalloc(n_methods, sizeof(*methods));
	memcpy(s->methods, methods, n_methods * sizeof(*methods));
	for (size_t i = 0; i < n_methods; i++) {
		if (!s->methods[i].max_message_bytes)
			s->methods[i].max_message_bytes = opts->max_message_bytes;
	}
	TAILQ_INIT(&s->calls);
	TAILQ_INSERT_TAIL(&servers, s, entry);
	if (port)
		*port = s->port;
	*out = s;
	return 0;
}

bool rpc_is_behind(struct rpc *r)
{
	(void)r;
	return false;
}

void rpc_server_set_serving(struct rpc_server *s, bool serving)
{
	(void)s;
	(void)serving;
}

void rpc_server_free(struct rpc_server *s)
{
	struct rpc_call *c, *next;
	int64_t until = now_mono_ns() + FINISH_GRACE_NS;

	if (!s)
		return;
	s->stopping = true;
	for (c = TAILQ_FIRST(&s->calls); c; c = next) {
		next = TAILQ_NEXT(c, on_channel);
		if (!c->want_end)
			rpc_cancel(c);
	}
	while (!TAILQ_EMPTY(&s->calls) && now_mono_ns() < until)
		loop_turn(s->rpc->loop, 10);
	conns_break_server(s);
	for (int i = 0; i < TURNS_MAX && !TAILQ_EMPTY(&s->calls); i++)
		loop_turn(s->rpc->loop, 10);
	if (!TAILQ_EMPTY(&s->calls))
		sim_fail("a server of %s does not stop", s->rpc->host->name);
	TAILQ_REMOVE(&servers, s, entry);
	free(s->methods);
	free(s);
}
