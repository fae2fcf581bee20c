/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grace: how long after the window a capture waits for its hosts. At the deadline it goes on while hosts
 * that have not ended make progress, but not beyond last_ns. Of a window that is over (a snapshot, a host that
 * connects late) the grace counts from now: only now are the hosts asked. Arming is extended in the same way, while
 * answers still come: of a large fleet on a busy network or machine the last ones take long.
 */
#include "aggregator/captures/capture_impl.h"

#include "base/now.h"
#include "proto/limits.h"

#define WINDOWS_OF_GRACE 2 /* a framework needs longer to hand over a longer window */
#define EXTENSION	 10 /* times the grace */
#define MIN_GRACE_NS	 NS_PER_S /* even if commit_by_ns leaves less */
#define PROGRESS_NS	 (10 * NS_PER_S) /* a host that shows none for so long does not go on */
#define MERGE_NS	 (5 * NS_PER_S) /* of the grace, for a host's first sign of merging */

static int64_t min_ns(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t max_ns(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t grace_of(const struct capture *c)
{
	return c->grace_given_ns
		       ? c->grace_given_ns
		       : max_ns(c->captures->env.grace_ns, WINDOWS_OF_GRACE * c->duration_ns);
}

static int64_t or_now(const struct capture *c, int64_t ns)
{
	return max_ns(ns, captures_now(c->captures));
}

/* The lead is how long arming this fleet has taken before. A host that is not armed at T0 has the same time
 * again; where T0 does not wait for the hosts, they have that time, too. */
int64_t capture_arm_by(const struct capture *c, int64_t t0_ns)
{
	int64_t usual_ns = c->lead_ns ? c->lead_ns : capture_lead(c->captures, c->n_hosts, 0);

	return or_now(c, t0_ns) + max_ns(usual_ns, c->captures->env.patience->arm_ns);
}

bool capture_extend_arming(struct capture *c, int64_t now_ns)
{
	int64_t until_ns = c->last_armed_ns + c->captures->env.patience->arm_ns;

	if (!c->last_armed_ns || until_ns <= now_ns || now_ns >= c->deadline_ns)
		return false;
	c->arm_by_ns = min_ns(until_ns, c->deadline_ns);
	return true;
}

void capture_set_deadline(struct capture *c, int64_t window_end_ns)
{
	int64_t t1_ns = or_now(c, window_end_ns);
	int64_t grace_ns = grace_of(c);
	int64_t last_ns = t1_ns + max_ns(grace_ns, min_ns(EXTENSION * grace_ns, LIMIT_GRACE_NS));

	if (c->commit_by_ns) {
		last_ns = min_ns(last_ns, max_ns(c->commit_by_ns, t1_ns + MIN_GRACE_NS));
		grace_ns = min_ns(grace_ns, last_ns - t1_ns);
	}
	c->grace_ns = grace_ns;
	c->deadline_ns = t1_ns + grace_ns;
	c->last_ns = last_ns;
}

int64_t capture_gather_by(const struct capture *c, int64_t window_end_ns)
{
	int64_t t1_ns = or_now(c, window_end_ns);
	int64_t left_ns = c->last_ns - t1_ns;

	/* Merging and sending may take as long as they make progress, unless the caller cannot wait. */
	if (left_ns >= 2 * c->grace_ns)
		return t1_ns + c->grace_ns - min_ns(c->grace_ns / 4, MERGE_NS);
	return t1_ns + min_ns(left_ns, c->grace_ns) / 2;
}

static bool is_waiting_for_credit(const struct capture *c)
{
	for (size_t i = 0; i < c->n_hosts; i++) {
		if (c->hosts[i].credit == CREDIT_WAITING)
			return true;
	}
	return false;
}

bool capture_extend_deadline(struct capture *c, int64_t now_ns)
{
	int64_t patience_ns = min_ns(PROGRESS_NS, c->grace_ns / 2);

	/* Credits rotate: a host that waits for one waits for hosts that make progress. */
	if (is_waiting_for_credit(c))
		c->progress_ns = now_ns;
	if (now_ns >= c->last_ns || now_ns - c->progress_ns >= patience_ns)
		return false;
	c->deadline_ns = min_ns(c->last_ns, c->progress_ns + patience_ns);
	return true;
}
