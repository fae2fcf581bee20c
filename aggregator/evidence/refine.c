/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Solves difference constraints by narrowing intervals. For every key (flow or barrier) there is an instant
 * at which all hosts had arrived and none had left: latest start <= instant <= earliest end. Intervals only
 * shrink, so narrowing may stop at any time.
 */
#include "aggregator/evidence/refine_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Each round goes forth and back over all keys. A fleet whose keys are collectives needs three. */
#define ROUNDS 64

int64_t refine_bound_of(const struct refining *s, size_t host)
{
	return refine_clip(s->clocks[host].bound_ns, 0, REFINE_TIME_MAX_NS);
}

int64_t refine_stray_of(const struct refining *s, size_t host)
{
	return refine_bound_of(s, host) / 64 * s->stray;
}

/* ---- hosts and keys that take part ---- */

static void set_slacks(struct refining *s)
{
	for (size_t i = 0; i < s->n; i++) {
		int64_t bound = refine_bound_of(s, i);

		s->slack[i].lo = -refine_clip(s->clocks[i].earlier_ns, 0, bound);
		s->slack[i].hi = refine_clip(s->clocks[i].later_ns, 0, bound);
	}
}

static bool takes_part(const struct refining *s, const struct xs_seen *seen)
{
	return s->slack[seen->host].lo < s->slack[seen->host].hi;
}

/* A key proves nothing if the threads of one host contradict each other. */
static bool is_inconsistent(const struct xs_seen *seen)
{
	return seen->has_start && seen->has_end && seen->start_ns > seen->end_ns;
}

/* Copies one key, unless it proves nothing. */
static void add_key(struct refining *s, const struct xs_seen *seen, size_t n)
{
	size_t first = s->keys[s->n_keys], at = first, starts = 0, ends = 0;
	bool inconsistent = false;

	for (size_t i = 0; i < n; i++) {
		if (!takes_part(s, &seen[i]))
			continue;
		s->seen[at] = seen[i];
		s->seen[at].start_ns = refine_clip(seen[i].start_ns, -REFINE_TIME_MAX_NS,
						   REFINE_TIME_MAX_NS);
		s->seen[at].end_ns = refine_clip(seen[i].end_ns, -REFINE_TIME_MAX_NS,
						 REFINE_TIME_MAX_NS);
		starts += seen[i].has_start;
		ends += seen[i].has_end;
		inconsistent |= is_inconsistent(&seen[i]);
		at++;
	}
	if (at - first < 2 || !starts || !ends || inconsistent)
		return;
	s->keys[++s->n_keys] = at;
	for (size_t i = first; i < at; i++)
		s->hosts[s->seen[i].host].pairs++;
}

static void add_keys(struct refining *s, const struct xs_seen *seen, size_t n_seen)
{
	size_t first = 0;

	for (size_t i = 1; i <= n_seen; i++) {
		if (i < n_seen && seen[i].key == seen[first].key)
			continue;
		add_key(s, &seen[first], i - first);
		first = i;
	}
}

/* ---- narrowing ---- */

/* The interval in which all hosts had arrived and none had left. */
static struct interval instant_of(const struct refining *s, size_t key)
{
	struct interval instant = { -4 * REFINE_TIME_MAX_NS, 4 * REFINE_TIME_MAX_NS };

	for (size_t i = s->keys[key]; i < s->keys[key + 1]; i++) {
		const struct xs_seen *p = &s->seen[i];
		int64_t stray = refine_stray_of(s, p->host);

		if (p->has_start)
			instant.lo = refine_most(instant.lo,
						 p->start_ns + s->at[p->host].lo - stray);
		if (p->has_end)
			instant.hi = refine_least(instant.hi,
						  p->end_ns + s->at[p->host].hi + stray);
	}
	return instant;
}

/* Narrows the intervals of a key's hosts; false if one becomes empty. */
static bool narrow(struct refining *s, size_t key, bool *changed)
{
	struct interval instant = instant_of(s, key);

	for (size_t i = s->keys[key]; i < s->keys[key + 1]; i++) {
		const struct xs_seen *p = &s->seen[i];
		struct interval *x = &s->at[p->host], was = *x;
		int64_t stray = refine_stray_of(s, p->host);

		if (p->has_end)
			x->lo = refine_most(x->lo, instant.lo - p->end_ns - stray);
		if (p->has_start)
			x->hi = refine_least(x->hi, instant.hi - p->start_ns + stray);
		if (x->lo > x->hi)
			return false;
		*changed |= x->lo != was.lo || x->hi != was.hi;
	}
	return true;
}

bool refine_narrow(struct refining *s)
{
	for (int round = 0; round < ROUNDS; round++) {
		bool changed = false;

		for (size_t i = 0; i < s->n_keys; i++) {
			if (!narrow(s, round % 2 ? s->n_keys - 1 - i : i, &changed))
				return false;
		}
		if (!changed)
			return true;
	}
	return false;
}

static bool narrow_slacks(struct refining *s)
{
	memcpy(s->at, s->slack, s->n * sizeof(*s->at));
	return refine_narrow(s);
}

/* Whether a key runs backwards even with the full bounds. */
static bool is_contradicted(struct refining *s)
{
	bool changed = false;

	for (size_t i = 0; i < s->n_keys; i++) {
		for (size_t k = s->keys[i]; k < s->keys[i + 1]; k++) {
			int64_t bound = refine_bound_of(s, s->seen[k].host);

			s->at[s->seen[k].host] = (struct interval){ -bound, bound };
		}
		if (!narrow(s, i, &changed))
			return true;
	}
	return false;
}

/*
 * Clocks wander within a window, so one event may contradict another. The stray is the allowance for that:
 * twice the least one that leaves no contradiction. If it would exceed a quarter of the bounds, no single
 * number for the whole window is reliable.
 */
static bool choose_stray(struct refining *s)
{
	for (s->stray = 0; s->stray <= 16; s->stray = s->stray ? 2 * s->stray : 1) {
		if (narrow_slacks(s))
			return true;
	}
	return false;
}

/* The number of keys at which, by plain times, a host leaves before another arrives. */
static size_t count_backwards(struct refining *s, bool moved)
{
	size_t count = 0;

	for (size_t i = 0; i < s->n; i++)
		s->at[i].lo = s->at[i].hi = moved ? s->hosts[i].offset_ns : 0;
	for (size_t i = 0; i < s->n_keys; i++) {
		struct interval instant = instant_of(s, i);

		count += instant.lo > instant.hi;
	}
	return count;
}

static enum refine_result solve(struct refining *s)
{
	if (!s->n_keys)
		return REFINE_NO_PAIRS;
	if (is_contradicted(s))
		return REFINE_CONTRADICTION;
	if (!choose_stray(s))
		return REFINE_WANDER;
	s->stray *= 2;
	(void)narrow_slacks(s);
	refine_choose(s);
	s->out->pairs = s->n_keys;
	s->stray = 0;
	s->out->backwards_before = count_backwards(s, false);
	s->out->backwards_after = count_backwards(s, true);
	return s->out->backwards_after > s->out->backwards_before ? REFINE_WANDER : REFINE_DONE;
}

static void clear(struct refined *hosts, size_t n, struct refinement *out)
{
	*out = (struct refinement){ 0 };
	for (size_t i = 0; i < n; i++)
		hosts[i] = (struct refined){ 0 };
}

enum refine_result refine(const struct refine_clock *clocks, size_t n, const struct xs_seen *seen,
			  size_t n_seen, struct refined *hosts, struct refinement *out)
{
	struct refining s = {
		.seen = xcalloc(n_seen, sizeof(*s.seen)),
		.keys = xcalloc(n_seen + 1, sizeof(*s.keys)),
		.slack = xcalloc(n, sizeof(*s.slack)),
		.at = xcalloc(n, sizeof(*s.at)),
		.n = n,
		.clocks = clocks,
		.hosts = hosts,
		.out = out,
	};
	enum refine_result result;

	clear(hosts, n, out);
	set_slacks(&s);
	add_keys(&s, seen, n_seen);
	result = solve(&s);
	if (result != REFINE_DONE)
		clear(hosts, n, out);
	free(s.seen);
	free(s.keys);
	free(s.slack);
	free(s.at);
	return result;
}

const char *refine_result_name(enum refine_result r)
{
	static const char *const names[] = {
		[REFINE_DONE] = "",
		[REFINE_NO_PAIRS] = "no-pairs",
		[REFINE_CONTRADICTION] = "contradiction",
		[REFINE_WANDER] = "wander",
	};

	return names[r];
}
