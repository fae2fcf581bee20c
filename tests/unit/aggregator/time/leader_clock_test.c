/* SPDX-License-Identifier: Apache-2.0 */
/* A follower measures the clock of a leader, and goes on with it as one of its own machine. */
#include <stdlib.h>
#include <unistd.h>

#include "aggregator/time/leader_clock.h"
#include "aggregator/time/time_service.h"
#include "base/mem.h"
#include "json/json_text.h"
#include "tests/lib/temp_dir.h"
#include "tests/unit/aggregator/fleet.h"

#define URL "http://127.0.0.1:7400/"

/* Of the leader, as its record has it. */
static json_t *read_document(const struct fleet *f)
{
	char *path = xasprintf("%s/" SESSION_CLOCK_FILE, f->spool);
	json_t *doc;

	time_service_admit_followers(f->agg.time);
	session_clock_save_probe(f->spool, f->agg.probe_port, time_service_cookie(f->agg.time),
				 time_service_key(f->agg.time));
	doc = json_load_file(path, 0, NULL);
	CHECK(doc);
	free(path);
	return doc;
}

static void check_seen(const struct fleet *f, const struct session_clock_seen *s, int64_t most_ns)
{
	CHECK(s->lo_ns <= f->agg.clock.shift_ns && f->agg.clock.shift_ns <= s->hi_ns);
	CHECK(s->hi_ns - s->lo_ns <= most_ns);
	CHECK(s->from_ns <= session_clock_now(&f->agg.clock));
}

static void test_measures(void)
{
	struct session_clock_seen seen, later;
	struct leader_clock *lc, *second;
	struct fleet f;
	json_t *doc;

	fleet_start(&f, 0, 0);
	doc = read_document(&f);
	lc = leader_clock_new(f.loop);
	second = leader_clock_new(f.loop);
	CHECK(!leader_clock_read(lc, f.agg.clock.epoch, &seen));
	leader_clock_set(lc, URL, doc);
	leader_clock_set(second, "https://127.0.0.1", doc);
	WAIT(&f, leader_clock_read(lc, f.agg.clock.epoch, &seen));
	check_seen(&f, &seen, NS_PER_S);
	CHECK(!leader_clock_read(lc, f.agg.clock.epoch + 1, &later));
	/* Several followers are answered, again and again. */
	WAIT(&f, leader_clock_read(lc, f.agg.clock.epoch, &later) &&
			 later.from_ns > seen.from_ns + 5 * NS_PER_S);
	WAIT(&f,
	     leader_clock_read(second, f.agg.clock.epoch, &seen) && seen.from_ns > later.from_ns);
	check_seen(&f, &seen, NS_PER_S);
	/* The leader is gone: what is known of its clock is less and less sure. */
	leader_clock_set(lc, "", doc);
	CHECK(leader_clock_read(lc, f.agg.clock.epoch, &seen));
	WAIT(&f, leader_clock_read(lc, f.agg.clock.epoch, &later) &&
			 later.raw_ns > seen.raw_ns + 10 * NS_PER_S);
	CHECK_EQ(later.from_ns, seen.from_ns);
	CHECK(later.hi_ns - later.lo_ns >= seen.hi_ns - seen.lo_ns + 9 * NS_PER_MS);
	check_seen(&f, &later, NS_PER_S);
	/* Another clock. */
	json_put_text(doc, "epoch", "77");
	leader_clock_set(lc, URL, doc);
	CHECK(!leader_clock_read(lc, 0x77, &seen));
	leader_clock_free(lc);
	leader_clock_free(second);
	json_decref(doc);
	fleet_stop(&f);
}

/* ---- the clock that goes on ---- */

static void load(struct session_clock *c, const char *spool, const json_t *doc)
{
	char *path = xasprintf("%s/" SESSION_CLOCK_FILE, spool);

	CHECK(!json_dump_file(doc, path, 0));
	session_clock_load(c, spool, true);
	CHECK(c->kept);
	CHECK(!unlink(path));
	free(path);
}

static void test_goes_on(void)
{
	struct session_clock_seen seen = { .raw_ns = 1000 * NS_PER_S,
					   .lo_ns = 70 * NS_PER_S,
					   .hi_ns = 70 * NS_PER_S + 2 * NS_PER_MS,
					   .from_ns = 1050 * NS_PER_S };
	json_t *former = json_pack("{s:s,s:i,s:s}", "boot_id", "another machine's", "shift_ns", 5,
				   "epoch", "abc"),
	       *next, *last;
	const char *spool = temp_dir();
	struct session_clock c = { 0 };

	CHECK(!session_clock_is_here(former));
	next = session_clock_go_on(former, &seen);
	CHECK(session_clock_is_here(next));
	load(&c, spool, next);
	CHECK_EQ(c.shift_ns, 70 * NS_PER_S + NS_PER_MS);
	CHECK_EQ(c.n_changes, 1);
	CHECK_EQ(c.changes[0].epoch, 0xabc);
	CHECK(session_clock_knows(&c, 5) && session_clock_knows(&c, c.shift_ns));
	CHECK(!session_clock_knows(&c, 6));
	/* A window before, over and long after the change, which is at 1070 s. */
	CHECK_EQ(session_clock_doubt_ns(&c, 1000 * NS_PER_S, 1050 * NS_PER_S), 0);
	CHECK_EQ(session_clock_doubt_ns(&c, 1000 * NS_PER_S, 1060 * NS_PER_S), NS_PER_MS + 1);
	CHECK(session_clock_doubt_ns(&c, 1060 * NS_PER_S, 1080 * NS_PER_S) > 5 * NS_PER_MS);
	CHECK_EQ(session_clock_doubt_ns(&c, 1000 * NS_PER_S, 1200 * NS_PER_S),
		 session_clock_doubt_ns(&c, 1000 * NS_PER_S, 9000 * NS_PER_S));
	CHECK_EQ(session_clock_doubt_ns(&c, 1200 * NS_PER_S, 1300 * NS_PER_S), 0);
	/* A second takeover: both count. */
	seen.raw_ns = 2000 * NS_PER_S;
	seen.from_ns = 2060 * NS_PER_S;
	last = session_clock_go_on(next, &seen);
	load(&c, spool, last);
	CHECK_EQ(c.n_changes, 2);
	CHECK(session_clock_knows(&c, 5) && c.changes[1].epoch == 0xabc);
	CHECK(session_clock_doubt_ns(&c, 1060 * NS_PER_S, 2065 * NS_PER_S) >
	      session_clock_doubt_ns(&c, 1060 * NS_PER_S, 2000 * NS_PER_S));
	for (int i = 0; i < 40; i++) {
		json_decref(next);
		next = last;
		last = session_clock_go_on(next, &seen);
	}
	load(&c, spool, last);
	CHECK_EQ(c.n_changes, SESSION_CLOCK_CHANGES);
	json_decref(former);
	json_decref(next);
	json_decref(last);
	CHECK(!rmdir(spool));
}

int main(void)
{
	test_measures();
	test_goes_on();
	return 0;
}
