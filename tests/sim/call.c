/* SPDX-License-Identifier: Apache-2.0 */
/* A call, on either side, and messages: what net/rpc.h promises of them. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "proto/limits.h"
#include "tests/sim/rpc_sim.h"

#define WINDOW_BYTES (1 << 20) /* on the wire and not yet read */
#define FRAME_BYTES  64 /* of what has no message */

struct in {
	enum frame_kind kind;
	struct rpc_msg *msg;
	enum rpc_code code;
	char *text;
	TAILQ_ENTRY(in) entry;
};

struct out {
	struct rpc_msg *msg;
	STAILQ_ENTRY(out) next;
};

static void pump(struct rpc_call *c);
static void read_next(struct rpc_call *c);

/* ---- messages ---- */

static struct rpc_msg *msg_new(const struct rpc_part *parts, size_t n_parts, size_t len)
{
	struct rpc_msg *m = xmalloc(sizeof(*m) + len);
	size_t at = 0;

	m->refs = 1;
	m->len = len;
	for (size_t i = 0; i < n_parts; i++) {
		if (parts[i].len)
			memcpy(m->data + at, parts[i].data, parts[i].len);
		at += parts[i].len;
	}
	return m;
}

size_t rpc_msg_len(const struct rpc_msg *m)
{
	return m->len;
}

const uint8_t *rpc_msg_data(const struct rpc_msg *m, size_t *len)
{
	*len = m->len;
	return m->data;
}

void rpc_msg_pieces(const struct rpc_msg *m, rpc_piece_fn fn, void *arg)
{
	fn(arg, m->data, m->len);
}

struct rpc_msg *rpc_msg_keep(const struct rpc_msg *m)
{
	struct rpc_msg *own = (struct rpc_msg *)m;

	own->refs++;
	return own;
}

void rpc_msg_free(struct rpc_msg *m)
{
	if (m && !--m->refs)
		free(m);
}

/* ---- life ---- */

struct rpc_call *call_new(struct rpc *r, int side, const struct rpc_events *events, void *arg,
			  size_t max_message_bytes)
{
	struct rpc_call *c = xcalloc(1, sizeof(*c));

	c->rpc = r;
	c->side = side;
	c->events = events;
	c->arg = arg;
	c->max_message_bytes = max_message_bytes;
	c->deadline_ns = INT64_MAX;
	c->code = RPC_CANCELLED;
	c->window = WINDOW_BYTES;
	TAILQ_INIT(&c->in);
	STAILQ_INIT(&c->out);
	r->n_calls++;
	return c;
}

static void in_free(struct rpc_call *c, struct in *in)
{
	TAILQ_REMOVE(&c->in, in, entry);
	rpc_msg_free(in->msg);
	free(in->text);
	free(in);
}

static void drop_in(struct rpc_call *c)
{
	while (!TAILQ_EMPTY(&c->in))
		in_free(c, TAILQ_FIRST(&c->in));
}

static void out_free(struct rpc_call *c)
{
	struct out *out = STAILQ_FIRST(&c->out);

	STAILQ_REMOVE_HEAD(&c->out, next);
	c->out_bytes -= out->msg->len;
	rpc_msg_free(out->msg);
	free(out);
}

static void drop_out(struct rpc_call *c)
{
	while (!STAILQ_EMPTY(&c->out))
		out_free(c);
}

static void deliver_closed(struct rpc_call *c)
{
	const struct rpc_status st = { c->code, c->text ? c->text : "" };

	c->quiet = true;
	if (c->events->closed)
		c->events->closed(c, &st);
	if (c->owner)
		TAILQ_REMOVE(c->owner, c, on_channel);
	c->rpc->n_calls--;
	free(c->path);
	free(c->text);
	free(c);
}

static void put(struct rpc_call *c)
{
	if (--c->pending == 0 && c->ended)
		deliver_closed(c);
}

static void post(struct rpc_call *c, loop_fn fn)
{
	c->pending++;
	loop_post(c->rpc->loop, fn, c);
}

static void on_end(void *arg)
{
	put(arg);
}

static void leave_conn(struct rpc_call *c)
{
	if (!c->conn)
		return;
	TAILQ_REMOVE(&c->conn->side[c->side].calls, c, on_conn);
	c->conn = NULL;
	c->stream->end[c->side] = NULL;
	stream_unref(c->stream);
	c->stream = NULL;
}

/* The first reason counts. */
static void end(struct rpc_call *c, enum rpc_code code, const char *text)
{
	if (c->ended)
		return;
	c->ended = true;
	c->code = code;
	free(c->text);
	c->text = xstrdup(text);
	drop_in(c);
	drop_out(c);
	sim_cancel(&c->sent);
	loop_timer_cancel(c->rpc->loop, &c->timer);
	leave_conn(c);
	post(c, on_end);
}

/* A server gets no status from its caller, only that it disconnected. */
void call_lost(struct rpc_call *c, enum rpc_code code, const char *text)
{
	end(c, c->side ? RPC_CANCELLED : code, c->side ? "the caller disconnected" : text);
	leave_conn(c);
}

static void send_frame(struct rpc_call *c, struct frame f)
{
	f.stream = stream_ref(c->stream);
	conn_send(c->conn, c->side, &f, FRAME_BYTES);
}

/* Ends here, and tells the other side. */
static void reset(struct rpc_call *c, enum rpc_code code, const char *text)
{
	c->quiet = true;
	if (!c->ended && c->conn)
		send_frame(c, (struct frame){ .kind = FRAME_RESET });
	call_lost(c, code, text);
}

void rpc_cancel(struct rpc_call *c)
{
	reset(c, RPC_CANCELLED, "cancelled");
}

static void fail(struct rpc_call *c, enum rpc_code code, const char *text)
{
	if (c->side)
		rpc_finish(c, code, text);
	else
		reset(c, code, text);
}

static void on_deadline(void *arg)
{
	reset(arg, RPC_DEADLINE_EXCEEDED, "the deadline has passed");
}

void call_set_deadline(struct rpc_call *c, int64_t deadline_ns)
{
	c->deadline_ns = deadline_ns;
	if (deadline_ns != INT64_MAX)
		loop_timer_at(c->rpc->loop, &c->timer, deadline_ns, on_deadline, c);
}

/* ---- the beginning ---- */

static void join(struct rpc_call *c, struct conn *conn, struct stream *s)
{
	const struct sim_host *peer = conn->side[!c->side].host;

	c->conn = conn;
	c->stream = stream_ref(s);
	s->end[c->side] = c;
	TAILQ_INSERT_TAIL(&conn->side[c->side].calls, c, on_conn);
	snprintf(c->peer, sizeof(c->peer), "sim:%s:1", peer->name);
}

void call_begin(struct rpc_call *c, struct conn *conn, const char *path)
{
	struct stream *s = xcalloc(1, sizeof(*s));
	int64_t left_ns = INT64_MAX;

	if (c->deadline_ns != INT64_MAX)
		left_ns = c->deadline_ns - host_mono_ns(c->rpc->host, sim.now_ns);
	join(c, conn, s);
	send_frame(c,
		   (struct frame){ .kind = FRAME_OPEN, .text = xstrdup(path), .left_ns = left_ns });
	pump(c);
}

static void refuse(struct conn *conn, const struct frame *f)
{
	const struct frame status = { .kind = FRAME_STATUS,
				      .stream = stream_ref(f->stream),
				      .code = RPC_UNIMPLEMENTED,
				      .text = xstrdup("no such method") };

	conn_send(conn, 1, &status, FRAME_BYTES);
}

void call_accept(struct conn *conn, const struct frame *f)
{
	const struct rpc_method *m = server_method(conn->server, f->text);
	struct rpc_call *c;

	if (!m) {
		refuse(conn, f);
		return;
	}
	c = call_new(server_rpc(conn->server), 1, m->events, m->arg, m->max_message_bytes);
	c->owner = server_calls(conn->server);
	TAILQ_INSERT_TAIL(c->owner, c, on_channel);
	join(c, conn, f->stream);
	if (f->left_ns != INT64_MAX)
		call_set_deadline(c, now_mono_ns() + f->left_ns);
	c->pending++;
	if (c->events->opened)
		c->events->opened(c);
	put(c);
}

/* ---- receiving ---- */

static void credit(struct rpc_call *c, size_t bytes)
{
	if (c->conn)
		send_frame(c, (struct frame){ .kind = FRAME_CREDIT, .credit = bytes });
}

static void on_read_on(void *arg)
{
	struct rpc_call *c = arg;

	read_next(c);
	put(c);
}

static bool deliver_message(struct rpc_call *c, const struct rpc_msg *m)
{
	bool more;

	if (c->quiet || !c->events->message)
		return true;
	if (m->len > c->max_message_bytes) {
		fail(c, RPC_RESOURCE_EXHAUSTED, "message beyond the limit");
		return true;
	}
	c->delivering = true;
	c->read_again = false;
	more = c->events->message(c, m);
	c->delivering = false;
	return more || c->read_again || c->quiet;
}

static void take_message(struct rpc_call *c, struct in *in)
{
	struct rpc_msg *m = rpc_msg_keep(in->msg);

	in_free(c, in);
	credit(c, m->len);
	c->held = !deliver_message(c, m);
	rpc_msg_free(m);
}

static void half_closed(struct rpc_call *c)
{
	if (!c->quiet && c->events->half_closed)
		c->events->half_closed(c);
}

static void take_status(struct rpc_call *c, const struct in *in)
{
	char *text = xstrdup(in->text);
	enum rpc_code code = in->code;

	half_closed(c);
	end(c, code, text);
	free(text);
}

static void read_next(struct rpc_call *c)
{
	struct in *in;

	if (c->reading)
		return;
	c->reading = true;
	while (!c->held && !c->ended && (in = TAILQ_FIRST(&c->in))) {
		if (in->kind == FRAME_MESSAGE) {
			take_message(c, in);
		} else if (in->kind == FRAME_STATUS) {
			take_status(c, in);
		} else {
			in_free(c, in);
			half_closed(c);
		}
	}
	c->reading = false;
}

void call_take_frame(struct rpc_call *c, const struct frame *f)
{
	struct in *in;

	c->pending++;
	if (f->kind == FRAME_CREDIT) {
		c->window += (int64_t)f->credit;
		pump(c);
	} else if (f->kind == FRAME_RESET) {
		call_lost(c, RPC_CANCELLED, "cancelled by the server");
	} else {
		in = xcalloc(1, sizeof(*in));
		in->kind = f->kind;
		in->msg = f->msg ? rpc_msg_keep(f->msg) : NULL;
		in->code = f->code;
		in->text = f->text ? xstrdup(f->text) : NULL;
		TAILQ_INSERT_TAIL(&c->in, in, entry);
		read_next(c);
	}
	put(c);
}

void rpc_abort(struct rpc_call *c, enum rpc_code code, const char *text)
{
	rpc_finish(c, code, text);
}

void rpc_admit(struct rpc_call *c)
{
	(void)c; /* the simulation has no hostile peers */
}

void rpc_hurry(struct rpc_call *c)
{
	(void)c; /* it delays nothing */
}

void rpc_read_on(struct rpc_call *c)
{
	if (c->delivering) {
		c->read_again = true;
	} else if (c->held && !c->ended) {
		c->held = false;
		post(c, on_read_on);
	}
}

/* ---- sending ---- */

static void on_left(void *arg)
{
	struct rpc_call *c = arg;
	bool was_message = !c->sent_end;

	c->sending = false;
	if (c->ended)
		goto out;
	if (was_message)
		out_free(c);
	else if (c->side)
		end(c, RPC_OK, "");
	pump(c);
	if (was_message && STAILQ_EMPTY(&c->out) && !c->quiet && c->events->drained)
		c->events->drained(c);
out:
	put(c);
}

static void on_sent(void *arg)
{
	post(arg, on_left);
}

static void send_out(struct rpc_call *c, struct frame f, size_t bytes)
{
	f.stream = stream_ref(c->stream);
	c->sending = true;
	sim_at(&c->sent, conn_send(c->conn, c->side, &f, bytes), on_sent, c);
}

static void send_end(struct rpc_call *c)
{
	struct frame f = { .kind = FRAME_END };

	if (c->side) {
		f.kind = FRAME_STATUS;
		f.code = c->code;
		f.text = xstrdup(c->text);
	}
	c->sent_end = true;
	send_out(c, f, FRAME_BYTES);
}

static void pump(struct rpc_call *c)
{
	struct out *out = STAILQ_FIRST(&c->out);

	if (c->sending || c->ended || !c->conn)
		return;
	if (out && c->window > 0) {
		c->window -= (int64_t)out->msg->len;
		send_out(c, (struct frame){ .kind = FRAME_MESSAGE, .msg = rpc_msg_keep(out->msg) },
			 FRAME_BYTES + out->msg->len);
	} else if (!out && c->want_end && !c->sent_end) {
		send_end(c);
	}
}

static void release(const struct rpc_part *parts, size_t n_parts)
{
	for (size_t i = 0; i < n_parts; i++) {
		if (parts[i].release)
			parts[i].release(parts[i].arg);
	}
}

void rpc_send_parts(struct rpc_call *c, const struct rpc_part *parts, size_t n_parts)
{
	struct out *out;
	size_t len = 0;

	for (size_t i = 0; i < n_parts; i++)
		len += parts[i].len;
	assert(len <= LIMIT_RESPONSE_BYTES);
	if (!c->quiet && !c->ended && !c->want_end) {
		out = xcalloc(1, sizeof(*out));
		out->msg = msg_new(parts, n_parts, len);
		STAILQ_INSERT_TAIL(&c->out, out, next);
		c->out_bytes += len;
		pump(c);
	}
	release(parts, n_parts);
}

void rpc_send(struct rpc_call *c, const void *data, size_t len)
{
	const struct rpc_part part = { .data = data, .len = len };

	rpc_send_parts(c, &part, 1);
}

size_t rpc_queued_bytes(const struct rpc_call *c)
{
	return c->out_bytes;
}

void rpc_half_close(struct rpc_call *c)
{
	if (c->quiet || c->ended)
		return;
	c->want_end = true;
	pump(c);
}

void rpc_finish(struct rpc_call *c, enum rpc_code code, const char *text)
{
	if (c->quiet || c->ended || c->want_end)
		return;
	c->code = code;
	c->text = xstrdup(text ? text : "");
	c->want_end = true;
	c->quiet = true;
	pump(c);
}

/* ---- what is known about it ---- */

void *rpc_arg(const struct rpc_call *c)
{
	return c->arg;
}

void rpc_set_arg(struct rpc_call *c, void *arg)
{
	c->arg = arg;
}

const char *rpc_peer(const struct rpc_call *c)
{
	return c->peer;
}

const char *rpc_identity(const struct rpc_call *c)
{
	(void)c;
	return "";
}

int rpc_check_identity(struct rpc_call *c, struct err *e)
{
	(void)c;
	(void)e;
	return 0;
}

int64_t rpc_identity_end_ns(const struct rpc_call *c)
{
	(void)c;
	return INT64_MAX;
}

const char *rpc_authorization(const struct rpc_call *c)
{
	(void)c;
	return "";
}

int64_t rpc_deadline_ns(const struct rpc_call *c)
{
	return c->deadline_ns;
}
