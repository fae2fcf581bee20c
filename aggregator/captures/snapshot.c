/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots: captures of a window that is over, cut from the rings of all hosts. Hosts are armed at once, nothing is
 * stopped, and any number of them may overlap with each other and with captures.
 */
#include "aggregator/captures/capture_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/now.h"

/* Two callers that ask for "the last 30 s" within this time get one session. */
#define SAME_INSTANT_NS (50 * NS_PER_MS)

bool capture_is_same_snapshot(const struct capture *a, const struct capture *b)
{
	int64_t apart_ns = a->t0_ns - b->t0_ns;

	if (a->ends_as_given || b->ends_as_given)
		return a->ends_as_given == b->ends_as_given && !apart_ns;
	return apart_ns <= SAME_INSTANT_NS && apart_ns >= -SAME_INSTANT_NS;
}

enum reach { REACH_NOTHING, REACH_UNKNOWN, REACH_KNOWN };

/* From when on the host has records in the ring that reaches back furthest. False for a host that is not
 * connected, and for one whose clock is not calibrated yet: it does not know when its records begin. */
static enum reach reach_of(const struct capture *c, const struct host *host, int64_t *first_ns)
{
	*first_ns = 0;
	if (!host)
		return REACH_NOTHING;
	for (size_t i = 0; i < host->n_tracers; i++) {
		const struct host_tracer *t = &host->tracers[i];

		if (t->begin_ns && capture_has_tracer(c, t->name) &&
		    (!*first_ns || t->begin_ns < *first_ns))
			*first_ns = t->begin_ns;
	}
	return *first_ns ? REACH_KNOWN : REACH_UNKNOWN;
}

/* Refuses a window that is older than every ring, because its session would be empty. If a ring misses a part
 * of a window, its host reports that. */
static int check_reach(const struct capture *c, struct err *e)
{
	int64_t t1_ns = c->t0_ns + c->duration_ns, first_ns = 0;
	const char *host = NULL;
	char ends[25], reaches[25];
	size_t at = 0;

	for (size_t i = 0; i < c->n_hosts; i++) {
		int64_t reach_ns;
		enum reach reach = reach_of(c, capture_host_next_agent(&c->hosts[i], &at),
					    &reach_ns);

		if (reach == REACH_UNKNOWN || (reach == REACH_KNOWN && reach_ns < t1_ns))
			return 0;
		if (reach == REACH_KNOWN && (!host || reach_ns < first_ns)) {
			first_ns = reach_ns;
			host = c->hosts[i].name;
		}
	}
	if (!host)
		return 0;
	time_iso(t1_ns, ends);
	time_iso(first_ns, reaches);
	return err_set(
		e, ERR_INVALID,
		"the window ends at %s, before all rings begin: that of host %.60s reaches back "
		"furthest, to %s (--ring-seconds and --ring-bytes of agents)",
		ends, host, reaches);
}

int capture_set_snapshot(struct capture *c, const struct capture_request *req, struct err *e)
{
	int64_t now_ns = captures_now(c->captures);
	int64_t t1_ns = req->ending_at_ns ? req->ending_at_ns : now_ns - req->ago_ns;
	char end[25], now[25];

	time_iso(t1_ns, end);
	time_iso(now_ns, now);
	if (t1_ns > now_ns)
		return err_set(e, ERR_INVALID,
			       "the window ends at %s, and it is %s: a snapshot is of the past",
			       end, now);
	if (t1_ns <= req->duration_ns)
		return err_set(e, ERR_INVALID, "the window begins before 1970");
	c->snapshot = true;
	c->ends_as_given = req->ending_at_ns != 0;
	c->t0_ns = t1_ns - req->duration_ns;
	return check_reach(c, e);
}
