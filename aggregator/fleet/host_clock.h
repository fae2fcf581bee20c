/* SPDX-License-Identifier: Apache-2.0 */
/* What a host says of its clock, and how the API and the manifest show that. */
#ifndef AGGREGATOR_FLEET_HOST_CLOCK_H
#define AGGREGATOR_FLEET_HOST_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "proto/limits.h"
#include "proto/tutti/v1/control.pb-c.h"

#define HOST_CLOCK_WORD 16 /* bytes of a kind, a method; longer ones are cut */

/* Between from_ns and to_ns (session clock) a clock of the host was not what it was before. */
struct host_clock_step {
	char kind[HOST_CLOCK_WORD];
	int64_t from_ns, to_ns, delta_ns;
};

struct host_clock {
	bool calibrated, wall_synced;
	int64_t offset_ns, bound_ns, rtt_min_ns, rate_ppb, jitter_ns, wall_error_ns;
	int64_t earlier_ns, later_ns; /* of a file: so far all its times may be moved */
	uint32_t probes, steps_seen;
	char method[HOST_CLOCK_WORD], grade[2];
	size_t n_steps;
	struct host_clock_step steps[LIMIT_CLOCK_STEPS];
};

/* NULL is a host that said nothing. */
struct host_clock host_clock_of(const Tutti__V1__ClockModel *c);

json_t *host_clock_json(const struct host_clock *c); /* CLOCK of docs/wire.md; a new reference */

#endif
