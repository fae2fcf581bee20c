/* SPDX-License-Identifier: Apache-2.0 */
/* The parts that listen, besides that of gRPC (grpc.c), for the table of aggregator.c. A part that was not started is not stopped. */
#ifndef AGGREGATOR_PARTS_H
#define AGGREGATOR_PARTS_H

#include "base/err.h"

struct aggregator;

MUST_CHECK int probe_start(struct aggregator *agg, struct err *e);
void probe_stop(struct aggregator *agg);
MUST_CHECK int http_start(struct aggregator *agg, struct err *e);
void http_stop(struct aggregator *agg);

#endif
