/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/lease/lease.h"

/* the part of the lease for which a leader leads without a renewal */
#define LEASE_LEAD(ns) ((ns) / 3 * 2)

bool lease_read(struct lease *l, const struct lease_view *view, int64_t begun_ns, int64_t ended_ns)
{
	bool is_new = !l->has_read || view->term != l->seen.term || view->beat != l->seen.beat;

	l->has_read = true;
	l->seen = *view;
	if (is_new)
		l->seen_at_ns = ended_ns;
	return !view->term || view->released || begun_ns - l->seen_at_ns >= l->lease_ns;
}

bool lease_wrote(struct lease *l, uint64_t term, int64_t begun_ns, int64_t ended_ns)
{
	int64_t until_ns = begun_ns + LEASE_LEAD(l->lease_ns);
	bool is_late = ended_ns >= until_ns || (l->term == term && ended_ns >= l->leads_until_ns);

	if (is_late)
		return false;
	l->term = term;
	l->leads_until_ns = until_ns;
	return true;
}

bool lease_leads(const struct lease *l, int64_t now_ns)
{
	return l->term && now_ns < l->leads_until_ns;
}
