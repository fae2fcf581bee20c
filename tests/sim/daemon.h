/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs: hosts[0] of the world has the aggregator, every other one an agent. A second aggregator is beside them.
 *
 * A killed daemon leaves its files as they are, and its successor gets a copy of them. To free its memory the
 * simulation then stops the killed daemon in an orderly way; what it sends and writes meanwhile is discarded.
 */
#ifndef SIM_DAEMON_H
#define SIM_DAEMON_H

#include "tests/sim/sim.h"

struct aggregator;
struct store;

/* A folder of this name is made and becomes the working folder; daemon_root_free() removes it. */
void daemon_root_new(void);
void daemon_root_free(void);

struct daemon_opts {
	int n_aggregators; /* 1, or 2 that share a store */
	int64_t grace_ns, lead_ns; /* of the aggregator */
	int64_t spool_limit_bytes, file_limit_bytes; /* of agents */
};

void daemons_new(const struct daemon_opts *opts); /* one for every host */
void daemons_free(void); /* no daemon runs any more */

void daemon_start(struct sim_host *h);
void daemon_stop(struct sim_host *h); /* SIGTERM: runs the simulation until the daemon has ended */
void daemon_kill(struct sim_host *h, bool vanish); /* SIGKILL, or power loss if `vanish` */
bool daemon_is_busy(const struct sim_host *h); /* it is being started or stopped */
char *daemon_folder(const char *host); /* of its present life; the caller frees it */

/* The standby is the aggregator that leads from now on, as soon as it is started, and the one before is the standby, whatever
 * it still does. The lease, which decides that, is not played: tests/unit/aggregator/lease does that. `measured`: it is on
 * another machine, and has measured the former one's clock; it is started in after_ns. */
void daemon_hand_over(bool measured, int64_t after_ns);

char *daemon_store_url(
	const char *dir); /* of an aggregator with this folder; the caller frees it */

struct aggregator *the_aggregator(void); /* the one that leads; NULL = it is down */
struct store *the_store(
	void); /* the aggregator's, up or down. The caller frees it with store_free() */

#endif
