/* SPDX-License-Identifier: Apache-2.0 */
/* What the capture_*.c files share among themselves. */
#ifndef AGGREGATOR_CAPTURES_CAPTURE_IMPL_H
#define AGGREGATOR_CAPTURES_CAPTURE_IMPL_H

#include "aggregator/captures/capture.h"
#include "aggregator/captures/lead.h"
#include "aggregator/sessions/session_store.h"
#include "aggregator/time/session_clock.h"
#include "base/buf.h"
#include "base/jobs.h"

#define ENDED_KEPT	 64
#define ENDED_HOSTS_KEPT 20000 /* of all of them, at most: each costs a kilobyte */

/* For agents, after our own restart: the longest pause between two tries of one is 30 s, half as much
 * again as --reconnect-max. */
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
	bool stopping; /* nothing new begins any more */
	struct capture_list all; /* last begun or ended first */
	size_t n_active, n_ended; /* of the active ones, n_queued wait for others */
	struct capture_list queue; /* first come first served */
	size_t n_queued;
	struct loop_timer queue_timer;
	bool check_soon; /* it is set, and soon */
	struct host_queue waiting; /* for an upload credit, first come first served */
	struct host_queue granted; /* who has one, the least patience first */
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

struct capture *capture_new(struct captures *cs); /* empty; in no list */

/* capture_begin.c: validates and builds; nothing is started. */
MUST_CHECK int capture_build(struct captures *cs, const struct capture_request *req,
			     struct capture **out, struct err *e);
void capture_free(struct capture *c);
int64_t capture_lead(const struct captures *cs, size_t n_hosts, int64_t bound_ns);
MUST_CHECK int capture_check_ready(const struct captures *cs, struct err *e); /* now or later? */
void capture_renew(struct capture *c); /* its hosts' agents, lead, T0 and deadline as of now */

/* capture.c */
void capture_notify(struct capture *c);
void capture_host_ended(struct capture_host *h); /* its state is an end; may end the capture */
void capture_insert(struct capture *c); /* among those under way */
void capture_remove(struct capture *c); /* from any, and frees it */
void capture_wake(struct capture *c); /* something new is due */
bool capture_finish_if_ended(struct capture *c); /* finishes it if all its hosts have ended */
bool capture_is_being_stored(const struct capture *c);
int64_t capture_arm_by(const struct capture *c,
		       int64_t t0_ns); /* the end of patience with arming */
void capture_finish(struct capture *c);
void capture_fail_all(struct capture *c, const char *reason, const char *detail);

void capture_stop_at(struct capture *c, int64_t t1_ns);

/* capture_step.c: windows that begin with a training step. */
enum step_check {
	STEP_ASKING, /* hosts have not yet said where they are */
	STEP_WAITING, /* it is expected; c->waits_for says when */
	STEP_DUE, /* hosts are to be armed now */
};
MUST_CHECK int capture_step_check(struct capture *c, struct err *e); /* an enum step_check */
int64_t capture_step_wake_ns(const struct capture *c); /* session clock: look again then */
void capture_step_begin(struct capture *c); /* it is due */
void capture_step_finish(struct capture *c); /* warns of what the marks showed */
json_t *capture_step_json(const struct capture *c); /* AT_STEP of docs/wire.md */
json_t *steps_seen_json(const struct steps_seen *s);
void capture_step_load(struct capture *c, const json_t *doc); /* of a plan, a manifest */

/* capture_plan_json.c */
void capture_store_plan(struct capture *c); /* stores the intent, then arms or lets it wait */
void capture_begin_queued(struct capture *c); /* its turn has come */
void capture_store_stop(struct capture *c); /* its window was made shorter */
void capture_notify_durable(struct capture *c); /* those of capture_when_durable() */

/* capture_queue.c */
struct capture *capture_find_shared(const struct capture *c); /* asked for before; or NULL */
void capture_queue_extend(struct capture *shared, const struct capture *c,
			  int64_t wait_ns); /* the longer patience of both */
bool capture_queue_must_wait(struct capture *c); /* then c->waits_for says for what */
bool capture_queue_waits_for_hosts(struct capture *c); /* to come back after a restart */
MUST_CHECK int capture_queue_enter(struct capture *c, int64_t wait_ns, struct err *e);
void capture_queue_recover(struct capture *c, const json_t *plan); /* of an earlier run */
void capture_queue_leave(struct capture *c); /* if it is in */
void capture_queue_schedule(struct captures *cs); /* somebody may have become free */

/* A worker sees this and nothing else. */
struct store_job {
	struct capture *capture;
	struct capture *copy; /* in CAP_COMMITTING: what `doc` is made of, by the worker */
	struct store *store;
	char *session, *run;
	int64_t t0_ns;
	int64_t causality_ns;
	json_t *doc;
	bool second_try; /* the same was tried before, and failed */
	int rc;
	struct err e;
};
void store_job_begin(struct capture *c, json_t *doc_taken, loop_fn run, loop_fn done);
void store_job_note(struct store_job *job, const char *action); /* logs a failure; c->not_durable */
void store_job_free(struct store_job *job);

/* capture_load.c: from what is stored, a plan or a manifest; `plan` may be NULL. */
void capture_load(struct capture *c, const json_t *doc);
MUST_CHECK int capture_load_options(struct capture *c, const json_t *plan, struct err *e);

/* capture_retry.c: what a retry does where a first capture does something else. */
void capture_retry_recover(struct captures *cs, const json_t *doc); /* one that a crash broke off */
bool capture_is_retry(const struct capture *c);
void capture_retry_update_states(struct capture *c); /* in the queue: who has to record anew */
void capture_retry_begin(struct capture *c); /* its turn has come */
bool capture_retry_lost_file(struct capture_host *h); /* then it records anew */
json_t *capture_retry_hosts(const struct capture *c); /* names of those asked again */
void capture_retry_run_commit(void *job);
void capture_retry_run_undo(void *job);

/* capture_resume.c */
int64_t capture_extend_for_agents(struct capture *c); /* until when; its deadline lies after that */
void capture_load_stored(struct capture_host *h, const json_t *stored);

/* capture_make_text.c: a copy for a worker to read. Texts in it are the capture's own, which is kept so long. */
struct capture *capture_copy(struct capture *c);
void capture_copy_free(struct capture *copy);

/* capture_json.c */
void capture_write(struct buf *out, const struct capture *c); /* CAPTURE, as text */
json_t *capture_instances(const struct capture *c); /* {host: 64 bits in hex} */

/* capture_credit.c */
void capture_host_request_credit(struct capture_host *h);
void capture_host_renew_credit(struct capture_host *h); /* it has sent something */
void capture_host_drop_credit(struct capture_host *h);

/* capture_host.c */
struct host *capture_host_find_agent(const struct capture_host *h); /* any agent; or NULL */
struct host *capture_host_find_own_agent(
	const struct capture_host *h); /* connected, the same agent; or NULL */
void capture_send(const struct capture *c, const struct buf *message); /* all live hosts */
void capture_host_send(const struct capture_host *h, const struct buf *message); /* if it is live */
bool capture_host_may_hold_file(
	const struct capture_host *h); /* failed, but a retry may get the file */

#endif
