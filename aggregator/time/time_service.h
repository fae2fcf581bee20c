/* SPDX-License-Identifier: Apache-2.0 */
/* Answers time probes: of connected agents, by UDP and over the control link of a host without UDP; of followers of this
 * leader (aggregator/time/leader_clock.h). */
#ifndef AGGREGATOR_TIME_TIME_SERVICE_H
#define AGGREGATOR_TIME_TIME_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "proto/probe.h"

struct host;
struct loop;
struct registry;
struct session_clock;
struct time_service;

struct time_env {
	struct loop *loop;
	const struct session_clock *clock;
	struct registry *registry;
};

struct time_stats {
	uint64_t probes, dropped, bad_stamps;
};

struct time_service *time_service_new(const struct time_env *env);
void time_service_free(struct time_service *ts); /* after time_service_close(); NULL is fine */

/* Answers UDP probes at this address. `*port` is the port; the system chooses it if the address has 0. */
MUST_CHECK int time_service_listen(struct time_service *ts, const char *address, int *port,
				   struct err *e);
void time_service_close(struct time_service *ts);

/*
 * For a probe of h from its control link, PROBE_BYTES long: fills the reply, which is to be sent there at once.
 * False if the probe gets none.
 */
bool time_service_answer(struct time_service *ts, struct host *h, const uint8_t *packet,
			 uint8_t reply[PROBE_BYTES]);

/* From now on probes of followers are answered, which have this cookie and this key. */
void time_service_admit_followers(struct time_service *ts);
uint64_t time_service_cookie(const struct time_service *ts);
const struct siphash_key *time_service_key(const struct time_service *ts);

int time_service_port(const struct time_service *ts); /* of UDP */
const struct time_stats *time_service_stats(const struct time_service *ts);

#endif
