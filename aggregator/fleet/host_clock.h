/* SPDX-License-Identifier: Apache-2.0 */
/* A host's clock as its agent reports it, and as the API and the manifest show it. */
#ifndef AGGREGATOR_FLEET_HOST_CLOCK_H
#define AGGREGATOR_FLEET_HOST_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "proto/limits.h"
#include "proto/tutti/v1/control.pb-c.h"

#define HOST_CLOCK_WORD 16 /* bytes of a kind or a method; a longer one is cut */

/* A clock break between from_ns and to_ns (session clock). */
struct host_clock_break {
	char kind[HOST_CLOCK_WORD];
	int64_t from_ns, to_ns, delta_ns;
};

struct host_clock {
	bool calibrated, rate_known, wall_synced;
	int64_t offset_ns, bound_ns, rtt_min_ns, rate_ppb, jitter_ns, wall_error_ns;
	int64_t earlier_ns, later_ns; /* slack: by how much all times of a file may be moved */
	uint32_t probes;
	uint32_t wall_steps; /* steps of the wall clock since the agent's start */
	char method[HOST_CLOCK_WORD], grade[2];
	size_t n_breaks;
	struct host_clock_break *breaks; /* owned by the owner of this struct */
	bool is_suspecting;
	struct host_clock_break suspected; /* a break that fewer than 4 probes have met */
	/* session clock: by then the suspected break is confirmed or dropped, if probes are answered */
	int64_t suspected_known_ns;
};

/* From a message; with NULL (the host has reported no clock) all members are 0. The result points into
 * `breaks`: copy them to keep it. */
struct host_clock host_clock_from(const Tutti__V1__ClockModel *c,
				  struct host_clock_break breaks[LIMIT_CLOCK_STEPS]);

/* docs/schema/clock.schema.json; a new reference. */
json_t *host_clock_json(const struct host_clock *c);

#endif
