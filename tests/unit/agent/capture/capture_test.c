/* SPDX-License-Identifier: Apache-2.0 */
/* Captures over tracers that answer at once, later, never, badly, or refuse. */
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/clock/clock.h"
#include "agent/capture/spool.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/tensorflow/profiler_options.pb-c.h"
#include "tests/lib/check.h"
#include "tests/lib/xspace_text.h"
#include "tests/unit/agent/core_fixture.h"
#include "xspace/xspace.h"

#define SESSION "2026_11_21_12_00_00_abc123"

static const struct tracer_ops *const all_fakes[] = {
	&fake_now_ops,
	&fake_later_ops,
	&fake_silent_ops,
	&fake_broken_ops,
	&fake_off_ops,
	&fake_bad_ops,
	NULL,
};
static const struct tracer_ops *const good_fakes[] = { &fake_now_ops, &fake_later_ops, NULL };

/* The states that `changed` got. */
struct seen {
	enum capture_state states[8];
	int n;
};

static void on_changed(struct capture *c, enum capture_state state, void *arg)
{
	struct seen *s = arg;

	CHECK(c && s->n < 8);
	s->states[s->n++] = state;
}

static bool is_over(void *arg)
{
	const struct seen *s = arg;

	return s->n && s->states[s->n - 1] >= CAPTURE_READY;
}

static bool is_running(void *arg)
{
	const struct seen *s = arg;

	return s->n > 0;
}

static struct capture_request request(struct fixture *f, struct seen *seen)
{
	struct clock_model m = clock_model(f->clock);
	int64_t now = clock_model_session_of_raw(&m, now_raw_ns());

	return (struct capture_request){
		.session = SESSION,
		.t0_ns = now + 2 * NS_PER_MS,
		.duration_ns = 8 * NS_PER_MS,
		.give_up_ns = now + 60 * NS_PER_MS,
		.profile_options = "\x10\x02",
		.profile_options_len = 2,
		.changed = on_changed,
		.arg = seen,
	};
}

/* ---- reading the file ---- */

/* The caller frees it. */
static char *read_capture(const struct capture *c)
{
	char *text = xspace_text_of_file(capture_path(c));
	struct stat st;

	CHECK(!stat(capture_path(c), &st));
	CHECK_EQ(st.st_size, capture_bytes(c));
	return text;
}

/* Session time: T0 is zero, whatever clock the tracer stamped with. */
static void check_near_t0(const char *text)
{
	size_t lines = 0;

	for (const char *at = text; (at = strstr(at, " @")); at++, lines++)
		CHECK(llabs(strtoll(at + 2, NULL, 10)) < 5 * NS_PER_MS);
	CHECK(lines <= text_count(text, " #"));
}

/* ---- tests ---- */

static const struct capture_report *report_of(const struct capture *c, const char *tracer)
{
	const struct capture_report *r;
	size_t n;

	r = capture_reports(c, &n);
	for (size_t i = 0; i < n; i++) {
		if (!strcmp(r[i].tracer, tracer))
			return &r[i];
	}
	CHECK(!"no such report");
	return NULL;
}

/* Parts take space of the spool, and no more than there is. */
static void greedy_gather(struct tracer *t, struct tracer_run *run)
{
	CHECK(!run->reserve_bytes(run, (1 << 20) + 1));
	CHECK(run->reserve_bytes(run, 1 << 19));
	CHECK(!run->reserve_bytes(run, (1 << 19) + 1));
	fake_now_ops.gather(t, run);
}

static void test_parts_fill_the_spool(void)
{
	static const struct tracer_ops *const one[] = { &fake_now_ops, NULL };
	struct tracer_ops greedy = fake_now_ops;
	struct seen seen = { 0 };
	struct fixture f;
	struct capture_request req;
	struct capture *c;
	struct err e;

	greedy.gather = greedy_gather;
	fixture_up(&f, one, 1 << 20);
	f.tracers[0]->ops = &greedy;
	req = request(&f, &seen);
	CHECK_OK(capture_start(f.captures, &req, &c, &e), e);
	fixture_until(&f, is_over, &seen);
	CHECK_EQ(spool_available(f.spool), (1 << 20) - (int64_t)capture_bytes(c));
	fixture_down(&f);
}

/* Asked for late, a tracer still has a moment to gather in. */
static void test_asked_late(void)
{
	static const struct tracer_ops *const slow[] = { &fake_slow_ops, NULL };
	struct seen seen = { 0 };
	struct fixture f;
	struct capture_request req;
	struct capture *c;
	int64_t began_ns;
	struct err e;

	fixture_up(&f, slow, 1 << 20);
	req = request(&f, &seen);
	req.t0_ns -= 2 * NS_PER_S;
	req.give_up_ns = req.t0_ns + req.duration_ns;
	began_ns = now_mono_ns();
	CHECK_OK(capture_start(f.captures, &req, &c, &e), e);
	fixture_until(&f, is_over, &seen);
	CHECK(now_mono_ns() - began_ns >= 100 * NS_PER_MS);
	CHECK(now_mono_ns() - began_ns < NS_PER_S);
	fixture_down(&f);
}

static void test_whole_life(void)
{
	struct seen seen = { 0 };
	struct fixture f;
	struct capture_request req;
	struct capture *c;
	char *path, *text;
	struct err e;

	fixture_up(&f, good_fakes, 1 << 20);
	req = request(&f, &seen);
	CHECK_OK(capture_start(f.captures, &req, &c, &e), e);
	CHECK_EQ(seen.n, 0);
	CHECK_STR(capture_session(c), SESSION);
	CHECK_EQ(capture_start(f.captures, &req, &c, &e), ERR_EXISTS);
	fixture_until(&f, is_over, &seen);
	CHECK_EQ(seen.n, 4);
	CHECK_EQ(seen.states[0], CAPTURE_RUNNING);
	CHECK_EQ(seen.states[1], CAPTURE_GATHERING);
	CHECK_EQ(seen.states[2], CAPTURE_ASSEMBLING);
	CHECK_EQ(seen.states[3], CAPTURE_READY);
	text = read_capture(c);
	check_near_t0(text);
	CHECK_EQ(text_count(text, " first "), 1);
	CHECK_EQ(text_count(text, " second "), 1);
	CHECK_EQ(text_count(text, " inside "), 1);
	CHECK_EQ(text_count(text, " outside "), 0);
	CHECK_EQ(text_count(text, "warning now: 3 records"), 1);
	CHECK_EQ(text_count(text, "\nhost host-a\n"), 1);
	free(text);
	CHECK_EQ(capture_events(c), 3);
	CHECK_STR(report_of(c, "now")->state, "ok");
	CHECK_EQ(report_of(c, "now")->lost, 3);
	CHECK(!capture_clock(c)->calibrated);
	CHECK_EQ(spool_available(f.spool), (1 << 20) - (int64_t)capture_bytes(c));
	path = xstrdup(capture_path(c));
	capture_release(c);
	CHECK(access(path, F_OK));
	CHECK_EQ(spool_available(f.spool), 1 << 20);
	free(path);
	fixture_down(&f);
}

static void test_bad_tracers(void)
{
	struct seen seen = { 0 };
	struct fixture f;
	struct capture_request req;
	struct capture *c;
	char *text;
	struct err e;

	fixture_up(&f, all_fakes, 1 << 20);
	req = request(&f, &seen);
	req.give_up_ns += 300 * NS_PER_MS; /* time for the other tracers on a busy machine */
	CHECK_OK(capture_start(f.captures, &req, &c, &e), e);
	fixture_until(&f, is_over, &seen);
	CHECK_EQ(seen.states[seen.n - 1], CAPTURE_READY);
	CHECK_STR(report_of(c, "silent")->state, "failed");
	CHECK_STR(report_of(c, "silent")->reason, "tracer-failed");
	CHECK(strstr(report_of(c, "silent")->detail, "timeout"));
	CHECK_STR(report_of(c, "broken")->state, "failed");
	CHECK_STR(report_of(c, "broken")->reason, "no-permission");
	CHECK_STR(report_of(c, "broken")->detail, "needs CAP_PERFMON");
	CHECK_STR(report_of(c, "off")->state, "off");
	CHECK_STR(report_of(c, "bad")->state, "degraded");
	CHECK_STR(report_of(c, "bad")->reason, "profiler-failed");
	CHECK_EQ(fake_counts.cancelled, 1);
	text = read_capture(c);
	check_near_t0(text);
	CHECK_EQ(text_count(text, " first "), 1);
	CHECK_EQ(text_count(text, " inside "), 1);
	CHECK_EQ(text_count(text, "left out"), 1);
	free(text);
	capture_release(c);
	fixture_down(&f);
}

/* When a tracer is given up, its part and its report are kept. */
static void test_given_up(void)
{
	static const struct tracer_ops *const fakes[] = { &fake_slow_ops, &fake_silent_ops, NULL };
	struct seen seen = { 0 };
	struct fixture f;
	struct capture_request req;
	struct capture *c;
	struct err e;

	fixture_up(&f, fakes, 1 << 20);
	req = request(&f, &seen);
	CHECK_OK(capture_start(f.captures, &req, &c, &e), e);
	fixture_until(&f, is_over, &seen);
	CHECK_EQ(seen.states[seen.n - 1], CAPTURE_READY);
	CHECK_STR(report_of(c, "slow")->state, "degraded");
	CHECK_STR(report_of(c, "slow")->reason, "profiler-timeout");
	CHECK_STR(report_of(c, "silent")->state, "failed");
	CHECK_EQ(capture_events(c), 2);
	CHECK_EQ(fake_counts.cancelled, 1);
	capture_release(c);
	fixture_down(&f);
}

static void test_named_tracers(void)
{
	const char *const one[] = { "now", NULL };
	const char *const unknown[] = { "now", "nvml", NULL };
	struct seen seen = { 0 };
	struct fixture f;
	struct capture_request req;
	struct capture *c;
	struct err e;
	size_t n;

	fixture_up(&f, all_fakes, 1 << 20);
	req = request(&f, &seen);
	req.tracers = unknown;
	CHECK_EQ(capture_start(f.captures, &req, &c, &e), ERR_INVALID);
	CHECK(strstr(e.msg, "nvml"));
	req.tracers = one;
	CHECK_OK(capture_start(f.captures, &req, &c, &e), e);
	fixture_until(&f, is_over, &seen);
	capture_reports(c, &n);
	CHECK_EQ(n, 1);
	CHECK_EQ(capture_events(c), 2);
	fixture_down(&f); /* releases it */
}

/* A run has the values of its own tracer; names that no tracer lists are ignored. */
static size_t runs_at_level(struct fixture *f, unsigned int level)
{
	Tensorflow__ProfileOptions m = TENSORFLOW__PROFILE_OPTIONS__INIT;
	struct seen seen = { 0 };
	struct capture_request req = request(f, &seen);
	struct capture *c;
	uint8_t bytes[64];
	struct err e;
	size_t n;

	m.version = 1;
	m.host_tracer_level = level;
	req.profile_options = bytes;
	req.profile_options_len = tensorflow__profile_options__pack(&m, bytes);
	CHECK_OK(capture_start(f->captures, &req, &c, &e), e);
	fixture_until(f, is_over, &seen);
	capture_reports(c, &n);
	capture_release(c);
	return n;
}

/* The fakes are of level 1. */
static void test_host_level(void)
{
	struct fixture f;

	fixture_up(&f, good_fakes, 1 << 20);
	CHECK_EQ(runs_at_level(&f, 0), 0);
	CHECK(runs_at_level(&f, 1) > 1);
	CHECK_EQ(runs_at_level(&f, 3), runs_at_level(&f, 1));
	fixture_down(&f);
}

/* Whether tracers of these kinds take part with these levels. */
static void check_levels(unsigned int host, unsigned int device, unsigned int python,
			 bool sets_python, bool has_device, bool has_python)
{
	const struct tracer_ops *const two[] = { &fake_now_ops, &fake_later_ops, NULL };
	const struct tracer_setting given = { "python_tracer_level", "0" };
	struct tracer_ops ops[] = { fake_now_ops, fake_later_ops };
	Tensorflow__ProfileOptions m = TENSORFLOW__PROFILE_OPTIONS__INIT;
	const struct capture_report *reports;
	struct seen seen = { 0 };
	struct capture_request req;
	struct capture *c;
	struct fixture f;
	uint8_t bytes[64];
	size_t n, at = 0;
	struct err e;

	fixture_up(&f, two, 1 << 20);
	for (int i = 0; i < 2; i++) {
		ops[i].host_level = 2;
		ops[i].other_level = i ? LEVEL_PYTHON : LEVEL_DEVICE;
		f.tracers[i]->ops = &ops[i];
	}
	req = request(&f, &seen);
	m.version = 1;
	m.host_tracer_level = host;
	m.device_tracer_level = device;
	m.python_tracer_level = python;
	req.profile_options = bytes;
	req.profile_options_len = tensorflow__profile_options__pack(&m, bytes);
	req.settings = &given;
	req.n_settings = sets_python;
	CHECK_OK(capture_start(f.captures, &req, &c, &e), e);
	fixture_until(&f, is_over, &seen);
	reports = capture_reports(c, &n);
	CHECK_EQ(n, (size_t)has_device + has_python);
	if (has_device)
		CHECK_STR(reports[at++].tracer, "now");
	if (has_python)
		CHECK_STR(reports[at++].tracer, "later");
	capture_release(c);
	fixture_down(&f);
}

static void test_other_levels(void)
{
	check_levels(2, 1, 0, false, true, true); /* what stock clients send */
	check_levels(2, 0, 0, false, false, true);
	check_levels(2, 1, 0, true, true, false);
	check_levels(0, 1, 0, false, false, false);
	check_levels(0, 3, 1, false, false, true);
	check_levels(1, 1, 1, true, false, true);
}

/* A tracer that recorded less in the window says so; one that did so before does not. */
static void test_limited(void)
{
	const struct capture_report *reports;
	struct seen seen = { 0 };
	struct capture_request req;
	struct capture *c;
	struct fixture f;
	struct err e;
	size_t n;

	fixture_up(&f, good_fakes, 1 << 20);
	f.tracers[0]->limit = (struct tracer_limit){
		.step = 1, .from_raw_ns = 1, .to_raw_ns = INT64_MAX, .reason = "it records less"
	};
	f.tracers[1]->limit = (struct tracer_limit){ .from_raw_ns = 1, .to_raw_ns = 2 };
	req = request(&f, &seen);
	CHECK_OK(capture_start(f.captures, &req, &c, &e), e);
	fixture_until(&f, is_over, &seen);
	reports = capture_reports(c, &n);
	CHECK(n >= 2);
	CHECK_STR(reports[0].state, "degraded");
	CHECK_STR(reports[0].reason, "budget");
	CHECK_STR(reports[0].detail, "it records less");
	CHECK_STR(reports[1].state, "ok");
	capture_release(c);
	fixture_down(&f);
}

static void test_settings(void)
{
	struct tracer_setting values[] = { { "now.level", "7" },
					   { "now.loud", "true" },
					   { "later.level", "1" },
					   { "now.colour", "red" },
					   { "nvml.level", "99" } };
	struct seen seen = { 0 };
	struct fixture f;
	struct capture_request req;
	struct capture *c;
	struct err e;

	fixture_up(&f, good_fakes, 1 << 20);
	req = request(&f, &seen);
	CHECK_OK(capture_start(f.captures, &req, &c, &e), e);
	fixture_until(&f, is_over, &seen);
	CHECK(fake_counts.level == 4 && !fake_counts.loud);
	capture_release(c);
	seen = (struct seen){ 0 };
	req = request(&f, &seen);
	req.settings = values;
	req.n_settings = ARRAY_SIZE(values);
	CHECK_OK(capture_start(f.captures, &req, &c, &e), e);
	fixture_until(&f, is_over, &seen);
	CHECK(fake_counts.level == 7 && fake_counts.loud);
	capture_release(c);
	values[0].value = "10";
	CHECK_EQ(capture_start(f.captures, &req, &c, &e), ERR_INVALID);
	CHECK_STR(e.msg, "setting 'now.level': '10': use a number from 0 to 9");
	fixture_down(&f);
}

static void test_stop_early(void)
{
	struct seen seen = { 0 };
	struct fixture f;
	struct capture_request req;
	struct capture *c;
	struct err e;

	fixture_up(&f, good_fakes, 1 << 20);
	req = request(&f, &seen);
	req.duration_ns = 600 * NS_PER_S;
	req.give_up_ns = req.t0_ns + 700 * NS_PER_S;
	CHECK_OK(capture_start(f.captures, &req, &c, &e), e);
	fixture_until(&f, is_running, &seen);
	capture_stop(c, req.t0_ns + 4 * NS_PER_MS, 0);
	CHECK_EQ(fake_counts.stopped, 2);
	fixture_until(&f, is_over, &seen);
	CHECK_EQ(seen.states[seen.n - 1], CAPTURE_READY);
	fixture_down(&f);
}

/* As an agent does that was told to stop: what is recorded is kept, and says what is missing. */
static void test_cut(void)
{
	struct seen seen = { 0 };
	struct fixture f;
	struct capture_request req;
	struct capture *c;
	struct err e;

	fixture_up(&f, good_fakes, 1 << 20);
	req = request(&f, &seen);
	req.duration_ns = 600 * NS_PER_S;
	req.give_up_ns = req.t0_ns + 700 * NS_PER_S;
	CHECK_OK(capture_start(f.captures, &req, &c, &e), e);
	fixture_until(&f, is_running, &seen);
	capture_cut(c, req.t0_ns + 4 * NS_PER_MS, now_mono_ns() + NS_PER_S);
	capture_cut(c, capture_t1_ns(c) + NS_PER_S, now_mono_ns() + 9 * NS_PER_S); /* nothing */
	fixture_until(&f, is_over, &seen);
	CHECK_EQ(seen.states[seen.n - 1], CAPTURE_READY);
	CHECK_EQ(capture_t1_ns(c), req.t0_ns + 4 * NS_PER_MS);
	CHECK_STR(report_of(c, "now")->state, "degraded");
	CHECK_STR(report_of(c, "now")->reason, "window-cut");
	CHECK(strstr(report_of(c, "now")->detail, "the last 600 s"));
	fixture_down(&f);
}

/* A tracer that gives nothing holds an agent that stops no longer than it may. */
static void test_cut_of_what_is_gathered(void)
{
	static const struct tracer_ops *const fakes[] = { &fake_now_ops, &fake_silent_ops, NULL };
	struct seen seen = { 0 };
	struct fixture f;
	struct capture_request req;
	struct capture *c;
	struct err e;

	fixture_up(&f, fakes, 1 << 20);
	req = request(&f, &seen);
	req.give_up_ns = req.t0_ns + 700 * NS_PER_S;
	CHECK_OK(capture_start(f.captures, &req, &c, &e), e);
	RUN_UNTIL(f.loop, seen.n && seen.states[seen.n - 1] == CAPTURE_GATHERING);
	capture_cut(c, req.t0_ns, now_mono_ns());
	fixture_until(&f, is_over, &seen);
	CHECK_EQ(seen.states[seen.n - 1], CAPTURE_READY);
	CHECK_STR(report_of(c, "now")->state, "ok"); /* its window was over */
	CHECK_STR(report_of(c, "silent")->state, "failed");
	fixture_down(&f);
}

/* In every state, also while a worker uses it. */
static void test_release_any_time(void)
{
	for (int until = 0; until <= 4; until++) {
		struct seen seen = { 0 };
		struct fixture f;
		struct capture_request req;
		struct capture *c;
		struct err e;

		fixture_up(&f, all_fakes, 1 << 20);
		req = request(&f, &seen);
		CHECK_OK(capture_start(f.captures, &req, &c, &e), e);
		RUN_UNTIL(f.loop, seen.n >= until);
		capture_release(c);
		CHECK_EQ(spool_available(f.spool), 1 << 20);
		fixture_down(&f);
	}
}

struct charges {
	struct seen seen;
	struct spool *spool;
	uint64_t available_while_assembling, file_while_assembling;
};

static void on_changed_note_spool(struct capture *c, enum capture_state state, void *arg)
{
	struct charges *ch = arg;

	on_changed(c, state, &ch->seen);
	if (state != CAPTURE_ASSEMBLING)
		return;
	ch->available_while_assembling = spool_available(ch->spool);
	ch->file_while_assembling = capture_bytes(c);
}

/* Captures at the same time do not pass the spool's limit together: bytes are charged before use. */
static void test_bytes_are_charged_first(void)
{
	struct charges ch = { .available_while_assembling = 1 };
	struct fixture f;
	struct capture_request req;
	struct capture *c;
	struct err e;

	fixture_up(&f, good_fakes, 1 << 20);
	ch.spool = f.spool;
	req = request(&f, &ch.seen);
	req.changed = on_changed_note_spool;
	req.arg = &ch;
	CHECK_OK(capture_start(f.captures, &req, &c, &e), e);
	fixture_until(&f, is_over, &ch.seen);
	CHECK_EQ(ch.available_while_assembling, 0);
	CHECK(ch.file_while_assembling < 1 << 20); /* part files are charged, too */
	CHECK_EQ(spool_available(ch.spool), (1 << 20) - capture_bytes(c));
	capture_release(c);
	CHECK_EQ(spool_available(ch.spool), 1 << 20);
	fixture_down(&f);
}

static void test_limits(void)
{
	struct seen seen = { 0 };
	struct fixture f;
	struct capture_request req;
	struct capture *c;
	struct err e;

	fixture_up(&f, good_fakes, 100);
	req = request(&f, &seen);
	req.session = "../escape";
	CHECK_EQ(capture_start(f.captures, &req, &c, &e), ERR_INVALID);
	req.session = SESSION;
	req.t0_ns = INT64_MAX;
	CHECK_EQ(capture_start(f.captures, &req, &c, &e), ERR_INVALID);
	req = request(&f, &seen);
	CHECK_OK(capture_start(f.captures, &req, &c, &e), e);
	fixture_until(&f, is_over, &seen);
	CHECK_EQ(seen.states[seen.n - 1], CAPTURE_FAILED);
	CHECK_EQ(capture_error(c)->code, ERR_FULL);
	CHECK_STR(capture_reason(c), "disk-full");
	capture_release(c);
	fixture_down(&f);

	fixture_up(&f, good_fakes, 0);
	req = request(&f, &seen);
	CHECK_EQ(capture_start(f.captures, &req, &c, &e), ERR_FULL);
	fixture_down(&f);
}

/* Two agents must not share a spool; the next one removes what an earlier one left. */
static void test_spool(void)
{
	struct spool *second;
	struct fixture f;
	char *left, *deep, *other;
	struct err e;

	fixture_up(&f, good_fakes, 1 << 20);
	CHECK_EQ(spool_open(&second, f.spool_dir, 1, &e), ERR_BUSY);
	left = xasprintf("%s/" SESSION, f.spool_dir);
	deep = xasprintf("%s/profiler-1", left);
	other = xasprintf("%s/precious", f.spool_dir);
	CHECK(!mkdir(left, 0700) && !mkdir(deep, 0700) && !mkdir(other, 0700));
	spool_free(f.spool);
	CHECK_OK(spool_open(&f.spool, f.spool_dir, 1, &e), e);
	CHECK(access(left, F_OK) && !access(other, F_OK));
	free(left);
	free(deep);
	free(other);
	fixture_down(&f);
}

/* Agents keep the spool below /var/tmp, where cleaners remove what was not used for weeks: they leave a locked folder
 * alone, and an agent whose spool is gone all the same records the next capture in a new one. */
static void test_removed_spool(void)
{
	struct spool *second;
	struct fixture f;
	char *path, *away;
	struct err e;
	int fd;

	fixture_up(&f, good_fakes, 1 << 20);
	fd = open(f.spool_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB));
	close(fd);
	for (int i = 0; i < 2; i++) {
		spool_remove(f.spool_dir);
		CHECK_OK(spool_add(f.spool, SESSION, &path, &e), e);
		CHECK(!access(path, F_OK));
		free(path);
		CHECK_EQ(spool_open(&second, f.spool_dir, 1, &e), ERR_BUSY);
	}
	away = xasprintf("%s.away", f.spool_dir); /* moved away, with its lock */
	CHECK(!rename(f.spool_dir, away));
	CHECK_OK(spool_add(f.spool, SESSION, &path, &e), e);
	CHECK(!access(path, F_OK));
	free(path);
	spool_remove(away);
	free(away);
	spool_remove(f.spool_dir);
	CHECK_OK(spool_open(&second, f.spool_dir, 1, &e), e); /* another agent is faster */
	for (int i = 0; i < 2; i++)
		CHECK_EQ(spool_add(f.spool, SESSION, &path, &e), ERR_BUSY);
	spool_free(second);
	CHECK_OK(spool_add(f.spool, SESSION, &path, &e), e);
	free(path);
	fixture_down(&f);
}

int main(void)
{
	test_whole_life();
	test_parts_fill_the_spool();
	test_asked_late();
	test_bad_tracers();
	test_given_up();
	test_named_tracers();
	test_host_level();
	test_other_levels();
	test_limited();
	test_settings();
	test_stop_early();
	test_cut();
	test_cut_of_what_is_gathered();
	test_release_any_time();
	test_limits();
	test_bytes_are_charged_first();
	test_spool();
	test_removed_spool();
	return 0;
}
