/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which processes are sampled in a round. All of them together get so much CPU time a round. One that needs more than its
 * part is sampled in fewer rounds, and what others leave of their parts is its: so a process with thousands of threads,
 * or one that lies, does not slow the sampling of the others. Pure.
 */
#ifndef AGENT_PYTHON_TURNS_H
#define AGENT_PYTHON_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PYTHON_PART_ALL INT64_MAX /* there is enough for each process in each round */

/* With so many samples it is known what one costs: the first one reads all names of functions, as no later one does. */
#define PYTHON_TURN_KNOWN 2

/* Of a process; zeroed before its first round. */
struct python_turn {
	int64_t cost_ns; /* CPU time of a sample, smoothed; 0 = none yet */
	int64_t credit_ns; /* below 0: what it took beyond its parts */
	uint32_t samples; /* so far, up to PYTHON_TURN_KNOWN */
};

/* The part of each process in `budget_ns`, the CPU time of a round, where samples cost so much. */
int64_t python_turns_part(const int64_t *cost_ns, size_t n, int64_t budget_ns);

/* Begins a round: gives the process its part. True: it is its turn. */
bool python_turn_begin(struct python_turn *t, int64_t part_ns);

/* It was sampled, which took so much CPU time. */
void python_turn_end(struct python_turn *t, int64_t cpu_ns);

/* How often it has a turn: once in so many rounds, by what its samples cost. 0: in each one, or that is not known yet, as the first sample
 * of a process with few threads costs much more than each other one. */
uint32_t python_turn_every(const struct python_turn *t, size_t n_threads, int64_t part_ns);

/* In how many rounds its next turn is; at least 1. */
uint32_t python_turn_rounds(const struct python_turn *t, int64_t part_ns);

#endif
