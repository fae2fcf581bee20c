/* SPDX-License-Identifier: Apache-2.0 */
/* Refining fleets whose clocks' errors are known, and what cannot be refined. */
#include "aggregator/evidence/refine.h"

#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/check.h"

#define SEED  20261121
#define HOSTS 8
#define KEYS  50
#define US    NS_PER_US

/* A fleet's events as told by clocks that are wrong by error_ns. */
struct fleet {
	struct refine_clock clocks[HOSTS];
	int64_t error_ns[HOSTS];
	struct xs_seen seen[KEYS * HOSTS];
	size_t n_seen;
	struct refined hosts[HOSTS];
	struct refinement all;
};

static uint64_t state = SEED;

static uint64_t next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static int64_t upto(int64_t n)
{
	return (int64_t)(next() % (uint64_t)n);
}

static struct fleet fleet_new(int64_t bound_ns)
{
	struct fleet f = { 0 };

	for (size_t i = 0; i < HOSTS; i++)
		f.clocks[i] = (struct refine_clock){ bound_ns, bound_ns, bound_ns };
	return f;
}

static struct xs_seen *see(struct fleet *f, uint32_t key, uint32_t host)
{
	struct xs_seen *s = &f->seen[f->n_seen++];

	*s = (struct xs_seen){ .key = key, .host = host };
	return s;
}

/* All of the first n hosts come within 200 us; then they leave, within `late_ns`. */
static void add_barrier(struct fleet *f, uint32_t key, size_t n, int64_t late_ns)
{
	int64_t at = (key + 1) * NS_PER_MS;

	for (uint32_t i = 0; i < n; i++) {
		struct xs_seen *s = see(f, key, i);

		s->has_start = s->has_end = true;
		s->start_ns = at + f->error_ns[i] - (i == key % n ? 0 : upto(200 * US));
		s->end_ns = at + f->error_ns[i] + upto(late_ns);
	}
}

/* From one host to another, `ns` on its way. */
static void add_flow(struct fleet *f, uint32_t key, uint32_t from, uint32_t to, int64_t ns)
{
	int64_t at = (key + 1) * NS_PER_MS;
	struct xs_seen *s = see(f, key, from);

	s->has_start = true;
	s->start_ns = at + f->error_ns[from];
	s = see(f, key, to);
	s->has_end = true;
	s->end_ns = at + ns + f->error_ns[to];
}

static enum refine_result refine_n(struct fleet *f, size_t n)
{
	return refine(f->clocks, n, f->seen, f->n_seen, f->hosts, &f->all);
}

/* Inside the hard interval; and of the truth, where it was said to be. */
static void check_hosts(const struct fleet *f, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct refined *h = &f->hosts[i];

		CHECK(h->offset_ns >= -f->clocks[i].earlier_ns);
		CHECK(h->offset_ns <= f->clocks[i].later_ns);
		CHECK(!h->pairs || llabs(f->error_ns[i] + h->offset_ns) <= h->bound_ns);
	}
}

static void test_two_hosts(void)
{
	struct fleet f = fleet_new(100 * US);

	f.error_ns[1] = 50 * US;
	for (uint32_t k = 0; k < KEYS; k++)
		add_barrier(&f, k, 2, 10 * US);
	CHECK_EQ(refine_n(&f, 2), REFINE_DONE);
	check_hosts(&f, 2);
	CHECK_EQ(f.all.n_hosts, 2);
	CHECK_EQ(f.all.pairs, KEYS);
	CHECK_EQ(f.hosts[1].pairs, KEYS);
	CHECK_EQ(f.all.stray_ns, 0);
	CHECK(f.all.backwards_before > 0);
	CHECK_EQ(f.all.backwards_after, 0);
	CHECK(llabs(f.hosts[0].offset_ns - f.hosts[1].offset_ns - 50 * US) < 10 * US);
	CHECK(f.hosts[0].bound_ns < 100 * US); /* what both clocks allow together is less */
	CHECK_EQ(f.all.reference, 0);
	CHECK_EQ(f.hosts[0].hint_ns, 0);
	CHECK_EQ(f.hosts[0].hint_spread_ns, 0);
	CHECK(f.hosts[1].has_hint && llabs(f.hosts[1].hint_ns + 50 * US) < 5 * US);
	CHECK(f.hosts[1].hint_spread_ns > 0 && f.hosts[1].hint_spread_ns < 5 * US);
}

/* Who knows the time well stays where it is, and the others come. */
static void test_good_clock(void)
{
	struct fleet f = fleet_new(100 * US);

	f.clocks[2] = (struct refine_clock){ US, US, US };
	for (size_t i = 0; i < HOSTS; i++)
		f.error_ns[i] = i == 2 ? 0 : 60 * US;
	for (uint32_t k = 0; k < KEYS; k++)
		add_barrier(&f, k, HOSTS, 10 * US);
	CHECK_EQ(refine_n(&f, HOSTS), REFINE_DONE);
	check_hosts(&f, HOSTS);
	CHECK_EQ(f.all.reference, 2);
	for (size_t i = 0; i < HOSTS; i++) {
		CHECK(llabs(f.error_ns[i] + f.hosts[i].offset_ns) < 12 * US);
		CHECK(f.hosts[i].bound_ns < 20 * US);
	}
}

static void test_nothing(void)
{
	struct fleet f = fleet_new(100 * US);

	CHECK_EQ(refine_n(&f, 0), REFINE_NO_PAIRS);
	CHECK_EQ(refine_n(&f, HOSTS), REFINE_NO_PAIRS);
	add_barrier(&f, 0, 1, US);
	CHECK_EQ(refine_n(&f, 1), REFINE_NO_PAIRS);
	see(&f, 1, 0)->has_start = true; /* two starts and no end */
	see(&f, 1, 1)->has_start = true;
	CHECK_EQ(refine_n(&f, HOSTS), REFINE_NO_PAIRS);
	add_barrier(&f, 2, 2, US);
	f.seen[f.n_seen - 1].start_ns += NS_PER_S; /* its own threads are not of one mind */
	CHECK_EQ(refine_n(&f, HOSTS), REFINE_NO_PAIRS);
	CHECK_STR(refine_result_name(REFINE_NO_PAIRS), "no-pairs");
}

/* A host that slept within the window cannot be moved by one number, and proves nothing of others. */
static void test_broken_clock(void)
{
	struct fleet f = fleet_new(100 * US);

	f.clocks[1] = (struct refine_clock){ NS_PER_S, 0, 0 };
	f.error_ns[1] = NS_PER_S / 2;
	f.error_ns[2] = 30 * US;
	for (uint32_t k = 0; k < KEYS; k++)
		add_barrier(&f, k, 3, 10 * US);
	CHECK_EQ(refine_n(&f, 3), REFINE_DONE);
	CHECK_EQ(f.all.n_hosts, 2);
	CHECK_EQ(f.hosts[1].pairs, 0);
	CHECK_EQ(f.hosts[1].offset_ns, 0);
	check_hosts(&f, 3);
	CHECK(llabs(f.hosts[0].offset_ns - f.hosts[2].offset_ns - 30 * US) < 10 * US);
	f.clocks[2] = f.clocks[1];
	CHECK_EQ(refine_n(&f, 3), REFINE_NO_PAIRS);
}

static void test_contradiction(void)
{
	static const struct refined none;
	struct fleet f = fleet_new(100 * US);

	for (uint32_t k = 0; k < KEYS - 1; k++)
		add_barrier(&f, k, 3, 10 * US);
	add_flow(&f, KEYS - 1, 0, 2, -201 * US);
	CHECK_EQ(refine_n(&f, 3), REFINE_CONTRADICTION);
	for (size_t i = 0; i < 3; i++)
		CHECK(!memcmp(&f.hosts[i], &none, sizeof(none)));
	CHECK_EQ(f.all.pairs, 0);
	f.seen[f.n_seen - 1].end_ns += 2 * US; /* no pair is impossible now, all together are */
	CHECK_EQ(refine_n(&f, 3), REFINE_WANDER);
	for (size_t i = 0; i < 3; i++)
		CHECK(!memcmp(&f.hosts[i], &none, sizeof(none)));
}

/* Around a ring every host is proven to be ahead of the next: not of the same time, that is. */
static void test_wander(void)
{
	for (int64_t by_us = 2; by_us <= 50; by_us += 48) {
		struct fleet f = fleet_new(100 * US);

		for (uint32_t i = 0; i < 3; i++)
			add_flow(&f, i, i, (i + 1) % 3, -by_us * US);
		CHECK_EQ(refine_n(&f, 3), by_us == 2 ? REFINE_DONE : REFINE_WANDER);
		check_hosts(&f, 3);
		CHECK(by_us != 2 || f.all.stray_ns >= 2 * US);
	}
}

/* A flow that may well have been so long on its way is no reason to move anybody. */
static void test_flows(void)
{
	struct fleet f = fleet_new(100 * US);

	add_flow(&f, 0, 0, 1, 30 * US);
	CHECK_EQ(refine_n(&f, 2), REFINE_DONE);
	CHECK_EQ(f.hosts[0].offset_ns, 0);
	CHECK_EQ(f.hosts[1].offset_ns, 0);
	CHECK(!f.hosts[1].has_hint);
	CHECK_EQ(f.hosts[1].bound_ns, 100 * US);
	f.seen[1].end_ns -= 50 * US;
	CHECK_EQ(refine_n(&f, 2), REFINE_DONE);
	CHECK_EQ(f.hosts[0].offset_ns, -10 * US);
	CHECK_EQ(f.hosts[1].offset_ns, 10 * US);
	CHECK_EQ(f.all.backwards_before, 1);
	CHECK_EQ(f.all.backwards_after, 0);
}

/* Errors that stay as they are, anywhere in the rooms: the truth is never lost. */
static void test_truth(void)
{
	for (int i = 0; i < 300; i++) {
		struct fleet f = fleet_new(0);

		for (size_t h = 0; h < HOSTS; h++) {
			struct refine_clock *c = &f.clocks[h];

			c->bound_ns = 2 + upto(200 * US);
			c->earlier_ns = 1 + upto(c->bound_ns);
			c->later_ns = 1 + upto(c->bound_ns);
			f.error_ns[h] = c->earlier_ns - upto(c->earlier_ns + c->later_ns + 1);
		}
		for (uint32_t k = 0; k < KEYS; k++) {
			if (k % 3)
				add_barrier(&f, k, 2 + (size_t)upto(HOSTS - 1), 1 + upto(20 * US));
			else
				add_flow(&f, k, k % HOSTS, (k + 1) % HOSTS, upto(50 * US));
		}
		CHECK_EQ(refine_n(&f, HOSTS), REFINE_DONE);
		CHECK_EQ(f.all.stray_ns, 0);
		CHECK_EQ(f.all.backwards_after, 0);
		check_hosts(&f, HOSTS);
	}
}

/* As far out as a number can be, or small. */
static int64_t any(void)
{
	static const int64_t edges[] = { INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX };

	switch (next() % 4) {
	case 0:
		return edges[next() % ARRAY_SIZE(edges)];
	case 1:
		return (int64_t)next();
	default:
		return upto(2000) - 1000;
	}
}

static void test_any_input(void)
{
	size_t results[REFINE_WANDER + 1] = { 0 };

	for (int i = 0; i < 20000; i++) {
		struct fleet f = fleet_new(0);
		enum refine_result r;

		for (size_t h = 0; h < HOSTS; h++)
			f.clocks[h] = (struct refine_clock){ any(), any(), any() };
		for (size_t k = 0; k < 20; k++) {
			struct xs_seen *s = see(&f, (uint32_t)upto(6), (uint32_t)upto(HOSTS));

			s->has_start = next() & 1;
			s->has_end = next() & 1;
			s->start_ns = any();
			s->end_ns = any();
		}
		r = refine_n(&f, HOSTS);
		results[r]++;
		for (size_t h = 0; h < HOSTS; h++) {
			int64_t earlier = f.clocks[h].earlier_ns, later = f.clocks[h].later_ns;

			CHECK(f.hosts[h].offset_ns >= -(earlier > 0 ? earlier : 0));
			CHECK(f.hosts[h].offset_ns <= (later > 0 ? later : 0));
			CHECK(f.hosts[h].bound_ns >= 0);
			CHECK(!r || !f.hosts[h].pairs);
		}
		CHECK(f.all.backwards_after <= f.all.backwards_before);
	}
	for (size_t r = 0; r < ARRAY_SIZE(results); r++)
		CHECK(results[r] > 0);
}

int main(void)
{
	printf("seed %d\n", SEED);
	test_two_hosts();
	test_good_clock();
	test_nothing();
	test_broken_clock();
	test_contradiction();
	test_wander();
	test_flows();
	test_truth();
	test_any_input();
	return 0;
}
