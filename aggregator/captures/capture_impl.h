/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of captures/ share; private to them. */
#ifndef AGGREGATOR_CAPTURES_CAPTURE_IMPL_H
#define AGGREGATOR_CAPTURES_CAPTURE_IMPL_H

#include "aggregator/captures/capture.h"
#include "aggregator/captures/lead.h"
#include "aggregator/sessions/session_store.h"
#include "aggregator/time/session_clock.h"
#include "base/buf.h"
#include "base/jobs.h"

#define ENDED_KEPT	 64
#define ENDED_HOSTS_KEPT 20000 /* in all ended captures: a host costs a kilobyte */

/* How long agents have to connect after a restart of the aggregator. An agent pauses 30 s at most between
 * two tries: 1.5 times the default of --reconnect-max. */
#define BACK_PATIENCE_NS (35 * NS_PER_S)

struct capture_watch {
	void (*fn)(void *arg, struct capture *c);
	void *arg;
};

TAILQ_HEAD(capture_list, capture);
TAILQ_HEAD(host_queue, capture_host);

struct captures {
	struct captures_env env;
	struct captures_stats stats;
	bool stopping; /* no capture begins any more */
	struct capture_list all; /* the last begun or ended one first */
	size_t n_active, n_ended; /* n_active counts the queued ones, too */
	struct capture_list queue; /* first come first served */
	size_t n_queued;
	struct loop_timer queue_timer;
	bool check_soon; /* queue_timer is set to CHECK_DELAY_NS */
	struct host_queue waiting; /* for an upload credit, first come first served */
	struct host_queue granted; /* sorted by credit_until_ns */
	unsigned int n_granted;
	struct loop_timer credit_timer;
	struct capture_watch *watches;
	size_t n_watches;
	struct lead lead;
};

static inline int64_t captures_now(const struct captures *cs)
{
	return session_clock_now(cs->env.clock);
}

struct capture *capture_new(struct captures *cs); /* in no list yet */

/* build.c: validates and builds; nothing is started. */
MUST_CHECK int capture_build(struct captures *cs, const struct capture_request *req,
			     struct capture **out, struct err *e);
void capture_free(struct capture *c);
int64_t capture_lead(const struct captures *cs, size_t n_hosts, int64_t bound_ns);
MUST_CHECK int capture_check_ready(const struct captures *cs, struct err *e); /* or ERR_BUSY */
void capture_renew(struct capture *c); /* sets agents, lead, T0 and deadline as of now */

/* deadline.c */
void capture_set_deadline(struct capture *c,
			  int64_t t1_ns); /* sets grace_ns, deadline_ns, last_ns */
int64_t capture_gather_by(const struct capture *c, int64_t t1_ns); /* see gather_by_ns of Arm */
bool capture_extend_deadline(struct capture *c, int64_t now_ns); /* false: no host makes progress */

bool capture_has_tracer(const struct capture *c, const char *name); /* it records with this one */

/* snapshot.c: windows in the past. */
MUST_CHECK int capture_set_snapshot(
	struct capture *c, const struct capture_request *req,
	struct err *e); /* the window; ERR_INVALID if no ring reaches it */
bool capture_is_same_snapshot(const struct capture *a, const struct capture *b);

/* capture.c */
void capture_notify(struct capture *c);
void capture_host_ended(struct capture_host *h); /* h->state is an end; may finish the capture */
void capture_insert(struct capture *c); /* among those under way */
void capture_remove(struct capture *c); /* from all lists; frees it */
void capture_wake(struct capture *c); /* checks on the next turn what is due */
bool capture_finish_if_ended(struct capture *c); /* whether all hosts have ended */
bool capture_is_being_stored(const struct capture *c);
int64_t capture_arm_by(const struct capture *c, int64_t t0_ns); /* see arm_by_ns */
void capture_finish(struct capture *c);
void capture_fail_all(struct capture *c, const char *reason, const char *detail);

void capture_stop_at(struct capture *c, int64_t t1_ns);

/* step.c: windows that begin with a training step. */
enum step_check {
	STEP_ASKING, /* hosts have not reported their steps yet */
	STEP_WAITING, /* the step is expected; c->waits_for has when */
	STEP_DUE, /* the hosts must be armed now */
};
MUST_CHECK int capture_step_check(struct capture *c,
				  struct err *e); /* enum step_check, or an error */
int64_t capture_step_wake_ns(const struct capture *c); /* session clock: when to check again */
void capture_step_begin(struct capture *c); /* after STEP_DUE */
void capture_step_finish(struct capture *c); /* adds warnings about the marked steps */
json_t *capture_step_json(const struct capture *c); /* at-step.schema.json */
json_t *steps_seen_json(const struct steps_seen *s);
void capture_step_load(struct capture *c, const json_t *doc); /* `doc` is a plan or a manifest */

/* plan.c */
void capture_store_plan(
	struct capture
		*c); /* stores the plan; then arms the hosts or leaves the capture in the queue */
void capture_begin_queued(struct capture *c); /* takes it out of the queue */
void capture_store_stop(struct capture *c); /* stores the shorter window; then sends Stop */
void capture_notify_durable(struct capture *c); /* calls the watches of capture_when_durable() */

/* queue.c */
struct capture *capture_find_shared(
	const struct capture *c); /* one that c's caller can share; or NULL */
void capture_queue_extend(struct capture *shared, const struct capture *c,
			  int64_t wait_ns); /* waits as long as either caller allows */
bool capture_queue_must_wait(struct capture *c); /* sets c->waits_for if so */
bool capture_queue_waits_for_hosts(
	struct capture *c); /* to connect after a restart; sets c->waits_for if so */
MUST_CHECK int capture_queue_enter(struct capture *c, int64_t wait_ns, struct err *e);
void capture_queue_recover(struct capture *c, const json_t *plan); /* at its old place */
void capture_queue_leave(struct capture *c); /* if it is in the queue */
void capture_queue_schedule(struct captures *cs); /* checks the queue soon: a host may be free */

/* One write to the store. The worker sees this and nothing else. */
struct store_job {
	struct capture *capture;
	struct capture *copy; /* in CAP_COMMITTING: the worker makes `doc` from it */
	struct store *store;
	char *session, *run;
	int64_t t0_ns;
	int64_t causality_ns;
	json_t *doc;
	bool second_try; /* an earlier try failed */
	int rc;
	struct err e;
};
void store_job_begin(struct capture *c, json_t *doc_taken, loop_fn run, loop_fn done);
void store_job_note(struct store_job *job,
		    const char *action); /* logs a failure and sets c->not_durable */
int64_t store_job_pause_ns(unsigned int tries); /* before the next try, after so many */
void store_job_free(struct store_job *job);

/* load.c: `doc` is a plan or a manifest; `plan` may be NULL. */
void capture_load(struct capture *c, const json_t *doc);
MUST_CHECK int capture_load_options(struct capture *c, const json_t *plan, struct err *e);

/* retry.c: what a retry does differently from a first capture. */
void capture_retry_recover(struct captures *cs, const json_t *doc); /* of an earlier run */
bool capture_is_retry(const struct capture *c);
void capture_retry_update_states(
	struct capture *c); /* of queued hosts: uploading if they hold a file */
void capture_retry_begin(struct capture *c); /* it leaves the queue */
bool capture_retry_lost_file(struct capture_host *h); /* true: the host records again */
json_t *capture_retry_hosts(const struct capture *c); /* names of the retried hosts */
void capture_retry_run_commit(void *job);
void capture_retry_run_undo(void *job);

/* recovery.c */
/* Returns until when the capture waits for its agents, and extends the deadline beyond that. */
int64_t capture_extend_for_agents(struct capture *c);
void capture_load_stored(struct capture_host *h, const json_t *stored);

/* text.c: a copy for a worker to read. It borrows the strings of the capture, which lives as long as the copy. */
struct capture *capture_copy(struct capture *c);
void capture_copy_free(struct capture *copy);

/* json.c */
void capture_write(struct buf *out, const struct capture *c); /* CAPTURE, as text */
json_t *capture_instances(const struct capture *c); /* {host: instance in hex} */

/* notes.c: on a worker, before the manifest; changes the bytes of a host of the copy */
void capture_store_notes(struct store *s, struct capture *copy);

/* credit.c */
void capture_host_request_credit(struct capture_host *h);
void capture_host_renew_credit(struct capture_host *h); /* it has sent bytes: it keeps its credit */
void capture_host_drop_credit(struct capture_host *h);

/* host.c */
struct host *capture_host_find_agent(
	const struct capture_host *h); /* connected under its name, or NULL */
struct host *capture_host_find_own_agent(
	const struct capture_host *h); /* connected and the agent that was armed, or NULL */
void capture_send(const struct capture *c, const struct buf *message); /* to all connected hosts */
void capture_host_send(const struct capture_host *h,
		       const struct buf *message); /* if it is connected */
bool capture_host_may_hold_file(
	const struct capture_host *h); /* failed, but the agent may deliver its file to a retry */

#endif
