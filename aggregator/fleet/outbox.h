/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends messages to agents, a few in each turn of the loop: handing 10,000 to gRPC at once would block the
 * loop for most of a second. The messages of a host keep their order. Loop thread.
 */
#ifndef AGGREGATOR_FLEET_OUTBOX_H
#define AGGREGATOR_FLEET_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/loop.h"

struct host;
struct outbox_item;
struct outbox_message;

/* The unsent messages of all hosts of a registry. */
struct outbox {
	struct loop *loop; /* NULL (tests): every message is sent at once */
	struct loop_timer timer; /* set while hosts wait */
	TAILQ_HEAD(, host)
	hosts; /* with unsent messages, in the order in which they began to wait */
	/* the message that was queued last: the next host may get the same */
	struct outbox_message *last;
	int64_t turn_ns; /* loop_now_ns() of the turn that `n_sent` counts */
	size_t n_sent;
};

void outbox_init(struct outbox *o, struct loop *loop);
void outbox_release(struct outbox *o); /* no host is left */

/* The unsent messages of one host. */
struct host_outbox {
	struct outbox *outbox;
	STAILQ_HEAD(, outbox_item) items; /* unsent */
	TAILQ_ENTRY(host) waiting;
};

void host_outbox_init(struct host *h, struct outbox *o);

/* Drops the unsent messages: the link that they were for is gone. */
void host_drop_unsent(struct host *h);

#endif
