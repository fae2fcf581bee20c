/* SPDX-License-Identifier: Apache-2.0 */
/* What the capture_*.c files share among themselves. */
#ifndef AGGREGATOR_CAPTURE_IMPL_H
#define AGGREGATOR_CAPTURE_IMPL_H

#include "aggregator/aggregator.h"
#include "aggregator/capture.h"
#include "base/buf.h"

#define ENDED_KEPT 64

struct capture_watch {
	void (*fn)(void *arg, struct capture *c);
	void *arg;
};

TAILQ_HEAD(capture_list, capture);
TAILQ_HEAD(host_queue, capture_host);

struct captures {
	struct aggregator *agg;
	struct capture_list all; /* last begun or ended first */
	size_t n_active, n_ended;
	struct host_queue waiting; /* for an upload credit, first come first served */
	unsigned int granted;
	struct capture_watch *watches;
	size_t n_watches;
};

/* capture_begin.c: validates and builds; nothing is started. */
MUST_CHECK int capture_build(struct captures *cs, const struct capture_request *req,
			     struct capture **out, struct err *e);
void capture_free(struct capture *c);

/* capture.c */
void capture_changed(struct capture *c);
void capture_host_ended(struct capture_host *h); /* its state is an end; may end the capture */

/* capture_host.c */
struct host *capture_host_live(
	const struct capture_host *h); /* connected, the same agent; or NULL */
void capture_tell(const struct capture *c, const struct buf *message); /* all live hosts */
void capture_host_drop_credit(struct capture_host *h);

#endif
