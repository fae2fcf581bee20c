/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracer "sched": when each thread of the host ran, and when it could have run but had no CPU. Context switches
 * of all CPUs go into a ring (switches.h), always on; a gather() cuts the window out and has a worker build the plane
 * "/host:CPU scheduler", one line a thread (intervals.h).
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/perf/rings.h"
#include "agent/perf/tracepoint.h"
#include "agent/pods/local_pods.h"
#include "agent/tracer/build_job.h"
#include "agent/tracer/ring_run.h"
#include "agent/tracer/sched/intervals.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/reasons.h"

#define DRAIN_EVERY_NS (200 * NS_PER_MS)

/* A record can be read at most this long after its time stamp. */
#define SETTLE_NS (2 * NS_PER_MS)

/* Records are read for this long after the window: they tell what ran on a CPU that made no switch in it. */
#define TAIL_NS (2 * DRAIN_EVERY_NS)

/* Records of this long before the window tell which threads wait for a CPU when it begins, unless one has waited
 * for longer. */
#define HEAD_NS NS_PER_S

/* The inode of a machine's first PID namespace (PROC_PID_INIT_INO of the kernel). */
#define FIRST_PIDS 0xEFFFFFFC

#define CGROUP_TEXT_BYTES 200
#define CGROUP_FILE_BYTES 16384

#define INTERVALS_MAX ((size_t)2 << 20) /* intervals of a file; 24 bytes each while it is built */
#define NAMES_MAX     4096 /* names of threads that one job asks for */

TRACER_DECLARE(sched);

struct sched_conf {
	char *sched_cgroup;
	bool sched_wakeups;
};

static const struct conf_field conf_fields[] = {
	CONF(struct sched_conf, sched_cgroup, NULL,
	     "folder of cgroup v2: only its threads' context switches are recorded"),
	CONF(struct sched_conf, sched_wakeups, NULL,
	     "record wake-ups, too: threads are runnable from then on; reads tracefs"),
	{ 0 }
};

static const struct setting settings[] = { { "min_us", SETTING_INT, 0, 1000000, 0,
					     "shorter times of running and waiting are left out" },
					   { "cgroup", SETTING_TEXT, 0, CGROUP_TEXT_BYTES, 0,
					     "only threads of processes whose cgroup has this in "
					     "its path, as a pod's id" },
					   { 0 } };

struct name_job {
	struct tracer_sched *owner; /* loop's thread only; NULL when the tracer is gone */
	struct thread_question *v;
	size_t n;
};

struct tracer_sched {
	struct tracer base;
	struct loop *loop;
	const struct local_pods *pods; /* NULL = none */
	struct tracer_state state;
	const char *off_reason; /* typed reason of runs while the tracer is off */
	struct perf_rings rings;
	size_t woken_at; /* of switches.h; 0 = no wake-ups */
	struct switches *switches; /* NULL = off */
	struct loop_timer drain_timer;
	struct name_job *naming; /* the job under way, or NULL */
};

struct snapshot {
	struct intervals_conf conf;
	struct ring_cut *head, *cut,
		*tail; /* of the time before the window, of the window, of the time after it */
	struct thread_question *threads;
	size_t n_threads;
	struct pod_view *pods; /* a reference, or NULL */
	char cgroup[CGROUP_TEXT_BYTES + 1]; /* "" = all threads */
};

static struct tracer_sched *to_sched(const struct tracer *t)
{
	assert(t->ops == &tracer_sched_ops);
	return (struct tracer_sched *)t;
}

/* ---- names: read soon after the switch, since the thread may have ended when its switches are cut ---- */

static void name_job_free(struct name_job *j)
{
	free(j->v);
	free(j);
}

static void name_job_run(void *arg)
{
	struct name_job *j = arg;

	for (size_t i = 0; i < j->n; i++)
		thread_question_answer(&j->v[i]);
}

static void name_job_done(void *arg)
{
	struct name_job *j = arg;

	if (j->owner) {
		for (size_t i = 0; i < j->n; i++)
			threads_apply_answer(switches_threads(j->owner->switches), &j->v[i]);
		j->owner->naming = NULL;
	}
	name_job_free(j);
}

static void request_names(struct tracer_sched *t)
{
	struct thread_question *v;
	size_t n;

	if (t->naming)
		return;
	n = threads_take_questions(switches_threads(t->switches), &v, NAMES_MAX);
	if (!n)
		return;
	t->naming = xcalloc(1, sizeof(*t->naming));
	*t->naming = (struct name_job){ .owner = t, .v = v, .n = n };
	loop_work(t->loop, name_job_run, name_job_done, t->naming);
}

/* ---- recording ---- */

static void feed(void *switches, int cpu, const void *bytes, size_t len)
{
	switches_feed(switches, (uint32_t)cpu, bytes, len);
}

static void drain(void *arg)
{
	struct tracer_sched *t = arg;
	int64_t until_raw_ns = now_raw_ns() - SETTLE_NS;

	perf_rings_take(&t->rings, feed, t->switches);
	switches_flush(t->switches, until_raw_ns);
}

static void on_drain(void *arg)
{
	struct tracer_sched *t = arg;

	loop_timer_each(t->loop, &t->drain_timer, DRAIN_EVERY_NS, on_drain, t);
	drain(t);
	request_names(t);
}

/* ---- opening ---- */

/* Opens the cgroup's folder; -1 for all tasks. */
static int open_cgroup(const char *path, int *fd, struct err *e)
{
	*fd = -1;
	if (!path || !*path)
		return 0;
	*fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *fd < 0 ? err_errno(e, "--sched-cgroup %s", path) : 0;
}

static void open_rings(struct tracer_sched *t, const char *cgroup)
{
	struct perf_source source = { .layout = cgroup && *cgroup ? PERF_LAYOUT_WITH_IDS
								  : PERF_LAYOUT_SHORT };
	struct tracer_state *s = &t->state;
	struct err e;
	int rc = open_cgroup(cgroup, &source.cgroup_fd, &e);

	if (rc)
		s->errno_value = errno;
	else
		rc = perf_rings_open(&t->rings, &source, &s->errno_value, &e);
	if (source.cgroup_fd >= 0)
		close(source.cgroup_fd);
	if (!rc)
		return;
	s->health = t->rings.n ? TRACER_DEGRADED : TRACER_OFF;
	t->off_reason = e.code == ERR_DENIED ? REASON_NO_PERMISSION : REASON_UNSUPPORTED;
	perf_rings_explain(&t->rings, &e, s->reason, sizeof(s->reason));
}

/* The kernel writes the woken thread's number in the first namespace into the event, not the agent's. */
static int check_pids(struct err *e)
{
	struct stat st;

	if (stat("/proc/self/ns/pid", &st) || st.st_ino == FIRST_PIDS)
		return 0;
	return err_set(
		e, ERR_UNSUPPORTED,
		"the agent is in a PID namespace of its own, and the kernel names the threads "
		"by their numbers on the host: run it with the host's (hostPID)");
}

/* The event with which the kernel puts a thread into a run queue: from then on it waits for a CPU. With a cgroup perf
 * would leave out wake-ups by threads of other cgroups. */
static int add_wakeups(struct tracer_sched *t, const struct sched_conf *conf, struct err *e)
{
	struct tracepoint tp;
	int rc;

	if (conf->sched_cgroup && *conf->sched_cgroup)
		return err_set(e, ERR_UNSUPPORTED,
			       "--sched-cgroup hides who wakes its threads: drop one of the two");
	rc = tracepoint_load(&tp, "sched/sched_wakeup", "pid", e);
	if (rc)
		t->state.errno_value = errno;
	else
		rc = check_pids(e);
	if (!rc)
		rc = perf_rings_add_tracepoint(&t->rings, tp.id, &t->state.errno_value, e);
	if (!rc)
		t->woken_at = tp.at;
	return rc;
}

static void open_wakeups(struct tracer_sched *t, const struct sched_conf *conf)
{
	struct tracer_state *s = &t->state;
	struct err e;

	if (!conf->sched_wakeups || !t->rings.n || s->health != TRACER_OK ||
	    !add_wakeups(t, conf, &e))
		return;
	s->health = TRACER_DEGRADED;
	t->off_reason = e.code == ERR_DENIED ? REASON_NO_PERMISSION : REASON_UNSUPPORTED;
	snprintf(s->reason, sizeof(s->reason), "no wake-ups (--sched-wakeups): %.200s", e.msg);
}

static int sched_open(struct tracer **out, const struct tracer_env *env, struct err *e)
{
	const struct sched_conf *conf = env->conf;
	struct tracer_sched *t = xcalloc(1, sizeof(*t));

	(void)e;
	t->base.ops = &tracer_sched_ops;
	t->loop = env->loop;
	t->pods = env->pods;
	t->off_reason = REASON_UNSUPPORTED;
	open_rings(t, conf->sched_cgroup);
	open_wakeups(t, conf);
	if (t->rings.n) {
		t->switches = switches_new(&(struct switches_conf){
			.ring = env->ring,
			.of_cgroup = conf->sched_cgroup && *conf->sched_cgroup,
			.woken_at = t->woken_at,
			.now_raw_ns = now_raw_ns() });
		perf_rings_start(&t->rings, t->loop, drain, t);
		loop_timer_each(t->loop, &t->drain_timer, DRAIN_EVERY_NS, on_drain, t);
	} else {
		t->state.health = TRACER_OFF;
	}
	*out = &t->base;
	return 0;
}

static void sched_state(const struct tracer *t, struct tracer_state *out)
{
	*out = to_sched(t)->state;
}

/* ---- the plane ---- */

static void snapshot_free(void *arg)
{
	struct snapshot *s = arg;

	ring_cut_free(s->head);
	ring_cut_free(s->cut);
	ring_cut_free(s->tail);
	free(s->threads);
	pod_view_release(s->pods);
	free(s);
}

static bool add_record(void *arg, const struct ring_record *record)
{
	intervals_add(arg, record->raw_ns, record->data);
	return true;
}

static void write_interval(struct xs_builder *b, const struct interval *i, int64_t t0_ns)
{
	xs_event(b, i->runnable ? "runnable" : "running", (i->start_ns - t0_ns) * 1000,
		 (i->end_ns - i->start_ns) * 1000);
	if (!i->runnable)
		xs_stat_uint(b, "cpu", i->cpu);
}

/* Each line of /proc/PID/cgroup is "ID:CONTROLLERS:PATH". */
static bool is_in_cgroup(uint32_t pid, const char *text)
{
	struct buf lines = BUF_INIT;
	bool found = false;
	char path[40];

	snprintf(path, sizeof(path), "/proc/%u/cgroup", pid);
	if (!file_load(path, CGROUP_FILE_BYTES, &lines, NULL)) {
		for (const char *at = strchr(buf_str(&lines), '/'); at && !found;) {
			size_t len = strcspn(at, "\n");

			found = memmem(at, len, text, strlen(text));
			at = strchr(at + len, '/');
		}
	}
	buf_release(&lines);
	return found;
}

static bool is_wanted(const struct snapshot *s, uint32_t tid)
{
	const struct thread_question *thread;

	if (!*s->cgroup)
		return true;
	thread = threads_find(s->threads, s->n_threads, tid);
	return thread && is_in_cgroup(thread->pid, s->cgroup);
}

static uint64_t build(void *arg, struct xs_builder *b)
{
	struct snapshot *s = arg;
	struct intervals *in = intervals_new(&s->conf);
	uint64_t lost = ring_cut_each(s->head, add_record, in) +
			ring_cut_each(s->cut, add_record, in) +
			ring_cut_each(s->tail, add_record, in);
	char title[THREAD_TITLE_BYTES];
	const struct interval *v;
	uint32_t tid = 0;
	bool wanted = false;
	size_t n;

	v = intervals_finish(in, &n);
	threads_sort(s->threads, s->n_threads);
	xs_plane(b, 0, "/host:CPU scheduler");
	for (size_t i = 0; i < n; i++) {
		if (v[i].tid != tid) {
			tid = v[i].tid;
			wanted = is_wanted(s, tid) &&
				 threads_title(s->threads, s->n_threads, tid, s->pods, title);
			if (wanted)
				xs_line(b, tid, title, s->conf.t0_ns);
		}
		if (wanted)
			write_interval(b, &v[i], s->conf.t0_ns);
	}
	lost += intervals_lost(in);
	intervals_free(in);
	return lost;
}

/* ---- runs ---- */

static int64_t sched_begin(const struct tracer *tracer)
{
	const struct tracer_sched *t = to_sched(tracer);

	return t->switches ? ring_begin(switches_ring(t->switches)) : INT64_MAX;
}

static int sched_arm(struct tracer *tracer, struct tracer_run *run, struct err *e)
{
	struct tracer_sched *t = to_sched(tracer);

	(void)e;
	if (t->switches)
		ring_run_arm(switches_ring(t->switches), run);
	return 0;
}

static void sched_gather(struct tracer *tracer, struct tracer_run *run)
{
	struct tracer_sched *t = to_sched(tracer);
	struct snapshot *s;
	struct ring *ring;

	if (t->state.health == TRACER_OFF) {
		tracer_run_set_result(run, RUN_OFF, t->off_reason, "%s", t->state.reason);
		run->done(run);
		return;
	}
	drain(t);
	ring = switches_ring(t->switches);
	s = xcalloc(1, sizeof(*s));
	s->conf = (struct intervals_conf){
		.t0_ns = run->t0_raw_ns,
		.t1_ns = run->t1_raw_ns,
		.min_ns = tracer_run_setting(run, &tracer_sched_ops, "min_us") * NS_PER_US,
		.max = INTERVALS_MAX,
	};
	snprintf(s->cgroup, sizeof(s->cgroup), "%s",
		 tracer_run_text(run, &tracer_sched_ops, "cgroup"));
	s->cut = ring_run_cut(ring, run, "context switches", DRAIN_EVERY_NS);
	s->head = ring_cut_new(ring, run->t0_raw_ns - HEAD_NS, run->t0_raw_ns);
	s->tail = ring_cut_new(ring, run->t1_raw_ns, run->t1_raw_ns + TAIL_NS);
	s->pods = local_pods_view(t->pods);
	s->threads = threads_list(switches_threads(t->switches), run->t0_raw_ns - HEAD_NS,
				  &s->n_threads);
	if (t->state.health == TRACER_DEGRADED)
		tracer_run_set_result(run, RUN_DEGRADED, t->off_reason, "%s", t->state.reason);
	build_job_start(
		t->loop, run,
		&(struct build_job){ .build = build, .free = snapshot_free, .snapshot = s });
}

static void sched_cancel(struct tracer *tracer, struct tracer_run *run)
{
	struct tracer_sched *t = to_sched(tracer);

	if (t->switches)
		ring_run_cancel(switches_ring(t->switches), run);
	build_job_cancel(run);
}

static bool sched_limit(struct tracer *tracer, unsigned int step)
{
	struct tracer_sched *t = to_sched(tracer);

	if (!t->switches || step > 1)
		return false;
	perf_rings_pause(&t->rings, step != 0);
	drain(t);
	switches_pause(t->switches, now_raw_ns());
	return true;
}

static void sched_free(struct tracer *tracer)
{
	struct tracer_sched *t = to_sched(tracer);

	loop_timer_cancel(t->loop, &t->drain_timer);
	perf_rings_close(&t->rings);
	if (t->naming)
		t->naming->owner = NULL; /* name_job_done() frees it */
	switches_free(t->switches);
	free(t);
}

const struct tracer_ops tracer_sched_ops = {
	.name = "sched",
	.host_level = 2,
	.conf = conf_fields,
	.conf_size = sizeof(struct sched_conf),
	.settings = settings,
	.open = sched_open,
	.state = sched_state,
	.begin_raw_ns = sched_begin,
	.arm = sched_arm,
	.gather = sched_gather,
	.cancel = sched_cancel,
	.limit = sched_limit,
	.free = sched_free,
};
