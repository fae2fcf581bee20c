/* SPDX-License-Identifier: Apache-2.0 */
/* Answers time probes of known agents. Sets agg->time_service and agg->probe_port. */
#ifndef AGGREGATOR_TIME_SERVICE_H
#define AGGREGATOR_TIME_SERVICE_H

#include "base/err.h"

struct aggregator;

MUST_CHECK int time_service_start(struct aggregator *agg, struct err *e);
void time_service_stop(struct aggregator *agg);

#endif
