/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host and an aggregator whose clocks are known exactly, and a link between them: the samples and
 * the truth for tests of the clock estimator. Whole nanoseconds; time `t` is session time since the
 * world began. The same seed gives the same world.
 */
#ifndef TESTS_CLOCK_WORLD_H
#define TESTS_CLOCK_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/clock/model.h"
#include "agent/clock/sample.h"

enum jitter { JITTER_EXP, JITTER_QUEUE, JITTER_SPIKES, JITTER_PARETO };

/* Something that begins at at_ns and lasts for_ns; 0 = for ever. */
struct clock_event {
	int64_t at_ns, for_ns;
};

struct clock_world {
	const char *name;
	int64_t offset_ns; /* host - session at t = 0 */
	int ticks_mhz; /* the host reads a counter of this frequency: its times are whole ticks; 0 = finer */
	double drift_ppm;
	double wander_ppm, wander_s; /* peak of a sine in the rate, and its period */
	double wander_turn; /* 0 .. 1: where in its period the world begins */
	int64_t step_at_ns,
		step_ns; /* the host's clock jumps then; a negative one stops it that long */
	int64_t step_again_ns; /* so long after that it jumps once more, if step_ns is positive; 0 = never */
	bool is_moved; /* a virtual machine: rate_step is at step_at_ns, too */
	struct clock_event rate_step; /* the drift is rate_step_ppm more then */
	double rate_step_ppm;
	bool is_excursion; /* the rate steps back after 0.3 s to rate_step.for_ns */
	struct clock_event frozen; /* the host sends nothing, and reads what arrives at the end */
	int64_t there_ns, back_ns; /* least delay of each way */
	struct clock_event bad; /* the link is worse then, by this: */
	int64_t bad_there_ns, bad_back_ns; /* of the least delays */
	double bad_there_jitter_ns, bad_back_jitter_ns; /* of the mean jitter */
	int64_t swaps_ns; /* bad_there_ns is added there for so long, then back for so long, and so on */
	int64_t beacon_ns; /* a sleeping receiver: what comes back waits for a multiple of this */
	struct clock_event cut; /* nothing arrives then */
	struct clock_event moving; /* the way there gets longer until the end of that, by this: */
	int64_t moving_there_ns;
	enum jitter jitter;
	double jitter_ns; /* mean of the delay on top of that */
	double load; /* of JITTER_QUEUE; 0 = 0.7 */
	double burst; /* mean length of losses in a row; 0 = each by itself */
	double loss, twice, late; /* shares of the probes: lost, answered twice, 50 ms late */
	bool reorders; /* packets pass each other */
	int64_t every_ns; /* between trains */
	int train;
	int64_t gap_ns; /* between the probes of a train */
	/* how captures probe: 0 = as alone; or no more often than this, as among thousands of hosts */
	int64_t pair_gap_ns;
	bool by_stream; /* by the control stream: single probes, STREAM_GAP_NS apart */
	bool is_past; /* windows that are over when they are asked for: nothing but rare trains in them */
	bool late_stamps; /* better stamps of when the reply was sent arrive 1 s later */
};

struct world_sample {
	int64_t at_ns; /* t of its arrival at the estimator */
	struct clock_sample s;
};

struct world_samples {
	struct world_sample *at; /* in order of arrival */
	size_t n, cap;
};

void world_seed(uint64_t seed); /* not 0 */
double world_uniform(void); /* (0, 1) */

int64_t world_host_ns(const struct clock_world *w, int64_t t_ns);
int64_t world_session_ns(int64_t t_ns);
void world_probe(const struct clock_world *w, int64_t from_ns, int64_t to_ns,
		 struct world_samples *out); /* appends, sorted; free `at` */

/* The probes of a pair are further apart there, and more pairs follow the window. */
bool world_is_jittery(const struct clock_world *w);

/* Probes from 0 on as an agent sends them that is armed at armed_ns for a window until to_ns; if the window is over,
 * to_ns is armed_ns. */
void world_probe_capture(const struct clock_world *w, int64_t armed_ns, int64_t to_ns,
			 struct world_samples *out);

/* Errors and bounds at the checked instants. */
struct world_judge {
	double *error_ns, *bound_ns;
	size_t n, cap, outside, unknown;
};

/* The model's offset at t against the truth. */
void world_check(struct world_judge *j, const struct clock_world *w, const struct clock_model *m,
		 int64_t t_ns);
void world_judge_free(struct world_judge *j);

/* Sorts the array. `share` 0 .. 1: 0.5 is the median. */
double world_quantile(double *v, size_t n, double share);

#endif
