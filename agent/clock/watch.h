/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the ledger of this host's clocks (agent/clock/ledger.h): a snapshot each second, twenty a
 * second on demand, and one at once when the kernel reports that the wall clock was set. Loop
 * thread.
 */
#ifndef AGENT_CLOCK_WATCH_H
#define AGENT_CLOCK_WATCH_H

#include <stdint.h>

#include "agent/clock/ledger.h"
#include "base/err.h"

struct loop;
struct clock_watch;

/* Called for every change. */
typedef void (*clock_watch_fn)(void *arg, enum ledger_change change);

MUST_CHECK int clock_watch_new(struct clock_watch **out, struct loop *loop, clock_watch_fn fn,
			       void *arg, struct err *e);
void clock_watch_free(struct clock_watch *w); /* NULL is fine */

/* Takes twenty snapshots a second until then (CLOCK_MONOTONIC). */
void clock_watch_densely(struct clock_watch *w, int64_t until_mono_ns);

/* Takes a snapshot now, and calls fn before it returns if that shows a change. */
void clock_watch_take_snapshot(struct clock_watch *w);

/* The ledger, with a snapshot of now. */
struct clock_ledger clock_watch_ledger(const struct clock_watch *w);

#endif
