/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures of the fleet, from the request to the committed session. A capture is a state machine with one
 * smaller state machine per host. Loop thread.
 *
 * capture_begin() validates the whole request before any host starts, picks the session id and T0, stores
 * the plan in the session's ledger (aggregator/sessions/ledger.h) and arms the hosts. Messages and uploads
 * of agents arrive through the capture_host_*() functions. When every host has ended, or at the deadline,
 * the end is stored and carried out: the manifest is written and the session exists, or, if no host has a
 * file, the failure is recorded and the stored objects are removed. A write or removal that the store
 * refuses is repeated until the store accepts it; until then the capture is "committing". states.h has the
 * states.
 *
 * A framework's profiler records one capture at a time. A capture that conflicts with another one waits in
 * the queue, first come first served; so does a capture beyond the limit of captures under way. A request
 * identical to one whose window has not begun gets that capture: both callers share it.
 *
 * capture_retry() resumes a committed session, from "uploading" on, for the hosts that have no file. A host
 * that still holds its file delivers it. The others record again, in one new window, when their profilers are
 * free: until then the retry is queued.
 */
#ifndef AGGREGATOR_CAPTURES_CAPTURE_H
#define AGGREGATOR_CAPTURES_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <jansson.h>

#include "proto/tutti/v1/ingest.pb-c.h"

#include "json/json_text.h"
#include "aggregator/fleet/registry.h"
#include "aggregator/fleet/spaces.h"
#include "aggregator/captures/step_plan.h"
#include "base/err.h"
#include "base/loop.h"
#include "base/pool.h"

struct captures;
struct capture_left;
struct capture_watch;
struct walk;
struct durable_watch;
struct jobs;
struct ledger;
struct pieces;
struct pod;
struct pods;
struct retry_source;
struct session_clock;
struct session_store;
struct store;

enum capture_state {
	CAP_ASKING, /* hosts are asked for their training steps; nothing is stored */
	CAP_QUEUED, /* no host is armed; T0 is an estimate */
	CAP_PLANNING, /* the plan is being stored */
	CAP_ARMING, /* from here on T0 is final */
	CAP_RUNNING,
	CAP_UPLOADING,
	CAP_COMMITTING, /* the end is being stored */
	CAP_COMMITTED, /* in this state and those below the capture has ended */
	CAP_FAILED, /* in this state and those below it has failed */
	/* it failed before anything was stored: the caller gets an error, and there is no record */
	CAP_REFUSED,
	CAP_LOST, /* another aggregator carries it on */
};

/* As the API has it: "queued", "arming", "running", "uploading", "committing", "committed", "failed". */
const char *capture_state_name(enum capture_state state);

enum host_state {
	HOST_ARMING,
	HOST_ARMED,
	HOST_RUNNING,
	HOST_GATHERING,
	HOST_UPLOADING,
	HOST_COMPLETE, /* in this state and those below the host has ended */
	HOST_PARTIAL,
	HOST_FAILED,
};

struct tracer_report {
	const char *name, *state, *reason, *detail;
	uint64_t lost;
};

/* Training steps that began and ended in a window; first_at_ns and end_at_ns count from T0. */
struct steps_seen {
	int64_t first, last, first_at_ns, end_at_ns;
};

/* A file of a host, as its agent reports it. */
struct reported_file {
	uint64_t bytes;
	uint32_t crc32c;
};

#define HOST_DETAIL_BYTES 512

/* Whether a host may upload. So many hosts have CREDIT_GRANTED at the same time: more if they put their files into
 * the store themselves. */
enum upload_credit { CREDIT_NONE, CREDIT_WAITING, CREDIT_GRANTED };
#define UPLOAD_CREDITS	      8
#define UPLOAD_CREDITS_GRANTS 256

/* One host in one capture. Its texts and reports are in capture.kept, or static. There are 10,000, and a copy of all of them is made for
 * each change that is stored: what only an ended host has is not in here. */
struct capture_host {
	const char *name;
	uint64_t instance; /* of the agent that was armed; 0 = none */
	enum host_state state;
	enum upload_credit credit;
	const char *reason; /* from the table of proto/reasons.h; "" = none */
	const char *detail; /* shorter than HOST_DETAIL_BYTES; cut between characters */
	/* of the last failed upload; NULL = none. A copy of the capture has none */
	char *upload_error;
	bool stored; /* the upload is durable in the store */
	bool takes_grant; /* its agent has one file, and puts it by a grant that comes with the credit */
	bool was_granted; /* a grant for one of its files may have been given: it may be in the store */
	bool was_found; /* an earlier aggregator stored it, and may have put warnings behind it */
	bool reported; /* HostResult has arrived */
	bool was_unheard; /* its agent reported no file although it is stored, and was asked once more */
	bool is_other; /* its agent is of another namespace than the capture: to that it is not connected (others.c) */
	bool is_left; /* its agent is being replaced, and the next one is asked for what that had not begun */
	bool needs_recording; /* in a retry: the agent holds no file */
	bool is_to_be_asked; /* a retry: its window is durable, and its agent does not know of it yet */
	uint32_t crc32c; /* of the file that takes_grant is about */
	unsigned int n_files; /* if stored; name_of_file() names them */
	unsigned int n_reported; /* 0: the agent reports no files */
	unsigned int n_tracers;
	uint64_t granting; /* the agent whose credit waits for its grant; 0 = none */
	struct reported_file *reported_files;
	uint8_t *
		observations; /* from its agent, for causality_check(); NULL = none, or the capture has ended */
	size_t observations_len;
	/* session clock: if the broken link is not back by then, the host is lost; 0 = the link is up */
	int64_t reconnect_by_ns;
	int64_t armed_late_ns; /* how long after T0 it was armed; 0 = in time */
	int64_t armed_bound_ns; /* of its clock, when it was armed */
	int64_t t0_ns; /* of its own window, if a retry recorded it; 0 = the session's */
	/* in a retry: the RESULT of a host that has a file already; the retry does not touch it */
	const char *old_result;
	uint64_t bytes, bytes_done, events;
	/* from HostResult, which does not change them but brings new ones; NULL = none */
	const struct host_clock *clock;
	const struct steps_seen *steps; /* NULL: none began in its window */
	struct tracer_report *tracers;
	int64_t credit_until_ns; /* CLOCK_MONOTONIC: the host must send something by then */
	TAILQ_ENTRY(capture_host) credits; /* in captures.waiting or captures.granted */
	struct capture *capture;
};

/* A pod that a capture is of. */
struct capture_pod {
	struct pod *pod; /* a reference: as it was when the capture was requested */
	const char *host; /* in capture.kept; "" = no agent is on its node */
	const char *reason, *detail; /* static; "" = nothing happened to it */
};

struct capture {
	char *session, *run, *origin; /* origin: "api", "profiler-service PEER", "local host-a" */
	char *owner; /* the name of who began it; "" = not known */
	char *retried_by; /* whose limits a retry counts for; NULL = the owner's */
	struct spaces spaces; /* the namespaces it is of; empty = the whole fleet's */
	char *client_session; /* the session id of a ProfilerService client; "" = none */
	enum capture_state state;
	bool open_ended, cancelled;
	struct ledger *ledger; /* NULL before the plan and after the end */
	struct err store_error; /* why the last write of the ledger failed; code 0 = it did not */
	unsigned int revision; /* of the manifest: 1, plus 1 for each retry */
	int64_t arm_by_ns; /* a host that has not answered Arm by then is unresponsive */
	int64_t last_armed_ns; /* session clock: the last answer to Arm; 0 = none */
	int64_t next_reconnect_by_ns; /* the earliest reconnect_by_ns, or INT64_MAX */
	int64_t t0_ns, duration_ns; /* session clock */
	int64_t clock_shift_ns; /* which session clock: its shift_ns when T0 was chosen */
	int64_t stop_at_ns; /* session clock: T1 of a stop that is not durable yet; 0 = none */
	int64_t lead_ns, grace_ns;
	int64_t grace_given_ns; /* as requested; 0 = not */
	int64_t not_before_ns, commit_by_ns; /* as requested; session clock; 0 = no limit */
	bool snapshot; /* the window is past: it is cut from the hosts' rings */
	bool ends_as_given; /* a snapshot: its end was given as an instant */
	unsigned int callers; /* that share this capture */
	/* session clock: the latest end of its wait in the queue; 0 = it is not queued */
	int64_t queued_until_ns;
	/* session clock: until then a recovered capture waits for its hosts */
	int64_t hold_until_ns;
	/* session clock: until then it waits for agents that are being replaced; 0 = it does not */
	int64_t replaced_until_ns;
	int64_t check_at_ns; /* session clock: then one of them is waited for no more */
	char waits_for[160]; /* in CAP_QUEUED: what it waits for, a sentence for people */
	size_t position; /* in CAP_QUEUED: in the queue, from 1 on */
	bool refine; /* by events, before the commit */
	bool by_step; /* T0 is at the begin of a training step */
	int64_t at_step, n_steps; /* as requested; STEP_NEXT allowed; 0 steps: for duration_ns */
	struct step_plan step_plan; /* the latest expectation */
	/* the tracer whose processes count steps themselves: then step_plan is only an estimate; "" = none */
	char step_tracer[32];
	bool step_ended; /* the marks of the last step have ended the window */
	size_t step_hosts; /* that reported the steps behind step_plan; 0 = there is no expectation yet */
	int64_t steps_asked_mono_ns,
		steps_watched_until_mono_ns; /* hosts report their steps until then */
	int64_t armed_at_ns; /* session clock: when Arm was sent */
	int64_t deadline_ns; /* session clock: then the capture ends without the missing hosts */
	/* session clock: hosts that make progress move the deadline, but not beyond this */
	int64_t last_ns;
	int64_t progress_ns; /* session clock: the last progress of a host that has not ended */
	json_t *settings; /* as requested; never NULL */
	uint8_t *options; /* serialized ProfileOptions */
	size_t options_len;
	char **tracers; /* requested names, NULL-terminated; NULL = all */
	/* memory for texts of hosts, which do not change until the capture is freed */
	struct pool kept;
	const char *last_detail; /* the detail that was stored last: many hosts share one */
	struct capture_host *hosts; /* sorted by name */
	size_t n_hosts;
	size_t n_ended; /* hosts that have ended */
	json_t *warnings; /* array of strings */
	struct capture_pod *pods; /* that the selector named, if it asked for pods */
	size_t n_pods;
	json_t *earlier_pods; /* of a retry, or a capture of an earlier run: as they are stored; or NULL */
	struct err error; /* in CAP_FAILED */
	struct durable_watch *durable_watches; /* of capture_when_durable() */
	size_t n_durable_watches;
	struct loop_timer timer;
	TAILQ_HEAD(, walk) walks; /* messages on their way to all hosts (walk.c) */
	struct loop_timer walk_timer;
	struct captures *captures;
	struct capture *original; /* of a copy (text.c) */
	bool shared; /* of a copy: for a caller who shares the capture */
	size_t n_missing; /* of a copy: hosts that capture_check_stored() has failed */
	size_t n_cleared; /* of a copy: files that capture_store_notes() has made shorter */
	bool is_tidy; /* of a copy: capture_check_stored() has found no file but those of the manifest */
	size_t noted; /* of a copy: 1 + the host whose file has the notes; 0 = none */
	struct reported_file
		noted_file; /* its only file with the notes, if the agent reports its files */
	unsigned int
		n_holds; /* of copies, which borrow its strings, and of those who will copy it */
	bool free_pending; /* it is freed with its last hold */
	TAILQ_ENTRY(capture) entry;
	TAILQ_ENTRY(capture) queued; /* in CAP_QUEUED */
};

struct capture_request {
	const char *hosts; /* selector; NULL or "" = all */
	json_t *known; /* array of names that must be known, or NULL; borrowed */
	/* array of names, or NULL; borrowed: those that are not known take part as unreachable hosts */
	json_t *expected;
	const char *run; /* NULL or "" = none */
	int64_t duration_ns;
	bool open_ended;
	json_t *settings; /* object, or NULL; borrowed */
	/* serialized ProfileOptions, or NULL; if given, `settings` only describe them */
	const void *options;
	size_t options_len;
	json_t *tracers; /* array of names, or NULL; borrowed */
	const char *origin;
	const char *owner; /* who begins it, or NULL */
	const struct spaces *within; /* hosts and pods of these namespaces alone; NULL = all */
	const char *client_session; /* or NULL */
	int64_t not_before_ns; /* session clock; 0 = as soon as possible */
	int64_t commit_by_ns; /* session clock: the deadline of the caller; 0 = as configured */
	bool snapshot; /* the window is past: duration_ns long, with the end as follows */
	/* a snapshot's end: session clock, not in the future; 0 = ago_ns counts */
	int64_t ending_at_ns;
	int64_t ago_ns; /* a snapshot's end: this long before now */
	const char *refine; /* "events"; NULL or "" = none */
	bool by_step; /* begin with training step at_step, which may be STEP_NEXT */
	int64_t at_step;
	int64_t n_steps; /* 0 = for duration_ns */
	int64_t wait_ns; /* longest wait in the queue; 0 = 10 minutes, below 0 = may not wait */
	int64_t grace_ns; /* 0 = captures_env's, or twice the duration if that is longer */
};

/* How long the aggregator waits for agents. */
struct capture_patience {
	int64_t arm_ns; /* for answers to Arm, from T0 on; a longer lead replaces it */
	int64_t credit_ns; /* for a host that has an upload credit and sends nothing, while others wait */
	int64_t lost_ns; /* for a broken link to come back */
};

struct captures_env {
	struct loop *loop;
	struct jobs *jobs;
	const struct session_clock *clock;
	struct session_store *store;
	struct registry *registry;
	struct pods *pods;
	const struct capture_patience *patience;
	const char *spool; /* folder for files under way */
	int64_t lead_ns; /* the lead is at least this */
	int64_t grace_ns; /* the grace of a capture that asks for none is at least this */
	bool by_grants; /* agents put files into the store themselves, if they can */
	int64_t causality_ns; /* time limit of causality_check() for one session; 0 = no check */

	/* Whether a new capture of this run may begin; an error is capture_begin()'s. NULL = always. Then `admitted`
	 * is told of it, before anybody else. */
	int (*admit)(void *arg, const char *run, struct err *e);
	void (*admitted)(void *arg, struct capture *c);
	/* is told of each capture_stop_by(), before it is done; may be NULL */
	void (*stopped)(void *arg, const struct capture *c, const char *by);
	void *admit_arg;
	/* whether answers of agents may have come that were not delivered yet; NULL = never */
	bool (*is_behind)(void *arg);
	void *behind_arg;
};

struct captures *captures_new(const struct captures_env *env);

/* Reads what session_recover() handed out of a session. For workers, as retry_source_read(). */
struct capture_left *capture_left_read(const json_t *recoverable);
void capture_left_free(struct capture_left *l); /* NULL is fine */

/* Continues a capture of an earlier run. `left` serves once, and the caller frees it. To be called after
 * session_clock_load(). */
void captures_recover(struct captures *cs, struct capture_left *left);

/* From here on no capture begins and none ends because an agent is missing: what is stored of a capture
 * stays, as after a crash. */
void captures_begin_stop(struct captures *cs);

/* Calls all functions that wait in capture_when_durable(), with ERR_BUSY. */
void captures_refuse_waiting(struct captures *cs);

/* Stops the timers of all captures. The next aggregator carries on the captures under way. */
void captures_finish_stop(struct captures *cs);
void captures_free(struct captures *cs); /* no job of them is under way */

/*
 * ERR_INVALID: an option or value is wrong, the sentence names it. ERR_NOT_FOUND: the selector matches no
 * host. ERR_LIMIT: too many captures are under way or queued. ERR_BUSY: the aggregator is stopping, the store
 * takes no writes, a host in `known` is not known, or the capture would have to wait and may not. ERR_FULL: a quota. If the
 * store refuses the plan later, the capture ends, and capture_when_durable() reports ERR_BUSY. An open-ended
 * capture begins now and never waits. `*out` may be a capture that another caller requested before: then its
 * `callers` is above 1.
 */
MUST_CHECK int capture_begin(struct captures *cs, const struct capture_request *req,
			     struct capture **out, struct err *e);

/* `not_durable` is NULL, or why a crash may undo what was asked. */
typedef void (*capture_durable_fn)(void *arg, struct capture *c, const struct err *not_durable);

/* Calls fn once: when the last begin, stop or cancel is durable, so that no crash undoes it, or when the
 * store has refused to record it. A refused write is repeated, but fn is not called again. May call it before
 * it returns. */
void capture_when_durable(struct capture *c, capture_durable_fn fn, void *arg);

struct capture *capture_find(struct captures *cs,
			     const char *session); /* ended ones are kept for a while */

/* Reads and checks the manifest of a committed session, for a retry. For workers: with 10,000 hosts it
 * blocks for a tenth of a second. ERR_NOT_FOUND: there is none; ERR_INVALID: it is damaged. */
MUST_CHECK int retry_source_read(struct store *store, const char *session,
				 struct retry_source **out, struct err *e);
void retry_source_free(struct retry_source *s); /* NULL is fine */

/*
 * Retries a committed session for the hosts without a file; hosts with a file, even a partial one, are not
 * touched. `source` serves one retry, and the caller frees it. `grace_ns` 0 = as in its request. ERR_EXISTS if a
 * capture of the session is under way or every host has a file; ERR_LIMIT and ERR_BUSY as for capture_begin().
 */
MUST_CHECK int capture_retry(struct captures *cs, struct retry_source *source, int64_t grace_ns,
			     struct capture **out, struct err *e);

/* Ends the window now and keeps the data. Agents are told when the stop is durable; they still cut at this
 * instant. After T1 it has no effect; before T0 the window becomes a millisecond long; a queued capture is
 * cancelled. */
void capture_stop(struct capture *c);

/* The same for one who has not come over HTTP: `by` is for the audit log, as an origin. */
void capture_stop_by(struct capture *c, const char *by);

/* Ends the capture and drops its data; agents are told when that is durable. False if it is too late: the
 * capture is being committed or has ended. */
bool capture_cancel(struct capture *c);
bool capture_is_queued(const struct capture *c);
/* its hosts may still change: no end is stored or being stored */
bool capture_is_open(const struct capture *c);
bool capture_has_ended(const struct capture *c);
bool capture_has_failed(const struct capture *c);

/*
 * Makes the text of docs/schema/capture.schema.json for one capture as it is now (`shared`: with "shared":
 * true). Calls fn once with the text: before it returns if there are few hosts, else later, even if the capture
 * is freed by then.
 */
void capture_make_text(struct capture *c, bool shared, json_text_fn fn, void *arg);

/*
 * The same in pieces (base/pieces.h), or docs/schema/captures.schema.json for all captures whose namespaces lie in `within` (NULL = all). Each is
 * as it was when its own text began.
 */
struct pieces *capture_text_new(struct capture *c);
struct pieces *captures_text_new(struct captures *cs, const struct spaces *within);

/* A capture that is held is not freed, though capture_find() may not find it any more. */
void capture_hold(struct capture *c);
void capture_unhold(struct capture *c); /* NULL is fine */

/*
 * What makes the grants that go with upload credits, where hosts take one: `grant` ends in capture_host_send_credit(), now or
 * later, with a grant or without; `used` is told that a host has put its file by it.
 */
struct capture_granter {
	void (*grant)(void *arg, struct capture_host *h);
	void (*used)(void *arg);
	void *arg;
};
void captures_set_granter(struct captures *cs, const struct capture_granter *granter);
void capture_host_send_credit(const struct capture_host *h,
			      const Tutti__V1__Grant *grant); /* may be NULL */

/* The store has begun to refuse grants, or may make them again: so many hosts may upload at once. */
void captures_set_grants(struct captures *cs, bool are_made);

/* A retry that this caller has begun. */
void capture_set_retried_by(struct capture *c, const char *name);

/* What the captures under way of one caller are; "" = those without one. */
struct captures_use {
	size_t n;
	uint64_t bytes; /* that their hosts have announced */
};
struct captures_use captures_use_of(const struct captures *cs, const char *name);

/* fn is called after each change of a capture. Several may watch; a watch is never removed. */
void captures_watch(struct captures *cs, void (*fn)(void *arg, struct capture *c), void *arg);

struct captures_count {
	size_t active, queued; /* captures under way, captures in the queue */
	size_t waiting; /* hosts that wait for an upload credit */
};
struct captures_count captures_count(const struct captures *cs);

struct captures_stats {
	uint64_t committed, failed, shared; /* captures */
	uint64_t hosts_failed;
};
const struct captures_stats *captures_stats(const struct captures *cs);

/* ---- messages and uploads of agents (control.c, ingest.c) ---- */

/* NULL if the capture does not have this host, or has armed an earlier agent of that name. */
struct capture_host *capture_find_host(struct capture *c, const char *host, uint64_t instance);

/* Whether this may be the agent of a host that has to connect again: it has another instance after its own restart. */
bool capture_awaits_agent(struct capture *c, const char *host, uint64_t instance);
bool capture_host_has_ended(const struct capture_host *h);
void capture_host_armed(struct capture_host *h, int64_t bound_ns, int64_t lead_ns);
void capture_host_progress(struct capture_host *h, enum host_state state, uint64_t bytes_total,
			   uint64_t bytes_done);

/* Progress: a grant may go with the next credit, for the host's only file. */
void capture_host_take_offer(struct capture_host *h, bool takes_grant, uint32_t crc32c);

/* HostResult: the host's only file is in the store by such a grant. The commit looks whether it is. */
void capture_host_put(struct capture_host *h, uint64_t bytes);

/* Whether these are the host's files in the store, of which an agent that was restarted does not know. */
bool capture_host_has_stored(const struct capture_host *h, uint64_t bytes, unsigned int n_files);

/* Its files are durable; the agent is not informed yet. */
void capture_host_stored(struct capture_host *h, uint64_t bytes, unsigned int n_files);

/* HostResult: what its files are. */
void capture_host_report_files(struct capture_host *h, const uint64_t *bytes,
			       const uint32_t *crc32c, unsigned int n);

/* HostResult: what its files have that other hosts may have seen. Left out beyond CAPTURES_OBSERVATION_BYTES. */
void capture_host_report_observations(struct capture_host *h, const void *data, size_t len);

/* While `is_held`, an end that removes files is stored but not carried out, because a worker is storing
 * files of the session or removing those of a failed upload. */
void capture_hold_end(struct capture *c, bool is_held);

/* An upload ended; `error` is NULL if it succeeded. Its credit goes to the next host. */
void capture_host_upload_ended(struct capture_host *h, const char *error);

/* HostResult has arrived; events, clock and tracers of h are set. */
void capture_host_result(struct capture_host *h, bool has_file, const char *reason,
			 const char *detail);
void capture_host_failed(struct capture_host *h, const char *reason, const char *fmt, ...)
	PRINTF_LIKE(3, 4);

/* The agent has disconnected and does not come back. */
void captures_host_lost(struct captures *cs, const char *host, uint64_t instance);

/* The host may not take part any more, whether its agent is there or awaited; `why` is a sentence. */
void captures_host_refused(struct captures *cs, const char *host, const char *why);

/* The agent's link broke and may come back. */
void captures_host_disconnected(struct captures *cs, const char *host, uint64_t instance);

/* The agent has connected; `host` lists what it holds. */
void captures_host_connected(struct captures *cs, struct host *host);

/* A report of its training step has arrived: host->steps. */
void captures_host_steps_changed(struct captures *cs, const struct host *host);

/* A new list of what it holds has arrived: host->held. */
void captures_host_held_changed(struct captures *cs, struct host *host);

/* The session has been removed from the store: agents need not keep what they hold of it. */
void captures_session_deleted(struct captures *cs, const char *session);

#endif
