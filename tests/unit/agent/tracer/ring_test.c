/* SPDX-License-Identifier: Apache-2.0 */
/* The ring in virtual time: records are fed and cut, and compared with a list that forgets nothing. */
#include "agent/tracer/ring.h"

#include <unistd.h>

#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/check.h"
#include "tests/lib/ring_file.h"
#include "tests/lib/temp_dir.h"

static const char *dir;

/* ---- cuts as numbers ---- */

struct seen {
	uint64_t *ids;
	int64_t *times;
	size_t n, cap;
};

static bool see(void *arg, const struct ring_record *rec)
{
	struct seen *s = arg;

	CHECK(rec->len >= sizeof(*s->ids));
	CHECK(((uintptr_t)rec->data & 7) == 0);
	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 64;
		s->ids = xrealloc(s->ids, s->cap * sizeof(*s->ids));
		s->times = xrealloc(s->times, s->cap * sizeof(*s->times));
	}
	memcpy(&s->ids[s->n], rec->data, sizeof(*s->ids));
	s->times[s->n++] = rec->raw_ns;
	return true;
}

static void seen_release(struct seen *s)
{
	free(s->ids);
	free(s->times);
	*s = (struct seen){ 0 };
}

static struct seen cut(struct ring *r, int64_t t0, int64_t t1)
{
	struct ring_cut *c = ring_cut_new(r, t0, t1);
	struct seen s = { 0 };

	CHECK_EQ(ring_cut_each(c, see, &s), 0);
	ring_cut_free(c);
	return s;
}

static size_t count(struct ring *r, int64_t t0, int64_t t1)
{
	struct seen s = cut(r, t0, t1);
	size_t n = s.n;

	seen_release(&s);
	return n;
}

/* Adds records `every` apart from `from` to `to`; their numbers are their times. */
static void feed(struct ring *r, int64_t from, int64_t to, int64_t every)
{
	for (int64_t at = from; at < to; at += every)
		CHECK(ring_add(r, at, &at, sizeof(at)));
}

/* ---- room in the spool ---- */

struct spool {
	uint64_t left, taken;
};

static bool reserve_bytes(void *arg, uint64_t bytes)
{
	struct spool *s = arg;

	if (bytes > s->left)
		return false;
	s->left -= bytes;
	s->taken += bytes;
	return true;
}

static void hold(struct ring *r, const void *owner, int64_t from, struct spool *spool)
{
	ring_add_hold(r, &(struct ring_hold){ .owner = owner,
					      .from_raw_ns = from,
					      .dir = dir,
					      .reserve_bytes = reserve_bytes,
					      .arg = spool });
}

/* ---- tests ---- */

static struct ring *sample_ring(uint64_t bytes, int64_t ns)
{
	return ring_new(&(struct ring_conf){
		.limits = { .bytes = bytes, .ns = ns }, .record_bytes = 8, .late_ns = 1000 });
}

static void windows_are_half_open_and_meet(void)
{
	struct ring *r = sample_ring(1 << 20, 60 * NS_PER_S);

	CHECK(ring_is_empty(r));
	CHECK_EQ(count(r, INT64_MIN, INT64_MAX), 0);
	feed(r, 0, 1000, 10);
	CHECK(!ring_is_empty(r));
	CHECK_EQ(count(r, 0, 1000), 100);
	CHECK_EQ(count(r, 10, 20), 1);
	CHECK_EQ(count(r, 10, 21), 2);
	CHECK_EQ(count(r, 11, 20), 0);
	CHECK_EQ(count(r, 20, 20), 0);
	CHECK_EQ(count(r, 0, 333) + count(r, 333, 1000), 100);
	CHECK_EQ(ring_begin(r), 0);
	ring_free(r);
}

static void short_and_long_windows_are_complete(int64_t seconds)
{
	struct spool spool = { .left = UINT64_MAX };
	struct ring *r = sample_ring(16 << 20, 60 * NS_PER_S);
	int64_t t0 = 100 * NS_PER_S, t1 = t0 + seconds * NS_PER_S, every = NS_PER_S / 198;

	feed(r, 0, t0, every);
	hold(r, &spool, t0, &spool);
	feed(r, (t0 + every - 1) / every * every, t1 + NS_PER_S, every);
	CHECK(ring_begin(r) <= t0);
	CHECK_EQ(ring_lost(r, t0, t1), 0);
	CHECK_EQ(count(r, t0, t1), (t1 - 1) / every - (t0 - 1) / every);
	CHECK_EQ(count(r, t1 - 5 * NS_PER_MS, t1),
		 (t1 - 1) / every - (t1 - 5 * NS_PER_MS - 1) / every);
	CHECK((spool.taken > 0) == (seconds > 70));
	CHECK_EQ(ring_file_bytes(r), spool.taken);
	ring_remove_hold(r, &spool);
	CHECK_EQ(ring_file_bytes(r), 0);
	CHECK(ring_begin(r) >= t1 - 68 * NS_PER_S || seconds < 10);
	ring_free(r);
}

static void memory_stays_within_its_bytes(void)
{
	struct ring *r = sample_ring(64 << 10, 3600 * NS_PER_S);
	uint64_t most = 0;

	for (int64_t i = 0; i < 100000; i++) {
		feed(r, i, i + 1, 1);
		CHECK(ring_bytes(r) <= 64 << 10);
		most = ring_bytes(r) > most ? ring_bytes(r) : most;
	}
	CHECK(most > 60 << 10);
	CHECK_EQ(count(r, 0, INT64_MAX) + ring_lost(r, 0, INT64_MAX), 100000);
	CHECK(count(r, 0, INT64_MAX) > 60 * 1024 / 16 * 15 / 16);
	CHECK_EQ(count(r, ring_begin(r), INT64_MAX), count(r, 0, INT64_MAX));
	CHECK_EQ(count(r, ring_begin(r), ring_begin(r) + 1), 1);
	CHECK(!ring_add(r, 100000, dir, 17 << 10)); /* larger than a quarter */
	CHECK_EQ(ring_lost(r, 100000, 100001), 1);
	ring_free(r);
}

static void seconds_bound_what_is_kept(void)
{
	struct ring *r = sample_ring(1 << 20, 8 * NS_PER_S);

	feed(r, 0, 100 * NS_PER_S, NS_PER_S / 10);
	CHECK(ring_begin(r) > 89 * NS_PER_S && ring_begin(r) <= 92 * NS_PER_S);
	CHECK_EQ(count(r, 0, INT64_MAX), (100 * NS_PER_S - ring_begin(r)) / (NS_PER_S / 10));
	/* After a pause everything is too old. */
	feed(r, 1000 * NS_PER_S, 1001 * NS_PER_S, NS_PER_S);
	CHECK_EQ(count(r, 0, INT64_MAX), 1);
	ring_free(r);
}

static void late_records_are_kept_or_counted(void)
{
	struct ring *r = sample_ring(1 << 20, 60 * NS_PER_S);
	struct seen s;

	feed(r, 5000, 5001, 1);
	feed(r, 4000, 4001, 1);
	CHECK(!ring_add(r, 3999, dir, 8));
	feed(r, 5002, 5003, 1);
	s = cut(r, 0, 10000);
	CHECK_EQ(s.n, 3);
	CHECK_EQ(s.ids[0], 5000);
	CHECK_EQ(s.ids[1], 4000);
	seen_release(&s);
	CHECK_EQ(count(r, 4000, 5000), 1);
	CHECK_EQ(ring_lost(r, 3999, 4000), 1);
	CHECK_EQ(ring_lost(r, 4000, 5000), 0);
	CHECK(!ring_add(r, INT64_MAX, dir, 8));
	CHECK(!ring_add(r, INT64_MIN, dir, 8));
	ring_free(r);
}

static void losses_are_summed_and_merged(void)
{
	struct ring *r = sample_ring(1 << 20, 60 * NS_PER_S);

	for (int64_t i = 0; i < 1000; i++) {
		ring_add_loss(r, i, 2);
		ring_add_loss(r, i, 1);
	}
	CHECK_EQ(ring_lost(r, 0, 1000), 3000);
	CHECK_EQ(ring_lost(r, 900, 1000), 300);
	CHECK_EQ(ring_lost(r, 1000, 2000), 0);
	ring_free(r);
}

static void runs_share_one_file(void)
{
	struct spool a = { .left = UINT64_MAX }, b = { .left = UINT64_MAX }, none = { 0 };
	struct ring *r = sample_ring(64 << 10, 3600 * NS_PER_S);

	hold(r, &a, 0, &a);
	feed(r, 0, 10000, 1);
	hold(r, &b, 10000, &b);
	hold(r, &none, 10000, &none); /* has no room of its own: takes part all the same */
	feed(r, 10000, 30000, 1);
	CHECK_EQ(ring_file_bytes(r), a.taken);
	CHECK(b.taken > 0 && b.taken < a.taken);
	CHECK_EQ(count(r, 0, 30000), 30000);
	CHECK_EQ(ring_lost(r, 0, 30000), 0);
	ring_remove_hold(r, &a);
	CHECK(ring_begin(r) > 9000 && ring_begin(r) <= 10000);
	CHECK_EQ(count(r, 10000, 30000), 20000);
	CHECK_EQ(ring_file_bytes(r), b.taken);
	ring_remove_hold(r, &b);
	CHECK(ring_file_bytes(r)); /* for the third */
	ring_remove_hold(r, &none);
	CHECK_EQ(ring_file_bytes(r), 0);
	CHECK_EQ(count(r, 0, 30000), 30000 - ring_begin(r));
	ring_free(r);
}

static void a_full_spool_loses_records_and_counts_them(void)
{
	struct spool spool = { .left = 64 << 10 };
	struct ring *r = sample_ring(64 << 10, 3600 * NS_PER_S);
	uint64_t n;

	hold(r, &spool, 0, &spool);
	feed(r, 0, 30000, 1);
	CHECK_EQ(ring_begin(r), 0);
	CHECK_EQ(count(r, 0, 30000) + ring_lost(r, 0, 30000), 30000);
	CHECK(ring_lost(r, 0, 30000) > 15000);
	CHECK_EQ(ring_lost(r, 0, 1000), 0);
	CHECK_EQ(ring_lost(r, 0, 30000), ring_remove_hold(r, &spool));

	/* No folder: as no room, from the first record on. */
	spool.left = UINT64_MAX;
	ring_add_hold(r, &(struct ring_hold){ .owner = r,
					      .from_raw_ns = 30000,
					      .dir = "/no/such/folder",
					      .reserve_bytes = reserve_bytes,
					      .arg = &spool });
	feed(r, 30000, 50000, 1);
	CHECK(ring_begin(r) > 40000);
	n = count(r, 30000, 50000) + ring_lost(r, 30000, 50000);
	CHECK(n >= 20000 && n < 20500); /* a chunk's loss is not divided */
	ring_free(r);
}

static void the_file_is_bounded(void)
{
	struct spool spool = { .left = UINT64_MAX };
	struct ring *r = ring_new(&(struct ring_conf){ .limits = { .bytes = 64 << 10 },
						       .file_bytes = 64 << 10,
						       .record_bytes = 8,
						       .late_ns = 1000 });

	hold(r, &spool, 0, &spool);
	feed(r, 0, 30000, 1);
	CHECK(ring_file_bytes(r) > 50 << 10 && ring_file_bytes(r) <= 64 << 10);
	CHECK_EQ(spool.taken, ring_file_bytes(r));
	CHECK_EQ(count(r, 0, 30000) + ring_lost(r, 0, 30000), 30000);
	ring_free(r);
}

/* What a cut has stays, whatever becomes of the ring. */
static void cuts_outlive_the_ring(void)
{
	struct spool spool = { .left = UINT64_MAX };
	struct ring *r = sample_ring(64 << 10, 3600 * NS_PER_S);
	struct ring_cut *c;
	struct seen s = { 0 };

	hold(r, &spool, 0, &spool);
	feed(r, 0, 10000, 1);
	c = ring_cut_new(r, 100, 9990);
	ring_remove_hold(r, &spool);
	feed(r, 10000, 30000, 1);
	ring_free(r);
	CHECK_EQ(ring_cut_each(c, see, &s), 0);
	CHECK_EQ(s.n, 9890);
	for (size_t i = 0; i < s.n; i++)
		CHECK_EQ(s.ids[i], 100 + i);
	seen_release(&s);
	ring_cut_free(c);
}

/* Damage of the file: all records that are in its damaged part are counted, and all others are given. */
static void what_the_file_lost_is_counted(off_t keep)
{
	struct spool spool = { .left = UINT64_MAX };
	struct ring *r = sample_ring(64 << 10, 3600 * NS_PER_S);
	struct ring_cut *all, *early;
	struct seen s = { 0 };
	uint64_t unread;
	int fd;

	hold(r, &spool, 0, &spool);
	feed(r, 0, 30000, 1);
	all = ring_cut_new(r, 0, 30000);
	early = ring_cut_new(r, 20000, 20010);
	fd = ring_file_of(dir, 1);
	CHECK(fd >= 0 && !ftruncate(fd, keep));
	unread = ring_cut_each(all, see, &s);
	CHECK_EQ(s.n + unread, 30000);
	CHECK(keep ? unread > 5000 && unread < 10000 : unread > 25000);
	for (size_t i = 0; i < s.n; i++)
		CHECK((keep && s.ids[i] == i) || s.ids[i] == 30000 - s.n + i);
	CHECK(!ring_cut_is_empty(all));
	if (!keep) { /* nothing of this window can be read: that is not a window without records */
		CHECK(!ring_cut_is_empty(early));
		CHECK(ring_cut_each(early, see, &s) >= 10);
		CHECK(ring_cut_has_more(early, 9));
	}
	ring_cut_free(all);
	ring_cut_free(early);
	seen_release(&s);
	ring_free(r);
}

static void half_can_be_dropped(void)
{
	struct spool spool = { .left = UINT64_MAX };
	struct ring *r = sample_ring(64 << 10, 3600 * NS_PER_S);
	size_t n;

	hold(r, &spool, 0, &spool);
	feed(r, 0, 10000, 1);
	ring_drop_half(r);
	n = count(r, 0, 10000);
	CHECK(n > 3000 && n < 6000);
	CHECK_EQ(ring_begin(r), 10000 - n);
	CHECK_EQ(ring_lost(r, 0, 10000), ring_begin(r)); /* they were not too old */
	while (!ring_is_empty(r))
		ring_drop_half(r);
	CHECK_EQ(ring_begin(r), 10000);
	CHECK_EQ(ring_bytes(r) + ring_file_bytes(r), 0);
	ring_free(r);
}

/* ---- against a list that forgets nothing ---- */

struct model {
	struct ring *r;
	unsigned int seed;
	bool fixed;
	int64_t now, late_ns;
	int64_t *times; /* of record `id` */
	bool *refused;
	uint64_t n;
	struct spool spool;
	int holds[4]; /* owners */
	int64_t held_from[4]; /* 0 = no hold */
	struct ring_cut *kept; /* a cut made earlier, and what was in it */
	struct seen kept_seen;
};

static int64_t below(struct model *m, int64_t n)
{
	return rand_r(&m->seed) % n;
}

static void model_add(struct model *m)
{
	uint64_t record[16] = { m->n };
	size_t len = m->fixed ? 16 : 8 * (size_t)(1 + below(m, 16));
	int64_t at;

	m->now += below(m, 40);
	at = m->now - (below(m, 4) ? 0 : below(m, 2 * m->late_ns + 1));
	m->times[m->n] = at;
	m->refused[m->n] = !ring_add(m->r, at, record, len);
	m->n++;
}

static void model_check_cut(struct model *m, int64_t t0, int64_t t1)
{
	struct seen s = cut(m->r, t0, t1);
	uint64_t missing = 0;
	size_t at = 0;

	for (uint64_t id = 0; id < m->n; id++) {
		bool in = m->times[id] >= t0 && m->times[id] < t1;

		if (at < s.n && s.ids[at] == id) {
			CHECK(in && !m->refused[id]);
			CHECK_EQ(s.times[at], m->times[id]);
			at++;
		} else if (in && m->times[id] >= ring_begin(m->r)) {
			missing++;
		}
	}
	CHECK_EQ(at, s.n); /* in the order in which they were added, and nothing else */
	CHECK(missing <= ring_lost(m->r, t0, t1));
	seen_release(&s);
}

static void model_check_kept(struct model *m)
{
	struct seen s = { 0 };

	if (m->kept) {
		CHECK_EQ(ring_cut_each(m->kept, see, &s), 0);
		CHECK_EQ(s.n, m->kept_seen.n);
		CHECK(!s.n || !memcmp(s.ids, m->kept_seen.ids, s.n * sizeof(*s.ids)));
		seen_release(&s);
		seen_release(&m->kept_seen);
		ring_cut_free(m->kept);
		m->kept = NULL;
		return;
	}
	m->kept = ring_cut_new(m->r, m->now - 9000, m->now - below(m, 4000));
	CHECK_EQ(ring_cut_each(m->kept, see, &m->kept_seen), 0);
}

/* As long as there is room a hold misses nothing. */
static void model_toggle_hold(struct model *m)
{
	size_t i = (size_t)below(m, 4);

	if (m->held_from[i]) {
		if (m->spool.left > 1 << 20) {
			CHECK(ring_begin(m->r) <= m->held_from[i]);
			model_check_cut(m, m->held_from[i], m->now + 1);
		}
		ring_remove_hold(m->r, &m->holds[i]);
		m->held_from[i] = 0;
		return;
	}
	m->held_from[i] = m->now + 1000 - below(m, 3000);
	if (m->held_from[i] < ring_begin(m->r))
		m->held_from[i] = ring_begin(m->r);
	hold(m->r, &m->holds[i], m->held_from[i], &m->spool);
}

static void random_rings_agree_with_a_list(unsigned int seed, bool fixed, uint64_t room)
{
	const int steps = 12000;
	struct model m = { .seed = seed, .fixed = fixed, .spool = { .left = room } };

	printf("seed %u fixed %d room %llu\n", seed, fixed, (unsigned long long)room);
	m.late_ns = below(&m, 3) * 100;
	m.times = xcalloc((size_t)steps, sizeof(*m.times));
	m.refused = xcalloc((size_t)steps, sizeof(*m.refused));
	m.r = ring_new(&(struct ring_conf){
		.limits = { .bytes = RING_BYTES_MIN, .ns = 2000 + below(&m, 20000) },
		.record_bytes = fixed ? 16 : 0,
		.late_ns = m.late_ns });
	for (int i = 0; i < steps; i++) {
		model_add(&m);
		CHECK(ring_bytes(m.r) <= RING_BYTES_MIN);
		if (!below(&m, 100))
			model_check_cut(&m, m.now - below(&m, 30000), m.now - below(&m, 5000) + 10);
		if (!below(&m, 300))
			model_check_kept(&m);
		if (!below(&m, 200))
			model_toggle_hold(&m);
		if (!below(&m, 5000))
			ring_drop_half(m.r);
		for (size_t k = 0; k < 4; k++) /* dropped: no promise any more */
			if (m.held_from[k] && m.held_from[k] < ring_begin(m.r))
				m.held_from[k] = ring_begin(m.r);
	}
	ring_cut_free(m.kept);
	seen_release(&m.kept_seen);
	ring_free(m.r);
	free(m.refused);
	free(m.times);
}

/* A number on the command line: so many seeds. */
int main(int argc, char **argv)
{
	unsigned int seeds = argc > 1 ? (unsigned int)strtoul(argv[1], NULL, 10) : 8;

	dir = temp_dir();
	windows_are_half_open_and_meet();
	short_and_long_windows_are_complete(1);
	short_and_long_windows_are_complete(59);
	short_and_long_windows_are_complete(80);
	short_and_long_windows_are_complete(600);
	memory_stays_within_its_bytes();
	seconds_bound_what_is_kept();
	late_records_are_kept_or_counted();
	losses_are_summed_and_merged();
	runs_share_one_file();
	a_full_spool_loses_records_and_counts_them();
	the_file_is_bounded();
	cuts_outlive_the_ring();
	what_the_file_lost_is_counted(0);
	what_the_file_lost_is_counted(300 << 10);
	half_can_be_dropped();
	for (unsigned int seed = 1; seed <= seeds; seed++)
		random_rings_agree_with_a_list(seed, seed % 2,
					       seed % 4 < 2 ? 256 << 10 : UINT64_MAX);
	CHECK(!rmdir(dir)); /* nothing was left in it */
	return 0;
}
