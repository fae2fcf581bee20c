/* SPDX-License-Identifier: Apache-2.0 */
/* Plays one seed: a fleet, a time of failures, a time without, then the checks of check.h. */
#ifndef SIM_PLAY_H
#define SIM_PLAY_H

#include <stdbool.h>
#include <stdint.h>

struct play_opts {
	int agents; /* 0 = 1 to 8, chosen by the seed */
	int minutes; /* length of the time of failures; 0 = chosen by the seed */
	bool calm; /* no failures except those of the network */
	bool whole_store; /* the store never fails */
};

struct play_result {
	bool ok;
	uint64_t hash; /* of all that happened */
	uint64_t steps;
	int64_t took_ns; /* of virtual time */
};

struct play_result play(uint64_t seed, const struct play_opts *opts);

#endif
