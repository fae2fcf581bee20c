/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What some seeds draw besides, each thing on its own while failures last: a host whose tracer fails and one that is lost, then
 * a retry; requests at once whose settings differ, or do not; an aggregator that loses power during an upload, with what it
 * had of it. From a random stream of its own, and in seeds of certain numbers, so that the others play as if it were not there.
 */
#ifndef SIM_MORE_H
#define SIM_MORE_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/sim/sim.h"

struct more_env {
	void (*kill)(struct sim_host *h,
		     int64_t down_ns); /* and starts it again; see more_is_up() */
};

void more_new(uint64_t seed, bool is_takeover, const struct more_env *env);
void more_start(int64_t until_ns); /* does nothing in a seed that is not of these */
void more_stop(void); /* nothing is begun any more, no host is marked */

bool more_is_up(const struct sim_host *h); /* its daemon runs, and can be killed */

void more_print_drawn(void); /* as play_print_drawn() */

#endif
