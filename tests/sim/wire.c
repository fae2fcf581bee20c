/* SPDX-License-Identifier: Apache-2.0 */
/* Connections: bytes in order, and the ways in which they end. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tests/sim/rpc_sim.h"

#define RETRANSMIT_NS (200 * NS_PER_MS)

static TAILQ_HEAD(, conn) conns = TAILQ_HEAD_INITIALIZER(conns);

/* ---- references ---- */

struct stream *stream_ref(struct stream *s)
{
	s->refs++;
	return s;
}

void stream_unref(struct stream *s)
{
	if (s && !--s->refs)
		free(s);
}

static void conn_unref(struct conn *c)
{
	if (--c->refs)
		return;
	for (int i = 0; i < 2; i++)
		sim_cancel(&c->side[i].arrive);
	TAILQ_REMOVE(&conns, c, entry);
	free(c);
}

/* It is in no list any more. */
static void frame_free(struct frame *f)
{
	struct conn *c = f->conn;

	rpc_msg_free(f->msg);
	stream_unref(f->stream);
	free(f->text);
	free(f);
	conn_unref(c);
}

/* ---- arrival ---- */

static void deliver(void *arg)
{
	struct frame *f = arg;
	struct conn *c = f->conn;
	int to = !f->from;
	struct rpc_call *call = f->stream ? f->stream->end[to] : NULL;

	if (!c->side[to].open)
		frame_free(f);
	else if (f->kind == FRAME_FIN) {
		conn_break(c, to);
		frame_free(f);
	} else {
		if (f->kind == FRAME_OPEN)
			call_accept(c, f);
		else if (call)
			call_take_frame(call, f);
		frame_free(f);
	}
}

static void plan_arrival(struct conn_side *s);

static void on_arrive(void *arg)
{
	struct conn_side *s = arg;
	struct conn_side *to = &s->conn->side[!s->index];
	int64_t cut = net_cut_until_ns(s->host, to->host);
	struct frame *f = TAILQ_FIRST(&s->out);

	if (cut) {
		sim_at(&s->arrive, cut + rng_range(&sim.rng, 0, RETRANSMIT_NS), on_arrive, s);
		return;
	}
	TAILQ_REMOVE(&s->out, f, entry);
	plan_arrival(s);
	sim_hash(&f->kind, sizeof(f->kind));
	if (f->msg)
		sim_hash(f->msg->data, f->msg->len);
	if (to->open)
		loop_post(to->rpc->loop, deliver, f);
	else
		frame_free(f);
}

static void plan_arrival(struct conn_side *s)
{
	struct frame *f = TAILQ_FIRST(&s->out);

	if (f)
		sim_at(&s->arrive, f->arrival_ns, on_arrive, s);
}

/* ---- silence ---- */

/* Nothing arrives from the other side, and no packet says why. */
static bool is_cut_off(const struct conn_side *s)
{
	const struct conn_side *other = &s->conn->side[!s->index];

	return !other->open || other->host->paused_until_ns > sim.now_ns ||
	       net_cut_until_ns(s->host, other->host);
}

static void on_check(void *arg)
{
	struct conn_side *s = arg;

	if (s->host->paused_until_ns > sim.now_ns)
		sim_at(&s->check, s->host->paused_until_ns + PING_ANSWER_MAX_NS, on_check, s);
	else if (is_cut_off(s))
		conn_break(s->conn, s->index);
}

static void check_at(struct conn_side *s, int64_t at_ns)
{
	if (s->open && (!s->check.slot || s->check.at_ns > at_ns))
		sim_at(&s->check, at_ns, on_check, s);
}

/* The next ping comes some time within the period. */
static void check_by_ping(struct conn_side *s)
{
	if (!s->keepalive_ns)
		return;
	sim_cancel(&s->check);
	check_at(s, sim.now_ns + rng_range(&sim.rng, 0, s->keepalive_ns) + PING_ANSWER_MAX_NS);
}

static bool is_of(const struct conn *c, const struct sim_host *h)
{
	return c->side[0].host == h || c->side[1].host == h;
}

void wire_host_silent(struct sim_host *h)
{
	struct conn *c;

	TAILQ_FOREACH (c, &conns, entry) {
		if (!is_of(c, h))
			continue;
		check_by_ping(&c->side[0]);
		check_by_ping(&c->side[1]);
	}
}

/* ---- sending ---- */

static int64_t bytes_per_s(const struct conn *c)
{
	int64_t a = c->side[0].host->bytes_per_s, b = c->side[1].host->bytes_per_s;

	return a < b ? a : b;
}

int64_t conn_send(struct conn *c, int from, const struct frame *what, size_t bytes)
{
	struct conn_side *s = &c->side[from], *to = &c->side[!from];
	struct frame *f = xmalloc(sizeof(*f));
	int64_t takes_ns = (int64_t)((double)bytes / (double)bytes_per_s(c) * 1e9);

	if (s->busy_until_ns < sim_here_ns())
		s->busy_until_ns = sim_here_ns();
	s->busy_until_ns += takes_ns;
	*f = *what;
	f->conn = c;
	f->from = from;
	f->arrival_ns = s->busy_until_ns + net_delay_ns(s->host, to->host);
	if (rng_chance(&sim.rng, net_path(s->host, to->host)->loss))
		f->arrival_ns += RETRANSMIT_NS;
	c->refs++;
	TAILQ_INSERT_TAIL(&s->out, f, entry);
	if (TAILQ_FIRST(&s->out) == f)
		plan_arrival(s);
	/* Bytes that are not acknowledged are noticed sooner than a ping. */
	if (!to->open || net_cut_until_ns(s->host, to->host))
		check_at(s, sim.now_ns + PING_ANSWER_MAX_NS);
	return s->busy_until_ns;
}

/* ---- life ---- */

static void side_init(struct conn *c, int index, struct rpc *r, int64_t keepalive_ns)
{
	struct conn_side *s = &c->side[index];

	*s = (struct conn_side){ .conn = c, .index = index, .rpc = r, .host = r->host };
	s->open = true;
	s->keepalive_ns = keepalive_ns;
	TAILQ_INIT(&s->calls);
	TAILQ_INIT(&s->out);
	c->refs++;
}

struct conn *conn_new(struct rpc_channel *ch, struct rpc *client, int64_t keepalive_ns,
		      struct rpc_server *s)
{
	struct conn *c = xcalloc(1, sizeof(*c));

	c->channel = ch;
	c->server = s;
	side_init(c, 0, client, keepalive_ns);
	side_init(c, 1, server_rpc(s), server_keepalive_ns(s));
	TAILQ_INSERT_TAIL(&conns, c, entry);
	return c;
}

/* What was not sent by a machine that is gone never arrives. */
static void drop_out(struct conn_side *s)
{
	struct frame *f;

	while ((f = TAILQ_FIRST(&s->out))) {
		TAILQ_REMOVE(&s->out, f, entry);
		frame_free(f);
	}
	sim_cancel(&s->arrive);
}

void conn_break(struct conn *c, int side)
{
	struct conn_side *s = &c->side[side];
	const struct frame fin = { .kind = FRAME_FIN };
	struct rpc_call *call;

	if (!s->open)
		return;
	s->open = false;
	sim_cancel(&s->check);
	while ((call = TAILQ_FIRST(&s->calls)))
		call_lost(call, RPC_UNAVAILABLE, "connection lost");
	if (!side && c->channel)
		channel_broken(c->channel);
	if (!side)
		c->channel = NULL;
	else
		c->server = NULL;
	if (s->host->vanished)
		drop_out(s);
	else if (c->side[!side].open)
		conn_send(c, side, &fin, 0);
	conn_unref(c);
}

static void break_if(bool (*which)(const struct conn_side *s, const void *arg), const void *arg)
{
	for (struct conn *c = TAILQ_FIRST(&conns), *next; c; c = next) {
		next = TAILQ_NEXT(c, entry);
		c->refs++;
		for (int i = 0; i < 2; i++) {
			if (which(&c->side[i], arg))
				conn_break(c, i);
		}
		conn_unref(c);
	}
}

static bool is_servers(const struct conn_side *s, const void *arg)
{
	return s->index == 1 && s->conn->server == arg;
}

void conns_break_server(struct rpc_server *s)
{
	break_if(is_servers, s);
}

static bool is_hosts(const struct conn_side *s, const void *arg)
{
	return s->host == arg;
}

void wire_host_gone(struct sim_host *h)
{
	break_if(is_hosts, h);
	if (h->vanished)
		wire_host_silent(h);
}

size_t wire_connections(void)
{
	struct conn *c;
	size_t n = 0;

	TAILQ_FOREACH (c, &conns, entry)
		n++;
	return n;
}
