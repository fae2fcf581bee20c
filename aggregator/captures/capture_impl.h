/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of captures/ share; private to them. */
#ifndef AGGREGATOR_CAPTURES_CAPTURE_IMPL_H
#define AGGREGATOR_CAPTURES_CAPTURE_IMPL_H

#include "aggregator/captures/capture.h"
#include "aggregator/captures/lead.h"
#include "aggregator/captures/states.h"
#include "aggregator/fleet/host_walk.h"
#include "aggregator/sessions/session_store.h"
#include "aggregator/time/session_clock.h"
#include "base/buf.h"
#include "base/jobs.h"

/* How long agents have to connect after a restart of the aggregator. An agent pauses at most 30 s between two
 * attempts: 1.5 times the default of --reconnect-max. */
#define BACK_PATIENCE_NS (35 * NS_PER_S)

struct capture_watch {
	void (*fn)(void *arg, struct capture *c);
	void *arg;
};

struct durable_watch {
	capture_durable_fn fn;
	void *arg;
};

TAILQ_HEAD(capture_list, capture);
TAILQ_HEAD(host_queue, capture_host);
TAILQ_HEAD(held_lookups, held_lookup);

#define CAPTURES_OBSERVATION_BYTES ((size_t)128 << 20) /* of all captures together */
#define CAPTURES_DELETED	   256 /* names of deleted sessions that are remembered */

struct captures {
	struct captures_env env;
	struct captures_stats stats;
	bool stopping; /* no capture begins any more */
	struct capture_list all; /* the last begun or ended one first */
	size_t observation_bytes; /* that are kept */
	size_t n_active, n_ended; /* n_active counts the queued ones, too */
	struct capture_list queue; /* first come first served */
	size_t n_queued;
	struct loop_timer queue_timer;
	bool check_soon; /* queue_timer is set to the short delay of capture_queue_schedule() */
	struct host_queue waiting; /* for an upload credit, first come first served */
	struct host_queue granted; /* sorted by credit_until_ns */
	unsigned int n_granted;
	bool many_credits; /* bytes of files do not pass through this program */
	struct capture_granter granter;
	struct loop_timer credit_timer;
	/* look-ups of sessions that agents hold and that are not in memory */
	struct held_lookups lookups;
	size_t n_lookups;
	struct host_walk dropping; /* what was deleted */
	/* sessions that this run has deleted; the oldest one is replaced */
	char *deleted[CAPTURES_DELETED];
	size_t n_deleted;
	struct capture_watch *watches;
	size_t n_watches;
	struct lead lead;
};

static inline int64_t captures_now(const struct captures *cs)
{
	return session_clock_now(cs->env.clock);
}

/* ---- build.c ---- */

struct capture *capture_new(struct captures *cs); /* in CAP_PLANNING, not in a list yet */
void capture_new_hosts(struct capture *c, size_t n); /* without names yet */
void capture_free(struct capture *c);

/* Validates and builds; nothing is started. */
MUST_CHECK int capture_build(struct captures *cs, const struct capture_request *req,
			     struct capture **out, struct err *e);
MUST_CHECK int capture_check_ready(const struct captures *cs, struct err *e); /* or ERR_BUSY */
int64_t capture_lead(const struct captures *cs, size_t n_hosts, int64_t bound_ns);

/* How long before T0 the slowest of the capture's tracers must be armed. */
int64_t capture_tracers_lead(const struct capture *c);

/* Sets agents, lead, T0 and deadline anew, as of now. */
void capture_renew(struct capture *c);

/* whether the capture records with this tracer */
bool capture_has_tracer(const struct capture *c, const char *name);

/* ---- snapshot.c: windows in the past ---- */

/* The window; ERR_INVALID if no ring reaches it. */
MUST_CHECK int capture_set_snapshot(struct capture *c, const struct capture_request *req,
				    struct err *e);
bool capture_is_same_snapshot(const struct capture *a, const struct capture *b);

/* ---- capture.c ---- */

void capture_insert(struct capture *c); /* into the list of captures under way */
void capture_remove(struct capture *c); /* from all lists; frees it */
void capture_notify(struct capture *c);

/* Checks on the next turn what is due: the caller may be in the middle of a change. */
void capture_wake(struct capture *c);

/* capture_host_ended(): to be called after h->state was set to an end. capture_hosts_ended(): to be called
 * after the states of several hosts were set to ends and n_ended was increased. Both may finish the
 * capture. */
void capture_host_ended(struct capture_host *h);
void capture_hosts_ended(struct capture *c);
bool capture_finish_if_ended(struct capture *c); /* returns whether all hosts have ended */
void capture_end(struct capture *c, enum capture_event event); /* the ledger is closed */

void capture_stop_at(struct capture *c, int64_t t1_ns);

/* ---- plan.c: what is stored, and what follows when it is ---- */

/* Stores the capture as it is now in its ledger. */
void capture_store(struct capture *c);

/* A new capture: stores the plan; when that is durable, arms the hosts or leaves the capture in the queue. */
void capture_store_plan(struct capture *c);

/* A capture of an earlier run: takes its session over. `n` is the number of the last record, `epoch` that of
 * its owner. */
void capture_take_over(struct capture *c, unsigned int n, int64_t epoch);
void capture_begin_queued(struct capture *c); /* takes it out of the queue */
void capture_fail_unreachable(struct capture *c); /* the hosts without an agent */
#define CAPTURE_NOT_CONNECTED "the agent is not connected" /* what is said of those */

/* Calls and drops the watches of capture_when_durable(). */
void capture_notify_durable(struct capture *c, const struct err *not_durable);

/* ---- host.c: agents that are being replaced ---- */

/* The time that is left for another agent of the host to connect; 0 = none is expected. */
int64_t capture_host_replaced_within_ns(const struct capture_host *h);
void capture_host_await_agent(struct capture_host *h,
			      int64_t within_ns); /* then the host is lost */

/* ---- others.c: hosts of other namespaces ---- */

/* Sets is_other of all hosts that have not ended, or of one, as labels and pods are now: before they are asked, since what an agent is
 * asked for, it is to finish. 5 ms with 10,000 pods. */
void capture_find_others(struct capture *c);
bool capture_host_is_other(struct capture_host *h);

/* Whether the agent's label says that the host is of another namespace now; sets is_other. For an agent that connects: the pods of its node
 * may not be known yet. */
bool capture_host_has_moved(struct capture_host *h, const struct host *host);

/* ---- queue.c ---- */

/* A capture that c's caller can share, or NULL. */
struct capture *capture_find_shared(const struct capture *c);

/* The shared capture waits as long as either caller allows. */
void capture_queue_extend(struct capture *shared, const struct capture *c, int64_t wait_ns);

/* A new capture waits for agents that are being replaced, if it may wait. */
void capture_queue_await_replaced(struct capture *c, int64_t wait_ns);
bool capture_queue_must_wait(struct capture *c); /* sets c->waits_for if so */

/* Whether the capture waits for hosts to connect after a restart; sets c->waits_for if so. */
bool capture_queue_waits_for_hosts(struct capture *c);
MUST_CHECK int capture_queue_enter(struct capture *c, int64_t wait_ns, struct err *e);
void capture_queue_recover(struct capture *c, const json_t *plan); /* at its old place */
void capture_queue_leave(struct capture *c); /* if it is in the queue */
void capture_queue_schedule(struct captures *cs); /* checks the queue soon: a host may be free */

/* ---- step.c: windows that begin with a training step ---- */

enum step_check {
	STEP_ASKING, /* hosts have not reported their steps yet */
	STEP_WAITING, /* the step is expected; c->waits_for has when */
	STEP_DUE, /* the hosts must be armed now */
};

MUST_CHECK int capture_step_check(struct capture *c, struct err *e); /* step_check, or an error */
int64_t capture_step_wake_ns(const struct capture *c); /* session clock: when to check again */
void capture_step_begin(struct capture *c); /* after STEP_DUE */
void capture_step_finish(struct capture *c); /* adds warnings about the marked steps */
json_t *capture_step_json(const struct capture *c); /* at-step.schema.json */
json_t *steps_seen_json(const struct steps_seen *s);
void capture_step_load(struct capture *c, const json_t *doc); /* `doc` is a plan or a manifest */

/* ---- retry.c: what a retry does differently from a first capture ---- */

bool capture_is_retry(const struct capture *c);
void capture_retry_begin(struct capture *c); /* its turn has come */

/* `manifest` is a session's, with its hosts packed. retry_source_add_left() sets what session_recover() found of
 * the hosts that the retry is for. For workers. */
struct retry_source *retry_source_of(json_t *manifest_taken);
void retry_source_add_left(struct retry_source *s, const json_t *recoverable);

/* A retry of an earlier run; `record` is number `n` of its ledger, without hosts. */
void capture_retry_recover(struct captures *cs, struct retry_source *s, const json_t *record,
			   unsigned int n);

/* Sets the states of a queued retry's hosts: uploading if the agent holds a file, else arming. */
void capture_retry_update_states(struct capture *c);

bool capture_host_has_own_window(const struct capture_host *h); /* a retry recorded it later */
bool capture_retry_lost_file(struct capture_host *h); /* true: the host records again */

/* Whether a host that must record has a window that begins before `ns`. */
bool capture_retry_begins_before(const struct capture *c, int64_t ns);
void capture_retry_choose_window(struct capture *c); /* for hosts that record again and have none */
void capture_retry_ask(struct capture *c); /* the hosts, when their windows are durable */
void capture_retry_finish(struct capture *c); /* adds warnings about the windows */

/* ---- pods.c: the pods that the selector named ---- */

struct pods_selection;
void capture_set_pods(struct capture *c, struct pods_selection *s);
void capture_check_pods(struct capture *c); /* what became of them; adds warnings */
void capture_put_marks(json_t *o, const struct capture *c); /* "owner" and "namespaces" */
void capture_put_pods(json_t *o, const struct capture *c); /* "pods" of a plan and of a manifest */
void capture_load_pods(struct capture *c, const json_t *doc);
void capture_release_pods(struct capture *c); /* loop thread */

/* ---- record.c, load.c, recovery.c, text.c ---- */

/* Makes the ledger's record from a copy, on a worker; with its end if the capture is committing. Hosts are
 * packed. After a failure the same call may be repeated. */
MUST_CHECK int capture_record_json(struct capture *copy, json_t **out, struct err *e);

/* Sets the capture's members from `doc`, a plan or a manifest; session and run are in `names`. */
void capture_load(struct capture *c, const json_t *names, const json_t *doc);

/* Sets options and tracers from those of `doc`; without them, from the settings. */
MUST_CHECK int capture_load_options(struct capture *c, const json_t *doc, struct err *e);

/* The record's object of a host, a new reference: its agent and its own window. NULL if the record has none. For
 * names in ascending order; `*at` is 0 for the first one. */
json_t *capture_record_next_host(const json_t *record, size_t *at, const char *name);

/* Returns until when the capture waits for its agents, and extends the deadline beyond that. */
int64_t capture_extend_for_agents(struct capture *c);
void capture_load_agent(struct capture_host *h, const json_t *host);
void capture_load_stored(struct capture_host *h, const json_t *stored);

/* A copy for a worker to read: 0.4 kB a host. The copy borrows the texts of the hosts, so the capture must
 * outlive it. */
struct capture *capture_copy(struct capture *c);
void capture_copy_free(struct capture *copy);

/* ---- json.c ---- */

/* CAPTURE, as text, from host *next on, until `out` has so many bytes. True at its end. */
bool capture_write(struct buf *out, const struct capture *c, size_t *next, size_t bytes);

/* The record of a failed capture (CAPTURE in its final state), and the manifest. Hosts are packed. The
 * capture may be a copy, on a worker. */
json_t *capture_failure_json(const struct capture *c);
json_t *capture_manifest_json(const struct capture *c);

/* A host in the plan: what recovery needs of it. */
json_t *capture_planned_host_json(const struct capture_host *h);

/* Adds the members of the request that nothing else in a manifest shows: "options", "tracers",
 * "grace_given_ns". */
void capture_put_request(json_t *o, const struct capture *c);

/* ---- deadline.c: instants of the session clock; if the window is over, they count from now, not from its
 * end ---- */

void capture_set_deadline(struct capture *c,
			  int64_t window_end_ns); /* sets grace_ns, deadline_ns, last_ns */
int64_t capture_arm_by(const struct capture *c, int64_t t0_ns); /* see arm_by_ns */
bool capture_extend_arming(struct capture *c,
			   int64_t now_ns); /* false: no host has answered of late */
int64_t capture_gather_by(const struct capture *c,
			  int64_t window_end_ns); /* see gather_by_ns of Arm */
bool capture_extend_deadline(struct capture *c, int64_t now_ns); /* false: no host makes progress */

/* ---- stored.c ---- */

/* On a worker, before the manifest is made: fails hosts of the copy whose files the store does not list, and sets the
 * copy's error if no host has a file then. */
MUST_CHECK int capture_check_stored(struct store *s, struct capture *copy, struct err *e);
void capture_apply_stored(struct capture *c, const struct capture *copy); /* the same on the loop */

/* ---- notes.c ---- */

/* On a worker, before the manifest is written; sets the new size of the changed file in the copy. Fails only
 * if that size is not known; then the same call may be repeated. */
MUST_CHECK int capture_store_notes(struct store *s, struct capture *copy, struct err *e);

/* ---- credit.c ---- */

void capture_host_request_credit(struct capture_host *h);
void capture_host_renew_credit(struct capture_host *h); /* it has sent bytes: it keeps its credit */
void capture_host_drop_credit(struct capture_host *h);
void capture_drop_credits(struct capture *c); /* of all its hosts that have ended */

/* ---- held.c ---- */

/* Tells the agent to drop the captures that it holds and should not. Called for each report of what it holds,
 * so a message that a broken link lost is sent again. */
void captures_drop_held(struct captures *cs, struct host *host);
void captures_init_held(struct captures *cs);

/* at the end of the aggregator: no worker has a look-up */
void captures_forget_held(struct captures *cs);

/* ---- walk.c ---- */

/* How many hosts of a capture one turn of the loop handles. */
#define CAPTURE_TURN_HOSTS 1000

/* Sends a message to all hosts that are connected and wanted when it is their turn. All messages are sent
 * before this returns if there are few hosts, else from the next turn of the loop on. Messages of several
 * calls reach each host in the order of the calls. */
void capture_send(struct capture *c, struct buf *message_taken,
		  bool (*wants)(const struct capture_host *h));

/* In the same way: calls visit for each host whose agent is connected, as long as the capture lives. */
void capture_visit(struct capture *c, void (*visit)(struct capture_host *h, struct host *host));
void capture_end_walks(struct capture *c); /* at once: the capture is about to be freed */

/* ---- host.c ---- */

struct capture_host *capture_find_host_by_name(struct capture *c, const char *host); /* or NULL */

/* Connected under its name, and not of another namespace; or NULL. */
struct host *capture_host_find_agent(const struct capture_host *h);

/* Connected and the agent that was armed, or NULL. */
struct host *capture_host_find_own_agent(const struct capture_host *h);

/* The same two look-ups for a caller that visits the hosts of a capture in their order: no search for each.
 * `*at` is 0 for the first host, as for registry_find_next(). */
struct host *capture_host_next_agent(const struct capture_host *h, size_t *at);
struct host *capture_host_next_own_agent(const struct capture_host *h, size_t *at);

void capture_host_set_reason(struct capture_host *h, const char *reason, const char *detail);

/*
 * Fails all hosts that have not ended and that `wants` selects, in this turn of the loop. Even 10,000 hosts
 * take little time, because only the first 100 are logged and no message is sent. Their agents hold nothing
 * of the capture, or send_cancel() tells them to drop it.
 */
void capture_fail_hosts(struct capture *c, bool (*wants)(const struct capture_host *h),
			const char *reason, const char *detail);
bool capture_any_host(const struct capture_host *h); /* all are wanted */

void capture_host_send(const struct capture_host *h,
		       const struct buf *message); /* if it is connected */

void capture_drop_observations(struct capture *c); /* of all its hosts; no worker has them */

/* The host has failed, but its agent may deliver the file to a retry. */
bool capture_host_may_hold_file(const struct capture_host *h);

#endif
