/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures of the fleet: from a request to a committed session, one state machine per host.
 *
 * capture_begin() validates everything before any host starts, picks the session id and T0, stores the
 * intent and arms the hosts. Agents' messages and uploads come in through the functions in the middle.
 * When every host has come to an end, or at the deadline, the manifest is written and the session
 * exists; if no host has a file, the capture failed: that is noted, and what is stored is removed. Loop thread.
 *
 *   [queued ->] arming -> running (T0) -> uploading (T1) -> committing -> committed | failed
 *
 * A framework's profiler takes one session at a time: a capture whose hosts' profilers belong to another
 * one waits for it, first come first served, and so does one for which there is no place. A request that
 * is the same as one whose window has not begun gets that capture: both callers share it.
 *
 * capture_retry() takes up a committed session again, from "uploading" on, for the hosts that have no
 * file. Who still holds one delivers it; the others record anew, in one new window of their own, when
 * their profilers are free: until then it is queued.
 */
#ifndef AGGREGATOR_CAPTURES_CAPTURE_H
#define AGGREGATOR_CAPTURES_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <jansson.h>

#include "json/json_text.h"
#include "aggregator/fleet/registry.h"
#include "aggregator/captures/step_plan.h"
#include "base/err.h"
#include "base/loop.h"

struct captures;
struct capture_watch;
struct jobs;
struct session_clock;
struct session_store;

enum capture_state {
	CAP_QUEUED, /* planned, no host has heard of it; T0 is an estimate */
	CAP_ARMING,
	CAP_RUNNING,
	CAP_UPLOADING,
	CAP_COMMITTING,
	CAP_COMMITTED,
	CAP_FAILED
};

enum host_state {
	HOST_ARMING,
	HOST_ARMED,
	HOST_RUNNING,
	HOST_GATHERING,
	HOST_UPLOADING,
	HOST_COMPLETE, /* from here on it has come to an end */
	HOST_PARTIAL,
	HOST_FAILED,
};

struct tracer_report {
	char *name, *state, *reason, *detail;
	uint64_t lost;
};

/* Training steps that began and ended in a window; first_at and end_at are since T0. */
struct steps_seen {
	bool known; /* false: none began in it */
	int64_t first, last, first_at_ns, end_at_ns;
};

/* Of an upload: asked for, granted, neither. At most UPLOAD_CREDITS are granted at once. */
enum upload_credit { CREDIT_NONE, CREDIT_WAITING, CREDIT_GRANTED };
#define UPLOAD_CREDITS 8

struct capture_host {
	char *name;
	uint64_t instance; /* of the agent that was armed; 0 = none */
	enum host_state state;
	char reason[32]; /* typed, proto/reasons.h */
	char detail[256];
	char upload_error[128]; /* of the last upload that went wrong; "" = none */
	bool stored; /* the upload is durable in the store */
	unsigned int n_files; /* then: name_of_file() names them */
	bool reported; /* HostResult is in */
	int64_t reconnect_by_ns; /* the link broke: lost if it is not back by then; 0 = it is up */
	int64_t armed_late_ns; /* how long after T0 it was armed; 0 = in time */
	int64_t t0_ns; /* of its own window, recorded by a retry; 0 = the session's */
	bool needs_recording; /* a retry: nothing is held, it has to record anew */
	json_t *old_result; /* a retry: RESULT as in the manifest before, this host is not touched */
	uint64_t bytes, bytes_done, events;
	struct host_clock clock; /* of HostResult, before that of Armed: its bound alone */
	struct tracer_report *tracers;
	size_t n_tracers;
	struct steps_seen steps;
	enum upload_credit credit;
	int64_t credit_until_ns; /* CLOCK_MONOTONIC: by then it has to have sent something */
	TAILQ_ENTRY(capture_host) credits; /* among those that wait for one, or have one */
	struct capture *capture;
};

struct capture {
	char *session, *run, *origin; /* origin: "api", "profiler-service PEER", "local host-a" */
	char *client_session; /* what a ProfilerService client calls it; "" = none */
	enum capture_state state;
	bool open_ended, cancelled;
	bool planned; /* the intent is being stored, or is */
	bool t0_moved; /* T0 had to be moved: the plan was stored once more */
	bool armed; /* Arm went out: t0_ns is final */
	bool stop_pending; /* stopped while its plan is being stored: that says too much */
	bool storing; /* what it carries on from after a crash is being stored anew */
	bool plan_done; /* the intent is stored, or could not be */
	struct err
		not_durable; /* why a crash undoes what was asked for last; code 0 = it does not */
	unsigned int revision; /* of the manifest: 1, and one more with each retry */
	int64_t arm_by_ns; /* who has not answered Arm by then does not count */
	int64_t next_reconnect_by_ns; /* the earliest reconnect_by_ns, or INT64_MAX */
	int64_t t0_ns, duration_ns; /* session clock */
	int64_t lead_ns, grace_ns;
	int64_t not_before_ns, commit_by_ns; /* as asked for; session clock; 0 = whenever */
	unsigned int callers; /* how many asked for this very capture */
	int64_t queued_until_ns; /* session clock: it waits no longer; what waits for nobody: 0 */
	int64_t hold_until_ns; /* session clock: its hosts have so long to come back */
	char waits_for[160]; /* in CAP_QUEUED: for what, in words */
	size_t position; /* in CAP_QUEUED: its place, from 1 on */
	bool refine; /* by events, when all files are there */
	bool by_step; /* T0 is to be where a training step begins */
	int64_t at_step, n_steps; /* as asked for: STEP_NEXT; 0 = for duration_ns */
	struct step_plan step_plan; /* as expected last */
	bool step_ended; /* the marks of the last one have ended the window */
	size_t step_hosts; /* how many hosts that is from; 0 = nothing is expected yet */
	int64_t steps_asked_mono_ns, steps_heard_until_mono_ns; /* hosts tell so long */
	int64_t armed_at_ns; /* session clock: when Arm went out */
	int64_t deadline_ns; /* session clock: commit with what there is */
	json_t *settings; /* as given; never NULL */
	uint8_t *options; /* serialized ProfileOptions */
	size_t options_len;
	char **tracers; /* names asked for, NULL-terminated; NULL = all */
	struct capture_host *hosts; /* sorted by name */
	size_t n_hosts;
	size_t n_ended; /* hosts that have come to an end */
	json_t *warnings; /* array of strings */
	struct err error; /* in CAP_FAILED */
	unsigned int commits; /* tried so far */
	struct capture_watch *durable_watches; /* for who waits for the store */
	size_t n_durable_watches;
	struct loop_timer timer;
	struct captures *captures;
	struct capture *original; /* of a copy (capture_make_text.c) */
	bool shared; /* of a copy: it is for who got what somebody else had asked for */
	unsigned int n_copies; /* who have our texts: until they are gone, */
	bool free_pending; /* what should be freed is kept */
	TAILQ_ENTRY(capture) entry;
	TAILQ_ENTRY(capture) queued; /* in CAP_QUEUED */
};

struct capture_request {
	const char *hosts; /* selector; NULL or "" = all */
	const char *run; /* NULL or "" = none */
	int64_t duration_ns;
	bool open_ended;
	json_t *settings; /* object, or NULL; borrowed */
	const void *options; /* ready-made ProfileOptions; then settings only describe them */
	size_t options_len;
	json_t *tracers; /* array of names, or NULL; borrowed */
	const char *origin;
	const char *client_session; /* or NULL */
	int64_t not_before_ns; /* session clock; 0 = as soon as possible */
	int64_t commit_by_ns; /* session clock: the caller's patience; 0 = as configured */
	const char *refine; /* "events"; NULL or "" = not at all */
	bool by_step; /* begin with training step at_step, or STEP_NEXT */
	int64_t at_step;
	int64_t n_steps; /* so many steps; 0 = for duration_ns */
	int64_t wait_ns; /* so long it may wait for others; 0 = 10 minutes, below 0 = not at all */
};

/* What may take so long; 0 is no time at all. */
struct capture_patience {
	int64_t arm_ns; /* after T0, or the lead if that is longer: for answers to Arm */
	int64_t credit_ns; /* with a host that has a credit and sends nothing, while others wait */
	int64_t lost_ns; /* a link that broke may come back within this */
};

struct captures_env {
	struct loop *loop;
	struct jobs *jobs;
	const struct session_clock *clock;
	const struct session_store *store;
	struct registry *registry;
	const struct capture_patience *patience;
	int64_t lead_ns; /* from request to T0, at least */
	int64_t grace_ns; /* from T1 to the commit at the latest */
	int64_t causality_ns; /* for causality_check() of a session */
};

struct captures *captures_new(const struct captures_env *env);

/* Carries on what session_sweep() found resumable; the session clock is set. */
void captures_recover(struct captures *cs, const json_t *plans);

/* Nothing new begins any more, a link that breaks is lost at once. */
void captures_begin_stop(struct captures *cs);

/* All hosts are lost: commits that wait for the store are tried once more, now. What cannot be committed is
 * left for the next start to carry on. */
void captures_finish_stop(struct captures *cs);
void captures_free(struct captures *cs); /* no job of theirs is under way */

/*
 * ERR_INVALID (names the option or value), ERR_NOT_FOUND (selector), ERR_LIMIT (too many under way and
 * waiting), ERR_BUSY (the aggregator is stopping, the store takes no writes, or it would have to wait and
 * may not). What is open-ended begins now and never waits. `*out` may be a capture that somebody else
 * asked for before: then its `callers` is above 1.
 */
MUST_CHECK int capture_begin(struct captures *cs, const struct capture_request *req,
			     struct capture **out, struct err *e);

/* Calls fn when a crash cannot undo any more what was asked for, a begin, a stop or a cancel, or when
 * the store did not take it (`not_durable`): from inside if that is now. */
void capture_when_durable(struct capture *c, void (*fn)(void *arg, struct capture *c), void *arg);

struct capture *capture_find(struct captures *cs,
			     const char *session); /* also ended ones, for a while */

/*
 * Takes a committed session up again: `manifest` and, if it is still there, `plan` (else NULL) are its
 * records, borrowed. ERR_EXISTS if it is under way or no host lacks its file; ERR_LIMIT, ERR_BUSY as
 * for capture_begin(). Hosts that have a file, also a partial one, are not touched.
 */
MUST_CHECK int capture_retry(struct captures *cs, const json_t *manifest, const json_t *plan,
			     struct capture **out, struct err *e);

/* End the window now, keep the data; one that is past its window is not touched. Before T0 the
 * window shrinks to a millisecond; what is queued is cancelled. */
void capture_stop(struct capture *c);

/* Forget it: false if it is too late, the session is being committed or is over. */
bool capture_cancel(struct capture *c);
bool capture_has_ended(const struct capture *c);

/*
 * CAPTURE of docs/wire.md, as it is now, with "shared": true if told so; {"captures": [CAPTURE]} of all. fn
 * gets the text once: from inside if there are few hosts, else later, also if the capture is gone by then.
 */
void capture_make_text(struct capture *c, bool shared, json_text_fn fn, void *arg);
void captures_make_text(struct captures *cs, json_text_fn fn, void *arg);

/* What plan.json holds: CAPTURE with less of each host, and "resume", what it takes to carry on after a
 * restart. */
json_t *capture_plan_json(const struct capture *c);

/* What is kept of it when it fails: CAPTURE as it will be then. Also of a copy, on a worker. */
json_t *capture_failure_json(const struct capture *c);

/* MANIFEST, as of a commit that succeeds. Also of a copy, on a worker. */
json_t *capture_manifest_json(const struct capture *c);

/* fn is called after each change of a capture; several may watch; a watch stays for good. */
void captures_watch(struct captures *cs, void (*fn)(void *arg, struct capture *c), void *arg);

/* Captures under way, captures that wait for others, hosts that wait for an upload credit. */
struct captures_count {
	size_t active, queued, waiting;
};
struct captures_count captures_count(const struct captures *cs);

struct captures_stats {
	uint64_t committed, failed, shared; /* captures */
	uint64_t hosts_failed;
};
const struct captures_stats *captures_stats(const struct captures *cs);

/* ---- what agents say (control.c, ingest.c) ---- */

/* NULL if the host is not of this capture, or another agent of that name was armed. */
struct capture_host *capture_find_host(struct capture *c, const char *host, uint64_t instance);
bool capture_host_has_ended(const struct capture_host *h);
void capture_host_armed(struct capture_host *h, int64_t bound_ns, int64_t lead_ns);
void capture_host_progress(struct capture_host *h, enum host_state state, uint64_t bytes_total,
			   uint64_t bytes_done);

/* Its files are durable: before the agent is told so. */
void capture_host_stored(struct capture_host *h, uint64_t bytes, unsigned int n_files);

/* An upload ended; `error` is NULL for one that went well. Its credit goes to the next. */
void capture_host_upload_ended(struct capture_host *h, const char *error);

/* HostResult; events, clock and tracers of h are filled. */
void capture_host_result(struct capture_host *h, bool has_file, const char *reason,
			 const char *detail);
void capture_host_failed(struct capture_host *h, const char *reason, const char *fmt, ...)
	PRINTF_LIKE(3, 4);

/* The agent is gone for good; its link broke, it may be back; it is back, with what it holds. */
void captures_host_lost(struct captures *cs, const char *host, uint64_t instance);
void captures_host_disconnected(struct captures *cs, const char *host, uint64_t instance);
void captures_host_connected(struct captures *cs, const struct host *host);

/* It said which training step it is at. */
void captures_host_steps_changed(struct captures *cs, const struct host *host);

/* What it holds was said anew. */
void captures_host_held_changed(struct captures *cs, const struct host *host);

#endif
