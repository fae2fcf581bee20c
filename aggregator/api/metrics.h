/* SPDX-License-Identifier: Apache-2.0 */
/* What the aggregator counts, as Prometheus text. */
#ifndef AGGREGATOR_API_METRICS_H
#define AGGREGATOR_API_METRICS_H

struct aggregator;
struct buf;

void metrics_write(const struct aggregator *agg, struct buf *out);

#endif
