/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/sched/intervals.h"

#include <string.h>

#include "agent/proc/u32_map.h"
#include "base/mem.h"

/* A record that waits for those of other CPUs that were before it. */
struct pending {
	int64_t raw_ns;
	struct cpu_switch record;
};

struct cpu {
	bool known;
	uint32_t tid; /* the thread that runs on the CPU; 0 = none, or not known */
	int64_t since_ns;
	/* its last record before the window, wake-ups left out; INT64_MIN = none */
	int64_t before_ns;
	struct cpu_switch before;
	bool has_record; /* one of the window or after it, wake-ups left out */
	struct pending *pending; /* in order of time; those below `first` are applied */
	size_t first, n, cap;
};

/* A thread that waits for a CPU. */
struct waiting {
	uint32_t tid;
	int64_t since_ns;
};

/* What a thread did last before the window; INT64_MIN = it did not. */
struct before {
	uint32_t tid;
	int64_t waited_ns; /* began to wait for a CPU */
	int64_t ran_ns; /* began to run, or to sleep */
};

struct intervals {
	struct intervals_conf conf;
	struct u32_map before; /* struct before, by tid; until the window has begun */
	int64_t paused_ns; /* the last pause before the window; INT64_MIN = none */
	bool has_begun; /* the state at T0 is known */
	struct cpu *cpus; /* up to the highest number with a record */
	size_t n_cpus;
	struct u32_map waiting; /* struct waiting, by tid */
	uint32_t *
		heap; /* n_cpus; while records are applied: the CPUs that have any, that of the oldest first */
	size_t n_heap;
	int64_t oldest_ns, newest_ns; /* of the pending records */
	struct interval *v;
	size_t n, cap;
	uint64_t lost;
};

struct intervals *intervals_new(const struct intervals_conf *conf)
{
	struct intervals *in = xcalloc(1, sizeof(*in));

	in->conf = *conf;
	in->paused_ns = INT64_MIN;
	in->oldest_ns = INT64_MAX;
	in->newest_ns = INT64_MIN / 2;
	return in;
}

static void free_all(struct u32_map *m)
{
	for (size_t i = 0; i < m->n_slots; i++)
		free(u32_map_at(m, i));
	u32_map_release(m);
}

void intervals_free(struct intervals *in)
{
	if (!in)
		return;
	free_all(&in->before);
	free_all(&in->waiting);
	for (size_t i = 0; i < in->n_cpus; i++)
		free(in->cpus[i].pending);
	free(in->cpus);
	free(in->heap);
	free(in->v);
	free(in);
}

static void append(struct intervals *in, struct interval i)
{
	if (i.start_ns < in->conf.t0_ns)
		i.start_ns = in->conf.t0_ns;
	if (i.end_ns > in->conf.t1_ns)
		i.end_ns = in->conf.t1_ns;
	if (!i.tid || i.end_ns <= i.start_ns || i.end_ns - i.start_ns < in->conf.min_ns)
		return;
	if (in->n == in->conf.max) {
		in->lost++;
		return;
	}
	if (in->n == in->cap) {
		in->cap = in->cap ? 2 * in->cap : 1024;
		in->v = xrealloc(in->v, in->cap * sizeof(*in->v));
	}
	in->v[in->n++] = i;
}

static void end_waiting(struct intervals *in, uint32_t tid, int64_t raw_ns)
{
	struct waiting *w = u32_map_remove(&in->waiting, tid);

	if (w)
		append(in, (struct interval){ .start_ns = w->since_ns,
					      .end_ns = raw_ns,
					      .tid = tid,
					      .runnable = true });
	free(w);
}

/* Of a thread that does not wait yet. */
static void begin_waiting(struct intervals *in, uint32_t tid, int64_t raw_ns)
{
	struct waiting *w;

	if (u32_map_get(&in->waiting, tid))
		return;
	w = xcalloc(1, sizeof(*w));
	*w = (struct waiting){ .tid = tid, .since_ns = raw_ns };
	u32_map_set(&in->waiting, tid, w);
}

/* The thread runs, or has gone to sleep: a wake-up before that found it running. */
static void forget_waiting(struct intervals *in, uint32_t tid)
{
	free(u32_map_remove(&in->waiting, tid));
}

/* Ends the intervals of all threads that wait for a CPU: no later record will end them. */
static void end_all_waiting(struct intervals *in, int64_t raw_ns)
{
	for (size_t i = 0; i < in->waiting.n_slots; i++) {
		struct waiting *w = u32_map_at(&in->waiting, i);

		if (w)
			append(in, (struct interval){ .start_ns = w->since_ns,
						      .end_ns = raw_ns,
						      .tid = w->tid,
						      .runnable = true });
		free(w);
	}
	u32_map_release(&in->waiting);
}

static struct cpu *cpu_of(struct intervals *in, size_t number)
{
	if (number >= in->n_cpus) {
		in->cpus = xrealloc(in->cpus, (number + 1) * sizeof(*in->cpus));
		for (; in->n_cpus <= number; in->n_cpus++)
			in->cpus[in->n_cpus] = (struct cpu){ .before_ns = INT64_MIN };
		in->heap = xrealloc(in->heap, in->n_cpus * sizeof(*in->heap));
	}
	return &in->cpus[number];
}

/* ---- before the window: only the state at T0 matters, so records need no order there ---- */

static struct before *before_of(struct intervals *in, uint32_t tid)
{
	struct before *b = u32_map_get(&in->before, tid);

	if (!b) {
		b = xcalloc(1, sizeof(*b));
		*b = (struct before){ .tid = tid, .waited_ns = INT64_MIN, .ran_ns = INT64_MIN };
		u32_map_set(&in->before, tid, b);
	}
	return b;
}

static void keep_later(int64_t *last_ns, int64_t raw_ns)
{
	if (raw_ns > *last_ns)
		*last_ns = raw_ns;
}

static void note_waits(struct intervals *in, uint32_t tid, int64_t raw_ns)
{
	if (tid)
		keep_later(&before_of(in, tid)->waited_ns, raw_ns);
}

static void note_ran(struct intervals *in, uint32_t tid, int64_t raw_ns)
{
	if (tid)
		keep_later(&before_of(in, tid)->ran_ns, raw_ns);
}

static void note_before(struct intervals *in, int64_t raw_ns, const struct cpu_switch *record)
{
	struct cpu *cpu;

	if (record->wakes) {
		note_waits(in, record->to, raw_ns);
		return;
	}
	cpu = cpu_of(in, record->cpu);
	if (raw_ns >= cpu->before_ns) {
		cpu->before_ns = raw_ns;
		cpu->before = *record;
	}
	if (record->is_state)
		return;
	if (record->pause)
		keep_later(&in->paused_ns, raw_ns);
	if (record->preempted)
		note_waits(in, record->from, raw_ns);
	else
		note_ran(in, record->from, raw_ns);
	note_ran(in, record->to, raw_ns);
}

static void begin_window(struct intervals *in)
{
	for (size_t i = 0; i < in->n_cpus; i++) {
		struct cpu *cpu = &in->cpus[i];

		cpu->known = cpu->before_ns > INT64_MIN;
		cpu->tid = cpu->before.to;
		cpu->since_ns = in->conf.t0_ns;
	}
	for (size_t i = 0; i < in->before.n_slots; i++) {
		const struct before *b = u32_map_at(&in->before, i);

		if (b && b->waited_ns > b->ran_ns && b->waited_ns > in->paused_ns)
			begin_waiting(in, b->tid, in->conf.t0_ns);
	}
	free_all(&in->before);
	in->has_begun = true;
}

/* ---- in the window ---- */

static void apply(struct intervals *in, struct cpu *cpu, int64_t raw_ns,
		  const struct cpu_switch *record)
{
	uint32_t from = (uint32_t)record->from, to = (uint32_t)record->to;

	if (record->wakes) {
		if (raw_ns < in->conf.t1_ns)
			begin_waiting(in, to, raw_ns);
		return;
	}
	if (!cpu->known) {
		cpu->known = true;
		cpu->tid = from;
		cpu->since_ns = in->conf.t0_ns;
	}
	if (raw_ns >= in->conf.t1_ns)
		return;
	if (cpu->tid != from) { /* switches in between are missing */
		in->lost += cpu->tid && from;
		cpu->tid = from;
		cpu->since_ns = raw_ns;
	}
	if (record->is_state)
		return;
	append(in, (struct interval){ .start_ns = cpu->since_ns,
				      .end_ns = raw_ns,
				      .tid = from,
				      .cpu = record->cpu });
	if (record->pause)
		end_all_waiting(in, raw_ns);
	forget_waiting(in, from);
	if (from && record->preempted)
		begin_waiting(in, from, raw_ns);
	if (to)
		end_waiting(in, to, raw_ns);
	cpu->tid = to;
	cpu->since_ns = raw_ns;
}

/* ---- the records of all CPUs in one order ---- */

static int64_t next_time(const struct intervals *in, uint32_t number)
{
	const struct cpu *cpu = &in->cpus[number];

	return cpu->pending[cpu->first].raw_ns;
}

/* Moves the CPU at place i of the heap down to where it belongs. */
static void sift_down(struct intervals *in, size_t i)
{
	uint32_t moved = in->heap[i];
	int64_t at_ns = next_time(in, moved);

	for (size_t child; (child = 2 * i + 1) < in->n_heap; i = child) {
		int64_t child_ns = next_time(in, in->heap[child]);

		if (child + 1 < in->n_heap && next_time(in, in->heap[child + 1]) < child_ns)
			child_ns = next_time(in, in->heap[++child]);
		if (at_ns <= child_ns)
			break;
		in->heap[i] = in->heap[child];
	}
	in->heap[i] = moved;
}

static void make_heap(struct intervals *in)
{
	in->n_heap = 0;
	for (size_t i = 0; i < in->n_cpus; i++)
		if (in->cpus[i].first < in->cpus[i].n)
			in->heap[in->n_heap++] = (uint32_t)i;
	for (size_t i = in->n_heap / 2; i-- > 0;)
		sift_down(in, i);
}

static void drop_applied(struct cpu *cpu)
{
	cpu->n -= cpu->first;
	memmove(cpu->pending, cpu->pending + cpu->first, cpu->n * sizeof(*cpu->pending));
	cpu->first = 0;
}

/* Applies all that were before an instant, in order of time. */
static void apply_until(struct intervals *in, int64_t until_ns)
{
	if (!in->has_begun)
		begin_window(in);
	make_heap(in);
	while (in->n_heap && next_time(in, in->heap[0]) < until_ns) {
		struct cpu *cpu = &in->cpus[in->heap[0]];
		const struct pending *p = &cpu->pending[cpu->first++];

		apply(in, cpu, p->raw_ns, &p->record);
		if (cpu->first == cpu->n)
			in->heap[0] = in->heap[--in->n_heap];
		if (in->n_heap)
			sift_down(in, 0);
	}
	in->oldest_ns = in->n_heap ? next_time(in, in->heap[0]) : INT64_MAX;
	for (size_t i = 0; i < in->n_cpus; i++)
		if (in->cpus[i].first)
			drop_applied(&in->cpus[i]);
}

static void add_pending(struct cpu *cpu, int64_t raw_ns, const struct cpu_switch *record)
{
	size_t at = cpu->n++;

	if (at == cpu->cap) {
		cpu->cap = cpu->cap ? 2 * cpu->cap : 64;
		cpu->pending = xrealloc(cpu->pending, cpu->cap * sizeof(*cpu->pending));
	}
	for (; at > 0 && cpu->pending[at - 1].raw_ns > raw_ns; at--)
		cpu->pending[at] = cpu->pending[at - 1];
	cpu->pending[at] = (struct pending){ raw_ns, *record };
}

/* Of what came after the window the first switch of a CPU without one in it says what ran. */
static bool says_nothing(const struct intervals *in, const struct cpu *cpu, int64_t raw_ns,
			 const struct cpu_switch *record)
{
	return raw_ns >= in->conf.t1_ns && (record->wakes || cpu->has_record);
}

/* The CPUs' rings were read one after the other, so what one thread did on two CPUs may have come in the wrong order:
 * records are kept until no older one can come. */
void intervals_add(struct intervals *in, int64_t raw_ns, const struct cpu_switch *record)
{
	struct cpu *cpu;

	if (raw_ns < in->conf.t0_ns) {
		note_before(in, raw_ns, record);
		return;
	}
	cpu = cpu_of(in, record->cpu);
	if (says_nothing(in, cpu, raw_ns, record))
		return;
	cpu->has_record |= !record->wakes;
	add_pending(cpu, raw_ns, record);
	if (raw_ns < in->oldest_ns)
		in->oldest_ns = raw_ns;
	if (raw_ns > in->newest_ns)
		in->newest_ns = raw_ns;
	if (in->newest_ns - in->oldest_ns > 2 * SWITCH_LATE_NS)
		apply_until(in, in->newest_ns - SWITCH_LATE_NS);
}

/* ---- the order of the result ---- */

/* A thread's intervals among all. */
struct group {
	uint32_t tid;
	uint32_t number; /* in order of appearance */
	size_t first, n;
};

struct groups {
	struct u32_map numbers; /* 1 + number, by tid */
	struct group *v;
	size_t n, cap;
};

static uint32_t number_of(struct groups *gs, uint32_t tid)
{
	uintptr_t known = (uintptr_t)u32_map_get(&gs->numbers, tid);

	if (known)
		return (uint32_t)known - 1;
	if (gs->n == gs->cap) {
		gs->cap = gs->cap ? 2 * gs->cap : 64;
		gs->v = xrealloc(gs->v, gs->cap * sizeof(*gs->v));
	}
	gs->v[gs->n] = (struct group){ .tid = tid, .number = (uint32_t)gs->n };
	u32_map_set(&gs->numbers, tid, (void *)(uintptr_t)(++gs->n));
	return (uint32_t)gs->n - 1;
}

static int by_tid(const void *a, const void *b)
{
	const struct group *x = a, *y = b;

	return (x->tid > y->tid) - (x->tid < y->tid);
}

static int by_time(const void *a, const void *b)
{
	const struct interval *x = a, *y = b;

	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

static bool is_in_order(const struct interval *v, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (v[i].start_ns < v[i - 1].start_ns)
			return false;
	return true;
}

/* Puts the intervals of each thread together. Most are in order of time then: a thread's are not only where it went to
 * a CPU whose records came earlier. */
static void sort_by_thread_and_time(struct intervals *in)
{
	struct groups gs = { .v = NULL };
	uint32_t *numbers = xmalloc((in->n + 1) * sizeof(*numbers));
	struct interval *sorted = xmalloc((in->n + 1) * sizeof(*sorted));
	size_t *at;

	for (size_t i = 0; i < in->n; i++) {
		numbers[i] = number_of(&gs, in->v[i].tid);
		gs.v[numbers[i]].n++;
	}
	if (gs.n)
		sort_array(gs.v, gs.n, sizeof(*gs.v), by_tid);
	at = xcalloc(gs.n + 1, sizeof(*at));
	for (size_t i = 0; i < gs.n; i++) {
		gs.v[i].first = i ? gs.v[i - 1].first + gs.v[i - 1].n : 0;
		at[gs.v[i].number] = gs.v[i].first;
	}
	for (size_t i = 0; i < in->n; i++)
		sorted[at[numbers[i]]++] = in->v[i];
	for (size_t i = 0; i < gs.n; i++) {
		struct interval *v = sorted + gs.v[i].first;

		if (!is_in_order(v, gs.v[i].n))
			sort_array(v, gs.v[i].n, sizeof(*v), by_time);
	}
	u32_map_release(&gs.numbers);
	free(gs.v);
	free(at);
	free(numbers);
	free(in->v);
	in->v = sorted;
	in->cap = in->n + 1;
}

const struct interval *intervals_finish(struct intervals *in, size_t *n)
{
	apply_until(in, INT64_MAX);
	for (size_t i = 0; i < in->n_cpus; i++) {
		const struct cpu *cpu = &in->cpus[i];

		if (!cpu->known)
			continue;
		forget_waiting(in, cpu->tid);
		append(in, (struct interval){ .start_ns = cpu->since_ns,
					      .end_ns = in->conf.t1_ns,
					      .tid = cpu->tid,
					      .cpu = (uint16_t)i });
	}
	end_all_waiting(in, in->conf.t1_ns);
	sort_by_thread_and_time(in);
	*n = in->n;
	return in->v;
}

uint64_t intervals_lost(const struct intervals *in)
{
	return in->lost;
}
