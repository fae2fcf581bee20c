/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU tracer on this very machine: a thread spins in a function of known name, and the function is
 * found in the plane for most of the window. Skipped (77) where the kernel does not let us sample. */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/tracers.h"
#include "base/loop.h"
#include "base/now.h"
#include "tests/lib/check.h"
#include "xspace/xspace.h"

#define SPIN_NS (500 * NS_PER_MS)
#define SKIPPED 77

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

static void *spin(void *arg)
{
	*(uint64_t *)arg = spin_for_the_tracer();
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

int main(void)
{
	struct agent_conf conf = { .cpu_hz = 199 };
	struct tracer_env env = { .conf = &conf };
	struct tracer_state state;
	struct tracer_run run = { 0 };
	struct seen seen = { 0 };
	struct xs_visitor v = { .plane_begin = on_plane,
				.event_metadata = on_name,
				.line_begin = on_line,
				.event = on_event };
	struct xs_source src;
	struct tracer *t;
	bool done = false, never = false;
	uint64_t x = 0;
	pthread_t thread;
	struct err e;

	CHECK_OK(loop_new(&env.loop, 1, &e), e);
	CHECK_OK(tracer_cpu_ops.open(&t, &env, &e), e);
	tracer_cpu_ops.state(t, &state);
	if (state.health == TRACER_OFF) {
		printf("skipped: %s\n", state.reason);
		tracer_cpu_ops.free(t);
		loop_free(env.loop);
		return SKIPPED;
	}
	run.t0_raw_ns = now_raw_ns();
	CHECK(!pthread_create(&thread, NULL, spin, &x));
	turn_until(env.loop, &never, now_mono_ns() + SPIN_NS);
	run.t1_raw_ns = now_raw_ns();
	atomic_store(&spinning, false);
	CHECK(!pthread_join(thread, NULL));

	run.done = on_done;
	run.done_arg = &done;
	tracer_cpu_ops.gather(t, &run);
	turn_until(env.loop, &done, now_mono_ns() + 30 * NS_PER_S);
	CHECK(done);
	CHECK_EQ(run.result, RUN_OK);
	CHECK_EQ(run.n_parts, 1);
	CHECK_EQ(run.parts[0].base, PART_RAW);
	src = xs_source_memory(run.parts[0].bytes.data, run.parts[0].bytes.len);
	CHECK_OK(xs_read(&src, &v, &seen, &e), e);
	CHECK_STR(seen.plane, "/host:CPU");
	CHECK(seen.spin_id);
	printf("%llu events, %zu bytes; spinning for %.1f ms of %.1f ms\n",
	       (unsigned long long)seen.events, run.parts[0].bytes.len, (double)seen.spin_ps / 1e9,
	       (double)(run.t1_raw_ns - run.t0_raw_ns) / 1e6);
	CHECK(seen.spin_ps <= (run.t1_raw_ns - run.t0_raw_ns) * 1000);
	/* Most of the time the thread had; a busy machine gives it less than a whole CPU. */
	CHECK(seen.spin_ps > SPIN_NS * 1000 / 4);
	buf_release(&run.parts[0].bytes);
	free(run.parts);
	tracer_cpu_ops.free(t);
	loop_free(env.loop);
	return 0;
}
