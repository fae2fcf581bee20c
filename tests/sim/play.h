/* SPDX-License-Identifier: Apache-2.0 */
/* Plays one seed: a fleet, a time of failures, a time without, then the checks of check.h. */
#ifndef SIM_PLAY_H
#define SIM_PLAY_H

#include <stdbool.h>
#include <stdint.h>

/* What happens at one call of the store, in a life that is not drawn. */
enum call_fault {
	FAULT_NONE,
	FAULT_KILL_BEFORE, /* the aggregator is killed before the call is done */
	FAULT_KILL_AFTER, /* after it is done, before its answer */
	FAULT_KILL_AND_FAIL, /* and from then on the store fails for a while */
	FAULT_FAIL, /* from this call on the store fails for a while */
	FAULT_HANG, /* it does not answer */
};

struct play_opts {
	int agents; /* 0 = 1 to 8, chosen by the seed */
	int minutes; /* length of the time of failures; 0 = chosen by the seed */
	bool calm; /* no failures except those of the network */
	bool snapshots; /* mostly windows of the past, while agents fail, several at once in a large fleet */
	bool whole_store; /* the store never fails */
	bool takeover; /* there are two aggregators on one store */
	bool machines; /* each of them is on a machine of its own */
	void (*live)(
		void); /* instead of chance decides what is asked for, and is there until it is over; or NULL */
	enum call_fault fault;
	uint64_t fault_call; /* of the calls since `live` began, from 0 on */
	int64_t away_ns;
};

struct play_result {
	bool ok;
	uint64_t hash; /* of all that happened */
	uint64_t steps;
	int64_t took_ns; /* of virtual time */
	uint64_t calls; /* of the store, while `live` ran */
};

struct play_result play(uint64_t seed, const struct play_opts *opts);

/* A line with what was drawn, and how often, in all seeds so far; nothing if nothing was. */
void play_print_drawn(void);

#endif
