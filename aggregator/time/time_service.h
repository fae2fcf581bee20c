/* SPDX-License-Identifier: Apache-2.0 */
/* Answers time probes of known agents. Sets agg->time_service and agg->probe_port. */
#ifndef AGGREGATOR_TIME_TIME_SERVICE_H
#define AGGREGATOR_TIME_TIME_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "proto/probe.h"

struct aggregator;
struct host;

MUST_CHECK int time_service_start(struct aggregator *agg, struct err *e);

/* A probe of h that came by its control stream, PROBE_BYTES long, and the answer to be sent there at once. False
 * for one that gets none. */
bool time_service_answer(struct aggregator *agg, struct host *h, const uint8_t *packet,
			 uint8_t reply[PROBE_BYTES]);
void time_service_stop(struct aggregator *agg);

#endif
