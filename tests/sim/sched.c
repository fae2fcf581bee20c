/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual time: a heap of events, and what happens only once per world. */
#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "tests/sim/sim.h"

#define FAILURES_SHOWN 5 /* of a seed: one brings others */

struct sim sim;

/* ---- random numbers ---- */

void rng_seed(struct rng *r, uint64_t seed)
{
	r->state = seed * UINT64_C(0x9e3779b97f4a7c15) + UINT64_C(0x2545f4914f6cdd1d);
	for (int i = 0; i < 8; i++)
		rng_next(r);
}

uint64_t rng_next(struct rng *r)
{
	uint64_t x = r->state ? r->state : 1;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	r->state = x;
	return x * UINT64_C(0x2545f4914f6cdd1d);
}

int64_t rng_range(struct rng *r, int64_t from, int64_t to)
{
	return from + (int64_t)(rng_next(r) % (uint64_t)(to - from + 1));
}

double rng_unit(struct rng *r)
{
	return (double)(rng_next(r) >> 11) * 0x1p-53;
}

bool rng_chance(struct rng *r, double p)
{
	return rng_unit(r) < p;
}

int64_t rng_wait(struct rng *r, double mean)
{
	return (int64_t)(-mean * log1p(-rng_unit(r)));
}

int64_t rng_scale(struct rng *r, int64_t from, int64_t to)
{
	return (int64_t)((double)from * pow((double)to / (double)from, rng_unit(r)));
}

/* ---- the heap ---- */

static bool is_before(const struct sim_event *a, const struct sim_event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->seq < b->seq;
}

static void put(struct sim_event *ev, size_t i)
{
	sim.heap[i] = ev;
	ev->slot = i + 1;
}

static void rise(struct sim_event *ev, size_t i)
{
	for (; i && is_before(ev, sim.heap[(i - 1) / 2]); i = (i - 1) / 2)
		put(sim.heap[(i - 1) / 2], i);
	put(ev, i);
}

static void sink(struct sim_event *ev, size_t i)
{
	for (;;) {
		size_t kid = 2 * i + 1;

		if (kid + 1 < sim.n && is_before(sim.heap[kid + 1], sim.heap[kid]))
			kid++;
		if (kid >= sim.n || !is_before(sim.heap[kid], ev))
			break;
		put(sim.heap[kid], i);
		i = kid;
	}
	put(ev, i);
}

void sim_cancel(struct sim_event *ev)
{
	size_t i = ev->slot - 1;
	struct sim_event *last;

	if (!ev->slot)
		return;
	ev->slot = 0;
	last = sim.heap[--sim.n];
	if (last == ev)
		return;
	sink(last, i);
	rise(last, last->slot - 1);
}

void sim_at(struct sim_event *ev, int64_t at_ns, sim_fn fn, void *arg)
{
	sim_cancel(ev);
	*ev = (struct sim_event){ .at_ns = at_ns > sim.now_ns ? at_ns : sim.now_ns,
				  .seq = ++sim.seq,
				  .fn = fn,
				  .arg = arg };
	if (sim.n == sim.cap) {
		sim.cap = sim.cap ? 2 * sim.cap : 1024;
		sim.heap = xrealloc(sim.heap, sim.cap * sizeof(struct sim_event *));
	}
	sim.n++;
	rise(ev, sim.n - 1);
}

bool sim_step(void)
{
	struct sim_event *ev = sim.n ? sim.heap[0] : NULL;
	struct sim_host *was = sim.host;

	if (!ev)
		return false;
	sim_cancel(ev);
	sim.now_ns = ev->at_ns;
	sim.steps++;
	sim_hash(&sim.now_ns, sizeof(sim.now_ns));
	sim.host = NULL;
	ev->fn(ev->arg);
	sim.host = was;
	return true;
}

void sim_run(int64_t until_ns)
{
	while (sim.n && sim.heap[0]->at_ns <= until_ns)
		sim_step();
	if (sim.now_ns < until_ns)
		sim.now_ns = until_ns;
}

/* ---- what happened ---- */

void sim_hash(const void *data, size_t len)
{
	const uint8_t *p = data;
	uint64_t h = sim.hash;

	for (; len >= 8; len -= 8, p += 8) {
		uint64_t word;

		memcpy(&word, p, 8);
		h = (h ^ word) * UINT64_C(0x9fb21c651e98df25);
		h ^= h >> 29;
	}
	for (; len; len--)
		h = (h ^ *p++) * UINT64_C(0x100000001b3);
	sim.hash = h;
}

static void print(const char *text)
{
	fprintf(stderr, "%12.6f %-8s %s\n", (double)sim.now_ns / (double)NS_PER_S,
		sim.host ? sim.host->name : "-", text);
}

void sim_note(const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	sim_hash(text, strlen(text));
	if (sim.verbose)
		print(text);
}

void sim_fail(const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	sim_hash(text, strlen(text));
	if (sim.failures++ >= FAILURES_SHOWN)
		return;
	fprintf(stderr, "seed %llu failed at %.6f s: %s\n", (unsigned long long)sim.seed,
		(double)sim.now_ns / (double)NS_PER_S, text);
}

/* ---- life ---- */

void sim_begin(uint64_t seed)
{
	int verbose = sim.verbose;

	sim = (struct sim){ .seed = seed, .verbose = verbose, .hash = seed };
	rng_seed(&sim.rng, seed);
}

void sim_end(void)
{
	free(sim.heap);
	free(sim.hosts);
	sim.heap = NULL;
	sim.hosts = NULL;
	sim.n = sim.cap = sim.n_hosts = 0;
}
