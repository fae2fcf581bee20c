/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/tracer/metrics/readings.h"
#include "agent/tracers.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/check.h"
#include "tests/lib/run_until.h"
#include "tests/lib/temp_dir.h"
#include "tests/lib/tracer_bed.h"
#include "tests/lib/xspace_text.h"
#include "xspace/xspace.h"

#define COLUMNS_MAX (64 + 1024) /* with the CPUs of the machine */

static const char *root;

static void put(const char *name, const char *text)
{
	char *path = xasprintf("%s/%s", root, name);
	FILE *f = fopen(path, "w");

	CHECK(f);
	fputs(text, f);
	fclose(f);
	free(path);
}

static void make_dir(const char *name)
{
	char *path = xasprintf("%s/%s", root, name);

	CHECK(!mkdir(path, 0700));
	free(path);
}

/* Texts of a real host, cut to what is read, a second apart. */
static void first_second(void)
{
	put("stat", "cpu  1000 0 500 8000 100 20 30 50 7 0\ncpu0 500 0 250 4000 50 10 15 25 0 0\n"
		    "intr 5000 1 2 3\nctxt 10000\nbtime 1\nprocesses 300\nprocs_running 2\n"
		    "procs_blocked 1\n");
	put("meminfo", "MemTotal:       16000000 kB\nMemFree:         1000000 kB\n"
		       "MemAvailable:    4000000 kB\nBuffers: 1 kB\nCached:  2000000 kB\n"
		       "SwapCached: 5 kB\nDirty: 100 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n");
	put("loadavg", "1.25 0.80 0.50 2/300 4711\n");
	put("net/dev",
	    "Inter-|   Receive                          |  Transmit\n"
	    " face |bytes    packets errs drop fifo frame compressed multicast|bytes ...\n"
	    "    lo: 999999 99 0 0 0 0 0 0 999999 99 0 0 0 0 0 0\n"
	    "  eth0: 1000000 1000 0 0 0 0 0 0 500000 500 0 0 0 0 0 0\n"
	    "eth1:500 5 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
	put("diskstats", "   7 0 loop0 100 0 1000 0 100 0 1000 0 0 0 0\n"
			 " 259 0 nvme0n1 100 0 2000 10 50 0 4000 20 0 30 30 0 0 0 0\n"
			 " 259 1 nvme0n1p1 90 0 1900 10 50 0 4000 20 0 30 30 0 0 0 0\n"
			 " 254 0 vda 0 0 0 0 0 0 0 0 0 0 0\n 254 1 vda1 5 0 5 0 5 0 5 0 0 0 0\n");
	put("vmstat", "pgfault 1000\npgmajfault 10\npswpin 0\npswpout 0\n");
	put("pressure/io", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\n"
			   "full avg10=0.00 avg60=0.00 avg300=0.00 total=500000\n");
}

static void second_second(void)
{
	put("stat", "cpu  1100 0 550 8040 100 20 30 60 7 0\ncpu0 530 0 260 4010 100 10 15 25 0 "
		    "0\nintr 5500 1 2 3\nctxt 12000\n"
		    "processes 310\nprocs_running 3\nprocs_blocked 0\n");
	put("net/dev", "a\nb\n  eth0: 3000000 1100 1 2 0 0 0 0 1500000 600 3 4 0 0 0 0\n"
		       "eth1:500 5 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
	put("diskstats", " 259 0 nvme0n1 120 0 4000 10 60 0 8000 20 0 30 30 0 0 0 0\n");
	put("vmstat", "pgfault 900\npgmajfault 12\n");
	put("pressure/io", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1250000\n"
			   "full avg10=0.00 avg60=0.00 avg300=0.00 total=500000\n");
}

static double get(const double *row, const char *name)
{
	char text[READINGS_NAME_BYTES];

	for (size_t i = 0; i < COLUMNS_MAX; i++)
		if (!strcmp(readings_name(i, text), name))
			return row[i];
	fprintf(stderr, "no column %s\n", name);
	exit(1);
}

#define CHECK_NEAR(row, name, want) \
	do { \
		double check_v = get(row, name); \
		if (!(fabs(check_v - (want)) < 1e-6)) { \
			fprintf(stderr, "%d: %s is %g\n", __LINE__, name, check_v); \
			exit(1); \
		} \
	} while (0)

static void recorded_texts_give_known_numbers(void)
{
	double *row = xcalloc(COLUMNS_MAX, sizeof(*row));
	struct readings *pm;

	first_second();
	pm = readings_open(root);
	CHECK_EQ(readings_files(pm), 7);
	readings_read(pm, 0, row);
	CHECK_NEAR(row, "load 1 min", 1.25);
	CHECK_NEAR(row, "tasks running", 2);
	CHECK_NEAR(row, "mem available MB", 4096);
	CHECK_NEAR(row, "mem used MB", 12288);
	CHECK_NEAR(row, "mem page cache MB", 2048);
	CHECK_NEAR(row, "swap used MB", 0);
	CHECK(isnan(get(row, "cpu user %"))); /* a rate needs two */
	CHECK(isnan(get(row, "net rx MB/s")));

	second_second();
	readings_read(pm, 2 * NS_PER_S, row);
	CHECK_NEAR(row, "cpu user %", 50);
	CHECK_NEAR(row, "cpu system %", 25);
	CHECK_NEAR(row, "cpu idle %", 20);
	CHECK_NEAR(row, "cpu steal %", 5);
	CHECK_NEAR(row, "cpu 0 busy %", 40); /* waiting for a disk is idle */
	CHECK_NEAR(row, "context switches per s", 1000);
	CHECK_NEAR(row, "net rx MB/s", 1);
	CHECK_NEAR(row, "net tx MB/s", 0.5);
	CHECK_NEAR(row, "net errors and drops per s", 5);
	CHECK_NEAR(row, "disk read MB/s", 0.512); /* the disk, not its partition too */
	CHECK_NEAR(row, "disk write MB/s", 1.024);
	CHECK_NEAR(row, "disk operations per s", 15);
	CHECK_NEAR(row, "major page faults per s", 1);
	CHECK(isnan(get(row, "page faults per s"))); /* a counter does not run backwards */
	CHECK_NEAR(row, "pressure io some %", 12.5);
	CHECK_NEAR(row, "pressure io full %", 0);
	CHECK(isnan(get(row, "pressure cpu some %"))); /* the file is not there */
	readings_free(pm);
	free(row);
}

/* In rows between there is no value; a rate is over the time since the one before. */
static void slow_files_are_read_twice_a_second(void)
{
	double *row = xcalloc(COLUMNS_MAX, sizeof(*row));
	struct readings *pm;

	first_second();
	pm = readings_open(root);
	readings_read(pm, NS_PER_S, row);
	CHECK_NEAR(row, "mem available MB", 4096);
	second_second();
	readings_read(pm, NS_PER_S + 100 * NS_PER_MS, row);
	CHECK(isnan(get(row, "mem available MB")) && isnan(get(row, "load 1 min")));
	CHECK(isnan(get(row, "disk read MB/s")));
	CHECK_NEAR(row, "cpu user %", 50);
	CHECK_NEAR(row, "net rx MB/s", 20);
	readings_read(pm, NS_PER_S + 499 * NS_PER_MS, row);
	CHECK(!isnan(get(row, "mem available MB")));
	CHECK_NEAR(row, "major page faults per s", 2 / 0.499);
	readings_free(pm);
	free(row);
}

static void names_are_safe_for_viewers(void)
{
	char text[READINGS_NAME_BYTES], other[READINGS_NAME_BYTES];

	for (size_t i = 0; i < 100; i++) {
		for (const char *c = readings_name(i, text); *c; c++)
			CHECK(*c >= ' ' && *c < 127 && *c != '"' && *c != '\\');
		for (size_t k = 0; k < i; k++)
			CHECK(strcmp(readings_name(i, text), readings_name(k, other)));
	}
}

/* ---- the tracer on this host ---- */

/* One plane, one line; each event is an instant with one stat, a finite double. Returns how many there are. */
static size_t check_counters(const struct buf *bytes)
{
	char *text = xspace_text(bytes->data, bytes->len), *at;
	size_t n = text_count(text, "{");

	CHECK_EQ(text_count(text, "plane "), 1);
	CHECK(!strncmp(text, "plane /host:CPU metrics\n_counters_ #", 36));
	CHECK_EQ(text_count(text, "\n"), 2);
	CHECK_EQ(text_count(text, "f}"), n);
	for (at = text; (at = strchr(at, '{')); at++) {
		const char *value = strchr(at, '=') + 1, *to = at - 2, *from;
		char *end;

		CHECK(isfinite(strtod(value, &end)) && !strncmp(end, "f}", 2));
		while (*to != '-')
			to--;
		for (from = to; from[-1] != ' ';)
			from--;
		CHECK(!strncmp(from, to + 1, (size_t)(to - from)) && to[1 + (to - from)] == ' ');
	}
	free(text);
	return n;
}

static void on_done(struct tracer_run *run)
{
	*(bool *)run->done_arg = true;
}

/* The readings since run->t0_raw_ns: how many events they are. */
static size_t gather(struct tracer_env *env, struct tracer *t, struct tracer_run *run)
{
	size_t n;

	*(bool *)run->done_arg = false;
	run->t1_raw_ns = now_raw_ns() + 1;
	tracer_metrics_ops.gather(t, run);
	RUN_UNTIL(env->loop, *(bool *)run->done_arg);
	CHECK_EQ(run->n_parts, 1);
	n = check_counters(&run->parts[0].bytes);
	buf_release(&run->parts[0].bytes);
	free(run->parts);
	run->parts = NULL;
	run->n_parts = 0;
	return n;
}

static void tracer_gives_one_line_of_counters(void)
{
	struct tracer_env env = { 0 };
	struct tracer_bed bed;
	bool done;
	struct tracer_run run = { .done = on_done, .done_arg = &done };
	struct tracer_state state;
	struct tracer *t;
	struct err e;

	CHECK_OK(loop_new(&env.loop, 1, &e), e);
	run.t0_raw_ns = now_raw_ns();
	tracer_bed_init(&bed, &tracer_metrics_ops, &env, "--metrics-hz=1");
	t = tracer_bed_open(&bed);
	tracer_metrics_ops.state(t, &state);
	CHECK_EQ(state.health, TRACER_OK);
	RUN_UNTIL(env.loop, gather(&env, t, &run) >= 3);
	CHECK_EQ(run.result, RUN_OK);

	/* A window from before the agent was there is said to be cut. */
	done = false;
	run = (struct tracer_run){ .t0_raw_ns = run.t0_raw_ns - 5 * NS_PER_S,
				   .t1_raw_ns = run.t1_raw_ns,
				   .done = on_done,
				   .done_arg = &done };
	tracer_metrics_ops.gather(t, &run);
	RUN_UNTIL(env.loop, done);
	CHECK_EQ(run.result, RUN_DEGRADED);
	CHECK_STR(run.reason, "window-cut");
	buf_release(&run.parts[0].bytes);
	free(run.parts);
	tracer_metrics_ops.free(t);
	tracer_bed_release(&bed);
	loop_free(env.loop);
}

static void wait_for_lock(void *arg)
{
	pthread_mutex_lock(arg);
	pthread_mutex_unlock(arg);
}

static void nothing(void *arg)
{
	(void)arg;
}

/* A worker reads: while the only one is busy the loop goes on, and no reading is made. */
static void readings_are_made_off_the_loop(void)
{
	struct tracer_env env = { 0 };
	struct tracer_bed bed;
	pthread_mutex_t busy;
	bool done = false;
	struct tracer_run run = { .done = on_done, .done_arg = &done };
	struct tracer *t;
	struct err e;
	char *text;

	CHECK_OK(loop_new(&env.loop, 1, &e), e);
	pthread_mutex_init(&busy, NULL);
	pthread_mutex_lock(&busy);
	loop_work(env.loop, wait_for_lock, nothing, &busy);
	run.t0_raw_ns = now_raw_ns();
	tracer_bed_init(&bed, &tracer_metrics_ops, &env, "--metrics-hz=100");
	t = tracer_bed_open(&bed);
	RUN_UNTIL(env.loop, now_raw_ns() > run.t0_raw_ns + 200 * NS_PER_MS);
	run.t1_raw_ns = now_raw_ns();
	pthread_mutex_unlock(&busy);
	RUN_UNTIL(env.loop, now_raw_ns() > run.t1_raw_ns + 50 * NS_PER_MS);
	tracer_metrics_ops.gather(t, &run);
	RUN_UNTIL(env.loop, done);
	CHECK_EQ(run.n_parts, 2); /* when none were made, and those that were */
	text = xspace_text(run.parts[0].bytes.data, run.parts[0].bytes.len);
	CHECK(strstr(text, "lost metrics"));
	CHECK_EQ(text_count(text, "{"), 1);
	free(text);
	text = xspace_text(run.parts[1].bytes.data, run.parts[1].bytes.len);
	CHECK_EQ(text_count(text, "{"), 0);
	free(text);
	for (size_t i = 0; i < run.n_parts; i++)
		buf_release(&run.parts[i].bytes);
	free(run.parts);
	tracer_metrics_ops.free(t);
	tracer_bed_release(&bed);
	loop_free(env.loop);
	pthread_mutex_destroy(&busy);
}

int main(void)
{
	root = temp_dir();
	make_dir("net");
	make_dir("pressure");
	recorded_texts_give_known_numbers();
	slow_files_are_read_twice_a_second();
	names_are_safe_for_viewers();
	tracer_gives_one_line_of_counters();
	readings_are_made_off_the_loop();
	return 0;
}
