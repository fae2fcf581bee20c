/* SPDX-License-Identifier: Apache-2.0 */
/* Answers time probes of known agents: by UDP, and by the control stream of a host that UDP does not reach. */
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
void time_service_free(struct time_service *ts); /* it is closed; NULL is fine */

/* Answers UDP probes at this address; `*port` is the one that the system chose if it is 0. */
MUST_CHECK int time_service_listen(struct time_service *ts, const char *address, int *port,
				   struct err *e);
void time_service_close(struct time_service *ts);

/* A probe of h that came by its control stream, PROBE_BYTES long, and the answer to be sent there at once. False
 * for one that gets none. */
bool time_service_answer(struct time_service *ts, struct host *h, const uint8_t *packet,
			 uint8_t reply[PROBE_BYTES]);

int time_service_port(const struct time_service *ts); /* of UDP */
const struct time_stats *time_service_stats(const struct time_service *ts);

#endif
