/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/conform/tracer_conform.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/reasons.h"
#include "tests/lib/check.h"
#include "tests/lib/ring_file.h"
#include "tests/lib/run_until.h"
#include "tests/lib/temp_dir.h"
#include "tests/lib/tracer_bed.h"
#include "xspace/xspace.h"

#define WINDOW_NS   (150 * NS_PER_MS)
#define FEED_NS	    (5 * NS_PER_MS)
#define FAR_NS	    (60 * NS_PER_S)
#define PATIENCE_NS (20 * NS_PER_S) /* then a run is given up */
#define FILE_BYTES  (8 * 4096) /* of a ring's file: more than what was recorded before a window */
#define STEPS_MAX   16 /* of ops->limit; no rate can be halved as often */

struct bench {
	const struct tracer_subject *subject;
	struct tracer_bed bed;
	struct tracer *tracer;
	int64_t opened_raw_ns;
	const char *dir; /* of the runs */
};

/* One run as the agent makes it. */
struct
try {
	struct tracer_run run;
	struct bench *bench;
	int done;
	bool over; /* done or cancelled: `done` must not come any more */
	bool spool_full; /* reserve_bytes() refuses */
	uint64_t room;
};

/* ---- the agent's side ---- */

static void open_tracer(struct bench *b, const struct tracer_subject *s)
{
	*b = (struct bench){ .subject = s };
	b->dir = temp_dir();
	tracer_bed_init(&b->bed, s->ops, &s->env, s->flags);
	b->opened_raw_ns = now_raw_ns();
	b->tracer = tracer_bed_open(&b->bed);
	CHECK(b->tracer->ops == s->ops);
}

/* Each part file belongs to a part: a run leaves no other. */
static void check_empty(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	CHECK(dir);
	while ((entry = readdir(dir)))
		CHECK(entry->d_name[0] == '.');
	closedir(dir);
}

static void close_tracer(struct bench *b)
{
	b->tracer->ops->free(b->tracer);
	tracer_bed_release(&b->bed);
	check_empty(b->dir);
	temp_dir_remove(b->dir);
}

static void on_done(struct tracer_run *run)
{
	struct try *t = run->done_arg;

	CHECK(!t->over);
	t->over = true;
	t->done++;
}

static bool reserve_bytes(struct tracer_run *run, uint64_t bytes)
{
	struct try *t = run->done_arg;

	CHECK(!t->over);
	if (!t->spool_full)
		t->room += bytes;
	return !t->spool_full;
}

/* Times from now on. */
static void prepare(struct try *t, struct bench *b, int64_t from_ns, int64_t to_ns)
{
	int64_t raw, real;

	now_pair_ns(&raw, &real, NULL);
	*t = (struct try){ .bench = b };
	t->run = (struct tracer_run){
		.session = "2026_11_21_10_03_59_abcdef",
		.t0_raw_ns = raw + from_ns,
		.t1_raw_ns = raw + to_ns,
		.t0_real_ns = real + from_ns,
		.give_up_mono_ns = now_mono_ns() + to_ns + PATIENCE_NS,
		.dir = b->dir,
		.reserve_bytes = reserve_bytes,
		.done = on_done,
		.done_arg = t,
	};
}

/* False: the run is over; the reason is in its error. */
static bool arm(struct try *t)
{
	struct tracer *tracer = t->bench->tracer;
	struct err e = { 0 };

	if (!tracer->ops->arm || !tracer->ops->arm(tracer, &t->run, &e))
		return true;
	CHECK(e.code < 0 && *e.msg);
	t->over = true;
	return false;
}

static void stop_now(struct try *t)
{
	struct tracer *tracer = t->bench->tracer;

	t->run.t1_raw_ns = now_raw_ns();
	if (tracer->ops->stop)
		tracer->ops->stop(tracer, &t->run);
}

static void cancel(struct try *t)
{
	struct tracer *tracer = t->bench->tracer;

	CHECK(!t->over);
	t->over = true;
	tracer->ops->cancel(tracer, &t->run);
}

static void drop_parts(struct try *t)
{
	for (size_t i = 0; i < t->run.n_parts; i++) {
		buf_release(&t->run.parts[i].bytes);
		if (t->run.parts[i].path)
			unlink(t->run.parts[i].path);
		free(t->run.parts[i].path);
	}
	free(t->run.parts);
	t->run.parts = NULL;
	t->run.n_parts = 0;
}

static void give_up(struct try *t)
{
	struct tracer *tracer = t->bench->tracer;

	if (!tracer->ops->give_up) {
		cancel(t);
		return;
	}
	tracer->ops->give_up(tracer, &t->run);
	CHECK(t->over); /* done comes from inside */
}

static void gather(struct try *t)
{
	struct tracer *tracer = t->bench->tracer;
	int64_t end_ns = now_mono_ns() + PATIENCE_NS;

	tracer->ops->gather(tracer, &t->run);
	if (t->bench->subject->needs_give_up && !t->over)
		give_up(t);
	while (!t->over) {
		loop_turn(t->bench->subject->env.loop, RUN_TURN_MS);
		CHECK(now_mono_ns() < end_ns);
	}
}

/* Turns the loop for so long, and gives the tracer something to record meanwhile. */
static void record(struct bench *b, int64_t ns)
{
	int64_t end_ns = now_mono_ns() + ns;

	while (now_mono_ns() < end_ns) {
		if (b->subject->feed)
			b->subject->feed(b->subject->arg, now_raw_ns());
		run_for(b->subject->env.loop, FEED_NS);
	}
}

/* ---- what a run gives ---- */

struct reading {
	const struct tracer_run *run;
	int64_t line_ns;
	uint64_t events;
};

static int on_line(void *arg, const struct xs_line *line)
{
	((struct reading *)arg)->line_ns = line->timestamp_ns;
	return 0;
}

static int on_event(void *arg, const struct xs_event *event)
{
	struct reading *r = arg;
	int64_t at_ns = r->line_ns + event->offset_ps / 1000;

	if (event->is_aggregate)
		return 0;
	r->events++;
	CHECK(at_ns >= r->run->t0_raw_ns && at_ns < r->run->t1_raw_ns);
	CHECK(event->duration_ps >= 0);
	return 0;
}

/* The tracer's own planes are cut to the window. A foreign process's are checked by the merge. */
static uint64_t check_part(const struct tracer_run *run, const struct tracer_part *part)
{
	const struct xs_visitor v = { .line_begin = on_line, .event = on_event };
	struct reading r = { .run = run };
	struct xs_source src = xs_source_memory(part->bytes.data, part->bytes.len);
	struct err e;

	if (part->path)
		CHECK(!strncmp(part->path, run->dir, strlen(run->dir)));
	if (part->base == PART_REAL)
		CHECK(part->start_real_ns > 0);
	if (part->base != PART_RAW || part->path)
		return 0;
	CHECK_OK(xs_read(&src, &v, &r, &e), e);
	return r.events;
}

/* Returns the number of events in its own planes. */
static uint64_t check_run(const struct try *t)
{
	const struct tracer_run *run = &t->run;
	struct tracer_state state = { 0 };
	uint64_t events = 0;

	CHECK_EQ(t->done, 1);
	t->bench->tracer->ops->state(t->bench->tracer, &state);
	CHECK(run->result >= RUN_OK && run->result <= RUN_OFF);
	if (run->result == RUN_OK) {
		CHECK_STR(run->reason, "");
	} else {
		CHECK(reason_find(run->reason));
		CHECK(*run->detail);
	}
	if (state.health == TRACER_OFF)
		CHECK(run->result == RUN_OFF || !run->n_parts);
	if (run->result == RUN_OFF)
		CHECK(!run->n_parts);
	for (size_t i = 0; i < run->n_parts; i++)
		events += check_part(run, &run->parts[i]);
	return events;
}

static uint64_t check_and_drop(struct try *t)
{
	uint64_t events = t->done ? check_run(t) : 0;

	drop_parts(t);
	return events;
}

/* ---- the contract ---- */

static void the_table_is_whole(const struct tracer_subject *s)
{
	const struct tracer_ops *ops = s->ops;

	CHECK(ops->name && *ops->name && !strpbrk(ops->name, "., \t\n"));
	CHECK(strcmp(ops->name, "advanced"));
	CHECK(ops->open && ops->state && ops->gather && ops->cancel && ops->free);
	CHECK(!ops->conf == !ops->conf_size);
	for (const struct setting *a = ops->settings; a && a->name; a++) {
		CHECK(a->min <= a->value && a->value <= a->max);
		CHECK(a->kind != SETTING_BOOL || (a->min == 0 && a->max == 1));
		CHECK(*a->help && a->help[strlen(a->help) - 1] != '.');
		for (const struct setting *other = ops->settings; other < a; other++)
			CHECK(strcmp(a->name, other->name));
	}
}

/* Never a failure to open for lack of a permission: the state has the reason. */
static void the_state_has_a_reason(struct bench *b)
{
	struct tracer_state state = { 0 };

	b->tracer->ops->state(b->tracer, &state);
	CHECK(state.health <= TRACER_OFF);
	CHECK(!*state.reason == (state.health == TRACER_OK));
	printf("%s: %s%s%s\n", b->subject->ops->name, tracer_health_name(state.health),
	       *state.reason ? ": " : "", state.reason);
}

static void a_window_ahead_is_recorded(struct bench *b)
{
	struct try t;

	prepare(&t, b, 20 * NS_PER_MS, 20 * NS_PER_MS + WINDOW_NS);
	if (!arm(&t))
		return;
	record(b, 20 * NS_PER_MS + WINDOW_NS + 10 * NS_PER_MS);
	gather(&t);
	printf("  %llu events in a window ahead\n", (unsigned long long)check_and_drop(&t));
}

/* A ring gives the past; without the beginning it says so. */
static void a_window_behind_is_cut(struct bench *b, int64_t from_ns, int64_t to_ns)
{
	struct tracer_state state = { 0 };
	struct try t;

	b->tracer->ops->state(b->tracer, &state);
	prepare(&t, b, from_ns, to_ns);
	t.run.t0_raw_ns = b->opened_raw_ns + from_ns;
	t.run.t1_raw_ns = b->opened_raw_ns + to_ns;
	if (!arm(&t))
		return;
	gather(&t);
	check_and_drop(&t);
	if (!t.done || !b->subject->ops->begin_raw_ns || state.health == TRACER_OFF)
		return;
	if (b->subject->ops->begin_raw_ns(b->tracer) > t.run.t0_raw_ns + NS_PER_S) {
		CHECK_EQ(t.run.result, RUN_DEGRADED);
		CHECK_STR(t.run.reason, REASON_WINDOW_CUT);
	}
}

static void a_run_stops_early(struct bench *b, bool before_t0)
{
	struct try t;

	prepare(&t, b, before_t0 ? FAR_NS : 0, 2 * FAR_NS);
	if (!arm(&t))
		return;
	record(b, before_t0 ? 0 : WINDOW_NS);
	if (before_t0)
		t.run.t0_raw_ns = now_raw_ns(); /* an empty window */
	stop_now(&t);
	gather(&t);
	check_and_drop(&t);
}

/* What is there by then is kept, what is not is no reason to wait. */
static void a_run_is_given_up(struct bench *b, int turns)
{
	struct try t;

	prepare(&t, b, 0, WINDOW_NS);
	if (!arm(&t))
		return;
	record(b, WINDOW_NS);
	b->tracer->ops->gather(b->tracer, &t.run);
	for (int i = 0; i < turns && !t.over; i++)
		loop_turn(b->subject->env.loop, 0);
	if (!t.over)
		give_up(&t);
	check_and_drop(&t);
}

enum point { ARMED, STOPPED, GATHERING, POINTS = GATHERING + 6 };

/* From GATHERING on: so many turns of the loop after gather(). */
static void a_run_is_cancelled(struct bench *b, int point)
{
	struct try t;

	prepare(&t, b, -WINDOW_NS / 2, point == ARMED ? FAR_NS : WINDOW_NS / 2);
	if (!arm(&t))
		return;
	record(b, WINDOW_NS / 2);
	if (point == STOPPED)
		stop_now(&t);
	if (point >= GATHERING)
		b->tracer->ops->gather(b->tracer, &t.run);
	for (int i = GATHERING; i < point && !t.over; i++)
		loop_turn(b->subject->env.loop, 0);
	if (!t.over)
		cancel(&t);
	/* A worker that was busy with it ends; `done` must not come. */
	run_for(b->subject->env.loop, 20 * NS_PER_MS);
	drop_parts(&t);
}

/* Each has its own data; the end of one is nothing to the other. */
static void two_runs_at_once(struct bench *b)
{
	struct try first, second, third;
	bool armed;

	prepare(&first, b, 0, WINDOW_NS);
	armed = arm(&first);
	record(b, WINDOW_NS / 2);
	prepare(&second, b, -WINDOW_NS / 4, WINDOW_NS / 2);
	prepare(&third, b, -WINDOW_NS / 4, WINDOW_NS / 2);
	if (!arm(&second) || !arm(&third) || !armed) {
		if (!first.over)
			cancel(&first);
		if (!second.over)
			cancel(&second);
		return;
	}
	record(b, WINDOW_NS / 2 + 10 * NS_PER_MS);
	b->tracer->ops->gather(b->tracer, &third.run);
	gather(&first);
	if (!third.over)
		cancel(&third);
	gather(&second);
	check_and_drop(&first);
	check_and_drop(&second);
	drop_parts(&third);
}

/* Each step down, and each back; it goes on recording as before. */
static void steps_are_taken_back(struct bench *b)
{
	const struct tracer_ops *ops = b->subject->ops;
	unsigned int step = 0;

	while (ops->limit && step < STEPS_MAX && ops->limit(b->tracer, step + 1))
		step++;
	CHECK(step < STEPS_MAX);
	if (!step)
		return;
	printf("  %u steps down\n", step);
	a_window_ahead_is_recorded(b);
	while (step)
		CHECK(ops->limit(b->tracer, --step));
	a_window_ahead_is_recorded(b);
}

/* The ring's file is damaged while a run has records in it: they are counted, and the run is not complete without saying so.
 * The file has to grow twice as far as a ring in memory: it has room where earlier runs had records, and what arrives first may be older than
 * the window. */
static void damage_of_the_file_is_counted(const struct tracer_subject *small)
{
	int64_t end_ns = now_mono_ns() + 3 * NS_PER_S;
	off_t least;
	struct bench b;
	struct try t;
	int fd = -1;

	open_tracer(&b, small);
	prepare(&t, &b, 0, FAR_NS);
	least = ring_file_size(b.dir) + 2 * FILE_BYTES;
	if (arm(&t)) {
		while ((fd = ring_file_of(b.dir, least)) < 0 && now_mono_ns() < end_ns)
			record(&b, WINDOW_NS);
		if (fd >= 0)
			ring_file_break(fd);
		stop_now(&t);
		gather(&t);
		CHECK(fd < 0 || t.run.lost > 0);
		if (fd >= 0)
			printf("  %llu records of the file lost and counted\n",
			       (unsigned long long)t.run.lost);
		check_and_drop(&t);
	}
	close_tracer(&b);
}

/* With a ring that is too small and no room for a file, the missing records are counted. A run that was
 * cancelled before takes no room any more. */
static void losses_are_counted(const struct tracer_subject *s)
{
	bool is_filled;
	struct tracer_subject small = *s;
	int64_t end_ns = now_mono_ns() + 3 * NS_PER_S;
	struct bench b;
	struct try t, gone;

	if (!s->ops->begin_raw_ns)
		return;
	small.env.ring.bytes = RING_BYTES_MIN;
	open_tracer(&b, &small);
	prepare(&gone, &b, 0, FAR_NS);
	if (arm(&gone))
		cancel(&gone);
	prepare(&t, &b, 0, FAR_NS);
	t.spool_full = true;
	if (!arm(&t)) {
		close_tracer(&b);
		return;
	}
	while (s->ops->begin_raw_ns(b.tracer) <= t.run.t0_raw_ns && now_mono_ns() < end_ns)
		record(&b, WINDOW_NS);
	stop_now(&t);
	gather(&t);
	is_filled = s->ops->begin_raw_ns(b.tracer) > t.run.t0_raw_ns;
	if (t.done && t.run.result != RUN_OFF && is_filled) {
		CHECK_EQ(t.run.result, RUN_DEGRADED);
		CHECK(t.run.lost > 0);
		printf("  %llu records lost and counted\n", (unsigned long long)t.run.lost);
	}
	is_filled &= t.done && t.run.result != RUN_OFF;
	check_and_drop(&t);
	close_tracer(&b);
	if (is_filled)
		damage_of_the_file_is_counted(&small);
}

void tracer_conform(const struct tracer_subject *s)
{
	struct bench b;

	the_table_is_whole(s);
	open_tracer(&b, s);
	the_state_has_a_reason(&b);
	a_window_ahead_is_recorded(&b);
	a_window_behind_is_cut(&b, -10 * NS_PER_S, -5 * NS_PER_S); /* before all that it has */
	a_window_behind_is_cut(&b, -5 * NS_PER_S, WINDOW_NS); /* across its beginning */
	a_run_stops_early(&b, false);
	a_run_stops_early(&b, true);
	for (int turns = 0; turns < 3; turns++)
		a_run_is_given_up(&b, turns);
	for (int point = ARMED; point < POINTS; point++)
		a_run_is_cancelled(&b, point);
	two_runs_at_once(&b);
	steps_are_taken_back(&b);
	close_tracer(&b);
	losses_are_counted(s);
	/* Closed while the worker of a cancelled run is busy. */
	open_tracer(&b, s);
	a_run_is_given_up(&b, 0);
	close_tracer(&b);
}
