/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/sched/intervals.h"

#include "agent/proc/u32_map.h"
#include "base/mem.h"

struct cpu {
	bool known;
	uint32_t tid; /* the thread that runs on the CPU; 0 = none, or not known */
	int64_t since_ns;
};

/* A thread that waits for a CPU. */
struct waiting {
	uint32_t tid;
	int64_t since_ns;
};

struct intervals {
	struct intervals_conf conf;
	struct cpu *cpus; /* 1 << SWITCH_CPU_BITS */
	struct u32_map waiting; /* struct waiting, by tid */
	struct interval *v;
	size_t n, cap;
	uint64_t lost;
};

#define CPUS_MAX ((size_t)1 << SWITCH_CPU_BITS)

struct intervals *intervals_new(const struct intervals_conf *conf)
{
	struct intervals *in = xcalloc(1, sizeof(*in));

	in->conf = *conf;
	in->cpus = xcalloc(CPUS_MAX, sizeof(*in->cpus));
	return in;
}

void intervals_free(struct intervals *in)
{
	if (!in)
		return;
	for (size_t i = 0; i < in->waiting.n_slots; i++)
		free(u32_map_at(&in->waiting, i));
	u32_map_release(&in->waiting);
	free(in->cpus);
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

static void begin_waiting(struct intervals *in, uint32_t tid, int64_t raw_ns)
{
	struct waiting *w = u32_map_get(&in->waiting, tid);

	if (!w) {
		w = xcalloc(1, sizeof(*w));
		w->tid = tid;
		u32_map_set(&in->waiting, tid, w);
	}
	w->since_ns = raw_ns;
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

void intervals_add(struct intervals *in, int64_t raw_ns, const struct cpu_switch *record)
{
	struct cpu *cpu = &in->cpus[record->cpu];
	uint32_t from = (uint32_t)record->from, to = (uint32_t)record->to;

	if (!cpu->known) {
		cpu->known = true;
		cpu->tid = from;
		cpu->since_ns = in->conf.t0_ns;
	}
	if (raw_ns >= in->conf.t1_ns)
		return;
	if (cpu->tid != from) { /* switches in between are missing */
		in->lost += cpu->tid && from && raw_ns >= in->conf.t0_ns;
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
	if (from && record->preempted)
		begin_waiting(in, from, raw_ns);
	if (to)
		end_waiting(in, to, raw_ns);
	cpu->tid = to;
	cpu->since_ns = raw_ns;
}

static int by_thread_and_time(const void *a, const void *b)
{
	const struct interval *x = a, *y = b;

	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

const struct interval *intervals_finish(struct intervals *in, size_t *n)
{
	for (size_t i = 0; i < CPUS_MAX; i++) {
		const struct cpu *cpu = &in->cpus[i];

		if (cpu->known)
			append(in, (struct interval){ .start_ns = cpu->since_ns,
						      .end_ns = in->conf.t1_ns,
						      .tid = cpu->tid,
						      .cpu = (uint16_t)i });
	}
	end_all_waiting(in, in->conf.t1_ns);
	if (in->n)
		sort_array(in->v, in->n, sizeof(*in->v), by_thread_and_time);
	*n = in->n;
	return in->v;
}

uint64_t intervals_lost(const struct intervals *in)
{
	return in->lost;
}
