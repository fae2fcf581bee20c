/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/budget/throttle.h"

#define WELL_BELOW 0.8 /* of the limit */

double throttle_mean(const struct throttle *t)
{
	size_t n = t->n < THROTTLE_WINDOW ? t->n : THROTTLE_WINDOW;
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += t->values[i];
	return n ? sum / (double)n : 0;
}

enum throttle_move throttle_add(struct throttle *t, int64_t mono_ns, double value)
{
	int64_t patience_ns = t->patience_ns ? t->patience_ns : THROTTLE_PATIENCE_NS;
	double mean;

	t->values[t->n++ % THROTTLE_WINDOW] = value;
	if (t->limit <= 0 || t->n < THROTTLE_WINDOW)
		return THROTTLE_STAY;
	mean = throttle_mean(t);
	if (mean >= WELL_BELOW * t->limit)
		t->calm_ns = 0;
	else if (!t->calm_ns)
		t->calm_ns = mono_ns;
	if (mean > t->limit)
		return THROTTLE_DOWN;
	return t->steps && t->calm_ns && mono_ns - t->calm_ns >= patience_ns ? THROTTLE_UP
									     : THROTTLE_STAY;
}

void throttle_done(struct throttle *t, int64_t mono_ns, enum throttle_move move)
{
	int64_t patience_ns = t->patience_ns ? t->patience_ns : THROTTLE_PATIENCE_NS;

	t->n = 0;
	t->calm_ns = 0;
	if (move == THROTTLE_UP) {
		t->steps--;
		t->up_ns = mono_ns;
	} else if (move == THROTTLE_DOWN) {
		bool too_soon = t->up_ns && mono_ns - t->up_ns < 2 * patience_ns;

		t->steps++;
		t->patience_ns = too_soon ? 2 * patience_ns : THROTTLE_PATIENCE_NS;
		if (t->patience_ns > THROTTLE_PATIENCE_MAX_NS)
			t->patience_ns = THROTTLE_PATIENCE_MAX_NS;
	}
}
