/* SPDX-License-Identifier: Apache-2.0 */
/* The aggregator's counters as Prometheus text. */
#ifndef AGGREGATOR_API_METRICS_H
#define AGGREGATOR_API_METRICS_H

#include <stddef.h>

struct api_env;
struct buf;

/* `pages`: open event streams of pages. Appends to `out`. */
void metrics_write(const struct api_env *env, size_t pages, struct buf *out);

#endif
