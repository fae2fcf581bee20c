/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of pods/ share; private to them. */
#ifndef AGGREGATOR_PODS_PODS_IMPL_H
#define AGGREGATOR_PODS_PODS_IMPL_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "aggregator/kube/kube_api.h"
#include "aggregator/pods/kube_feed.h"
#include "aggregator/pods/pod_table.h"
#include "aggregator/pods/pods.h"
#include "aggregator/pods/tell.h"
#include "base/loop.h"
#include "base/now.h"

enum pods_state {
	PODS_OFF, /* no server is given */
	PODS_LISTING, /* a worker lists; the table has what was known before */
	PODS_WATCHING, /* a worker reads changes */
	PODS_WAITING, /* for the next attempt */
	PODS_ENDED, /* pods_stop() was called */
};

#define EVENTS_WAITING	  256
#define EVENTS_REMEMBERED 4096 /* places; another pod may take one's place */
#define EVENT_PAUSE_NS	  (600 * NS_PER_S)

/* Events on their way to the cluster, one at a time (events.c). */
struct pod_events {
	STAILQ_HEAD(, pod_event) waiting;
	size_t n_waiting;
	bool is_sending;
	uint64_t n_left_out;
	struct event_place {
		uint64_t hash; /* of a pod and a reason */
		int64_t at_ns; /* 0 = the place is free */
	} sent[EVENTS_REMEMBERED];
};

struct pods {
	struct pods_env env;
	enum pods_state state;
	bool was_listed; /* once at least */
	struct kube_api api;
	struct kube_feed feed; /* the worker's, except between rounds */
	_Atomic bool cancelled;
	_Atomic unsigned int n_waiting; /* batches that the loop has not taken yet */
	int round_rc; /* of the round that ended last; the worker's during a round, as the next one */
	struct err round_error;
	struct err error; /* why the state is PODS_WAITING; empty = all is well */
	unsigned int n_failed; /* rounds in a row */
	struct loop_timer retry;
	struct pod_table table;
	struct pod_teller teller;
	struct pod_events events;
	void (*on_failure)(void *arg, const struct pod *pod, const char *host, const char *what);
	void *failure_arg;
};

extern const char *const pods_state_names[]; /* by enum pods_state */

/* The hosts by their nodes: a hash table with open addressing. */
struct node_index {
	struct node_entry {
		const char *node; /* NULL: the place is free */
		struct host *host;
		size_t at; /* its place among the registry's hosts */
	} * entries;
	size_t n_places; /* a power of two, at least twice the hosts */
};

void node_index_build(struct node_index *x, const struct registry *r);
const struct node_entry *node_index_find(const struct node_index *x,
					 const char *node); /* or NULL */
void node_index_release(struct node_index *x);

/* select.c: whether all terms are true of the pod, with what its host has besides, if there is an agent on its node. */
struct selector;
bool selector_names_pod(const struct selector *s, const struct pod *p,
			const struct node_index *nodes);

#endif
