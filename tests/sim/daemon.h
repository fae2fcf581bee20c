/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs: hosts[0] of the world has the aggregator, every other one an agent.
 *
 * One that is killed leaves its files as they are: they are copied for the next one. Then an orderly stop frees its
 * memory; the messages and files of that stop reach no other host.
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
	int64_t grace_ns, lead_ns; /* of the aggregator */
	int64_t spool_limit_bytes; /* of agents */
};

void daemons_new(const struct daemon_opts *opts); /* for every host that there is */
void daemons_free(void); /* all are down */

void daemon_start(struct sim_host *h);
void daemon_stop(struct sim_host *h); /* SIGTERM: turns the world until it is done */
void daemon_kill(struct sim_host *h, bool vanish); /* SIGKILL, or the plug is pulled */
bool daemon_is_busy(const struct sim_host *h); /* being stopped */

struct aggregator *the_aggregator(void); /* NULL = it is down */
struct store *the_store(
	void); /* the aggregator's, up or down. The caller frees it with store_free() */

#endif
