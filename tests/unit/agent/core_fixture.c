/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/agent/core_fixture.h"

#include <unistd.h>

#include "agent/capture/spool.h"
#include "agent/clock/clock.h"
#include "agent/marks/marks.h"
#include "agent/tracer/set.h"
#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/check.h"
#include "tests/lib/run_until.h"
#include "tests/lib/temp_dir.h"
#include "xspace/xspace.h"

struct fake_counts fake_counts;

/* ---- shared by all fakes ---- */

static int fake_open(const struct tracer_ops *ops, struct tracer **out,
		     const struct tracer_env *env)
{
	CHECK(env->loop && env->host && !env->conf);
	*out = xcalloc(1, sizeof(**out));
	(*out)->ops = ops;
	return 0;
}

static void fake_state(const struct tracer *t, struct tracer_state *out)
{
	(void)t;
	*out = (struct tracer_state){ .health = TRACER_OK };
}

static int fake_arm(struct tracer *t, struct tracer_run *run, struct err *e)
{
	(void)t;
	(void)e;
	CHECK(run->t0_raw_ns <= run->t1_raw_ns && *run->dir == '/');
	fake_counts.armed++;
	return 0;
}

static void fake_stop(struct tracer *t, struct tracer_run *run)
{
	(void)t;
	CHECK(run->t1_raw_ns >= run->t0_raw_ns);
	fake_counts.stopped++;
}

static void fake_cancel(struct tracer *t, struct tracer_run *run)
{
	(void)t;
	free(run->arg);
	run->arg = NULL;
	fake_counts.cancelled++;
}

static void fake_free(struct tracer *t)
{
	free(t);
}

/* What a capture may set of each. */
static const struct setting fake_settings[] = { { "level", SETTING_INT, 0, 9, 4, "how much" },
						{ "loud", SETTING_BOOL, 0, 1, 0, "whether" },
						{ 0 } };

#define FAKE(fake, word, arm_fn, gather_fn, cancel_fn, give_up_fn) \
	static int fake##_open(struct tracer **out, const struct tracer_env *env, struct err *e) \
	{ \
		(void)e; \
		return fake_open(&fake##_ops, out, env); \
	} \
	const struct tracer_ops fake##_ops = { \
		.name = word, \
		.host_level = 1, \
		.settings = fake_settings, \
		.open = fake##_open, \
		.state = fake_state, \
		.arm = arm_fn, \
		.stop = fake_stop, \
		.gather = gather_fn, \
		.give_up = give_up_fn, \
		.cancel = cancel_fn, \
		.free = fake_free, \
	}

/* The run reaches beyond the window on both sides: its middle is in the window. */
static int64_t in_window_ps(const struct tracer_run *run)
{
	return (run->t1_raw_ns - run->t0_raw_ns) / 2 * 1000;
}

/* ---- now ---- */

static void now_gather(struct tracer *t, struct tracer_run *run)
{
	struct tracer_part *part = tracer_run_add_part(run);
	struct xs_builder *b = xs_builder_new();

	fake_counts.gathered++;
	fake_counts.t0_raw_ns = run->t0_raw_ns;
	fake_counts.t1_raw_ns = run->t1_raw_ns;
	fake_counts.level = tracer_run_setting(run, t->ops, "level");
	fake_counts.loud = tracer_run_setting(run, t->ops, "loud") != 0;
	xs_plane(b, 1, "/host:CPU");
	xs_line(b, 7, "fake", run->t0_raw_ns);
	xs_event(b, "first", in_window_ps(run), 1000);
	xs_event(b, "second", in_window_ps(run) + 5000, 1000);
	xs_finish(b, &part->bytes);
	xs_builder_free(b);
	part->base = PART_RAW;
	run->lost = 3;
	run->done(run);
}
FAKE(fake_now, "now", fake_arm, now_gather, fake_cancel, NULL);

/* ---- later ---- */

/* Posted to the loop; run is NULL after a cancel. */
struct letter {
	struct tracer_run *run;
};

static void later_done(void *arg)
{
	struct letter *letter = arg;

	if (letter->run) {
		letter->run->arg = NULL;
		letter->run->done(letter->run);
	}
	free(letter);
}

static void later_cancel(struct tracer *t, struct tracer_run *run)
{
	struct letter *letter = run->arg;

	if (letter)
		letter->run = NULL;
	run->arg = NULL;
	fake_cancel(t, run);
}

/* "later" needs the loop. */
static struct loop *later_loop;

static void later_gather(struct tracer *t, struct tracer_run *run)
{
	struct tracer_part *part = tracer_run_add_part(run);
	struct xs_builder *b = xs_builder_new();
	struct letter *letter = xmalloc(sizeof(*letter));
	struct buf bytes = BUF_INIT;
	FILE *f;

	(void)t;
	fake_counts.gathered++;
	xs_plane(b, 1, "/host:CPU");
	xs_line(b, 8, "process", 0);
	xs_event(b, "inside", in_window_ps(run), 1000);
	xs_event(b, "outside", INT64_C(3600000000000000), 1000);
	xs_finish(b, &bytes);
	xs_builder_free(b);
	CHECK(run->reserve_bytes(run, bytes.len));
	part->path = xasprintf("%s/later.part", run->dir);
	f = fopen(part->path, "wbe");
	CHECK(f && fwrite(bytes.data, 1, bytes.len, f) == bytes.len && !fclose(f));
	buf_release(&bytes);
	part->base = PART_REAL;
	part->start_real_ns = run->t0_real_ns;
	part->pid = 4711;
	snprintf(part->label, sizeof(part->label), "jax 4711");
	letter->run = run;
	run->arg = letter;
	loop_post(later_loop, later_done, letter);
}
FAKE(fake_later, "later", fake_arm, later_gather, later_cancel, NULL);

/* ---- slow ---- */

static void slow_gather(struct tracer *t, struct tracer_run *run)
{
	(void)t;
	(void)run;
}

static void slow_give_up(struct tracer *t, struct tracer_run *run)
{
	tracer_run_set_result(run, RUN_DEGRADED, "profiler-timeout", "one of two is missing");
	now_gather(t, run);
}
FAKE(fake_slow, "slow", fake_arm, slow_gather, fake_cancel, slow_give_up);

/* ---- silent, broken, off, bad ---- */

static void silent_gather(struct tracer *t, struct tracer_run *run)
{
	(void)t;
	run->arg = xmalloc(1); /* a leak unless cancel() comes */
	fake_counts.gathered++;
}
FAKE(fake_silent, "silent", fake_arm, silent_gather, fake_cancel, NULL);

static int broken_arm(struct tracer *t, struct tracer_run *run, struct err *e)
{
	(void)t;
	(void)run;
	return err_set(e, ERR_DENIED, "needs CAP_PERFMON");
}
FAKE(fake_broken, "broken", broken_arm, silent_gather, fake_cancel, NULL);

static void off_gather(struct tracer *t, struct tracer_run *run)
{
	(void)t;
	tracer_run_set_result(run, RUN_OFF, "unsupported", "not on this machine");
	run->done(run);
}
FAKE(fake_off, "off", fake_arm, off_gather, fake_cancel, NULL);

static void bad_gather(struct tracer *t, struct tracer_run *run)
{
	struct tracer_part *part = tracer_run_add_part(run);

	(void)t;
	buf_add_str(&part->bytes, "\x0a\xff\xff\xff\x7fthis is no XSpace");
	part->base = PART_REAL;
	part->start_real_ns = run->t0_real_ns;
	part->pid = 4711;
	snprintf(part->label, sizeof(part->label), "torch 4711");
	run->done(run);
}
FAKE(fake_bad, "bad", fake_arm, bad_gather, fake_cancel, NULL);

/* ---- big ---- */

static void big_gather(struct tracer *t, struct tracer_run *run)
{
	struct tracer_part *part = tracer_run_add_part(run);
	struct xs_builder *b = xs_builder_new();
	const size_t len = 1000000;
	uint8_t *blob = xmalloc(len);

	(void)t;
	memset(blob, 'x', len);
	xs_plane(b, 1, "/host:CPU");
	xs_line(b, 7, "fake", run->t0_raw_ns);
	for (int i = 0; i < 9; i++) {
		xs_event(b, "blob", in_window_ps(run) + i * 1000, 1);
		xs_stat_bytes(b, "bytes", blob, len);
	}
	xs_finish(b, &part->bytes);
	xs_builder_free(b);
	free(blob);
	part->base = PART_RAW;
	run->done(run);
}
FAKE(fake_big, "big", fake_arm, big_gather, fake_cancel, NULL);

/* ---- many ---- */

static void many_gather(struct tracer *t, struct tracer_run *run)
{
	struct xs_builder *b = xs_builder_new();
	static uint8_t blob[30000];

	(void)t;
	for (int i = 0; i < 3; i++) {
		struct tracer_part *part = tracer_run_add_part(run);

		memset(blob, 'a' + i, sizeof(blob));
		xs_plane(b, 1 + i, "/host:CPU");
		xs_line(b, 7, "fake", run->t0_raw_ns);
		xs_event(b, "blob", in_window_ps(run), 1);
		xs_stat_bytes(b, "bytes", blob, sizeof(blob));
		xs_finish(b, &part->bytes);
		part->base = PART_RAW;
	}
	xs_builder_free(b);
	run->done(run);
}
FAKE(fake_many, "many", fake_arm, many_gather, fake_cancel, NULL);

/* ---- the fixture ---- */

void fixture_up(struct fixture *f, const struct tracer_ops *const *ops, uint64_t limit_bytes)
{
	struct clock_conf clock_conf = { 0 };
	struct tracer_env env = { 0 };
	struct err e;

	memset(f, 0, sizeof(*f));
	fake_counts = (struct fake_counts){ 0 };
	f->dir = xstrdup(temp_dir());
	f->spool_dir = xasprintf("%s/deep/spool", f->dir);
	CHECK_OK(loop_new(&f->loop, 2, &e), e);
	later_loop = f->loop;
	CHECK_OK(spool_open(&f->spool, f->spool_dir, limit_bytes, &e), e);
	clock_conf.loop = f->loop;
	CHECK_OK(clock_new(&f->clock, &clock_conf, &e), e);
	f->marks = marks_new(&(struct ring_limits){ 0 }, now_raw_ns());
	env.loop = f->loop;
	env.host = "host-a";
	env.marks = f->marks;
	f->driver_confs = tracer_confs_new(ops);
	CHECK_OK(tracer_set_open(&f->tracers, ops, NULL, f->driver_confs, &env, &e), e);
	fixture_new_captures(f);
}

void fixture_new_captures(struct fixture *f)
{
	const struct capture_env env = {
		.loop = f->loop,
		.clock = f->clock,
		.spool = f->spool,
		.marks = f->marks,
		.tracers = f->tracers,
		.host = "host-a",
		.file_limit_bytes = f->file_limit_bytes,
	};

	f->captures = captures_new(&env);
}

void fixture_down(struct fixture *f)
{
	captures_free(f->captures);
	tracer_set_close(f->tracers);
	tracer_confs_free(f->driver_confs);
	marks_free(f->marks);
	clock_free(f->clock);
	spool_free(f->spool);
	loop_free(f->loop);
	temp_dir_remove(f->dir);
	free(f->spool_dir);
	free(f->dir);
}

void fixture_until(struct fixture *f, bool (*done)(void *arg), void *arg)
{
	RUN_UNTIL(f->loop, done(arg));
}
