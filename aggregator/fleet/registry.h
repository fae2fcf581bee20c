/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hosts the aggregator knows: who is connected, who was lost, what they can do. Loop thread.
 */
#ifndef AGGREGATOR_FLEET_REGISTRY_H
#define AGGREGATOR_FLEET_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "aggregator/fleet/host_clock.h"
#include "aggregator/fleet/probe_peer.h"
#include "base/err.h"

struct buf;
struct loop;
struct registry;
struct rpc_call;

struct host_tracer {
	char *name, *state, *reason;
	int errno_value;
};

/* A capture that an agent still has, as Hello and Status say. */
struct host_held {
	char *session;
	bool has_more; /* under way, or a file that is not stored: worth asking for */
	uint64_t instance; /* of the agent when it was armed */
};

/* Which training step a host is at, as it said last. */
struct host_steps {
	bool known;
	int64_t step, at_ns, period_ns, jitter_ns; /* as in Steps of control.proto */
	int64_t heard_mono_ns;
};

struct host {
	char *name;
	char *version, *address, *profiler_address; /* never NULL */
	uint64_t instance; /* of the running agent */
	struct rpc_call *control; /* its stream; NULL = lost */
	uint64_t probe_cookie;
	struct probe_peer probes;
	int64_t seen_real_ns; /* last message or probe, Unix ns */
	char **label_keys, **label_values;
	size_t n_labels;
	struct host_clock clock;
	struct host_steps steps;
	struct host_tracer *tracers;
	size_t n_tracers;
	struct host_held *held;
	size_t n_held;
	struct registry *registry;
};

/* A lost host is forgotten after this long. */
#define REGISTRY_KEEP_LOST_NS INT64_C(600000000000)

/* `loop` (may be NULL in tests) forgets lost hosts by and by. */
struct registry *registry_new(struct loop *loop);
void registry_free(struct registry *r);

struct host *registry_find(struct registry *r, const char *name); /* NULL if unknown */
struct host *registry_find_connected(struct registry *r, const char *name); /* or NULL */
struct host *registry_by_cookie(struct registry *r, uint64_t probe_cookie); /* or NULL */
struct host *registry_add(struct registry *r, const char *name); /* or the one there is */
void registry_remove(struct registry *r, struct host *h); /* said goodbye, or forgotten */
size_t registry_count(const struct registry *r, size_t *connected); /* connected may be NULL */
size_t registry_expire(struct registry *r, int64_t now_real_ns); /* forgets; how many */

/* Replace what is known of a host; the strings are copied. */
void host_set_text(char **member, const char *text);
void host_add_label(struct host *h, const char *key, const char *value);
void host_clear_labels(struct host *h);
void host_add_tracer(struct host *h, const char *name, const char *state, const char *reason,
		     int errno_value);
void host_clear_tracers(struct host *h);
void host_add_held(struct host *h, const char *session, bool has_more, uint64_t instance);
void host_clear_held(struct host *h);
const struct host_held *host_find_held(const struct host *h, const char *session); /* or NULL */
void host_new_cookie(struct host *h); /* the old one is not answered any more; a new key, too */

/* One of messages.h, to the host's agent, if it is connected. */
void host_send(const struct host *h, const struct buf *message);

/*
 * Resolves a selector ("all", "name,name", "key=value,key=value") to hosts, sorted by name; `*out` is
 * yours: free(). ERR_NOT_FOUND names the host that is unknown, or says that nobody matched;
 * ERR_INVALID for a selector that is malformed.
 */
MUST_CHECK int registry_select(struct registry *r, const char *selector, struct host ***out,
			       size_t *n, struct err *e);

/* The hosts, sorted by name; borrowed until the next add or remove. */
struct host *const *registry_hosts(const struct registry *r, size_t *n);

/* fn is called after any change; several may watch. */
void registry_watch(struct registry *r, void (*fn)(void *arg), void *arg);
void registry_changed(struct registry *r);

#endif
