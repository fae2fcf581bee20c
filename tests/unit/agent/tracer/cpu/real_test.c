/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU tracer on this very machine: a thread spins in a function of known name, and the function is
 * found in the plane for most of the window. Skipped (77) where the kernel does not let us sample. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/tracers.h"
#include "base/child.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/check.h"
#include "tests/lib/temp_dir.h"
#include "tests/lib/tracer_bed.h"
#include "xspace/xspace.h"

#define SPIN_NS	  (500 * NS_PER_MS)
#define WAITS_MAX 120 /* of SPIN_NS: on a very busy machine a thread gets little of a CPU */
#define SKIPPED	  77

static atomic_bool spinning = true;

uint64_t spin_for_the_tracer(void);

__attribute__((noinline)) uint64_t spin_for_the_tracer(void)
{
	uint64_t x = 1;

	while (atomic_load_explicit(&spinning, memory_order_relaxed))
		for (int i = 0; i < 10000; i++)
			x = x * 6364136223846793005ULL + 1442695040888963407ULL;
	return x;
}

struct spinner {
	uint64_t x;
	int64_t cpu_ns; /* what the thread really got; a busy machine gives it less than a whole CPU */
};

static void *spin(void *arg)
{
	struct spinner *s = arg;
	struct rusage got;

	s->x = spin_for_the_tracer();
	CHECK(!getrusage(RUSAGE_THREAD, &got));
	s->cpu_ns = got.ru_utime.tv_sec * NS_PER_S + got.ru_utime.tv_usec * NS_PER_US;
	return NULL;
}

/* ---- what the plane says ---- */

struct seen {
	char plane[64], line[64];
	int64_t spin_id; /* metadata id of the function's name */
	int64_t spin_ps; /* its time on the line where it was seen most */
	int64_t line_ps, line_id, best_id;
	int64_t last_start, last_end;
	uint64_t events;
};

static int on_plane(void *arg, const struct xs_plane *p)
{
	struct seen *s = arg;

	snprintf(s->plane, sizeof(s->plane), "%s", p->name);
	return 0;
}

static int on_name(void *arg, int64_t id, const char *name, size_t len)
{
	struct seen *s = arg;
	const char want[] = "spin_for_the_tracer";

	if (len == strlen(want) && !memcmp(name, want, len))
		s->spin_id = id;
	return 0;
}

static int on_line(void *arg, const struct xs_line *l)
{
	struct seen *s = arg;

	s->line_ps = s->last_start = s->last_end = 0;
	s->line_id = l->id;
	snprintf(s->line, sizeof(s->line), "%.60s", l->name);
	return 0;
}

static int on_event(void *arg, const struct xs_event *ev)
{
	struct seen *s = arg;

	CHECK(ev->offset_ps >= s->last_start);
	CHECK(ev->duration_ps >= 0);
	s->last_start = ev->offset_ps;
	s->events++;
	if (ev->metadata_id == s->spin_id)
		s->line_ps += ev->duration_ps;
	if (s->line_ps > s->spin_ps) {
		s->spin_ps = s->line_ps;
		s->best_id = s->line_id;
	}
	return 0;
}

static void on_done(struct tracer_run *run)
{
	*(bool *)run->done_arg = true;
}

static void turn_until(struct loop *l, const bool *flag, int64_t mono_ns)
{
	while (!*flag && now_mono_ns() < mono_ns)
		loop_turn(l, 20);
}

/* ---- what the tests share ---- */

struct bed {
	struct tracer_bed driver;
	struct tracer_env env;
	struct tracer *tracer;
};

/* False, with the reason, where the kernel refuses. */
static bool bed_open(struct bed *bed, char reason[256])
{
	struct tracer_state state;
	struct err e;

	*bed = (struct bed){ 0 };
	CHECK_OK(loop_new(&bed->env.loop, 1, &e), e);
	tracer_bed_init(&bed->driver, &tracer_cpu_ops, &bed->env, "--cpu-hz=199");
	bed->tracer = tracer_bed_open(&bed->driver);
	tracer_cpu_ops.state(bed->tracer, &state);
	snprintf(reason, 256, "%s", state.reason);
	return state.health != TRACER_OFF;
}

static void bed_close(struct bed *bed)
{
	tracer_cpu_ops.free(bed->tracer);
	tracer_bed_release(&bed->driver);
	loop_free(bed->env.loop);
}

/* Gathers and reads the run's plane. */
static void look(struct bed *bed, struct tracer_run *run, struct seen *seen)
{
	struct xs_visitor v = { .plane_begin = on_plane,
				.event_metadata = on_name,
				.line_begin = on_line,
				.event = on_event };
	bool done = false;
	struct xs_source src;
	struct err e;

	run->done = on_done;
	run->done_arg = &done;
	tracer_cpu_ops.gather(bed->tracer, run);
	turn_until(bed->env.loop, &done, now_mono_ns() + 30 * NS_PER_S);
	CHECK(done);
	CHECK_EQ(run->result, RUN_OK);
	CHECK_EQ(run->n_parts, 1);
	CHECK_EQ(run->parts[0].base, PART_RAW);
	src = xs_source_memory(run->parts[0].bytes.data, run->parts[0].bytes.len);
	CHECK_OK(xs_read(&src, &v, seen, &e), e);
	CHECK_STR(seen->plane, "/host:CPU");
	printf("%llu events, %zu bytes; spinning for %.1f ms of %.1f ms\n",
	       (unsigned long long)seen->events, run->parts[0].bytes.len,
	       (double)seen->spin_ps / 1e9, (double)(run->t1_raw_ns - run->t0_raw_ns) / 1e6);
	buf_release(&run->parts[0].bytes);
	free(run->parts);
}

static void wait_some(struct bed *bed)
{
	bool never = false;

	turn_until(bed->env.loop, &never, now_mono_ns() + SPIN_NS);
}

/* However busy the machine is: until this thread or process was on a CPU for as long as a wait is. */
static void wait_for_cpu_time(struct bed *bed, clockid_t cpu)
{
	struct timespec t = { 0 };

	for (int i = 0; i < WAITS_MAX && t.tv_sec * NS_PER_S + t.tv_nsec < SPIN_NS; i++) {
		wait_some(bed);
		CHECK(!clock_gettime(cpu, &t));
	}
}

/* ---- tests ---- */

static void spinning_thread_is_seen(struct bed *bed)
{
	struct tracer_run run = { .t0_raw_ns = now_raw_ns() };
	struct spinner spinner = { 0 };
	struct seen seen = { 0 };
	pthread_t thread;
	clockid_t cpu;

	CHECK(!pthread_create(&thread, NULL, spin, &spinner));
	CHECK(!pthread_getcpuclockid(thread, &cpu));
	wait_for_cpu_time(bed, cpu);
	run.t1_raw_ns = now_raw_ns();
	atomic_store(&spinning, false);
	CHECK(!pthread_join(thread, NULL));
	look(bed, &run, &seen);
	CHECK(seen.spin_id);
	CHECK(seen.spin_ps <= (run.t1_raw_ns - run.t0_raw_ns) * 1000);
	CHECK(seen.spin_ps > spinner.cpu_ns * 1000 / 4);
}

/* A copy of this program, so that its file can go when its process does. */
static pid_t start_copy(const char *path)
{
	char *copy = xasprintf("cp /proc/%d/exe %s", getpid(), path);
	pid_t pid;

	CHECK(!system(copy));
	free(copy);
	pid = child_fork(SIGKILL);
	CHECK(pid >= 0);
	if (!pid) {
		execl(path, path, "agent/tracer/cpu/real_test", "spin", NULL);
		_exit(127);
	}
	return pid;
}

static void names_outlive_process_and_file(struct bed *bed)
{
	char *path;
	struct tracer_run run = { .t0_raw_ns = now_raw_ns() };
	struct seen seen = { 0 };
	clockid_t cpu;
	pid_t pid;

	path = xasprintf("%s/copy", temp_dir());
	pid = start_copy(path);
	CHECK(!clock_getcpuclockid(pid, &cpu));
	wait_for_cpu_time(bed, cpu);
	/* The names are asked for after the samples have been read; a worker, which needs a CPU, too, finds them. */
	for (int i = 0; i < 3; i++)
		wait_some(bed);
	CHECK(!kill(pid, SIGKILL));
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	CHECK(!unlink(path));
	free(path);
	run.t1_raw_ns = now_raw_ns();
	look(bed, &run, &seen);
	CHECK(seen.spin_id);
	CHECK_EQ(seen.best_id, pid);
}

static void not_called(struct tracer_run *run)
{
	(void)run;
	CHECK(false);
}

static void cancelled_runs_are_forgotten(struct bed *bed)
{
	struct tracer_run runs[3];

	for (size_t i = 0; i < ARRAY_SIZE(runs); i++) {
		runs[i] = (struct tracer_run){ .t0_raw_ns = now_raw_ns() - NS_PER_S,
					       .t1_raw_ns = now_raw_ns(),
					       .done = not_called };
		tracer_cpu_ops.gather(bed->tracer, &runs[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(runs); i++)
		tracer_cpu_ops.cancel(bed->tracer, &runs[i]);
	/* The bed is closed with these jobs at work and in line. */
}

/* As a user without rights: the tracer opens, says what it lacks, and answers at once. */
static int without_rights(void)
{
	struct tracer_run run = { .t0_raw_ns = now_raw_ns(), .t1_raw_ns = now_raw_ns() + 1 };
	struct tracer_state state;
	struct bed bed;
	bool done = false;
	char reason[256];

	if (setgid(65534) || setuid(65534) || bed_open(&bed, reason))
		return SKIPPED; /* this kernel lets everybody sample */
	tracer_cpu_ops.state(bed.tracer, &state);
	CHECK(state.errno_value);
	run.done = on_done;
	run.done_arg = &done;
	tracer_cpu_ops.gather(bed.tracer, &run);
	CHECK(done);
	CHECK_EQ(run.result, RUN_OFF);
	CHECK_EQ(run.n_parts, 0);
	CHECK_STR(run.detail, reason);
	if (state.errno_value == EACCES || state.errno_value == EPERM) {
		CHECK_STR(run.reason, "no-permission");
		CHECK(strstr(reason, "CAP_PERFMON"));
	}
	bed_close(&bed);
	return 0;
}

static void refusal_is_told(void)
{
	pid_t pid = child_fork(SIGKILL);
	int status;

	CHECK(pid >= 0);
	if (!pid)
		_exit(without_rights());
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status) && (!WEXITSTATUS(status) || WEXITSTATUS(status) == SKIPPED));
}

int main(int argc, char **argv)
{
	struct bed bed;
	char reason[256];

	if (argc == 2 && !strcmp(argv[1], "spin"))
		return (int)(spin_for_the_tracer() & 1);
	refusal_is_told();
	if (!bed_open(&bed, reason)) {
		printf("skipped: %s\n", reason);
		bed_close(&bed);
		return SKIPPED;
	}
	spinning_thread_is_seen(&bed);
	names_outlive_process_and_file(&bed);
	cancelled_runs_are_forgotten(&bed);
	bed_close(&bed);
	return 0;
}
