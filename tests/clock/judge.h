/* SPDX-License-Identifier: Apache-2.0 */
/* Errors and their bounds: quantiles, and whether the truth was inside. */
#ifndef TESTS_CLOCK_JUDGE_H
#define TESTS_CLOCK_JUDGE_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

struct judge {
	int64_t *error_ns, *bound_ns;
	size_t n, cap, outside, unknown;
};

/* `error_ns` of either sign; `bound_ns` < 0: there was no model. */
void judge_add(struct judge *j, int64_t error_ns, int64_t bound_ns);

/* {"n", "outside", "unknown", "p50", "p99", "max", "bound_p50", "bound_max"} in us; a new
 * reference. Empties the judge. */
json_t *judge_json(struct judge *j);

#endif
