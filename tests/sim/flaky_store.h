/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of the aggregator: every call takes time, and fails, waits, hangs, loses its answer or kills the
 * aggregator by the rules of storage/store_fault.h. Rules stay over restarts of the aggregator. The linker gives
 * every store_open() of the program this store, except store_open_whole(). There is one at a time.
 */
#ifndef SIM_FLAKY_STORE_H
#define SIM_FLAKY_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct store;

/* No rules. `kill_aggregator` is called outside of all hosts. */
void flaky_store_new(void (*kill_aggregator)(void));
void flaky_store_free(void);

void flaky_store_break(const char *rules,
		       int64_t for_ns); /* until then, instead of earlier rules */
/* Each write of a ledger takes that much longer, whatever else is broken; until flaky_store_heal(). */
void flaky_store_slow_ledger(int64_t ns);
void flaky_store_heal(void); /* takes all rules away */

/* The n-th call from now on (0 = the next) kills the aggregator, before it is done or after it. */
void flaky_store_crash(uint64_t n, bool after);

/* From the n-th call from now on (0 = the next) the store breaks, as by flaky_store_break(). `rules` is static. */
void flaky_store_break_at(uint64_t n, const char *rules, int64_t for_ns);

/* It has not failed for so long. */
bool flaky_store_is_whole(int64_t for_ns);

uint64_t flaky_store_calls(void); /* begun so far, by all lives of the aggregator */

/* The store as it is: its calls take no time and do not fail. */
MUST_CHECK int store_open_whole(struct store **out, const char *url, struct err *e);

#endif
