/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps a ledger of this host's clocks (agent/clock/ledger.h): a snapshot every second, twenty a second
 * on demand, and one at once when the kernel says that the wall clock was set. Loop thread.
 */
#ifndef AGENT_CLOCK_WATCH_H
#define AGENT_CLOCK_WATCH_H

#include <stdint.h>

#include "agent/clock/ledger.h"
#include "base/err.h"

struct loop;
struct clock_watch;

/* Told of every step. */
typedef void (*clock_watch_fn)(void *arg, enum ledger_news news);

MUST_CHECK int clock_watch_new(struct clock_watch **out, struct loop *loop, clock_watch_fn fn,
			       void *arg, struct err *e);
void clock_watch_free(struct clock_watch *w); /* NULL is fine */

/* Twenty snapshots a second until then (CLOCK_MONOTONIC). */
void clock_watch_hurry(struct clock_watch *w, int64_t until_mono_ns);

/* A snapshot now: whoever is to be told of a step is, before this returns. */
void clock_watch_look(struct clock_watch *w);

/* The ledger, with a snapshot of now. */
struct clock_ledger clock_watch_ledger(const struct clock_watch *w);

#endif
