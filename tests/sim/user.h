/* SPDX-License-Identifier: Apache-2.0 */
/* A caller that requests captures and remembers those that the aggregator has accepted. */
#ifndef SIM_USER_H
#define SIM_USER_H

#include "tests/sim/sim.h"

/* A capture that the aggregator has accepted. */
struct request {
	char session[64];
	size_t n_hosts; /* requested */
	int64_t t0_ns, duration_ns; /* session clock */
	int64_t shift_ns; /* session clock = the aggregator's raw clock + this, when it was accepted */
	int64_t retry_shift_ns; /* when a retry was asked for */
	int64_t accepted_ns; /* true time */
	int64_t last_ns; /* true time: it is over by then */
	bool undisturbed; /* since then the aggregator was not killed, stopped or paused */
	bool stopped; /* before its end: a host that the Stop message reached too late has recorded more */
	bool spoilt; /* cancelled or deleted: the session may not exist */
	bool must_complete; /* every host must be complete */
	bool over, committed;
	struct sim_event ask; /* its next status request */
	TAILQ_ENTRY(request) entry;
};
TAILQ_HEAD(requests, request);

void user_new(int64_t grace_ns);
void user_free(void);
const struct requests *user_requests(void);

/* Each picks hosts or a session at random. */
void user_capture(bool must_complete);
void user_stop(void);
void user_cancel(void);
void user_retry(void);
void user_delete(void);
void user_browse(void); /* lists, hosts, metrics */

void user_before_outage(void); /* the aggregator is about to be killed, stopped or paused */

size_t user_waiting(void); /* requests that are not over */

#endif
