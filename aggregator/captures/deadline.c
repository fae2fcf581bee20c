/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grace: how long after the window a capture waits for its hosts. At the deadline it goes on while hosts
 * that have not ended make progress, but not beyond last_ns. If the window is over already (a snapshot, a
 * host that connects late), the grace begins now, when the host is asked. Arming is extended in the same way
 * while answers come, because in a large fleet on a busy network or machine the last answers are late, and while this
 * aggregator is behind: a host is unresponsive only if its answer is not there.
 */
#include "aggregator/captures/capture_impl.h"

#include "base/now.h"
#include "proto/limits.h"

/* the grace is this many windows: a framework needs longer to hand over a longer one */
#define GRACE_WINDOWS	    2
#define DEADLINE_GRACES_MAX 10 /* the deadline may move up to this many times the grace */
#define MIN_GRACE_NS	    NS_PER_S /* the grace is at least this, even if commit_by_ns leaves less */
/* without progress for this long the capture does not wait any more */
#define NO_PROGRESS_NS (10 * NS_PER_S)
/* part of the grace for a host's first progress after it gathered */
#define FIRST_PROGRESS_NS (5 * NS_PER_S)

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
		       : max_ns(c->captures->env.grace_ns, GRACE_WINDOWS * c->duration_ns);
}

static int64_t or_now(const struct capture *c, int64_t ns)
{
	return max_ns(ns, captures_now(c->captures));
}

/* The lead is the time that arming this fleet took before. A host that is not armed at T0 gets this time once
 * more, also in captures whose T0 does not wait for hosts. */
int64_t capture_arm_by(const struct capture *c, int64_t t0_ns)
{
	int64_t usual_ns = c->lead_ns ? c->lead_ns : capture_lead(c->captures, c->n_hosts, 0);

	return or_now(c, t0_ns) + max_ns(usual_ns, c->captures->env.patience->arm_ns);
}

static bool is_behind(const struct captures *cs)
{
	return cs->env.is_behind && cs->env.is_behind(cs->env.behind_arg);
}

bool capture_extend_arming(struct capture *c, int64_t now_ns)
{
	int64_t until_ns = c->last_armed_ns + c->captures->env.patience->arm_ns;

	if (until_ns <= now_ns && is_behind(c->captures))
		until_ns = now_ns + c->captures->env.patience->arm_ns;
	if (until_ns <= now_ns || now_ns >= c->deadline_ns)
		return false;
	c->arm_by_ns = min_ns(until_ns, c->deadline_ns);
	return true;
}

void capture_set_deadline(struct capture *c, int64_t window_end_ns)
{
	int64_t t1_ns = or_now(c, window_end_ns);
	int64_t grace_ns = grace_of(c);
	int64_t last_ns = t1_ns +
			  max_ns(grace_ns, min_ns(DEADLINE_GRACES_MAX * grace_ns, LIMIT_GRACE_NS));

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

	/* Gathering may use nearly all of the grace, because the deadline moves while hosts merge and
	 * upload. If the caller's deadline leaves less than two graces, gathering gets half of a grace, or
	 * half of what is left if that is less. */
	if (left_ns >= 2 * c->grace_ns)
		return t1_ns + c->grace_ns - min_ns(c->grace_ns / 4, FIRST_PROGRESS_NS);
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
	int64_t patience_ns = min_ns(NO_PROGRESS_NS, c->grace_ns / 2);

	/* A host that waits for a credit counts as progress, since credits are taken from hosts that make
	 * none. */
	if (is_waiting_for_credit(c))
		c->progress_ns = now_ns;
	if (now_ns >= c->last_ns || now_ns - c->progress_ns >= patience_ns)
		return false;
	c->deadline_ns = min_ns(c->last_ns, c->progress_ns + patience_ns);
	return true;
}
