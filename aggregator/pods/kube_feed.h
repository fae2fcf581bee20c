/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One round with the Kubernetes API on a worker: lists all pods page by page if no version is known, then watches them
 * until the server ends the watch, about every 25 s. What it reads goes to `take` in batches.
 */
#ifndef AGGREGATOR_PODS_KUBE_FEED_H
#define AGGREGATOR_PODS_KUBE_FEED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "aggregator/pods/pod.h"
#include "base/err.h"

struct kube_api;

#define KUBE_PAGE_PODS	   250 /* a page and its JSON take about 10 MB */
#define KUBE_PAGE_BYTES	   ((size_t)64 << 20)
#define KUBE_LINE_BYTES	   ((size_t)4 << 20) /* of one event; a pod has at most 1.5 MB */
#define KUBE_VERSION_BYTES 64

struct kube_change {
	struct pod *pod; /* the taker's */
	bool is_gone;
};

/* Changes in the order in which they happened. */
struct kube_batch {
	bool begins_listing, ends_listing; /* before, and after its changes */
	struct kube_change *changes;
	size_t n;
};

void kube_batch_free(struct kube_batch *b); /* with the pods that are left in it; NULL is fine */

struct kube_feed {
	const struct kube_api *api;
	const _Atomic bool *cancelled;

	/* Called on the worker. May wait until there is room for the batch. */
	void (*take)(void *arg, struct kube_batch *batch_taken);
	void *arg;

	/* the last version that was read; "" = all pods must be listed */
	char version[KUBE_VERSION_BYTES];
	struct kube_batch *batch; /* not given away yet */
	unsigned int n_bad; /* objects that were no pods, since the begin of the round */
};

/*
 * 0: the watch ended as it should, go on with the same struct. ERR_NOT_FOUND: the version is too old and was cleared.
 * ERR_DENIED: the account may not list or watch pods; the sentence says what to grant. Any other code: try again later.
 */
MUST_CHECK int kube_feed_run(struct kube_feed *f, struct err *e);

/* One line of a watch, for kube_feed_run() and fuzzing: adds it to f->batch, or sets the version. */
MUST_CHECK int kube_feed_read_event(struct kube_feed *f, const char *line, size_t len,
				    struct err *e);

#endif
