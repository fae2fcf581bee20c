/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/clock/judge.h"

#include <stdlib.h>

#include "base/mem.h"

void judge_add(struct judge *j, int64_t error_ns, int64_t bound_ns)
{
	if (bound_ns < 0) {
		j->unknown++;
		return;
	}
	if (j->n == j->cap) {
		j->cap = j->cap ? 2 * j->cap : 4096;
		j->error_ns = xrealloc(j->error_ns, j->cap * sizeof(int64_t));
		j->bound_ns = xrealloc(j->bound_ns, j->cap * sizeof(int64_t));
	}
	j->error_ns[j->n] = llabs(error_ns);
	j->bound_ns[j->n++] = bound_ns;
	j->outside += llabs(error_ns) > bound_ns;
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void put(json_t *o, const char *name, const int64_t *sorted, size_t n, double share)
{
	double us = n ? (double)sorted[(size_t)((double)(n - 1) * share)] / 1e3 : 0;

	json_object_set_new(o, name, json_real(us));
}

json_t *judge_json(struct judge *j)
{
	json_t *o = json_object();

	if (j->n) {
		qsort(j->error_ns, j->n, sizeof(int64_t), by_value);
		qsort(j->bound_ns, j->n, sizeof(int64_t), by_value);
	}
	json_object_set_new(o, "n", json_integer((json_int_t)j->n));
	json_object_set_new(o, "outside", json_integer((json_int_t)j->outside));
	json_object_set_new(o, "unknown", json_integer((json_int_t)j->unknown));
	put(o, "p50", j->error_ns, j->n, 0.5);
	put(o, "p99", j->error_ns, j->n, 0.99);
	put(o, "max", j->error_ns, j->n, 1);
	put(o, "bound_p50", j->bound_ns, j->n, 0.5);
	put(o, "bound_max", j->bound_ns, j->n, 1);
	free(j->error_ns);
	free(j->bound_ns);
	*j = (struct judge){ 0 };
	return o;
}
