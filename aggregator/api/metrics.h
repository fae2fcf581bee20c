/* SPDX-License-Identifier: Apache-2.0 */
/* What the aggregator counts, as Prometheus text. */
#ifndef AGGREGATOR_API_METRICS_H
#define AGGREGATOR_API_METRICS_H

#include <stddef.h>

struct api_env;
struct buf;

void metrics_write(const struct api_env *env, size_t pages, struct buf *out);

#endif
