/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/python/turns.h"

#define PASSES_MAX  8 /* in search of the part: a few find it, each brings it nearer */
#define FEW_THREADS 32
#define SMOOTH	    4 /* a sample's weight in the cost is one SMOOTH-th */

int64_t python_turns_part(const int64_t *cost_ns, size_t n, int64_t budget_ns)
{
	int64_t part = 0;

	for (int i = 0; i < PASSES_MAX; i++) {
		int64_t left = budget_ns, next;
		size_t larger = 0;

		for (size_t k = 0; k < n; k++) {
			if (cost_ns[k] > part)
				larger++;
			else
				left -= cost_ns[k];
		}
		if (!larger)
			return PYTHON_PART_ALL;
		next = left / (int64_t)larger;
		if (next <= part)
			break;
		part = next;
	}
	return part ? part : 1;
}

bool python_turn_begin(struct python_turn *t, int64_t part_ns)
{
	/* No more than one part is saved up: it is not sampled in many rounds in a row. */
	if (part_ns == PYTHON_PART_ALL)
		t->credit_ns = 0;
	else if (t->credit_ns >= 0)
		t->credit_ns = part_ns;
	else
		t->credit_ns += part_ns;
	return t->credit_ns >= 0;
}

void python_turn_end(struct python_turn *t, int64_t cpu_ns)
{
	bool is_known = t->samples == PYTHON_TURN_KNOWN && t->cost_ns;

	t->cost_ns = is_known ? t->cost_ns + (cpu_ns - t->cost_ns) / SMOOTH : cpu_ns;
	t->credit_ns -= cpu_ns;
	if (t->samples < PYTHON_TURN_KNOWN)
		t->samples++;
}

/* Rounds until parts make up for so much. */
static uint32_t rounds_for(int64_t cpu_ns, int64_t part_ns)
{
	int64_t n = cpu_ns > 0 ? (cpu_ns - 1) / part_ns + 1 : 1;

	return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

uint32_t python_turn_every(const struct python_turn *t, size_t n_threads, int64_t part_ns)
{
	uint32_t rounds = rounds_for(t->cost_ns, part_ns);
	bool is_known = t->samples == PYTHON_TURN_KNOWN || n_threads > FEW_THREADS;

	return is_known && rounds > 1 ? rounds : 0;
}

uint32_t python_turn_rounds(const struct python_turn *t, int64_t part_ns)
{
	return rounds_for(-t->credit_ns, part_ns);
}
