/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/fleet/outbox.h"

#include <stdlib.h>
#include <string.h>

#include "aggregator/fleet/registry.h"
#include "base/buf.h"
#include "base/mem.h"
#include "net/rpc.h"

/* messages in one turn of the loop: handing one to gRPC takes up to 0.1 ms */
#define TURN_MESSAGES 32

/* Hosts that get the same message share it. */
struct outbox_message {
	size_t refs, len;
	uint8_t bytes[];
};

struct outbox_item {
	struct outbox_message *message;
	STAILQ_ENTRY(outbox_item) next;
};

static void message_unref(struct outbox_message *m)
{
	if (m && !--m->refs)
		free(m);
}

static void forget_last(struct outbox *o)
{
	message_unref(o->last);
	o->last = NULL;
}

/* Returns a reference to the last message if that has the same bytes, else to a new one. */
static struct outbox_message *message_get(struct outbox *o, const struct buf *bytes)
{
	struct outbox_message *m = o->last;

	if (!m || m->len != bytes->len || memcmp(m->bytes, bytes->data, m->len)) {
		forget_last(o);
		m = xmalloc(sizeof(*m) + bytes->len);
		*m = (struct outbox_message){ .refs = 1, .len = bytes->len };
		memcpy(m->bytes, bytes->data, bytes->len);
		o->last = m;
	}
	m->refs++;
	return m;
}

/* ---- a host ---- */

void host_outbox_init(struct host *h, struct outbox *o)
{
	h->outbox.outbox = o;
	STAILQ_INIT(&h->outbox.items);
}

static bool is_waiting(const struct host *h)
{
	return !STAILQ_EMPTY(&h->outbox.items);
}

static void add_item(struct host *h, const struct buf *message)
{
	struct outbox *o = h->outbox.outbox;
	struct outbox_item *item = xmalloc(sizeof(*item));

	item->message = message_get(o, message);
	if (!is_waiting(h))
		TAILQ_INSERT_TAIL(&o->hosts, h, outbox.waiting);
	STAILQ_INSERT_TAIL(&h->outbox.items, item, next);
}

static void drop_item(struct host *h)
{
	struct outbox_item *item = STAILQ_FIRST(&h->outbox.items);

	STAILQ_REMOVE_HEAD(&h->outbox.items, next);
	if (!is_waiting(h))
		TAILQ_REMOVE(&h->outbox.outbox->hosts, h, outbox.waiting);
	message_unref(item->message);
	free(item);
}

void host_drop_unsent(struct host *h)
{
	while (is_waiting(h))
		drop_item(h);
}

/* ---- turns ---- */

static bool may_send(struct outbox *o)
{
	int64_t turn_ns = loop_now_ns(o->loop);

	if (o->turn_ns != turn_ns)
		o->n_sent = 0;
	o->turn_ns = turn_ns;
	return o->n_sent < TURN_MESSAGES;
}

static void send_now(struct host *h, const void *bytes, size_t len)
{
	h->outbox.outbox->n_sent++;
	rpc_send(h->control, bytes, len);
}

static void on_turn(void *arg);

static void go_on_next_turn(struct outbox *o)
{
	if (!loop_timer_armed(&o->timer))
		loop_timer_in(o->loop, &o->timer, 0, on_turn, o);
}

static void on_turn(void *arg)
{
	struct outbox *o = arg;
	struct host *h;

	while ((h = TAILQ_FIRST(&o->hosts)) && may_send(o)) {
		const struct outbox_message *m = STAILQ_FIRST(&h->outbox.items)->message;

		send_now(h, m->bytes, m->len);
		drop_item(h);
	}
	if (h)
		go_on_next_turn(o);
	else
		forget_last(o);
}

void host_send(struct host *h, const struct buf *message)
{
	struct outbox *o = h->outbox.outbox;

	if (!h->control)
		return;
	if (!o->loop || (TAILQ_EMPTY(&o->hosts) && may_send(o))) {
		send_now(h, message->data, message->len);
		return;
	}
	add_item(h, message);
	go_on_next_turn(o);
}

/* ---- life ---- */

void outbox_init(struct outbox *o, struct loop *loop)
{
	*o = (struct outbox){ .loop = loop };
	TAILQ_INIT(&o->hosts);
}

void outbox_release(struct outbox *o)
{
	if (o->loop)
		loop_timer_cancel(o->loop, &o->timer);
	forget_last(o);
}
