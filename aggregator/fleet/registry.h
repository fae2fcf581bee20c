/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hosts of the fleet: connected and lost ones, and what each can do. Loop thread.
 */
#ifndef AGGREGATOR_FLEET_REGISTRY_H
#define AGGREGATOR_FLEET_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "aggregator/fleet/host_clock.h"
#include "aggregator/fleet/outbox.h"
#include "aggregator/fleet/probe_peer.h"
#include "aggregator/fleet/selector.h"
#include "aggregator/fleet/settings_list.h"
#include "aggregator/fleet/texts.h"
#include "base/err.h"

struct buf;
struct loop;
struct registry;
struct rpc_call;

/* Most texts of a host are shared with other hosts: texts.h. */
struct host_tracer {
	const char *name, *state, *reason;
	int errno_value;
	int64_t lead_ns; /* how long before T0 it must be armed to record all of the window */
	bool counts_steps; /* as in TracerState of control.proto */
	/* session clock: how far its ring reaches back, by its last report; 0 = no ring */
	int64_t begin_ns;
};

/* A process that an agent has found, as in Job of control.proto. */
struct host_job {
	const char *command, *framework, *address, *state;
	int64_t pid;
	int port;
};

/* A capture that an agent still has, as its Hello or last Status lists it. */
struct host_held {
	const char *session;
	bool undelivered; /* it is under way, or its file is not stored */
	bool is_recording; /* under way */
	uint64_t instance; /* of the agent that was armed */
};

/* The training step that a host reported last. */
struct host_steps {
	bool known, counted;
	int64_t step, at_ns, period_ns, jitter_ns; /* as in Steps of control.proto */
	int64_t received_mono_ns;
};

struct host {
	char *name, *address; /* `address` is of the control link, with the port; never NULL */
	const char *version, *profiler_address; /* never NULL */
	uint64_t instance; /* of the running agent */
	struct rpc_call *control; /* its control link; NULL = lost */
	struct host_outbox outbox;
	uint64_t probe_cookie;
	struct probe_peer probes;
	uint64_t
		pods_told; /* what its agent was told of pods last, as a number; 0 = nothing (aggregator/pods) */
	int64_t seen_real_ns; /* of the last message or probe, Unix ns */
	int64_t back_within_ns; /* its agent has said Leaving: the next one connects so soon; 0 = it has not */
	int64_t back_by_mono_ns; /* so long after that message, or after the end of that agent's link */
	const char **label_keys, **label_values;
	size_t n_labels;
	const char *node; /* its label `node`, or its name; kept for selections of pods */
	struct host_clock clock;
	struct host_steps steps;
	struct host_tracer *tracers;
	size_t n_tracers;
	struct host_job *jobs;
	size_t n_jobs;
	uint32_t more_jobs; /* that the agent does not list */
	struct settings_list *settings; /* shared with other hosts; NULL = none */
	struct host_held *held;
	size_t n_held;
	struct registry *registry;
	struct registry_peer *peer; /* of `address`; NULL before host_set_address() */
};

/* A lost host is forgotten after this long. */
#define REGISTRY_KEEP_LOST_NS INT64_C(600000000000)

/* Lost hosts are forgotten every 30 s; not if `loop` is NULL (tests). */
struct registry *registry_new(struct loop *loop);
void registry_free(struct registry *r);

struct host *registry_find(struct registry *r, const char *name); /* NULL if unknown */
struct host *registry_find_connected(struct registry *r, const char *name); /* or NULL */

/* As registry_find(), for several names in ascending order, in one pass over the hosts. `*at` is 0 for the
 * first name; no host may be added or removed between the calls. */
struct host *registry_find_next(struct registry *r, size_t *at, const char *name);
struct host *registry_find_by_cookie(struct registry *r, uint64_t probe_cookie); /* or NULL */
struct host *registry_add(struct registry *r, const char *name); /* or returns the existing one */
void registry_remove(struct registry *r, struct host *h);
size_t registry_count(const struct registry *r, size_t *connected); /* connected may be NULL */

/* In a full registry: the host that loses its place to a new host from `address`, or NULL. It is the host
 * that has been lost for longest, for at least 5 s. If there is none, it is a host of the peer address with
 * the most names, provided that address has more than `address` would then have. So invented names cannot
 * lock out hosts of other addresses. */
struct host *registry_find_replaceable(struct registry *r, const char *address,
				       int64_t now_real_ns);

/* Sets the most hosts of one peer address, for fleets where no certificate proves names. 0, the default: no
 * limit. */
void registry_limit_address(struct registry *r, size_t max_hosts);

/*
 * Whether there is a place for a host with a new name from this peer address; ERR_LIMIT if not. `*replaced`
 * is the host that loses its place to it, or NULL: at the address's limit, a host of that address that is
 * not in use; in a full registry, the result of registry_find_replaceable().
 */
MUST_CHECK int registry_find_place(struct registry *r, const char *address, int64_t now_real_ns,
				   struct host **replaced, struct err *e);

size_t registry_forget_lost(struct registry *r, int64_t now_real_ns); /* returns how many */

/* Replace what the registry has of a host; the strings are copied, or shared with other hosts. */
void host_set_text(struct host *h, const char **member, const char *text); /* a shared text */
void host_set_address(struct host *h, const char *address);
void host_add_label(struct host *h, const char *key, const char *value);
void host_clear_labels(struct host *h);
void host_set_clock(struct host *h,
		    const Tutti__V1__ClockModel *c); /* NULL: it has reported none */
void host_add_tracer(struct host *h, const struct host_tracer *t); /* copies the texts */
void host_clear_tracers(struct host *h);
void host_add_job(struct host *h, const struct host_job *job);
void host_clear_jobs(struct host *h);
void host_set_settings(struct host *h,
		       struct settings_list *l_taken); /* not shared yet; NULL = none */
void host_add_held(struct host *h, const char *session, const char *state, uint64_t instance);
void host_clear_held(struct host *h);
const struct host_held *host_find_held(const struct host *h, const char *session); /* or NULL */
/* also renews the key; probes with the old ones get no answer */
void host_renew_cookie(struct host *h);

/* The time that is left for another agent of the host to connect; 0 = its agent is not being replaced, or that took
 * too long. */
int64_t host_replaced_within_ns(const struct host *h);
void host_set_back_within(struct host *h,
			  int64_t within_ns); /* its agent has said Leaving; 0 = no more */
bool registry_expects_agents(
	const struct registry *r); /* whether any host's agent has, and is not back */

/* Sets the host's link, NULL = none. Messages that the old link did not send yet are dropped. */
void host_set_control(struct host *h, struct rpc_call *control);

/* outbox.c: sends a message of messages.h to the host's agent, if the agent is connected. Of very many messages
 * most are sent in later turns of the loop. */
void host_send(struct host *h, const struct buf *message);

/* The value of a selector's key: of the label of that name; the node of a host without the label `node` is its name.
 * Borrowed; NULL = it has none. */
const char *host_get_value(const struct host *h, enum selector_key key, const char *label);

/* The hosts, sorted by name; borrowed until the next add or remove. */
struct host *const *registry_hosts(const struct registry *r, size_t *n);

/* For work on all hosts that goes on over several turns of the loop: the index of the first host after this name;
 * NULL = of the first host. */
size_t registry_index_after(const struct registry *r, const char *name);

/* The lists of settings that hosts have; `refs` of each list is the number of hosts that share it. */
const struct settings_lists *registry_settings(const struct registry *r);
struct texts *registry_texts(struct registry *r);

/* Registers fn, to be called after every change. registry_notify() calls all that are registered. */
void registry_watch(struct registry *r, void (*fn)(void *arg), void *arg);
void registry_notify(struct registry *r);

#endif
