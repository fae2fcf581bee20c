/* SPDX-License-Identifier: Apache-2.0 */
/* A caller that requests captures and remembers those that the aggregator has accepted. */
#ifndef SIM_USER_H
#define SIM_USER_H

#include <jansson.h>

#include "tests/sim/sim.h"

/* What an answer promised: it holds after any crash. */
enum promise {
	PROMISE_NONE, /* not asked for */
	PROMISE_ASKED, /* without an answer, or refused: it may have happened or not */
	PROMISE_KEPT, /* answered 2xx */
};

/* A capture that the aggregator has accepted. */
struct request {
	char session[64];
	size_t n_hosts; /* requested */
	int64_t longest_ns; /* of its window, as ever answered: an end that reached a host too late has no effect */
	int64_t shift_ns; /* of the session clock, when its window was set */
	int64_t retry_shift_ns; /* when a retry was asked for */
	int64_t accepted_ns; /* true time; 0 = unknown */
	int64_t last_ns; /* true time: it is over by then */
	bool undisturbed; /* since it was accepted the aggregator was well and had a store */
	bool by_step;
	int64_t snapshot_ns; /* true time: when a snapshot was accepted; deadlines count from then; 0 = it is none */
	bool must_complete; /* every host must be complete */
	enum promise stop, cancel, removal;
	unsigned int n_stops;
	int64_t stopped_duration_ns; /* PROMISE_KEPT: the longest that its window may be */
	bool retried;
	bool over, committed;
	bool has_settings; /* known is with which it was asked for */
	json_t *settings; /* NULL = none */
	json_t *kept; /* by host: its result, once it was seen with a file; it stays */
	unsigned int retries_left; /* that are asked for when it is over */
	struct sim_event again;
	bool end_known; /* the last question of user_ask_ends() was answered */
	struct sim_event ask; /* its next status request */
	struct sim_event end; /* user_end_at_once() */
	TAILQ_ENTRY(request) entry;
};
TAILQ_HEAD(requests, request);

/* `calm`: nothing fails, so captures by training step have all their steps. */
void user_new(int64_t grace_ns, bool calm);
void user_free(void);
const struct requests *user_requests(void);
const struct request *user_find(const char *session); /* or NULL */
bool user_is_calm(void);

/* The aggregator has answered that it has this capture, or lists it. */
struct request *user_accepted(const json_t *doc);

/* Requests a capture. `accepted` (may be NULL) is called if an answer says that there is one. */
void user_post(json_t *body_taken, void (*accepted)(struct request *w));

/* When it is over, it is retried; so many times. */
void user_retry_when_over(struct request *w, unsigned int times);

/* Each picks hosts or a session at random. */
void user_capture(void);
void user_capture_all(int64_t duration_ns); /* all hosts, with their profilers */
void user_capture_steps(void); /* begins with a training step */
void user_capture_whole(void); /* all hosts, and each must be complete */
void user_stop(void);
void user_cancel(void);
void user_retry(void);
void user_delete(void);
void user_browse(void); /* lists, hosts, metrics */

void user_before_outage(
	void); /* the aggregator is about to be killed, stopped, paused or without a store */

/* From now on this part of the captures is stopped and cancelled within this time after it was accepted; 0 = none. */
void user_end_at_once(double part, int64_t within_ns);

size_t user_waiting(void); /* requests that are not over */

/* The store failed while a session was being removed. */
bool user_has_unanswered_removals(void);

/* Asks for the end of every capture again; user_check_ends(), some time later, fails those that are not known. */
void user_ask_ends(void);
void user_check_ends(void);

#endif
