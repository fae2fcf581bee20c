/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/sched/switches.h"

#include "base/mem.h"
#include "base/now.h"

#define CPUS_MAX       (1U << SWITCH_CPU_BITS)
#define SWEEP_EVERY_NS (10 * NS_PER_S)

struct cpu {
	bool known; /* a record of this CPU has come */
	uint32_t tid; /* the thread that runs; 0 = none, or not known */
	int64_t raw_ns; /* of the last switch */
	/* a switch of which the first report has come and the second has not */
	bool is_holding;
	struct cpu_switch held;
	int64_t held_raw_ns;
	/* a switch to a thread that only the next switch names */
	bool is_open;
	struct cpu_switch open;
	int64_t open_raw_ns;
	int64_t fed_raw_ns; /* of the last record that the kernel kept; 0 = none */
};

struct switches {
	struct ring *ring; /* of struct cpu_switch */
	struct threads *threads;
	bool of_cgroup;
	size_t woken_at;
	struct cpu *cpus;
	size_t n_cpus;
	int64_t swept_raw_ns;
};

struct switches *switches_new(const struct switches_conf *conf)
{
	struct switches *s = xcalloc(1, sizeof(*s));

	s->of_cgroup = conf->of_cgroup;
	s->woken_at = conf->woken_at;
	s->threads = threads_new();
	s->ring = ring_new(&(struct ring_conf){ .limits = conf->ring,
						.record_bytes = sizeof(struct cpu_switch),
						.late_ns = SWITCH_LATE_NS,
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

static void note_thread(struct switches *s, uint32_t pid, uint32_t tid, int64_t raw_ns)
{
	if (tid)
		threads_note(s->threads, pid, tid, raw_ns);
}

static bool is_tid(uint32_t tid)
{
	return tid < 1U << SWITCH_TID_BITS;
}

/* ---- the switches of a cgroup ---- */

/* The kernel reports each switch twice: for the thread that leaves and for the one that comes. The second
 * report is used only if the first is missing. */
static void apply_switch_of_cgroup(struct switches *s, uint32_t number,
				   const struct perf_record *rec)
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
		record.preempted = rec->preempted;
	} else {
		record.to = rec->tid;
	}
	if (is_tid(rec->tid))
		note_thread(s, rec->pid, rec->tid, rec->time_ns);
	cpu->known = true;
	cpu->tid = record.to;
	add(s, rec->time_ns, record);
}

/* ---- the switches of all ---- */

static void add_open(struct switches *s, struct cpu *cpu, uint32_t to)
{
	cpu->open.to = to;
	add(s, cpu->open_raw_ns, cpu->open);
	cpu->is_open = false;
}

/* No switch has named the thread that came yet: it is left out until its next switch. */
static void give_up_open(struct switches *s, struct cpu *cpu)
{
	if (cpu->is_open)
		add_open(s, cpu, 0);
}

/* The thread that came has left, and no report names it. */
static void lose_open(struct switches *s, struct cpu *cpu)
{
	if (cpu->is_open)
		ring_add_loss(s->ring, cpu->open_raw_ns, 1);
	give_up_open(s, cpu);
}

/* Adds the switch whose first report is held. */
static void add_held(struct switches *s, struct cpu *cpu, uint32_t from)
{
	if (cpu->is_open)
		add_open(s, cpu, from);
	cpu->held.from = from;
	add(s, cpu->held_raw_ns, cpu->held);
	cpu->is_holding = false;
	cpu->known = true;
	cpu->tid = (uint32_t)cpu->held.to;
}

/* The kernel does not report the switches of some of its own threads, neither to them nor from them: the first report
 * held says that such a thread came, and the second, of the next thread that has reports, that it left. */
static void add_held_and_left(struct switches *s, struct cpu *cpu, int64_t left_raw_ns)
{
	lose_open(s, cpu);
	add_held(s, cpu, cpu->tid);
	cpu->open = (struct cpu_switch){ .from = cpu->held.to, .cpu = cpu->held.cpu };
	cpu->open_raw_ns = left_raw_ns;
	cpu->is_open = true;
	cpu->tid = 0;
}

/* Both reports name the other thread only: the first the one that comes, the second the one that left. So the first
 * waits for the second, which follows at once. */
static void apply_switch(struct switches *s, uint32_t number, const struct perf_record *rec)
{
	struct cpu *cpu = cpu_of(s, number);
	uint32_t other = is_tid(rec->ptid) ? rec->ptid : 0;

	if (cpu->is_holding && rec->out) { /* the second report is missing */
		lose_open(s, cpu);
		add_held(s, cpu, cpu->tid);
	}
	cpu->raw_ns = rec->time_ns;
	note_thread(s, rec->ppid, other, rec->time_ns);
	if (rec->out) {
		cpu->held = (struct cpu_switch){ .to = other,
						 .cpu = number,
						 .preempted = rec->preempted };
		cpu->held_raw_ns = rec->time_ns;
		cpu->is_holding = true;
	} else if (cpu->is_holding && other && other == cpu->held.to) {
		add_held_and_left(s, cpu, rec->time_ns);
	} else if (cpu->is_holding) {
		add_held(s, cpu, is_tid(rec->ptid) ? other : cpu->tid);
	} else { /* the first report is missing */
		if (cpu->is_open)
			add_open(s, cpu, other);
		cpu->known = true;
		cpu->tid = 0;
		add(s, rec->time_ns, (struct cpu_switch){ .from = other, .cpu = number });
	}
}

/* The kernel reports dropped records together with the next one that it keeps: they are missing since the one before.
 * What runs on the CPU is not known until its next switch. */
static void lose(struct switches *s, uint32_t number, const struct perf_record *rec)
{
	struct cpu *cpu = cpu_of(s, number);

	ring_add_gap(s->ring, cpu->fed_raw_ns ? cpu->fed_raw_ns : rec->time_ns, rec->time_ns,
		     rec->count);
	if (cpu->is_holding)
		add_held(s, cpu, cpu->tid);
	give_up_open(s, cpu);
	cpu->tid = 0;
}

static void apply_wakeup(struct switches *s, uint32_t number, const struct perf_record *rec)
{
	uint32_t tid;

	if (!s->woken_at || rec->raw_len < s->woken_at + sizeof(tid))
		return;
	memcpy(&tid, rec->raw + s->woken_at, sizeof(tid));
	if (tid && is_tid(tid))
		add(s, rec->time_ns, (struct cpu_switch){ .to = tid, .cpu = number, .wakes = 1 });
}

void switches_feed(struct switches *s, uint32_t cpu, const void *bytes, size_t len)
{
	enum perf_layout layout = s->of_cgroup ? PERF_LAYOUT_WITH_IDS : PERF_LAYOUT_SHORT;
	struct reader r = reader_of(bytes, len);
	struct perf_record rec;

	while (cpu < CPUS_MAX && perf_decode(&r, layout, &rec)) {
		if (rec.kind == PERF_KIND_LOST)
			lose(s, cpu, &rec);
		else if (rec.kind == PERF_KIND_SAMPLE)
			apply_wakeup(s, cpu, &rec);
		else if (rec.kind != PERF_KIND_SWITCH)
			threads_apply(s->threads, &rec);
		else if (s->of_cgroup)
			apply_switch_of_cgroup(s, cpu, &rec);
		else
			apply_switch(s, cpu, &rec);
		cpu_of(s, cpu)->fed_raw_ns = rec.time_ns;
	}
}

void switches_flush(struct switches *s, int64_t until_raw_ns)
{
	for (size_t i = 0; i < s->n_cpus; i++) {
		struct cpu *cpu = &s->cpus[i];

		give_up_open(s, cpu);
		if (!cpu->known || !cpu->tid || cpu->is_holding)
			continue;
		threads_note_again(s->threads, cpu->tid, until_raw_ns);
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

		if (cpu->is_holding)
			add_held(s, cpu, cpu->tid);
		give_up_open(s, cpu);
		if (!cpu->known)
			continue;
		add(s, cpu->raw_ns > raw_ns ? cpu->raw_ns : raw_ns,
		    (struct cpu_switch){ .from = cpu->tid, .cpu = i, .pause = 1 });
		cpu->tid = 0;
	}
}
