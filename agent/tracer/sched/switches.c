/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/sched/switches.h"

#include "base/mem.h"
#include "base/now.h"

#define CPUS_MAX (1U << SWITCH_CPU_BITS)
/* how late a record may come: the CPUs' rings are read one after the other */
#define LATE_NS	       NS_PER_S
#define SWEEP_EVERY_NS (10 * NS_PER_S)

struct cpu {
	bool known; /* a record of this CPU has come */
	uint32_t tid; /* the thread that runs; 0 = none, or not known */
	int64_t raw_ns; /* of the last record */
};

struct switches {
	struct ring *ring; /* of struct cpu_switch */
	struct threads *threads;
	bool of_cgroup;
	struct cpu *cpus;
	size_t n_cpus;
	int64_t swept_raw_ns;
};

struct switches *switches_new(const struct switches_conf *conf)
{
	struct switches *s = xcalloc(1, sizeof(*s));

	s->of_cgroup = conf->of_cgroup;
	s->threads = threads_new();
	s->ring = ring_new(&(struct ring_conf){ .limits = conf->ring,
						.record_bytes = sizeof(struct cpu_switch),
						.late_ns = LATE_NS,
						.begin_raw_ns = conf->now_raw_ns });
	return s;
}

void switches_free(struct switches *s)
{
	if (!s)
		return;
	threads_free(s->threads);
	ring_free(s->ring);
	free(s->cpus);
	free(s);
}

struct ring *switches_ring(const struct switches *s)
{
	return s->ring;
}

struct threads *switches_threads(const struct switches *s)
{
	return s->threads;
}

static struct cpu *cpu_of(struct switches *s, uint32_t cpu)
{
	if (cpu >= s->n_cpus) {
		s->cpus = xrealloc(s->cpus, (cpu + 1) * sizeof(*s->cpus));
		memset(s->cpus + s->n_cpus, 0, (cpu + 1 - s->n_cpus) * sizeof(*s->cpus));
		s->n_cpus = cpu + 1;
	}
	return &s->cpus[cpu];
}

static void add(struct switches *s, int64_t raw_ns, struct cpu_switch record)
{
	ring_add(s->ring, raw_ns, &record, sizeof(record));
}

static void note_thread(struct switches *s, uint32_t pid, uint32_t tid)
{
	if (tid)
		threads_note(s->threads, pid, tid);
}

static bool is_tid(uint32_t tid)
{
	return tid < 1U << SWITCH_TID_BITS;
}

/* The kernel reports each switch twice: for the thread that leaves and for the one that comes. The second
 * report is used only if the first is missing. */
static void apply_switch(struct switches *s, uint32_t number, const struct perf_record *rec)
{
	struct cpu_switch record = { .cpu = number };
	struct cpu *cpu = cpu_of(s, number);

	if (!rec->out && !is_tid(rec->tid)) /* the thread has ended */
		return;
	cpu->raw_ns = rec->time_ns;
	if (!rec->out && cpu->known && cpu->tid == rec->tid)
		return;
	if (rec->out) {
		record.from = is_tid(rec->tid) ? rec->tid : cpu->tid;
		record.to = !s->of_cgroup && is_tid(rec->ptid) ? rec->ptid : 0;
		record.preempted = rec->preempted;
		note_thread(s, rec->ppid, (uint32_t)record.to);
	} else {
		record.to = rec->tid;
	}
	if (is_tid(rec->tid))
		note_thread(s, rec->pid, rec->tid);
	cpu->known = true;
	cpu->tid = record.to;
	add(s, rec->time_ns, record);
}

void switches_feed(struct switches *s, uint32_t cpu, const void *bytes, size_t len)
{
	struct reader r = reader_of(bytes, len);
	struct perf_record rec;

	while (perf_decode(&r, &rec)) {
		if (rec.kind == PERF_KIND_SWITCH && cpu < CPUS_MAX)
			apply_switch(s, cpu, &rec);
		else if (rec.kind == PERF_KIND_LOST)
			ring_add_loss(s->ring, rec.time_ns, rec.count);
		else
			threads_apply(s->threads, &rec);
	}
}

void switches_flush(struct switches *s, int64_t until_raw_ns)
{
	for (size_t i = 0; i < s->n_cpus; i++) {
		const struct cpu *cpu = &s->cpus[i];

		if (cpu->known && cpu->tid)
			add(s, cpu->raw_ns > until_raw_ns ? cpu->raw_ns : until_raw_ns,
			    (struct cpu_switch){
				    .from = cpu->tid, .to = cpu->tid, .cpu = i, .is_state = 1 });
	}
	if (until_raw_ns - s->swept_raw_ns > SWEEP_EVERY_NS) {
		s->swept_raw_ns = until_raw_ns;
		threads_sweep(s->threads, ring_begin(s->ring));
	}
}

void switches_pause(struct switches *s, int64_t raw_ns)
{
	for (size_t i = 0; i < s->n_cpus; i++) {
		struct cpu *cpu = &s->cpus[i];

		if (!cpu->known)
			continue;
		add(s, cpu->raw_ns > raw_ns ? cpu->raw_ns : raw_ns,
		    (struct cpu_switch){ .from = cpu->tid, .cpu = i, .pause = 1 });
		cpu->tid = 0;
	}
}
