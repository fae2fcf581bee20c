/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the hosts' observations of each key: host i must not have ended (end + bound) before host j
 * has started (start - bound). The cost of a key is that of sorting its hosts, not of all their pairs.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "xspace/causality_impl.h"

struct point {
	int64_t at_ns;
	uint32_t host;
};

struct points {
	struct point *items; /* a start or end of one host; sorted by time */
	size_t n;
};

struct judging {
	struct xs_causality *c;
	struct points ends, starts; /* of the current key, moved by the hosts' bounds */
	uint64_t *pairs; /* number of pairs that run backwards, by host */
	struct xs_verdict *out;
};

static int by_time(const void *a, const void *b)
{
	const struct point *x = a, *y = b;

	if (x->at_ns != y->at_ns)
		return x->at_ns < y->at_ns ? -1 : 1;
	return (x->host > y->host) - (x->host < y->host);
}

static int by_key(const void *a, const void *b)
{
	const struct causal_seen *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return (x->host > y->host) - (x->host < y->host);
}

static int by_size(const void *a, const void *b)
{
	const struct xs_violation *x = a, *y = b;

	if (x->by_ns != y->by_ns)
		return x->by_ns > y->by_ns ? -1 : 1;
	return strcmp(x->key, y->key);
}

/* Adds the earliest possible start and the latest possible end of `s`. */
static int64_t start_of(const struct judging *j, const struct causal_seen *s)
{
	return s->start_ns - j->c->bounds_ns[s->host];
}

static int64_t end_of(const struct judging *j, const struct causal_seen *s)
{
	return s->end_ns + j->c->bounds_ns[s->host];
}

/* The number of points before `at_ns`. */
static size_t count_before(const struct points *p, int64_t at_ns)
{
	size_t low = 0, high = p->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (p->items[middle].at_ns < at_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void collect(struct judging *j, const struct causal_seen *seen, size_t n)
{
	j->ends.n = j->starts.n = 0;
	for (size_t i = 0; i < n; i++) {
		const struct causal_seen *s = &seen[i];

		if (s->has_start)
			j->starts.items[j->starts.n++] = (struct point){ start_of(j, s), s->host };
		if (s->has_end)
			j->ends.items[j->ends.n++] = (struct point){ end_of(j, s), s->host };
	}
	sort_array(j->ends.items, j->ends.n, sizeof(struct point), by_time);
	sort_array(j->starts.items, j->starts.n, sizeof(struct point), by_time);
}

/* Adds to each host the pairs in which it runs backwards with another. */
static void count_pairs(struct judging *j, const struct causal_seen *seen, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct causal_seen *s = &seen[i];
		bool own = s->has_start && s->has_end && start_of(j, s) > end_of(j, s);

		if (s->has_start)
			j->pairs[s->host] += count_before(&j->ends, start_of(j, s)) - own;
		if (s->has_end)
			j->pairs[s->host] += j->starts.n -
					     count_before(&j->starts, end_of(j, s) + 1) - own;
	}
}

/* Finds the latest start and the earliest end that are on two different hosts; false if there are none. */
static bool find_worst_pair(const struct judging *j, struct xs_violation *out)
{
	bool found = false;

	for (size_t a = 0; a < j->ends.n && a < 2; a++) {
		for (size_t b = 0; b < j->starts.n && b < 2; b++) {
			const struct point *end = &j->ends.items[a];
			const struct point *start = &j->starts.items[j->starts.n - 1 - b];
			int64_t by_ns = start->at_ns - end->at_ns;

			if (end->host == start->host || (found && by_ns <= out->by_ns))
				continue;
			out->early = end->host;
			out->late = start->host;
			out->by_ns = by_ns;
			found = true;
		}
	}
	return found;
}

static void add_seen(struct judging *j, const struct causal_seen *seen, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct causal_seen *s = &seen[i];

		j->out->matched_collectives += s->n;
		j->c->shared[j->out->n_seen++] = (struct xs_seen){
			.key = s->key,
			.host = s->host,
			.has_start = s->has_start,
			.has_end = s->has_end,
			.start_ns = s->start_ns,
			.end_ns = s->end_ns,
		};
	}
}

static void judge_key(struct judging *j, const struct causal_seen *seen, size_t n)
{
	const struct causal_key *key = j->c->keys[seen->key];
	struct xs_violation v = { .key = key->text };

	if (key->ambiguous) {
		j->out->ambiguous++;
		return;
	}
	collect(j, seen, n);
	if (!find_worst_pair(j, &v))
		return;
	j->out->checked++;
	add_seen(j, seen, n);
	if (v.by_ns <= 0)
		return;
	j->c->violations[j->out->n_violations++] = v;
	count_pairs(j, seen, n);
}

static size_t find_suspect(const struct judging *j)
{
	size_t suspect = XS_NO_HOST;
	uint64_t most = 0;

	for (size_t i = 0; i < j->c->n_hosts; i++) {
		if (j->pairs[i] == most)
			suspect = XS_NO_HOST;
		if (j->pairs[i] <= most)
			continue;
		most = j->pairs[i];
		suspect = i;
	}
	return suspect;
}

void xs_causality_judge(struct xs_causality *c, struct xs_verdict *out)
{
	struct judging j = {
		.c = c,
		.ends.items = xcalloc(c->n_hosts, sizeof(struct point)),
		.starts.items = xcalloc(c->n_hosts, sizeof(struct point)),
		.pairs = xcalloc(c->n_hosts, sizeof(uint64_t)),
		.out = out,
	};
	size_t first = 0;

	*out = (struct xs_verdict){
		.left_out = c->left_out,
		.collectives = c->collectives,
		.ambiguous_collectives = c->ambiguous_collectives,
		.steps = c->steps,
	};
	c->violations = xcalloc(c->n_keys, sizeof(struct xs_violation));
	c->shared = xcalloc(c->n_seen, sizeof(struct xs_seen));
	sort_array(c->seen, c->n_seen, sizeof(struct causal_seen), by_key);
	for (size_t i = 1; i <= c->n_seen; i++) {
		if (i < c->n_seen && c->seen[i].key == c->seen[first].key)
			continue;
		judge_key(&j, &c->seen[first], i - first);
		first = i;
	}
	sort_array(c->violations, out->n_violations, sizeof(struct xs_violation), by_size);
	out->violations = c->violations;
	out->seen = c->shared;
	out->suspect = find_suspect(&j);
	free(j.ends.items);
	free(j.starts.items);
	free(j.pairs);
}
