/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call, on either side: received messages go to its events, messages to be sent wait in a queue;
 * core has at most one batch of each kind at a time. The call lives until core has returned every
 * batch; then `closed` is delivered and the call is freed.
 */
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/secret.h"
#include "net/rpc_impl.h"
#include "proto/limits.h"

/* The ceilings of what rpc_send() copies for peers that do not read (docs/wire.md). */
#define QUEUE_MAX_BYTES	 ((size_t)8 << 20) /* one call, from its second message on */
#define SERVER_MAX_BYTES ((size_t)32 << 20) /* all calls of a server together */
/* more for each call: a fleet's messages go out together */
#define SERVER_BYTES_PER_CALL  ((size_t)16 << 10)
#define MESSAGE_OVERHEAD_BYTES 512 /* memory that a message takes besides its bytes */

static void on_received(void *arg, bool ok);
static void on_sent(void *arg, bool ok);

struct rpc_call *rpc_call_new(struct rpc *r, const struct rpc_events *events, void *arg)
{
	struct rpc_call *c = xcalloc(1, sizeof(*c));

	c->rpc = r;
	c->events = events;
	c->arg = arg;
	c->out_tail = &c->out;
	c->deadline_ns = INT64_MAX;
	c->code = GRPC_STATUS_INTERNAL;
	c->text = grpc_empty_slice();
	c->recv_tag.fn = on_received;
	c->recv_tag.arg = c;
	c->send_tag.fn = on_sent;
	c->send_tag.arg = c;
	grpc_metadata_array_init(&c->head);
	grpc_metadata_array_init(&c->tail);
	r->n_calls++;
	return c;
}

void rpc_call_link(struct rpc_call *c, struct rpc_call **list)
{
	if (c->server) {
		c->server->n_calls++;
		atomic_fetch_add(&c->rpc->n_served, 1);
	}
	c->next = *list;
	c->link = list;
	if (c->next)
		c->next->link = &c->next;
	*list = c;
}

void rpc_hurry(struct rpc_call *c)
{
	if (!c->hurried)
		atomic_fetch_add(&c->rpc->n_hurried, 1);
	c->hurried = true;
}

static void unlink_call(struct rpc_call *c)
{
	if (!c->link)
		return;
	if (c->server) {
		c->server->n_calls--;
		atomic_fetch_sub(&c->rpc->n_served, 1);
	}
	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
	c->link = NULL;
}

void rpc_call_batch(struct rpc_call *c, const grpc_op *ops, size_t n, struct rpc_tag *tag)
{
	grpc_call_error rc;

	c->pending++;
	rpc_tag_arm(tag);
	rc = grpc_call_start_batch(c->core, ops, n, tag, NULL);
	if (rc == GRPC_CALL_OK)
		return;
	log_error("NET-GRPC", "op=%d reason=\"batch refused: %s\"", (int)ops[0].op,
		  grpc_call_error_to_string(rc));
	grpc_call_cancel_with_status(c->core, GRPC_STATUS_INTERNAL, "batch refused", NULL);
	rpc_tag_fail(c->rpc, tag);
}

/* ---- the end ---- */

/* The memory of a message is no longer counted. */
static void uncount(struct rpc_call *c, struct rpc_out *out)
{
	c->out_copied -= out->copied;
	if (c->server)
		c->server->calls_copied -= out->copied;
	out->copied = 0;
}

static void drop_queue(struct rpc_call *c)
{
	/* Core may still have the first one: on_sent() frees it. */
	struct rpc_out **from = c->sent_message ? &c->out->next : &c->out;

	while (*from) {
		struct rpc_out *out = *from;

		*from = out->next;
		c->out_bytes -= out->len;
		uncount(c, out);
		rpc_out_free(out);
	}
	c->out_tail = from;
}

static void call_free(struct rpc_call *c)
{
	rpc_guest_end(c);
	unlink_call(c);
	if (c->hurried)
		atomic_fetch_sub(&c->rpc->n_hurried, 1);
	drop_queue(c);
	if (c->in)
		grpc_byte_buffer_destroy(c->in);
	grpc_metadata_array_destroy(&c->head);
	grpc_metadata_array_destroy(&c->tail);
	grpc_slice_unref(c->text);
	grpc_call_unref(c->core);
	gpr_free(c->peer);
	free(c->identity);
	secret_free(c->authorization);
	c->rpc->n_calls--;
	free(c);
}

static char *slice_text(grpc_slice s)
{
	return xstrndup((const char *)GRPC_SLICE_START_PTR(s), GRPC_SLICE_LENGTH(s));
}

static void deliver_closed(struct rpc_call *c)
{
	struct rpc_status st = { .code = RPC_OK, .text = "" };
	char *text = NULL;

	if (c->server) {
		st.code = c->cancelled ? RPC_CANCELLED : RPC_OK;
		st.text = c->cancelled ? "the caller disconnected" : "";
	} else {
		st.code = c->code > GRPC_STATUS_UNAUTHENTICATED ? RPC_UNKNOWN : (int)c->code;
		st.text = text = slice_text(c->text);
	}
	c->events->closed(c, &st);
	free(text);
}

void rpc_call_put(struct rpc_call *c)
{
	if (--c->pending || !c->ended)
		return;
	c->pending = 1; /* so that calls made inside `closed` do not end it twice */
	c->quiet = true;
	if (c->events->closed)
		deliver_closed(c);
	call_free(c);
}

static void fail(struct rpc_call *c, enum rpc_code code, const char *text)
{
	if (c->server) {
		rpc_finish(c, code, text);
		return;
	}
	c->quiet = true;
	drop_queue(c);
	grpc_call_cancel_with_status(c->core, (grpc_status_code)code, text, NULL);
}

void rpc_cancel(struct rpc_call *c)
{
	c->quiet = true;
	drop_queue(c);
	grpc_call_cancel(c->core, NULL);
}

/* ---- receiving ---- */

void rpc_call_receive(struct rpc_call *c)
{
	grpc_op op = { .op = GRPC_OP_RECV_MESSAGE };

	op.data.recv_message.recv_message = &c->in;
	rpc_call_batch(c, &op, 1, &c->recv_tag);
}

static bool deliver_message(struct rpc_call *c, const struct rpc_msg *m)
{
	bool more;

	if (c->quiet || !c->events->message)
		return true;
	if (m->len > c->max_message_bytes) {
		char *text = xasprintf("message of %zu bytes, limit %zu", m->len,
				       c->max_message_bytes);

		fail(c, RPC_RESOURCE_EXHAUSTED, text);
		free(text);
		return true;
	}
	c->delivering = true;
	c->read_again = false;
	loop_turn_name(c->rpc->loop, (uintptr_t)c->events->message);
	more = c->events->message(c, m);
	c->delivering = false;
	return more || c->read_again || c->quiet;
}

static void on_received(void *arg, bool ok)
{
	struct rpc_call *c = arg;
	struct rpc_msg *m;

	rpc_guest_message(c);
	if (c->in) {
		m = rpc_msg_take(c->in);
		c->in = NULL;
		if (c->server && c->server->conns)
			rpc_conns_received(c->server->conns, c, m->len);
		if (deliver_message(c, m))
			rpc_call_receive(c);
		else
			c->held = true;
		rpc_msg_free(m);
	} else if (ok && !c->quiet && c->events->half_closed &&
		   !(c->server && grpc_call_failed_before_recv_message(c->core))) {
		loop_turn_name(c->rpc->loop, (uintptr_t)c->events->half_closed);
		c->events->half_closed(c);
	}
	rpc_call_put(c);
}

void rpc_read_on(struct rpc_call *c)
{
	if (c->delivering) {
		c->read_again = true;
	} else if (c->held && !c->ended) {
		c->held = false;
		rpc_call_receive(c);
	}
}

/* ---- sending ---- */

static grpc_op end_op(struct rpc_call *c)
{
	grpc_op op = { .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT };

	if (c->server) {
		op.op = GRPC_OP_SEND_STATUS_FROM_SERVER;
		op.data.send_status_from_server.status = c->code;
		op.data.send_status_from_server.status_details = &c->text;
	}
	return op;
}

/* Sends the next message, and the end in the same batch as the last one. */
static void send_next(struct rpc_call *c)
{
	grpc_op ops[3] = { 0 };
	size_t n = 0;
	bool end = c->want_end && !c->sent_end && (!c->out || !c->out->next);

	if (c->sending || (!c->out && !end))
		return;
	if (!c->sent_metadata)
		ops[n++].op = GRPC_OP_SEND_INITIAL_METADATA;
	if (c->out) {
		ops[n].op = GRPC_OP_SEND_MESSAGE;
		ops[n++].data.send_message.send_message = c->out->bytes;
	}
	if (end)
		ops[n++] = end_op(c);
	c->sending = true;
	c->sent_metadata = true;
	c->sent_message = c->out;
	c->sent_end = c->sent_end || end;
	rpc_call_batch(c, ops, n, &c->send_tag);
}

static void on_sent(void *arg, bool ok)
{
	struct rpc_call *c = arg;
	struct rpc_out *out = c->out;
	bool was_message = c->sent_message;

	c->sending = c->sent_message = false;
	if (was_message) {
		c->out = out->next;
		if (!c->out)
			c->out_tail = &c->out;
		c->out_bytes -= out->len;
		uncount(c, out);
		rpc_out_free(out);
	}
	if (ok)
		send_next(c);
	else
		drop_queue(c);
	if (ok && was_message && !c->out && !c->quiet && c->events->drained)
		c->events->drained(c);
	rpc_call_put(c);
}

static bool parts_len(const struct rpc_part *parts, size_t n_parts, size_t *len)
{
	*len = 0;
	for (size_t i = 0; i < n_parts; i++)
		if (__builtin_add_overflow(*len, parts[i].len, len))
			return false;
	/* Core's length prefix has 32 bits and wraps silently; other peers accept 31. */
	return *len <= LIMIT_RESPONSE_BYTES;
}

/* Frees the queue at once, except a message that core is sending: on_sent() frees that one later. */
static void end_at_once(struct rpc_call *c, enum rpc_code code, const char *text)
{
	c->quiet = true;
	if (c->sent_message)
		uncount(c, c->out);
	drop_queue(c);
	grpc_call_cancel_with_status(c->core, (grpc_status_code)code, text, NULL);
}

static void end_unread(struct rpc_call *c)
{
	log_warn("NET-UNREAD", "peer=%s bytes=%zu reason=\"it does not read: the call is ended\"",
		 rpc_peer(c), c->out_copied);
	end_at_once(c, RPC_RESOURCE_EXHAUSTED, "the messages of this call are not read");
}

static struct rpc_call *find_fullest(const struct rpc_server *s, const struct rpc_call *except)
{
	struct rpc_call *found = NULL;

	for (struct rpc_call *c = s->calls; c; c = c->next) {
		if (c != except && c->out_copied > (found ? found->out_copied : 0))
			found = c;
	}
	return found;
}

static void check_ceilings(struct rpc_call *c)
{
	struct rpc_server *s = c->server;
	const struct rpc_call *alone;

	if (!s)
		return;
	if (c->out_copied > QUEUE_MAX_BYTES && c->out->next)
		end_unread(c);
	/* A call whose only message is still being sent is spared, however large the message is: the peer may
	 * be reading it. */
	alone = c->out && !c->out->next ? c : NULL;
	while (s->calls_copied - (alone ? alone->out_copied : 0) >
	       SERVER_MAX_BYTES + s->n_calls * SERVER_BYTES_PER_CALL)
		end_unread(find_fullest(s, alone));
}

/* `copied` is the memory that counts against the ceilings; 0 for parts, whose memory is the sender's. */
static void queue_parts(struct rpc_call *c, const struct rpc_part *parts, size_t n_parts,
			size_t copied)
{
	struct rpc_out *out;
	size_t len;

	if (c->quiet || c->ended || c->want_end) {
		rpc_parts_release(parts, n_parts);
		return;
	}
	if (!parts_len(parts, n_parts, &len)) {
		rpc_parts_release(parts, n_parts);
		fail(c, RPC_RESOURCE_EXHAUSTED, "a message of 2 GiB or more cannot be sent");
		return;
	}
	out = rpc_out_new(parts, n_parts, len);
	*c->out_tail = out;
	c->out_tail = &out->next;
	c->out_bytes += len;
	out->copied = copied;
	c->out_copied += copied;
	if (c->server)
		c->server->calls_copied += copied;
	send_next(c);
	check_ceilings(c);
}

void rpc_send_parts(struct rpc_call *c, const struct rpc_part *parts, size_t n_parts)
{
	queue_parts(c, parts, n_parts, 0);
}

void rpc_send(struct rpc_call *c, const void *data, size_t len)
{
	struct rpc_part part = { .data = data, .len = len };
	void *copy;

	if (len && len <= LIMIT_RESPONSE_BYTES) {
		copy = xmalloc(len);
		memcpy(copy, data, len);
		part = (struct rpc_part){ .data = copy, .len = len, .release = free, .arg = copy };
	}
	queue_parts(c, &part, 1, len + MESSAGE_OVERHEAD_BYTES);
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
	send_next(c);
}

void rpc_finish(struct rpc_call *c, enum rpc_code code, const char *text)
{
	if (c->quiet || c->ended || c->want_end)
		return;
	c->code = (grpc_status_code)code;
	c->text = grpc_slice_from_copied_string(text ? text : "");
	c->want_end = true;
	c->quiet = true;
	send_next(c);
}

void rpc_abort(struct rpc_call *c, enum rpc_code code, const char *text)
{
	if (!c->quiet && !c->ended && !c->want_end)
		end_at_once(c, code, text);
}

/* ---- properties of a call ---- */

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
	struct rpc_call *own = (struct rpc_call *)c;

	if (!own->peer)
		own->peer = grpc_call_get_peer(own->core);
	return own->peer ? own->peer : "";
}

const char *rpc_authorization(const struct rpc_call *c)
{
	return c->authorization ? c->authorization : "";
}

int64_t rpc_deadline_ns(const struct rpc_call *c)
{
	return c->deadline_ns;
}

gpr_timespec rpc_deadline_to_core(int64_t deadline_ns)
{
	int64_t left_ns = deadline_ns - now_mono_ns();

	if (deadline_ns == INT64_MAX)
		return gpr_inf_future(GPR_CLOCK_MONOTONIC);
	return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
			    gpr_time_from_nanos(left_ns, GPR_TIMESPAN));
}

int64_t rpc_deadline_from_core(gpr_timespec t)
{
	gpr_timespec left;

	if (!gpr_time_cmp(t, gpr_inf_future(t.clock_type)))
		return INT64_MAX;
	left = gpr_time_sub(gpr_convert_clock_type(t, GPR_CLOCK_MONOTONIC),
			    gpr_now(GPR_CLOCK_MONOTONIC));
	if (left.tv_sec > INT32_MAX)
		return INT64_MAX;
	return now_mono_ns() + left.tv_sec * NS_PER_S + left.tv_nsec;
}
