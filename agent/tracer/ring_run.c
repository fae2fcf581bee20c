/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/ring_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/now.h"
#include "proto/reasons.h"
#include "xspace/xspace.h"

/* How far the clock's bound and later probes may move the window's begin before gather(). */
#define MARGIN_NS (10 * NS_PER_S)

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static bool reserve_bytes(void *arg, uint64_t bytes)
{
	struct tracer_run *run = arg;

	return run->reserve_bytes(run, bytes);
}

void ring_run_arm(struct ring *r, struct tracer_run *run)
{
	ring_add_hold(r, &(struct ring_hold){ .owner = run,
					      .from_raw_ns = run->t0_raw_ns - MARGIN_NS,
					      .dir = run->dir,
					      .reserve_bytes = reserve_bytes,
					      .arg = run });
}

/* For half of the window or more there was no recording, and there are no more records than it missed. Both, because a
 * gap may be of one CPU of many, and what the kernel dropped is not only samples. */
static bool is_mostly_missing(const struct ring *r, const struct tracer_run *run,
			      const struct ring_cut *cut)
{
	uint64_t missed;

	return ring_missed_half(r, run->t0_raw_ns, run->t1_raw_ns, &missed) &&
	       !ring_cut_has_more(cut, missed);
}

static int by_begin(const void *a, const void *b)
{
	const struct ring_loss *x = a, *y = b;

	return (x->from_raw_ns > y->from_raw_ns) - (x->from_raw_ns < y->from_raw_ns);
}

/* Sorts the losses and makes one of those that meet or overlap. Returns how many are left. */
static size_t join_losses(struct ring_loss *l, size_t n)
{
	size_t kept = 0;

	qsort(l, n, sizeof(*l), by_begin);
	for (size_t i = 1; i < n; i++) {
		if (l[i].from_raw_ns > l[kept].to_raw_ns) {
			l[++kept] = l[i];
			continue;
		}
		l[kept].to_raw_ns = larger(l[kept].to_raw_ns, l[i].to_raw_ns);
		l[kept].count += l[i].count;
	}
	return kept + 1;
}

/* A part that shows when records are missing. Does nothing if none are. */
static void add_losses(const struct ring *r, struct tracer_run *run, const char *what)
{
	int64_t t0_ns = run->t0_raw_ns;
	struct ring_loss losses[RING_LOSSES_MAX];
	size_t n = ring_losses(r, t0_ns, run->t1_raw_ns, losses);
	struct xs_builder *b;
	char plane[80], name[96];

	if (!n)
		return;
	n = join_losses(losses, n);
	snprintf(plane, sizeof(plane), "/host:CPU lost %s", what);
	b = xs_builder_new();
	xs_plane(b, 0, plane);
	xs_line(b, 1, "lost", t0_ns);
	for (size_t i = 0; i < n; i++) {
		int64_t from_ns = larger(losses[i].from_raw_ns, t0_ns);
		int64_t to_ns = smaller(losses[i].to_raw_ns, run->t1_raw_ns);

		snprintf(name, sizeof(name), "%" PRIu64 " %s lost", losses[i].count, what);
		xs_event(b, name, (from_ns - t0_ns) * 1000, (to_ns - from_ns) * 1000);
		xs_stat_uint(b, "records", losses[i].count);
	}
	xs_finish(b, &tracer_run_add_part(run)->bytes);
	xs_builder_free(b);
}

struct ring_cut *ring_run_cut(struct ring *r, struct tracer_run *run, const char *what,
			      int64_t period_ns)
{
	int64_t begin = ring_begin(r);
	struct ring_cut *cut = ring_cut_new(r, run->t0_raw_ns, run->t1_raw_ns);
	uint64_t not_kept;

	log_debug("AGT-RING", "session=%s records=\"%s\" bytes=%" PRIu64 " file_bytes=%" PRIu64,
		  run->session ? run->session : "", what, ring_bytes(r), ring_file_bytes(r));
	run->lost = ring_lost(r, run->t0_raw_ns, run->t1_raw_ns);
	not_kept = ring_remove_hold(r, run);
	if (not_kept && run->lost)
		tracer_run_set_result(run, RUN_DEGRADED, REASON_DISK_FULL,
				      "%" PRIu64
				      " %s are lost: the window is longer than the ring, and "
				      "the spool (--spool-limit) or the ring's file is full",
				      run->lost, what);
	else if (begin > run->t0_raw_ns + period_ns)
		tracer_run_set_result(
			run, RUN_DEGRADED, REASON_WINDOW_CUT,
			"%s begin %.3f s after the window's begin: the agent started later, or "
			"its ring is shorter (--ring-seconds, --ring-bytes, --max-rss)",
			what, (double)(begin - run->t0_raw_ns) / (double)NS_PER_S);
	else if (is_mostly_missing(r, run, cut))
		tracer_run_set_result(run, RUN_DEGRADED, REASON_WINDOW_CUT,
				      "most or all %s of the window are missing, %" PRIu64
				      " are lost: for half of it or more a reading hung, or the "
				      "agent or its machine did not run",
				      what, run->lost);
	else if (run->lost)
		snprintf(run->detail, sizeof(run->detail),
			 "%" PRIu64
			 " %s are lost: the agent got too little CPU time, or they came too late",
			 run->lost, what);
	add_losses(r, run, what);
	return cut;
}

void ring_run_cancel(struct ring *r, const struct tracer_run *run)
{
	ring_remove_hold(r, run);
}
