/* SPDX-License-Identifier: Apache-2.0 */
/* Three replicas on a store that takes its time, with clocks that disagree and replicas that freeze: never two leaders. */
#include "aggregator/lease/lease.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/now.h"
#include "tests/lib/check.h"

#define REPLICAS 3
#define LEASE_NS (10 * NS_PER_S)
#define SEEDS	 400
#define STEPS	 3000

enum op_kind { OP_READ, OP_CREATE, OP_RENEW };

/* A call of the store begins, takes place and ends, each at a true time of its own. */
struct replica {
	struct lease lease;
	int64_t clock_ns; /* its clock is true time times `rate`, plus this */
	double rate;
	enum op_kind op;
	enum { OP_BEGUN, OP_APPLIED } phase;
	int64_t next_ns, begun_ns; /* true time of the next phase; own time of the begin */
	bool created;
	uint64_t term, beat;
	struct lease_view seen;
};

struct world {
	struct replica replicas[REPLICAS];
	struct lease_view record;
	int64_t now_ns;
	int terms, renewals;
};

static int64_t draw(int64_t max)
{
	return (int64_t)(drand48() * (double)max);
}

/* Mostly short; now and then as long as a frozen machine or a store that hangs. */
static int64_t draw_delay(void)
{
	return draw(drand48() < 0.05 ? 3 * LEASE_NS : drand48() < 0.2 ? LEASE_NS : NS_PER_S);
}

static int64_t own_time(const struct world *w, const struct replica *r)
{
	return (int64_t)((double)w->now_ns * r->rate) + r->clock_ns;
}

static int count_leaders(const struct world *w)
{
	int n = 0;

	for (int i = 0; i < REPLICAS; i++)
		n += lease_leads(&w->replicas[i].lease, own_time(w, &w->replicas[i]));
	return n;
}

static void begin(struct world *w, struct replica *r, enum op_kind op)
{
	r->op = op;
	r->phase = OP_BEGUN;
	r->begun_ns = own_time(w, r);
	r->next_ns = w->now_ns + draw_delay();
}

static void apply(struct world *w, struct replica *r)
{
	if (r->op == OP_READ) {
		r->seen = w->record;
	} else if (r->op == OP_CREATE) {
		r->created = r->term > w->record.term;
		if (r->created)
			w->record = (struct lease_view){ r->term, ++r->beat, false };
	} else if (w->record.term == r->lease.term) {
		w->record.beat = ++r->beat;
	}
	r->phase = OP_APPLIED;
	r->next_ns = w->now_ns + draw_delay();
}

/* Like keeper.c: a replica that has lost its term begins anew, as another process would. */
static void end(struct world *w, struct replica *r)
{
	int64_t ended_ns = own_time(w, r);
	bool creates = false;

	if (r->op == OP_READ) {
		creates = lease_read(&r->lease, &r->seen, r->begun_ns, ended_ns);
		r->term = r->seen.term + 1;
	} else if (r->op == OP_CREATE) {
		if (r->created && lease_wrote(&r->lease, r->term, r->begun_ns, ended_ns))
			w->terms++;
	} else if (lease_wrote(&r->lease, r->lease.term, r->begun_ns, ended_ns)) {
		w->renewals++;
	}
	CHECK(count_leaders(w) <= 1);
	if (lease_leads(&r->lease, ended_ns)) {
		begin(w, r, OP_RENEW);
		return;
	}
	if (r->lease.term)
		r->lease = (struct lease){ .lease_ns = LEASE_NS };
	begin(w, r, creates ? OP_CREATE : OP_READ);
}

static void step(struct world *w)
{
	struct replica *next = &w->replicas[0];

	for (int i = 1; i < REPLICAS; i++) {
		if (w->replicas[i].next_ns < next->next_ns)
			next = &w->replicas[i];
	}
	w->now_ns = next->next_ns;
	if (next->phase == OP_BEGUN)
		apply(w, next);
	else
		end(w, next);
}

static void test_never_two(void)
{
	int terms = 0, renewals = 0;

	for (int seed = 0; seed < SEEDS; seed++) {
		struct world w = { .now_ns = NS_PER_S };

		srand48(seed);
		for (int i = 0; i < REPLICAS; i++) {
			struct replica *r = &w.replicas[i];

			r->lease.lease_ns = LEASE_NS;
			r->clock_ns = draw(1000 * NS_PER_S);
			r->rate = 0.9 + 0.2 * drand48();
			begin(&w, r, OP_READ);
		}
		for (int i = 0; i < STEPS; i++)
			step(&w);
		terms += w.terms;
		renewals += w.renewals;
	}
	/* no use if no replica ever leads */
	CHECK(terms > 10 * SEEDS);
	CHECK(renewals > 10 * SEEDS);
}

static void test_follower(void)
{
	struct lease l = { .lease_ns = 9 };
	const struct lease_view first = { 4, 1, false }, renewed = { 4, 2, false },
				released = { 4, 3, true }, none = { 0 };

	CHECK(!lease_read(&l, &first, 100, 102)); /* it waits for the whole lease from 102 on */
	CHECK(!lease_read(&l, &first, 110, 112));
	CHECK(lease_read(&l, &first, 111, 112));
	CHECK(!lease_read(&l, &renewed, 111, 113));
	CHECK(!lease_read(&l, &renewed, 121, 121));
	CHECK(lease_read(&l, &renewed, 122, 122));
	CHECK(lease_read(&l, &released, 123, 123));
	l = (struct lease){ .lease_ns = 9 };
	CHECK(lease_read(&l, &none, 100, 102));
}

static void test_leader(void)
{
	struct lease l = { .lease_ns = 9 };

	CHECK(!lease_wrote(&l, 5, 100, 106)); /* too late: its time was over at 106 */
	CHECK(!lease_leads(&l, 100));
	CHECK(lease_wrote(&l, 5, 100, 105));
	CHECK(lease_leads(&l, 105) && !lease_leads(&l, 106));
	CHECK(!lease_wrote(&l, 5, 104, 106)); /* a renewal that ends when its time is over */
	CHECK(!lease_leads(&l, 106));
	CHECK(lease_wrote(&l, 5, 103, 105));
	CHECK(lease_leads(&l, 108) && !lease_leads(&l, 109));
}

int main(void)
{
	test_follower();
	test_leader();
	test_never_two();
	return 0;
}
