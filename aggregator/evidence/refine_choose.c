/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the numbers within the narrowed intervals. */
#include <stdlib.h>
#include <string.h>

#include "aggregator/evidence/refine_impl.h"
#include "base/mem.h"

/* ---- ends that are assumed to be simultaneous ---- */

struct difference {
	uint32_t host;
	int64_t ns;
};

static int by_host(const void *a, const void *b)
{
	const struct difference *x = a, *y = b;

	if (x->host != y->host)
		return x->host < y->host ? -1 : 1;
	return (x->ns > y->ns) - (x->ns < y->ns);
}

static int by_size(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static bool is_barrier(const struct xs_seen *seen)
{
	return seen->has_start && seen->has_end;
}

/* By how much a host's end of a key is before the reference host's; at most one entry per host. */
static size_t add_differences(const struct refining *s, size_t key, struct difference *out)
{
	const struct xs_seen *reference = NULL;
	size_t n = 0;

	for (size_t i = s->keys[key]; i < s->keys[key + 1]; i++) {
		if (s->seen[i].host == s->out->reference && is_barrier(&s->seen[i]))
			reference = &s->seen[i];
	}
	for (size_t i = s->keys[key]; reference && i < s->keys[key + 1]; i++) {
		if (is_barrier(&s->seen[i]))
			out[n++] = (struct difference){ s->seen[i].host,
							reference->end_ns - s->seen[i].end_ns };
	}
	return n;
}

/* `d` has the differences of one host, sorted. */
static void set_hint(struct refined *host, const struct difference *d, size_t n)
{
	int64_t *far = xcalloc(n, sizeof(*far));

	host->has_hint = true;
	host->hint_ns = d[n / 2].ns;
	for (size_t i = 0; i < n; i++)
		far[i] = llabs(d[i].ns - host->hint_ns);
	sort_array(far, n, sizeof(*far), by_size);
	host->hint_spread_ns = far[n / 2];
	free(far);
}

static void set_hints(struct refining *s)
{
	struct difference *all = xcalloc(s->keys[s->n_keys], sizeof(*all));
	size_t n = 0, first = 0;

	for (size_t i = 0; i < s->n_keys; i++)
		n += add_differences(s, i, &all[n]);
	sort_array(all, n, sizeof(*all), by_host);
	for (size_t i = 1; i <= n; i++) {
		if (i < n && all[i].host == all[first].host)
			continue;
		set_hint(&s->hosts[all[first].host], &all[first], i - first);
		first = i;
	}
	free(all);
}

/* ---- the offsets ---- */

/* The host with most pairs; of several, the one with the narrowest interval. */
static void choose_reference(struct refining *s)
{
	size_t best = 0;

	for (size_t i = 1; i < s->n; i++) {
		const struct interval *x = &s->at[i], *y = &s->at[best];

		if (s->hosts[i].pairs > s->hosts[best].pairs ||
		    (s->hosts[i].pairs == s->hosts[best].pairs && x->hi - x->lo < y->hi - y->lo))
			best = i;
	}
	s->out->reference = best;
}

/*
 * Hints fix only differences between hosts: chooses the number to add to all hints. It leaves the host with
 * the median hint unmoved, but is clipped so that all hosts stay within their intervals. If no number
 * allows that, the two hosts that contradict each other most exceed theirs by the same amount.
 */
static int64_t common_offset(const struct refining *s)
{
	int64_t *hints = xcalloc(s->n, sizeof(*hints)), middle;
	struct interval fits = { -REFINE_TIME_MAX_NS, REFINE_TIME_MAX_NS };
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++) {
		if (!s->hosts[i].has_hint)
			continue;
		hints[n++] = s->hosts[i].hint_ns;
		fits.lo = refine_most(fits.lo, s->at[i].lo - s->hosts[i].hint_ns);
		fits.hi = refine_least(fits.hi, s->at[i].hi - s->hosts[i].hint_ns);
	}
	sort_array(hints, n, sizeof(*hints), by_size);
	middle = n ? -hints[n / 2] : 0;
	free(hints);
	if (fits.lo > fits.hi)
		return fits.hi + (fits.lo - fits.hi) / 2;
	return refine_clip(middle, fits.lo, fits.hi);
}

/* The best offsets without the constraints of pairs. */
static void set_preferred(const struct refining *s, int64_t *preferred)
{
	int64_t common = common_offset(s);

	for (size_t i = 0; i < s->n; i++) {
		const struct refined *h = &s->hosts[i];

		preferred[i] = refine_clip(h->has_hint ? common + h->hint_ns : 0, s->at[i].lo,
					   s->at[i].hi);
	}
}

/* Moves offsets from the preferred ones, all to later (`upwards`) or all to earlier ones, only as far as the
 * pairs require. */
static void narrow_from(struct refining *s, const struct interval *proven, const int64_t *preferred,
			bool upwards)
{
	for (size_t i = 0; i < s->n; i++) {
		s->at[i].lo = upwards ? preferred[i] : proven[i].lo;
		s->at[i].hi = upwards ? proven[i].hi : preferred[i];
	}
	(void)refine_narrow(s);
}

static void set_offset(struct refining *s, size_t host, const struct interval *proven,
		       int64_t offset_ns)
{
	struct refined *h = &s->hosts[host];
	int64_t stray = refine_stray_of(s, host);

	h->offset_ns = refine_clip(offset_ns, proven->lo, proven->hi);
	h->bound_ns = stray + refine_most(proven->hi - h->offset_ns, h->offset_ns - proven->lo);
	h->bound_ns = refine_least(h->bound_ns, refine_bound_of(s, host) + llabs(h->offset_ns));
	s->out->stray_ns = refine_most(s->out->stray_ns, stray);
	s->out->n_hosts++;
}

/*
 * The offsets nearest to the preferred ones that satisfy all pairs: the mean of two solutions, one that
 * moves hosts only later and one that moves them only earlier, each as little as possible.
 */
static void choose_offsets(struct refining *s)
{
	struct interval *proven = xcalloc(s->n, sizeof(*proven));
	int64_t *preferred = xcalloc(s->n, sizeof(*preferred)),
		*later = xcalloc(s->n, sizeof(*later));

	memcpy(proven, s->at, s->n * sizeof(*proven));
	set_preferred(s, preferred);
	narrow_from(s, proven, preferred, true);
	for (size_t i = 0; i < s->n; i++)
		later[i] = s->at[i].lo;
	narrow_from(s, proven, preferred, false);
	for (size_t i = 0; i < s->n; i++) {
		const struct refined *h = &s->hosts[i];
		int64_t middle = s->at[i].hi + (later[i] - s->at[i].hi) / 2;

		if (h->pairs)
			set_offset(s, i, &proven[i], middle);
	}
	free(proven);
	free(preferred);
	free(later);
}

void refine_choose(struct refining *s)
{
	choose_reference(s);
	set_hints(s);
	choose_offsets(s);
}
