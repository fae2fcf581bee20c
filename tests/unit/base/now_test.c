/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/timex.h>
#include <unistd.h>

#include "base/now.h"

#include "tests/lib/check.h"

#define REAL INT64_C(1790000000000000000)

/* A second after the first reading, with the wall clock this much further. */
static bool has_step(int64_t moved_ns)
{
	const struct clock_pair a = { .raw_ns = 5 * NS_PER_S, .real_ns = REAL, .width_ns = 100 };
	const struct clock_pair b = { .raw_ns = 6 * NS_PER_S,
				      .real_ns = REAL + NS_PER_S + moved_ns,
				      .width_ns = 200 };

	CHECK_EQ(clock_pair_moved_ns(&a, &b), moved_ns);
	return clock_pair_has_step(&a, &b);
}

/* 600 ppm of steering, the widths of both readings and a microsecond are no step. */
static void test_step(void)
{
	CHECK(!has_step(0));
	CHECK(!has_step(601300));
	CHECK(!has_step(-601300));
	CHECK(has_step(601400));
	CHECK(has_step(-601400));
	CHECK(has_step(-NS_PER_S));
}

static void test_pair(void)
{
	struct clock_pair p = now_pair();

	CHECK(p.width_ns >= 0);
	CHECK(p.raw_ns <= now_raw_ns() && p.real_ns > 0);
}

static void check_mono_of_raw(int64_t away_ns, int64_t expected_away_ns)
{
	int64_t mono_before = now_mono_ns(), raw_before = now_raw_ns();
	int64_t got = now_mono_of_raw(raw_before + away_ns) - expected_away_ns;

	/* A millisecond for slewing. */
	CHECK(got >= mono_before - NS_PER_MS);
	CHECK(got <= now_mono_ns() + NS_PER_MS);
}

static void test_mono_of_raw(void)
{
	const int64_t year_ns = 366 * 24 * 3600 * NS_PER_S;

	check_mono_of_raw(0, 0);
	check_mono_of_raw(NS_PER_S, NS_PER_S);
	check_mono_of_raw(-NS_PER_S, -NS_PER_S);
	check_mono_of_raw(3 * year_ns, year_ns);
	CHECK(now_mono_of_raw(INT64_MAX) <= now_mono_ns() + year_ns);
	CHECK(now_mono_of_raw(INT64_MIN) >= now_mono_ns() - year_ns - 60 * NS_PER_S);
}

/* A kernel that does not answer, as in some sandboxes, leaves zeros behind: that is no error of 0. */
static void test_wall_error_is_unknown(void)
{
	struct timex t = { .maxerror = 70 };

	CHECK_EQ(now_wall_error_of(-1, &(struct timex){ 0 }), -1);
	CHECK_EQ(now_wall_error_of(TIME_ERROR, &t), -1);
	CHECK_EQ(now_wall_error_of(TIME_OK, &t), 70 * NS_PER_US);
	t.status = STA_UNSYNC;
	CHECK_EQ(now_wall_error_of(TIME_OK, &t), -1);
}

static void write_vmclock(const char *path, const uint8_t *bytes, size_t n)
{
	FILE *f = fopen(path, "wb");

	CHECK(f && fwrite(bytes, 1, n, f) == n && !fclose(f));
}

/* The device that tells of live migrations: another mark after one; unknown without it, or while it
 * is written, or if the bytes are none of its. */
static void test_disruption(void)
{
	uint8_t bytes[104] = { 'V', 'C', 'L', 'K', 104, 0, 0, 0, 1, 0, 1, 0, 2, 0, 0, 0, 7 };
	char path[] = "/tmp/tutti-vmclock-XXXXXX";
	uint64_t before;

	close(mkstemp(path));
	CHECK_EQ(now_disruption_in(path), 0);
	write_vmclock(path, bytes, sizeof(bytes));
	before = now_disruption_in(path);
	CHECK(before && now_disruption_in(path) == before);
	bytes[12] = 3;
	write_vmclock(path, bytes, sizeof(bytes));
	CHECK_EQ(now_disruption_in(path), 0);
	bytes[12] = 4;
	bytes[20] = 1;
	write_vmclock(path, bytes, sizeof(bytes));
	CHECK(now_disruption_in(path) && now_disruption_in(path) != before);
	write_vmclock(path, bytes, 23);
	CHECK_EQ(now_disruption_in(path), 0);
	bytes[0] = 'v';
	write_vmclock(path, bytes, sizeof(bytes));
	CHECK_EQ(now_disruption_in(path), 0);
	unlink(path);
	CHECK_EQ(now_disruption_in(path), 0);
}

/* A counter of 24 MHz, one that moves in each reading, and one that did not move while it was read. */
static void test_tick(void)
{
	const int64_t coarse[] = { 0, 0, 41, 41, 83, 125, 5000, 5000, 5041 };
	const int64_t fine[] = { 0, 19, 37, 56, 1200 };
	const int64_t still[] = { 7, 7, 7 };

	CHECK_EQ(now_tick_of(coarse, 9), 42);
	CHECK_EQ(now_tick_of(fine, 5), 0);
	CHECK_EQ(now_tick_of(still, 3), 0);
	CHECK_EQ(now_tick_of(still, 0), 0);
	CHECK(now_raw_tick_ns() >= 0);
}

static void write_offsets(const char *folder, const char *text)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "%s/timens_offsets", folder);
	f = fopen(path, "w");
	CHECK(f && fputs(text, f) >= 0 && !fclose(f));
}

static void link_namespace(const char *folder, const char *name, const char *to)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/ns/%s", folder, name);
	unlink(path);
	CHECK(!symlink(to, path));
}

/* What a process in a time namespace reads, by its folder in /proc. */
static void test_time_namespace(void)
{
	char folder[] = "/tmp/tutti-now-XXXXXX", ns[32], path[64];
	int64_t ahead = 7;

	CHECK(now_raw_ahead("/proc/self", &ahead));
	CHECK(mkdtemp(folder));
	CHECK(now_raw_ahead(folder, &ahead) && ahead == 0); /* an old kernel */
	write_offsets(folder, "monotonic        -3  250000000\nboottime          9         0\n");
	CHECK(now_raw_ahead(folder, &ahead) && ahead == -2750 * NS_PER_MS);
	snprintf(ns, sizeof(ns), "%s/ns", folder);
	CHECK(!mkdir(ns, 0700));
	link_namespace(folder, "time", "time:[1]");
	link_namespace(folder, "time_for_children", "time:[1]");
	CHECK(now_raw_ahead(folder, &ahead) && ahead == -2750 * NS_PER_MS);
	link_namespace(folder, "time_for_children",
		       "time:[2]"); /* the offsets are of its children */
	CHECK(!now_raw_ahead(folder, &ahead));
	for (const char *const *bad =
		     (const char *const[]){ "", "monotonic 1", "monotonic 99999999999999 0",
					    "monotonic 1 1000000000", NULL };
	     *bad; bad++) {
		link_namespace(folder, "time_for_children", "time:[1]");
		write_offsets(folder, *bad);
		CHECK(now_raw_ahead(folder, &ahead) && ahead == 0);
	}
	snprintf(path, sizeof(path), "rm -r %s", folder);
	CHECK(!system(path));
}

int main(void)
{
	test_time_namespace();
	test_tick();
	test_disruption();
	test_wall_error_is_unknown();
	test_step();
	test_pair();
	test_mono_of_raw();
	return 0;
}
