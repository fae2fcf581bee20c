/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One of several aggregators on one store (docs/replicas.md): waits until it leads, answers reads meanwhile, and ends the process
 * when it leads no more.
 */
#ifndef AGGREGATOR_REPLICA_H
#define AGGREGATOR_REPLICA_H

#include "base/err.h"

struct aggregator;

/* Returns when this replica leads; turns the loop meanwhile. Sets `agg->replica` and `agg->term`. Does nothing where the
 * aggregator is the only one. */
MUST_CHECK int replica_start(struct aggregator *agg, struct err *e);

/* The session clock is loaded: returns when the store has it for a successor. Until then nothing is planned on it. */
MUST_CHECK int replica_publish_clock(struct aggregator *agg, struct err *e);

/* ERR_DENIED unless this replica leads at this moment. */
MUST_CHECK int replica_check(const struct aggregator *agg, struct err *e);

/* Lets another one lead at once; nothing of the aggregator writes to the store any more. */
void replica_stop(struct aggregator *agg);

#endif
